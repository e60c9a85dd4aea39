// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/kill_fixture.h: what tests that kill page servers and their clients share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "support/open_files.h"
#include "support/rounds.h"
#include "support/sanitized.h"
#include "tier/peer/transport_helpers.h"

namespace folio::test {

/// Over shared memory, and over UCX where it is there. NIXL takes half a second to begin, in each
/// process.
inline std::vector<TransportKind> kinds_that_are_killed() {
  std::vector<TransportKind> kinds = transport_kinds();
  std::erase_if(kinds, [](const TransportKind& kind) {
    return kind.name != "shared_memory" && kind.name != "ucx_tcp";
  });
  return kinds;
}

/// Of what /proc/PROCESS/maps says, the objects that outlive the process.
inline int64_t shared_objects(const std::string& process) {
  std::ifstream maps("/proc/" + process + "/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    for (const char* const part : {"/dev/shm/", "/SYSV"})
      count += line.find(part) != std::string::npos ? 1 : 0;
  return count;
}

class KillFixture : public ::testing::TestWithParam<TransportKind> {
 protected:
  static std::unique_ptr<Transport> make() { return GetParam().make({}).value(); }
  /// UCX 1.13 ends a process whose peer dies while the two connect ("ucp_request.c:684").
  static bool must_connect() { return GetParam().name == "ucx_tcp"; }
  /// 200 kills over shared memory in the program's tests, some over UCX beside them; under
  /// ThreadSanitizer, where a round takes ten times as long, a part of them.
  static int rounds(int over_shared_memory) {
    const int share = share_of_rounds(over_shared_memory);
    return std::max(4, share / (must_connect() || is_thread_sanitized ? 4 : 1));  // see note_files
  }
  void wait_a_little() {
    if (rng_.chance(0.5)) ::usleep(static_cast<useconds_t>(rng_.between(0, 600)));
  }

  void note_files() { most_files_ = open_files(); }
  void expect_no_more_files() {
    EXPECT_TRUE(comes_true([&] { return open_files() <= most_files_; }));
    EXPECT_EQ(shared_objects("self"), 0);
  }

  Rng rng_{test_seed()};

 private:
  int64_t most_files_ = 0;
};

}  // namespace folio::test
