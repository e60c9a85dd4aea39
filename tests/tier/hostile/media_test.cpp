// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/media_test.cpp: options of media, and directories, that cannot be.
#include <filesystem>
#include <utility>
#include <vector>

#include "folio/tier/device_copies.h"
#include "folio/tier/disk_directory.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/peer_tier.h"
#include "folio/tier/redis_tier.h"
#include "folio/tier/transports.h"
#include "support/temporary_folder.h"
#include "tier/hostile/refusals.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

constexpr int64_t mib = 1 << 20;
const TierOptions some{.max_bytes = 4 * mib};

// ---- Disk

TEST(DiskTierOptions, name_what_is_wrong) {
  const TemporaryFolder folder;
  const std::string path = folder.path("pages");
  const auto refuses = [&](const DiskOptions& disk, const char* part) {
    expect_refusal(make_disk_tier(path, some, disk), part);
  };
  for (const int64_t bytes : {least_int64, int64_t{-1}, int64_t{0}, mib - 1, 3 * mib, most_int64})
    refuses({.segment_bytes = bytes}, "segment_bytes is ");
  for (const uint32_t depth : {0U, 1025U, UINT32_MAX})
    refuses({.segment_bytes = mib, .depth = depth}, "depth is ");
  for (const int64_t ms : {least_int64, int64_t{-1}, (int64_t{1} << 31) + 1, most_int64})
    refuses({.segment_bytes = mib, .timeout_ms = ms}, "timeout_ms is ");
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was made for those";
}

/// Of a tier, and of each function for tools.
TEST(DiskDirectories, name_paths_that_are_none) {
  const std::string longer(5000, 'd');
  const auto refuse = [](std::string_view path, std::string_view part, Errc code) {
    expect_refusal(make_disk_tier(path, some, {.segment_bytes = mib}), part, code);
    expect_refusal(list_disk_directory(path), part, code);
    expect_refusal(check_disk_directory(path), part, code);
    expect_refusal(compact_disk_directory(path), part, code);
  };
  refuse(null_text(), "directory is null, expected memory of size 3", Errc::invalid_argument);
  refuse({}, "expected a path without a null byte", Errc::invalid_argument);
  refuse(cut_text, "expected a path without a null byte", Errc::invalid_argument);
  refuse(longer, longer.substr(0, 100), Errc::io);
}

TEST(DiskDirectories, are_compacted_into_segments_that_can_be) {
  const TemporaryFolder folder;
  PageMemory page({100});
  page.fill(1);
  {
    const auto tier = make_disk_tier(folder.path(), some, {.segment_bytes = mib}).value();
    ASSERT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
  }
  for (const int64_t bytes :
       {least_int64, int64_t{-1}, int64_t{0}, mib - 1, (int64_t{1} << 40) + 1, most_int64})
    expect_refusal(compact_disk_directory(folder.path(), bytes),
                   "segment_bytes is " + std::to_string(bytes));
  EXPECT_EQ(compact_disk_directory(folder.path(), mib).value().lost, 0);
  EXPECT_EQ(list_disk_directory(folder.path()).value().pages.size(), 1U);
  EXPECT_EQ(check_disk_directory(folder.path()).value().pages, 1);
}

/// Names are bytes to a system: a path goes as far as it says, and no farther.
TEST(DiskDirectories, may_have_any_bytes_but_0) {
  const TemporaryFolder folder;
  PageMemory page({100});
  for (const char* const name : {"\xff\xfe", "a\nb", "x/../y", "..."}) {
    const auto tier = make_disk_tier(folder.path(name), some, {.segment_bytes = mib}).value();
    EXPECT_EQ(store(*tier, name_of(1), page), TierOutcome::done);
    EXPECT_TRUE(std::filesystem::exists(folder.path(name) + "/format"));
  }
}

// ---- Redis

#ifdef FOLIO_HAS_REDIS_TIER
TEST(RedisOptions, name_texts_that_are_none) {
  const std::pair<const char*, std::string_view RedisOptions::*> texts[] = {
      {"host", &RedisOptions::host},
      {"socket", &RedisOptions::socket},
      {"user", &RedisOptions::user},
      {"password", &RedisOptions::password},
      {"authorities_file", &RedisOptions::authorities_file},
      {"certificate_file", &RedisOptions::certificate_file},
      {"key_file", &RedisOptions::key_file},
      {"server_name", &RedisOptions::server_name},
      {"name_space", &RedisOptions::name_space}};
  for (const auto& [name, text] : texts) {
    const std::string argument = "make_redis_tier: " + std::string(name);
    RedisOptions options;
    options.*text = null_text();
    expect_refusal(make_redis_tier(options, some), argument + " is null");
    options.*text = cut_text;
    expect_refusal(make_redis_tier(options, some), argument + " has a 0 in it");
  }
  expect_refusal(make_redis_tier(null_text(), some), "make_redis_tier: url is null");
  expect_refusal(make_redis_tier(std::string_view(), some), "url has another scheme");
  expect_refusal(make_redis_tier("redis://h%00", some), "host has a 0 in it");
  expect_refusal(make_redis_tier("unix:///a%00b", some), "socket has a 0 in it");
}

TEST(RedisOptions, name_numbers_and_files_that_are_none) {
  const auto refuses = [](const RedisOptions& options, const char* part) {
    expect_refusal(make_redis_tier(options, some), part);
  };
  refuses({.port = 0}, "port is 0");
  refuses({.database = least_int32}, "database is ");
  for (const int64_t bad : {least_int64, int64_t{-1}, most_int64}) {
    refuses({.ttl_s = bad}, "ttl_s is ");
    refuses({.connect_timeout_ms = bad}, "connect_timeout_ms is ");
    refuses({.command_timeout_ms = bad}, "command_timeout_ms is ");
    refuses({.absent_ms = bad}, "absent_ms is ");
    refuses({.ask_wait_ms = bad}, "ask_wait_ms is ");
    refuses({.max_names = bad}, "max_names is ");
  }
  for (const uint32_t depth : {0U, 1025U, UINT32_MAX}) refuses({.depth = depth}, "depth is ");
  refuses({.encryption = static_cast<RedisOptions::Encryption>(255)}, "encryption is 255");
  refuses({.check = static_cast<ServerCheck>(255)}, "check is 255");
  refuses({.unknown = static_cast<UnknownPages>(255)}, "unknown is 255");
  refuses({.name_space = "\xc3\xa4"}, "name_space has 2 bytes");
  const std::string longer(10'000, 'f');
  expect_refusal(
      make_redis_tier({.encryption = RedisOptions::Encryption::tls, .authorities_file = longer},
                      some),
      "authorities_file", Errc::io);
  EXPECT_TRUE(make_redis_tier(RedisOptions{.host = "nobody.invalid"}, some));
}
#endif

// ---- Peers

TEST(PeerTierOptions, name_what_is_wrong) {
  InProcessNetwork network;
  const auto transport = network.make_end().value();
  const auto server = PageServer::create(transport.get(), {.max_bytes = 10, .page_bytes = 10});
  const std::vector<std::byte> address = server.value()->address().value();
  const auto make = [&](std::span<const std::byte> at, const PeerTierOptions& peer) {
    return make_peer_tier(network.make_end().value(), at, some, peer);
  };
  expect_refusal(make_peer_tier(nullptr, address, some), "transport is null");
  expect_refusal(make(null_span<const std::byte>(100), {}), "address is null, expected memory of");
  expect_refusal(make({}, {}), "address has 0 bytes");
  expect_refusal(make(std::span(address).first(address.size() - 1), {}), "address has ");
  for (const int64_t ms : {least_int64, int64_t{-1}, int64_t{0}, most_int64})
    expect_refusal(make(address, {.timeout_ms = ms}), "timeout_ms is ");
  expect_refusal(make(address, {.memory = null_span<const std::span<std::byte>>()}),
                 "memory is null, expected memory of size 3");
  std::vector<std::byte> bytes(100);
  const std::span<std::byte> none[] = {bytes, null_span<std::byte>()}, twice[] = {bytes, bytes};
  expect_refusal(make(address, {.memory = none}), "memory is null with 3 bytes");
  expect_refusal(make(address, {.memory = twice}), "memory shares bytes with region");
  EXPECT_TRUE(make(address, {.memory = {twice, 1}}));
}

// ---- Devices

TEST(CudaCopies, are_of_a_device_that_there_is) {
  for (const int32_t device : {-1, least_int32})
    expect_refusal(make_cuda_copies({.device = device}),
                   "make_cuda_copies: options.device is " + std::to_string(device));
  EXPECT_FALSE(make_cuda_copies({.device = most_int32}));
}

}  // namespace
}  // namespace folio::test
