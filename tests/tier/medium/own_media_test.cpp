// SPDX-License-Identifier: Apache-2.0
/// tests/tier/medium/own_media_test.cpp: host and disk keep what every medium keeps; so do servers,
/// in their own folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "folio/testing/medium_conformance.h"
#include "support/comes_true.h"
#include "support/temporary_folder.h"
#include "tier/disk/disk_medium.h"
#include "tier/host/host_medium.h"

namespace folio::test {
namespace {

using Made = Result<std::unique_ptr<tier::Medium>>;
constexpr int64_t mib = 1 << 20;

TEST(HostMedium, keeps_what_every_medium_keeps) {
  const tier::MediumReport report = tier::check_medium(
      {.make = [](const TierOptions& options) -> Made { return tier::make_host_medium(options); },
       .options = {.max_bytes = 500'000},
       .tells = true,
       .too_many_pages = 60});
  EXPECT_TRUE(report.is_ok()) << report.text();
}

/// Turns each byte over where a page's name stands in a file, and behind.
void spoil(const std::filesystem::path& folder, const PageName& name) {
  const std::string_view wanted(reinterpret_cast<const char*>(name.bytes.data()),
                                name.bytes.size());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::string content(std::filesystem::file_size(entry.path()), '\0');
    std::ifstream(entry.path(), std::ios::binary)
        .read(content.data(), static_cast<std::streamsize>(content.size()));
    for (size_t at = content.find(wanted); at != std::string::npos;
         at = content.find(wanted, at + 1)) {
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at + 1000));
      file.put(static_cast<char>(~content[at + 1000]));
    }
  }
}

TEST(DiskMedium, keeps_what_every_medium_keeps) {
  const TemporaryFolder folder;
  const auto make = [&](const TierOptions& options) {
    const DiskOptions disk{.segment_bytes = mib};
    return tier::DiskMedium::open(folder.path("pages"), options, disk,
                                  tier::make_file_io(disk.depth, no_deadline_ms));
  };
  const tier::MediumReport report = tier::check_medium(
      {.make = make,
       .options = {.max_bytes = 4 * mib},
       .keeps = true,
       .tells = true,
       .too_many_pages = 500,
       .damage = [&](const PageName& name) { spoil(folder.path("pages"), name); }});
  EXPECT_TRUE(report.is_ok()) << report.text();
  EXPECT_THAT(report.left_out, ::testing::IsEmpty());
}

}  // namespace
}  // namespace folio::test
