// SPDX-License-Identifier: Apache-2.0
/// tests/tier/disk/disk_kill_test.cpp: processes that are killed at any moment while they store,
/// load, drop and make room.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <set>

#include "folio/tier/disk_directory.h"
#include "support/rounds.h"
#include "tier/disk/disk_fixture.h"

namespace folio::test {
namespace {

constexpr uint32_t names = 120;
constexpr int64_t most_bytes = 3 * mib;

PageMemory page_of(uint32_t name) { return PageMemory({1 + name * 7919 % 50'000, 333}); }

/// Filled once, for filling takes longer than a round.
const std::vector<PageMemory>& filled_pages() {
  static const std::vector<PageMemory> pages = [] {
    std::vector<PageMemory> made;
    for (uint32_t name = 0; name < names; ++name) {
      made.push_back(page_of(name));
      made.back().fill(name);
    }
    return made;
  }();
  return pages;
}

/// In memory where that is to be had: what a killed process has written stays all the same, and
/// hundreds of rounds take seconds on a busy device, too.
class DiskKill : public DiskFixture {
 protected:
  DiskKill()
      : DiskFixture("/dev/shm"),
        ended_calls_(new(mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Count()) {}
  ~DiskKill() override { munmap(ended_calls_, sizeof(Count)); }

  /// Until it is killed. Counts calls.
  [[noreturn]] void work(uint64_t seed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Rng rng(seed);
    const auto tier = open(most_bytes);
    if (!tier) _exit(1);
    for (;;) {
      std::vector<PageMemory> memory;
      std::vector<uint32_t> drawn;
      for (int64_t i = rng.between(1, 8); i > 0; --i) {
        drawn.push_back(static_cast<uint32_t>(rng.between(0, names - 1)));
        memory.push_back(page_of(drawn.back()));
      }
      const int64_t kind = rng.between(0, 5);
      std::vector<TierPage> pages;
      for (size_t i = 0; i < drawn.size(); ++i)
        pages.push_back({name_of(drawn[i]),
                         kind < 3 ? memory[i].extents() : filled_pages()[drawn[i]].extents()});
      if (kind == 0) static_cast<void>((*tier)->drop({&pages[0].name, 1}));
      if (kind == 0) continue;
      const bool is_queued = kind < 3 ? static_cast<bool>((*tier)->load(pages, 0))
                                      : static_cast<bool>((*tier)->store(pages));
      if (!is_queued) _exit(2);
      wait_for(**tier, pages.size());
      ++*ended_calls_;
    }
  }
  /// A child works until it has done so many calls, and a little longer.
  [[nodiscard]] bool works(int64_t calls, Rng& rng) const {
    const bool has_worked = comes_true([&] {
      usleep(50);
      return *ended_calls_ >= calls;
    });
    usleep(static_cast<useconds_t>(rng.between(0, 3000)));
    return has_worked;
  }

  /// Returns how many pages are there; each is right.
  int64_t check() {
    const auto tier = open(most_bytes).value();
    EXPECT_LE(bytes_of_segments(), most_bytes);
    EXPECT_LE(tier->figures().bytes, most_bytes);
    std::vector<PageMemory> memory;
    for (uint32_t name = 0; name < names; ++name) memory.push_back(page_of(name));
    std::vector<TierPage> pages;
    for (uint32_t name = 0; name < names; ++name)
      pages.push_back({name_of(name), memory[name].extents()});
    EXPECT_TRUE(tier->load(pages, 0));
    int64_t found = 0;
    for (const TierCompletion& completion : wait_for(*tier, names)) {
      if (completion.outcome != TierOutcome::done) continue;
      ++found;
      EXPECT_EQ(memory[completion.page].memory(), filled_pages()[completion.page].memory());
    }
    return found;
  }

  using Count = std::atomic<int64_t>;
  Count* ended_calls_;  ///< of all children
};

TEST_F(DiskKill, at_any_moment_leaves_pages_that_are_whole) {
  Rng rng(test_seed());
  static_cast<void>(filled_pages());
  int64_t found = 0;
  const int rounds = share_of_rounds(200);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t seed = rng.next();
    const int64_t calls = *ended_calls_ + rng.between(0, 20);
    const pid_t child = fork();
    if (child == 0) work(seed);
    ASSERT_TRUE(works(calls, rng)) << "round " << round;
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    found += check();
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(found, rounds);
}

/// What was whole is there when the tool that copies it is killed, and once only in the end.
TEST_F(DiskKill, at_any_moment_of_a_compaction_loses_nothing) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    std::set<uint32_t> there;
    {
      const auto tier = open(64 * mib).value();
      for (uint32_t name = 0; name < names; ++name) {
        ASSERT_EQ(store(*tier, name_of(name), filled_pages()[name]), TierOutcome::done);
        const PageName dropped = name_of(name);
        if (rng.chance(0.3))
          tier->drop({&dropped, 1}).or_throw();
        else
          there.insert(name);
      }
    }
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool is_done = static_cast<bool>(compact_disk_directory(path_, mib));
      if (!is_done) _exit(1);
      pause();
    }
    usleep(static_cast<useconds_t>(rng.between(500, 25'000)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const auto listing = list_disk_directory(path_).value();
    ASSERT_EQ(listing.pages.size(), there.size());
    const auto tier = open(64 * mib).value();
    for (const uint32_t name : there) {
      PageMemory back = page_of(name);
      ASSERT_EQ(load(*tier, name_of(name), back), TierOutcome::done) << name;
      ASSERT_EQ(back.memory(), filled_pages()[name].memory());
    }
  }
  ASSERT_TRUE(compact_disk_directory(path_, mib));
  const auto listing = list_disk_directory(path_).value();
  for (const DiskSegment& segment : listing.segments) EXPECT_EQ(segment.bytes, segment.live_bytes);
}

/// A lock that outlived its process would keep the next one out.
TEST_F(DiskKill, two_processes_cannot_open_it_at_once) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto tier = open();
    const char answer = tier ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(open().error().code(), Errc::busy);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(open());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace folio::test
