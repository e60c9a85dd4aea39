// SPDX-License-Identifier: Apache-2.0
/// tests/tier/redis/redis_kill_test.cpp: a server, a writer and a reader that are killed at any
/// moment of stores and loads, while another process uses the same pages.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "folio/tier/redis_tier.h"
#include "support/open_files.h"
#include "support/rounds.h"
#include "tier/redis/patient.h"
#include "tier/redis/redis_server.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t names = 100;  ///< of which the writer drops none
constexpr uint32_t dropped_names = 20;
constexpr uint32_t most_pages = 8;  ///< of a worker's call

PageMemory page_of(uint32_t name) { return PageMemory({1 + name * 7919 % 20'000, 333}); }

/// Filled once, for filling takes longer than a round.
const std::vector<PageMemory>& filled_pages() {
  static const std::vector<PageMemory> pages = [] {
    std::vector<PageMemory> made;
    for (uint32_t name = 0; name < names + dropped_names; ++name) {
      made.push_back(page_of(name));
      made.back().fill(name);
    }
    return made;
  }();
  return pages;
}

std::unique_ptr<Tier> open(const RedisServer& server) {
  const std::string socket = server.socket();
  return make_redis_tier(patient({.socket = socket, .depth = 4, .absent_ms = 0}),
                         {.threads = 2, .max_bytes = 1 << 30})
      .value();
}

/// What a process that is killed leaves of what it has seen.
struct Seen {
  std::atomic<int64_t> begun = 0, wrong = 0, miscounted = 0;
  std::array<std::atomic<int64_t>, num_tier_outcomes> ended = {};
  [[nodiscard]] int64_t done() const { return ended[static_cast<size_t>(TierOutcome::done)]; }
  [[nodiscard]] int64_t all() const {
    int64_t sum = 0;
    for (const std::atomic<int64_t>& count : ended) sum += count;
    return sum;
  }
};

/// Memory that children share with us.
class SharedSeen {
 public:
  SharedSeen()
      : seen_(new(mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Seen()) {}
  SharedSeen(const SharedSeen&) = delete;
  SharedSeen& operator=(const SharedSeen&) = delete;
  ~SharedSeen() { munmap(seen_, sizeof(Seen)); }
  Seen& operator*() const { return *seen_; }
  Seen* operator->() const { return seen_; }

 private:
  Seen* seen_;
};

/// Loads, or stores and drops, until it is killed.
class Worker {
 public:
  enum class Kind : uint8_t { reader, writer };

  /// Before this process has threads.
  Worker(const RedisServer& server, Kind kind, uint64_t seed, Seen& seen) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    work(server, kind, Rng(seed), seen);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { kill_it(); }

  [[nodiscard]] bool is_alive() const { return pid_ > 0; }
  /// It must not have ended before.
  void kill_it() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    pid_ = 0;
  }

 private:
  [[noreturn]] static void work(const RedisServer& server, Kind kind, Rng rng, Seen& seen) {
    const auto tier = open(server);
    for (;;) {
      std::vector<uint32_t> drawn;
      std::vector<PageMemory> memory;
      std::vector<TierPage> pages;
      for (int64_t i = rng.between(1, most_pages); i > 0; --i) {
        drawn.push_back(static_cast<uint32_t>(rng.between(0, names + dropped_names - 1)));
        memory.push_back(page_of(drawn.back()));
      }
      for (size_t i = 0; i < drawn.size(); ++i)
        pages.push_back({name_of(drawn[i]), kind == Kind::reader
                                                ? memory[i].extents()
                                                : filled_pages()[drawn[i]].extents()});
      if (kind == Kind::writer && rng.chance(0.3)) {
        const PageName name = name_of(names + drawn[0] % dropped_names);
        if (!tier->drop({&name, 1}).is_ok()) _exit(2);
      }
      seen.begun += std::ssize(pages);
      const auto ticket = kind == Kind::reader ? tier->load(pages, 0) : tier->store(pages);
      if (!ticket) _exit(3);
      bool is_away = false;
      for (const TierCompletion& c : wait_for(*tier, pages.size())) {
        ++seen.ended[static_cast<size_t>(c.outcome)];
        is_away = is_away || c.outcome == TierOutcome::failed;
        if (kind == Kind::reader && c.outcome == TierOutcome::done &&
            memory[c.page].memory() != filled_pages()[drawn[c.page]].memory())
          ++seen.wrong;
      }
      const TierFigures figures = tier->figures();
      if (figures.queued_pages != 0 || figures.queued_bytes != 0) ++seen.miscounted;
      if (is_away) usleep(500);  // the server needs the processor to come back
    }
  }

  pid_t pid_ = 0;
};

class RedisKill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_redis_server()) GTEST_SKIP() << "no redis-server here";
    rng_ = Rng(test_seed());
    static_cast<void>(filled_pages());
    server_ = std::make_unique<RedisServer>();
  }

  /// What a load or a store of this process has come to, page by page.
  struct Call {
    std::vector<uint32_t> drawn;
    std::vector<bool> has_ended;
    bool is_load = false;
  };

  /// The server, and sometimes a worker, dies while pages are under way; then the server is there
  /// again, with or without what it had. All pages end, and what is done is right.
  void one_kill(Tier& tier, std::vector<std::unique_ptr<Worker>>& workers) {
    find_server(tier);
    std::vector<PageMemory> memory;
    for (uint32_t name = 0; name < names; ++name) memory.push_back(page_of(name));
    std::map<uint64_t, Call> calls;
    const size_t open_pages = begin_calls(tier, memory, calls);
    sleep_a_little();
    if (rng_.chance(0.2)) workers[static_cast<size_t>(rng_.between(0, 1))]->kill_it();
    const bool kept = keeps_;
    server_->kill_it();
    if (rng_.chance(0.3)) workers[static_cast<size_t>(rng_.between(0, 1))]->kill_it();
    if (rng_.chance(0.3)) sleep_a_little();
    start_server();
    for (const TierCompletion& c : wait_for(tier, open_pages)) {
      Call& call = calls.at(c.ticket.value);
      ASSERT_FALSE(call.has_ended.at(c.page)) << "it has ended twice";
      call.has_ended[c.page] = true;
      ++(call.is_load ? loads_ : stores_)[static_cast<size_t>(c.outcome)];
      if (c.outcome != TierOutcome::done) continue;
      const uint32_t name = call.drawn[c.page];
      if (call.is_load) {
        ASSERT_EQ(memory[name].memory(), filled_pages()[name].memory()) << name;
      } else if (kept && keeps_ && !is_new_) {
        kept_.insert(name);
      }
    }
  }

  size_t begin_calls(Tier& tier, const std::vector<PageMemory>& memory,
                     std::map<uint64_t, Call>& calls) {
    size_t open_pages = 0;
    for (int i = 0; i < 4; ++i) {
      Call call{.drawn = {}, .has_ended = {}, .is_load = i % 2 == 1};
      std::vector<TierPage> pages;
      // a page that is loaded is loaded once: its memory is its own
      for (uint32_t name = static_cast<uint32_t>(i / 2); name < names; name += 2)
        if (rng_.chance(0.4)) {
          call.drawn.push_back(name);
          pages.push_back({name_of(name),
                           call.is_load ? memory[name].extents() : filled_pages()[name].extents()});
        }
      if (pages.empty()) continue;
      call.has_ended.resize(pages.size());
      begun_ += std::ssize(pages);
      open_pages += pages.size();
      const TierTicket ticket =
          (call.is_load ? tier.load(pages, 0, any_order()) : tier.store(pages)).value();
      calls[ticket.value] = std::move(call);
    }
    return open_pages;
  }

  LoadOrder any_order() { return rng_.chance(0.5) ? LoadOrder::pages : LoadOrder::extents; }
  void sleep_a_little() { usleep(static_cast<useconds_t>(rng_.between(0, 4000))); }

  /// A page that nobody has stored tells when the server answers again, and whether it is another.
  void find_server(Tier& tier) {
    PageMemory page({1});
    for (;;) {
      ++begun_;
      const TierOutcome outcome = load(tier, name_of(names + dropped_names), page);
      ++loads_[static_cast<size_t>(outcome)];
      if (outcome == TierOutcome::missing) return;
      ASSERT_EQ(outcome, TierOutcome::failed);
      usleep(1000);
    }
  }

  void start_server() {
    keeps_ = rng_.chance(0.6);
    is_new_ = rng_.chance(0.2);
    if (is_new_) {
      fs::remove_all(server_->folder() + "/appendonlydir");
      kept_.clear();
    }
    server_->set_arguments({"--appendonly", keeps_ ? "yes" : "no", "--appendfsync", "no",
                            "--auto-aof-rewrite-percentage", "0"});
    server_->start();
  }

  /// Whole pages or none, and those that a server had written down before it said so.
  void check_server() {
    const auto tier = open(*server_);
    std::vector<PageMemory> memory;
    std::vector<TierPage> pages;
    for (uint32_t name = 0; name < names; ++name) memory.push_back(page_of(name));
    for (uint32_t name = 0; name < names; ++name)
      pages.push_back({name_of(name), memory[name].extents()});
    ASSERT_TRUE(tier->load(pages, 0, any_order()));
    for (const TierCompletion& c : wait_for(*tier, names)) {
      if (c.outcome == TierOutcome::done) {
        ASSERT_EQ(memory[c.page].memory(), filled_pages()[c.page].memory()) << c.page;
        ++found_;
        continue;
      }
      ASSERT_EQ(c.outcome, TierOutcome::missing) << c.page;
      ++lost_;
      ASSERT_FALSE(keeps_ && kept_.contains(c.page)) << c.page << " was stored for good";
    }
  }

  void expect_all_counted(const Tier& tier) {
    const TierFigures figures = tier.figures();
    int64_t ended = 0;
    for (size_t i = 0; i < num_tier_outcomes; ++i) {
      EXPECT_EQ(figures.load_outcomes[i], loads_[i]) << i;
      EXPECT_EQ(figures.store_outcomes[i], stores_[i]) << i;
      ended += loads_[i] + stores_[i];
    }
    EXPECT_EQ(ended, begun_);
    EXPECT_EQ(loads_[static_cast<size_t>(TierOutcome::corrupt)], 0) << "values are whole";
    EXPECT_EQ(figures.queued_pages, 0);
    EXPECT_EQ(figures.queued_bytes, 0);
  }
  void forget_counts() {
    loads_ = stores_ = {};
    begun_ = 0;
  }

  using Outcomes = std::array<int64_t, num_tier_outcomes>;
  Rng rng_{0};
  std::unique_ptr<RedisServer> server_;
  bool keeps_ = false, is_new_ = true;  ///< of the server as it was started last
  std::set<uint32_t> kept_;  ///< stored while the server wrote down what it had, and since then
  Outcomes loads_ = {}, stores_ = {};  ///< of a tier
  int64_t begun_ = 0;
  int64_t found_ = 0, lost_ = 0;
};

/// A worker that lives on finds the server that has come back.
void expect_progress(const Seen& seen) {
  for (const int64_t before = seen.done(); seen.done() == before;) usleep(500);
}

TEST_F(RedisKill, at_any_moment_leaves_pages_that_are_whole_and_losses_that_are_counted) {
  constexpr int kills_of_a_tier = 5;
  const int64_t files = open_files();
  Outcomes all_loads = {}, all_stores = {};
  const int kills = share_of_rounds(200);
  for (int tiers = 0; tiers < kills / kills_of_a_tier; ++tiers) {
    const SharedSeen read, written;
    std::vector<std::unique_ptr<Worker>> workers;
    workers.push_back(std::make_unique<Worker>(*server_, Worker::Kind::reader, rng_.next(), *read));
    workers.push_back(
        std::make_unique<Worker>(*server_, Worker::Kind::writer, rng_.next(), *written));
    auto tier = open(*server_);
    for (int i = 0; i < kills_of_a_tier; ++i) {
      ASSERT_NO_FATAL_FAILURE(one_kill(*tier, workers)) << "tier " << tiers << ", kill " << i;
      ASSERT_NO_FATAL_FAILURE(check_server()) << "tier " << tiers << ", kill " << i;
    }
    if (workers[1]->is_alive()) expect_progress(*written);
    if (workers[0]->is_alive() && workers[1]->is_alive()) expect_progress(*read);
    workers.clear();
    expect_all_counted(*tier);
    for (size_t i = 0; i < num_tier_outcomes; ++i) {
      all_loads[i] += loads_[i];
      all_stores[i] += stores_[i];
    }
    forget_counts();
    tier.reset();
    for (const Seen* const seen : {&*read, &*written}) {
      EXPECT_EQ(seen->wrong, 0);
      EXPECT_EQ(seen->miscounted, 0);
      EXPECT_EQ(seen->ended[static_cast<size_t>(TierOutcome::corrupt)], 0);
      EXPECT_LE(seen->begun - seen->all(), most_pages) << "those of the call that was under way";
    }
    while (server_->text({"CLIENT", "LIST", "TYPE", "normal"}).find('\n') !=
           server_->text({"CLIENT", "LIST", "TYPE", "normal"}).rfind('\n'))
      usleep(500);  // no connection is left but ours
    ASSERT_FALSE(HasFailure()) << "tier " << tiers;
  }
  EXPECT_GT(found_, kills);
  EXPECT_GT(lost_, kills);
  for (const Outcomes& outcomes : {all_loads, all_stores}) {
    EXPECT_GT(outcomes[static_cast<size_t>(TierOutcome::done)], kills);
    EXPECT_GT(outcomes[static_cast<size_t>(TierOutcome::failed)], kills / 10);
  }
  server_->kill_it();
  EXPECT_LE(open_files(), files);
}

}  // namespace
}  // namespace folio::test
