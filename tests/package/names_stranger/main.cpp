// SPDX-License-Identifier: Apache-2.0
/// tests/package/names_stranger/main.cpp: a program on an installed folio::names.
#include <folio/names/sha256_names.h>
#include <folio/pool/page_pool.h>

#include <cstdio>
#include <vector>

int main() {
  folio::Sha256Names names = folio::Sha256Names::create().value();
  const std::vector<folio::TokenId> tokens{1, 2, 3, 4};
  const folio::PageName name = names.page(names.root("", 0).value(), tokens).value();
  for (const uint8_t byte : name.bytes) std::printf("%02x", byte);
  std::puts("");
  return name == folio::PageName() ? 1 : 0;
}
