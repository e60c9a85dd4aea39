// SPDX-License-Identifier: Apache-2.0
/// tests/support/rounds.h: how often a test repeats what it does to fresh random moments.
#pragma once

#include <cstdlib>
#include <string_view>

namespace folio::test {

/// Of a test that takes long, this run's share: GTEST_RANDOM_SEED gives another one. All where the
/// variable FOLIO_TEST_ROUNDS is "all".
inline int share_of_rounds(int all) {
  const char* const wanted = std::getenv("FOLIO_TEST_ROUNDS");
  return wanted != nullptr && std::string_view(wanted) == "all" ? all : all / 4;
}

/// Whether another round is due: of `rounds`, and beyond, though not for ever, until all that
/// comes by chance has been seen.
inline bool is_due(int round, int rounds, bool has_seen_all) {
  return round < rounds || (round < 20 * rounds && !has_seen_all);
}

}  // namespace folio::test
