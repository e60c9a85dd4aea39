// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_fixture.h: tiers in a folder of a test's own, over files that a test
/// spoils.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "support/comes_true.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "tier/disk/disk_medium.h"
#include "tier/queued_tier.h"
#include "tier/tier_helpers.h"

namespace folio::test {

namespace fs = std::filesystem;
inline constexpr int64_t mib = 1 << 20;

class DiskFixture : public ::testing::Test {
 protected:
  DiskFixture() = default;
  explicit DiskFixture(const fs::path& parent) : folder_(parent) {}

  Result<std::unique_ptr<Tier>> open(int64_t max_bytes = 64 * mib) {
    return make_disk_tier(path_, {.max_bytes = max_bytes},
                          {.segment_bytes = mib, .timeout_ms = no_deadline_ms});
  }

  /// Over files that `io` spoils; stores go on at once after a failure.
  std::unique_ptr<Tier> open_over(std::unique_ptr<tier::FileIo> io, int64_t max_bytes = 64 * mib,
                                  int64_t pause_ms = 0) {
    const TierOptions options{.max_bytes = max_bytes};
    auto medium =
        tier::DiskMedium::open(path_, options, {.segment_bytes = mib}, std::move(io), pause_ms);
    return tier::QueuedTier::create(std::move(medium).value(), options).value();
  }

  [[nodiscard]] std::vector<fs::path> segments() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(path_))
      if (entry.path().extension() == ".pages") all.push_back(entry.path());
    return all;
  }
  [[nodiscard]] int64_t bytes_of_segments() const {
    int64_t bytes = 0;
    for (const fs::path& segment : segments())
      bytes += static_cast<int64_t>(fs::file_size(segment));
    return bytes;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path();
};

inline std::string content_of(const fs::path& file) {
  std::string content(fs::file_size(file), '\0');
  std::ifstream(file, std::ios::binary)
      .read(content.data(), static_cast<std::streamsize>(content.size()));
  return content;
}

inline void write_content(const fs::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace folio::test
