// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_peer.cpp: the other process of the process tests: `handover_peer
/// KIND ROLE SEED PAGE_SIZE DEED MESSAGE COUNT`. Says its address on standard output. As `decode`
/// it takes what comes, as `prefill` it hands sequences over to the address that comes on standard
/// input. Ends with standard input: 0, or 1 once any byte was wrong; or by a signal at the moment
/// that the last three arguments tell.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "tier/peer/child_side.h"
#include "tier/transfer/ends_at_work.h"
#include "tier/transfer/mortal_transport.h"

namespace folio::test {
namespace {

int decode(std::unique_ptr<Transport> transport, int32_t page_size) {
  DecodeEnd end({.page_size = page_size}, std::move(transport));
  if (!say_address(*end.transport)) return 2;
  Decoder decoder(end);
  while (!has_input() && decoder.faults == 0) decoder.step(0);
  decoder.release_all();
  return decoder.faults == 0 ? 0 : 1;
}

int prefill(std::unique_ptr<Transport> transport, int32_t page_size, uint64_t seed) {
  PrefillEnd end({.page_size = page_size}, std::move(transport));
  const auto other = read_address();
  if (!other) return 2;
  Prefiller prefiller(end, end.transport->connect(*other).value(), seed);
  while (!has_input() && prefiller.faults == 0 && prefiller.step(0)) {}
  return prefiller.faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  using namespace folio::test;
  die_with_parent();
  if (argc != 8) return 2;
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  const Moment moment{.deed = static_cast<Moment::Deed>(number(5)),
                      .kind = static_cast<folio::tier::Kind>(number(6)),
                      .count = number(7)};
  auto transport = std::make_unique<MortalTransport>(make_transport(argv[1]), moment);
  return argv[2] == std::string_view("decode")
             ? decode(std::move(transport), number(4))
             : prefill(std::move(transport), number(4), static_cast<uint64_t>(number(3)));
}
