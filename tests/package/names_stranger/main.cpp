// SPDX-License-Identifier: Apache-2.0
/// tests/package/names_stranger/main.cpp: a program on folio::names: the name of a page of a pool.
#include <folio/names/sha256_names.h>
#include <folio/pool/page_pool.h>

#include <cstdio>
#include <utility>
#include <vector>

int main() {
  const folio::Digest256 model{{'a', ' ', 'd', 'i', 'g', 'e', 's', 't'}};
  folio::Sha256Names names = folio::Sha256Names::create({.fingerprint = model}).value();
  folio::PagePool pool =
      folio::PagePool::create({.num_pages = 8, .page_size = 4, .name = names.function()}).value();

  const std::vector<folio::TokenId> prompt{1, 2, 3, 4, 5, 6, 7, 8};
  const folio::SequenceId id = pool.admit(prompt).value().id;
  pool.reserve(id, 8).or_throw();
  pool.commit(id, prompt).or_throw();
  const folio::PageName name = pool.name(id, 1).value();

  for (const uint8_t byte : name.bytes) std::printf("%02x", byte);
  std::puts("");
  const folio::PageName first = names.page(names.root("", 0).value(), {prompt.data(), 4}).value();
  return name == names.page(first, {prompt.data() + 4, 4}).value() ? 0 : 1;
}
