// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/traffic_peer.cpp: the other process of the process tests: `traffic_peer KIND
/// SEED FIRST COUNT`. Says its address on standard output; connects to the addresses that come on
/// standard input, and writes to and reads from slots [FIRST, FIRST + COUNT) of each. Ends with
/// standard input: 0, or 1 if any byte was wrong.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>

#include "tier/peer/traffic.h"
#include "tier/peer/transport_helpers.h"

namespace folio::test {
namespace {

bool read_all(int fd, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool has_input() {
  pollfd entry{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

int run(const std::string& kind, uint64_t seed, uint32_t first, uint32_t count) {
  TrafficEnd end(transport_kind(kind).make({}).value());
  const std::vector<std::byte> address = end.transport().address().value();
  const uint64_t size = address.size();
  if (::write(STDOUT_FILENO, &size, sizeof(size)) != sizeof(size) ||
      ::write(STDOUT_FILENO, address.data(), size) != static_cast<ssize_t>(size))
    return 2;
  std::deque<Traffic> traffics;
  for (;;) {
    if (has_input()) {
      uint64_t bytes = 0;
      if (!read_all(STDIN_FILENO, &bytes, sizeof(bytes))) break;
      std::vector<std::byte> other(bytes);
      if (!read_all(STDIN_FILENO, other.data(), bytes)) break;
      traffics.emplace_back(end, end.transport().connect(other).value(), first, count, seed);
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
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 2;
  const auto number = [&](int i) { return static_cast<uint32_t>(std::atoi(argv[i])); };
  return folio::test::run(argv[1], number(2), number(3), number(4));
}
