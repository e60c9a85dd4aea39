// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_peer.cpp: the other process of the process tests: `handover_peer
/// KIND ROLE SEED PAGE_SIZE DEED MESSAGE COUNT MODEL`. Says its address on standard output. As
/// `decode` it takes what comes, as `prefill` it hands sequences over to the address that comes on
/// standard input. Ends with standard input: 0, or 1 once any byte was wrong; or by a signal at the
/// moment that DEED, MESSAGE and COUNT tell. MODEL: `plain` or `hybrid`.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "tier/peer/child_side.h"
#include "tier/transfer/kinds_of_work.h"
#include "tier/transfer/mortal_transport.h"

namespace folio::test {
namespace {

template <class Work>
int decode(std::unique_ptr<Transport> transport, int32_t page_size, uint64_t seed) {
  typename Work::To end(Work::spec(page_size), std::move(transport));
  if (!say_address(*end.transport)) return 2;
  auto decoder = Work::decoder(end, seed);
  while (!has_input() && decoder.faults == 0) decoder.step(0);
  decoder.release_all();
  return decoder.faults == 0 ? 0 : 1;
}

template <class Work>
int prefill(std::unique_ptr<Transport> transport, int32_t page_size, uint64_t seed) {
  typename Work::From end(Work::spec(page_size), std::move(transport));
  const auto other = read_address();
  if (!other) return 2;
  typename Work::Prefiller prefiller(end, end.transport->connect(*other).value(), seed);
  while (!has_input() && prefiller.faults == 0 && prefiller.step(0)) {}
  return prefiller.faults == 0 ? 0 : 1;
}

template <class Work>
int work(std::string_view role, std::unique_ptr<Transport> transport, int32_t page_size,
         uint64_t seed) {
  return role == "decode" ? decode<Work>(std::move(transport), page_size, seed)
                          : prefill<Work>(std::move(transport), page_size, seed);
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  using namespace folio::test;
  die_with_parent();
  if (argc != 9) return 2;
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  const Moment moment{.deed = static_cast<Moment::Deed>(number(5)),
                      .kind = static_cast<folio::tier::Kind>(number(6)),
                      .count = number(7)};
  auto transport = std::make_unique<MortalTransport>(make_transport(argv[1]), moment);
  const auto seed = static_cast<uint64_t>(number(3));
  return argv[8] == std::string_view("hybrid")
             ? work<HybridWork>(argv[2], std::move(transport), number(4), seed)
             : work<PlainWork>(argv[2], std::move(transport), number(4), seed);
}
