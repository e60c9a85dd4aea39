// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/page_arena_test.cpp: pages at one stride, and the memory that comes and goes
/// with them.
#include "tier/host/page_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/random.h"
#include "support/resource_limit.h"
#include "support/sanitized.h"

namespace folio::test {
namespace {

using tier::HostBlock;
using tier::PageArena;

constexpr int64_t chunk = PageArena::chunk_bytes;

std::unique_ptr<PageArena> reserve(int64_t page_bytes, int64_t pages) {
  return std::move(PageArena::reserve(page_bytes, pages).value());
}

/// Of the arena, that the system has given.
int64_t resident_bytes(const PageArena& arena) {
  const int64_t system_page = sysconf(_SC_PAGESIZE);
  const int64_t bytes =
      (arena.page_stride_bytes() * arena.pages() + system_page - 1) / system_page * system_page;
  std::vector<unsigned char> there(static_cast<size_t>(bytes / system_page));
  if (mincore(arena.data(), static_cast<size_t>(bytes), there.data()) != 0) return -1;
  int64_t resident = 0;
  for (const unsigned char page : there) resident += (page & 1) * system_page;
  return resident;
}

void fill(const PageArena& arena, const HostBlock& block, int mark) {
  std::memset(block.data(), mark, static_cast<size_t>(arena.page_bytes()));
}

TEST(PageArena, gives_the_lowest_page_that_is_free) {
  for (const int64_t page_bytes : {int64_t{1}, int64_t{64}, int64_t{1000}, chunk + 7}) {
    const auto arena = reserve(page_bytes, 5);
    EXPECT_EQ(arena->page_stride_bytes() % 64, 0);
    EXPECT_EQ(arena->page_stride_bytes() / 64, (page_bytes + 63) / 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % 64, 0u);
    std::vector<HostBlock> taken;
    for (int32_t page = 0; page < 5; ++page) {
      taken.push_back(arena->take());
      EXPECT_EQ(taken.back().data(), arena->data() + page * arena->page_stride_bytes());
      EXPECT_EQ(arena->page_of(taken.back().data()), page);
      fill(*arena, taken.back(), page);
    }
    EXPECT_EQ(arena->take().data(), nullptr) << "all are taken";
    taken.erase(taken.begin() + 3);
    taken.erase(taken.begin() + 1);
    taken.push_back(arena->take());
    EXPECT_EQ(arena->page_of(taken.back().data()), 1);
    EXPECT_EQ(arena->page_of(arena->take().data()), 3);
  }
}

TEST(PageArena, gives_no_byte_twice) {
  Rng rng(test_seed());
  for (const int64_t page_bytes : {int64_t{100}, int64_t{65'536}, 3 * chunk / 4, 5 * chunk / 2}) {
    const int64_t pages = page_bytes < chunk / 2 ? 40 : 12;
    const auto arena = reserve(page_bytes, pages);
    std::map<int32_t, HostBlock> taken;
    std::set<int32_t> free;
    for (int32_t page = 0; page < pages; ++page) free.insert(page);
    for (int step = 0; step < 400; ++step) {
      if (!free.empty() && rng.chance(step % 100 < 50 ? 0.7 : 0.3)) {
        HostBlock block = arena->take();
        const int32_t page = arena->page_of(block.data());
        ASSERT_EQ(page, *free.begin());
        free.erase(free.begin());
        block.data()[0] = block.data()[page_bytes - 1] = static_cast<std::byte>(page + 1);
        taken.emplace(page, std::move(block));
      } else if (!taken.empty()) {
        const auto gone = std::next(taken.begin(), rng.between(0, std::ssize(taken) - 1));
        free.insert(gone->first);
        taken.erase(gone);
      }
      for (const auto& [page, block] : taken) {
        ASSERT_EQ(block.data()[0], static_cast<std::byte>(page + 1));
        ASSERT_EQ(block.data()[page_bytes - 1], static_cast<std::byte>(page + 1));
      }
    }
  }
}

TEST(PageArena, takes_memory_with_its_pages_and_gives_it_back) {
  const int64_t page_bytes = chunk / 4;
  const auto arena = reserve(page_bytes, 64);
  EXPECT_EQ(resident_bytes(*arena), 0);
  std::vector<HostBlock> taken;
  for (int page = 0; page < 64; ++page) {
    taken.push_back(arena->take());
    fill(*arena, taken.back(), 1);
  }
  EXPECT_EQ(resident_bytes(*arena), 16 * chunk);
  const std::byte mark = taken[5].data()[7];
  taken.erase(taken.begin() + 6, taken.end());  // two chunks have pages still
  EXPECT_LE(resident_bytes(*arena), 6 * chunk) << "and four wait";
  EXPECT_GE(resident_bytes(*arena), 2 * chunk);
  EXPECT_EQ(taken[5].data()[7], mark);
  taken.clear();
  EXPECT_LE(resident_bytes(*arena), 4 * chunk);
  for (int page = 0; page < 64; ++page) {  // all over again
    taken.push_back(arena->take());
    fill(*arena, taken.back(), 2);
  }
  EXPECT_EQ(resident_bytes(*arena), 16 * chunk);
}

TEST(PageArena, asks_for_no_memory_where_one_page_goes_and_one_comes) {
  for (const int64_t page_bytes : {chunk / 2, 3 * chunk}) {
    const auto arena = reserve(page_bytes, 12);
    std::vector<HostBlock> taken;
    for (int page = 0; page < 12; ++page) {
      taken.push_back(arena->take());
      fill(*arena, taken.back(), 1);
    }
    const int64_t before = resident_bytes(*arena);
    for (size_t page = 0; page < 12; page += 3) {
      taken[page] = HostBlock();
      EXPECT_EQ(resident_bytes(*arena), before) << page;
      taken[page] = arena->take();
      EXPECT_EQ(taken[page].data(),
                arena->data() + static_cast<int64_t>(page) * arena->page_stride_bytes());
    }
  }
}

TEST(PageArena, reserves_more_than_there_is_memory) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer has most of the address space";
  const auto arena = reserve(1 << 20, 1 << 22);  // 4 TiB
  const HostBlock first = arena->take(), second = arena->take();
  fill(*arena, first, 1);
  fill(*arena, second, 2);
  EXPECT_EQ(first.data()[arena->page_bytes() - 1], std::byte{1});
}

TEST(PageArena, says_that_there_is_no_address_space) {
  for (const int64_t pages : {int64_t{1} << 20, int64_t{2'147'483'647}}) {
    const auto none = PageArena::reserve(int64_t{1} << 40, pages);
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error().code(), Errc::out_of_memory);
  }
  if (is_sanitized) return;  // its shadow is beyond any limit
  const ResourceLimit no_more(RLIMIT_AS, 1 << 20);
  EXPECT_EQ(PageArena::reserve(4096, 1 << 20).error().code(), Errc::out_of_memory);
}

/// Of the process, that count against RLIMIT_DATA.
rlim_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) * 1024;
  return 0;
}

TEST(PageArena, has_no_page_where_the_system_has_no_memory_and_goes_on_with_those_it_has) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer's own memory counts";
  const int64_t page_bytes = chunk / 2;
  const auto arena = reserve(page_bytes, 64);
  std::vector<HostBlock> taken(64);
  size_t count = 0;
  {
    const ResourceLimit limit(RLIMIT_DATA, data_bytes() + 10 * chunk);
    for (; count < 64; ++count) {
      taken[count] = arena->take();
      if (taken[count].data() == nullptr) break;
      fill(*arena, taken[count], 3);
    }
    EXPECT_EQ(arena->take().data(), nullptr);
    if (count > 3) {
      taken[3] = HostBlock();
      taken[3] = arena->take();
    }
  }
  EXPECT_GT(count, 10u);
  EXPECT_LT(count, 64u);
  EXPECT_EQ(taken[3].data(), arena->data() + 3 * arena->page_stride_bytes());
  taken[count] = arena->take();
  EXPECT_NE(taken[count].data(), nullptr) << "there is memory again";
}

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
TEST(PageArenaDeathTest, lets_no_page_be_read_that_is_not_taken) {
  if (!is_sanitized || is_thread_sanitized) GTEST_SKIP() << "AddressSanitizer sees it";
  const auto arena = reserve(1000, 8);
  HostBlock block = arena->take();
  fill(*arena, block, 1);
  const auto* const last = reinterpret_cast<const volatile unsigned char*>(block.data() + 999);
  const auto read_last = [&] { return int{*last}; };
  EXPECT_EQ(read_last(), 1);
  block = HostBlock();
  EXPECT_DEATH(read_last(), "use-after-poison");
  block = arena->take();
  EXPECT_EQ(arena->page_of(block.data()), 0);
  EXPECT_EQ(read_last(), 1) << "and again";
}
#endif

}  // namespace
}  // namespace folio::test
