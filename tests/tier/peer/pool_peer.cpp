// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/pool_peer.cpp: the other process of pool_server_kill_test.cpp.
///
///     pool_peer server KIND   has computed the lent prompts, says its address, and serves its pool
///     pool_peer client KIND   loads them without end from the server whose address it is told
///
/// Ends with standard input: 0, or 1 if any byte was wrong or any load was lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tier/peer/borrower.h"
#include "tier/peer/child_side.h"
#include "tier/peer/lender.h"

namespace folio::test {
namespace {

int serve(const std::string& kind) {
  Lender lender(transport_kind(kind), 2 * pages_of_prompts, 4 * pages_of_prompts);
  for (int32_t i = 0; i < lent_prompts; ++i) (void)lender.compute(lent_prompt(i));
  if (!say_address(lender.transport())) return 2;
  while (!has_input()) {
    lender.server().poll();
    ::usleep(20);  // others need the processor
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}

int load(const std::string& kind) {
  const auto address = read_address();
  if (!address) return 2;
  Borrower borrower(make_transport(kind), *address);
  while (!borrower.finds_all()) ::usleep(50);
  while (!has_input()) {
    borrower.begin();
    while (borrower.is_loading()) ::usleep(20);
    borrower.finish();
    if (::testing::Test::HasFailure() || borrower.lost() > 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  folio::test::die_with_parent();
  if (argc != 3) return 2;
  return std::string(argv[1]) == "server" ? folio::test::serve(argv[2])
                                          : folio::test::load(argv[2]);
}
