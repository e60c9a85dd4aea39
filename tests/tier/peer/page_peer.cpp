// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/page_peer.cpp: the other process of page_server_kill_test.cpp.
///
///     page_peer server KIND        has the known pages, says its address, and serves
///     page_peer client KIND SEED   loads without end from the server whose address it is told
///
/// Ends with standard input: 0, or 1 if any byte was wrong or any load was lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tier/peer/child_side.h"
#include "tier/peer/page_loads.h"

namespace folio::test {
namespace {

int serve(const std::string& kind) {
  const auto transport = make_transport(kind);
  const auto server = PageServer::create(transport.get(), options_of_server()).value();
  put_known_pages(*server);
  if (!say_address(*transport)) return 2;
  while (!has_input()) {
    server->poll();
    ::usleep(20);  // others need the processor
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

int load(const std::string& kind, uint64_t seed) {
  const auto address = read_address();
  if (!address) return 2;
  const auto memory =
      seed % 2 == 0 ? PageLoader::Memory::registered : PageLoader::Memory::elsewhere;
  PageLoader loader(make_transport(kind), *address, memory, seed);
  while (!loader.finds_all()) ::usleep(50);
  while (!has_input()) {
    if (loader.pending() < known_pages) loader.load_some();
    loader.look();
    if (loader.wrong() > 0 || loader.done() < loader.ended()) return 1;
    ::usleep(20);
  }
  return 0;
}

int run(const std::string& role, const std::string& kind, uint64_t seed) {
  return role == "server" ? serve(kind) : load(kind, seed);
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  folio::test::die_with_parent();
  if (argc < 3) return 2;
  return folio::test::run(argv[1], argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0);
}
