// SPDX-License-Identifier: Apache-2.0
/// tests/support/open_files.h: how many files this process has open. One that forgets what it had
/// of dead peers has more and more of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>

namespace folio::test {

inline int64_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

}  // namespace folio::test
