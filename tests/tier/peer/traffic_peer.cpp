// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/traffic_peer.cpp: the other process of the process tests: `traffic_peer KIND
/// SEED FIRST COUNT`. Says its address on standard output; connects to the addresses that come on
/// standard input, and writes to and reads from slots [FIRST, FIRST + COUNT) of each. Ends with
/// standard input: 0, or 1 if any byte was wrong.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

#include "tier/peer/child_side.h"
#include "tier/peer/traffic.h"

namespace folio::test {
namespace {

int run(const std::string& kind, uint64_t seed, uint32_t first, uint32_t count) {
  TrafficEnd end(make_transport(kind));
  if (!say_address(end.transport())) return 2;
  std::deque<Traffic> traffics;
  for (;;) {
    if (has_input()) {
      const auto other = read_address();
      if (!other) break;
      traffics.emplace_back(end, end.transport().connect(*other).value(), first, count, seed);
    }
    std::set<uint32_t> freed;
    bool is_busy = end.serve(&freed);
    for (Traffic& traffic : traffics) {
      // of one peer: slots are free there alone
      if (traffics.size() == 1) traffic.free(freed);
      (void)traffic.begin();
      traffic.look();
      is_busy |= traffic.pending() > 0;
    }
    if (!is_busy) ::usleep(100);
  }
  int64_t faults = end.faults();
  for (const Traffic& traffic : traffics) faults += traffic.faults();
  if (faults > 0)
    std::fprintf(stderr, "traffic_peer: %lld faults\n", static_cast<long long>(faults));
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  folio::test::die_with_parent();
  if (argc != 5) return 2;
  const auto number = [&](int i) { return static_cast<uint32_t>(std::atoi(argv[i])); };
  return folio::test::run(argv[1], number(2), number(3), number(4));
}
