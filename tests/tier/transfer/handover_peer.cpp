// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_peer.cpp: the other process of the process tests: `handover_peer
/// KIND ROLE SEED`. Says its address on standard output. As `decode` it takes what comes, as
/// `prefill` it hands sequences over to the address that comes on standard input. Ends with
/// standard input: 0, or 1 if any byte was wrong.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends_at_work.h"

namespace folio::test {
namespace {

bool read_all(void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::read(STDIN_FILENO, at, bytes);
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
bool say_address(const Transport& transport) {
  const std::vector<std::byte> address = transport.address().value();
  const uint64_t size = address.size();
  return ::write(STDOUT_FILENO, &size, sizeof(size)) == sizeof(size) &&
         ::write(STDOUT_FILENO, address.data(), size) == static_cast<ssize_t>(size);
}

int decode(std::unique_ptr<Transport> transport) {
  DecodeEnd end({.page_size = 8}, std::move(transport));
  if (!say_address(*end.transport)) return 2;
  Decoder decoder(end);
  while (!has_input()) decoder.step(0);
  decoder.release_all();
  return decoder.faults == 0 ? 0 : 1;
}

int prefill(std::unique_ptr<Transport> transport, uint64_t seed) {
  PrefillEnd end({}, std::move(transport));
  uint64_t bytes = 0;
  if (!read_all(&bytes, sizeof(bytes))) return 2;
  std::vector<std::byte> other(bytes);
  if (!read_all(other.data(), bytes)) return 2;
  Prefiller prefiller(end, end.transport->connect(other).value(), seed);
  while (!has_input() && prefiller.step(0)) {}
  return 0;
}

int run(const std::string& kind, const std::string& role, uint64_t seed) {
  std::unique_ptr<Transport> transport = transport_kind(kind).make({}).value();
  return role == "decode" ? decode(std::move(transport)) : prefill(std::move(transport), seed);
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 4) return 2;
  return folio::test::run(argv[1], argv[2], static_cast<uint64_t>(std::atoll(argv[3])));
}
