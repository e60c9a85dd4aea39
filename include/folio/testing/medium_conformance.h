// SPDX-License-Identifier: Apache-2.0
/// folio/testing/medium_conformance.h: what every medium (folio/tier/medium.h) must keep, checked
/// rule by rule.
///
/// For whoever writes a medium, in whatever framework of tests: a report says which rule is broken,
/// what was expected and what came. folio's own media pass it, and each rule is shown to fail for a
/// medium that breaks it. Needs no network and no device; what a medium needs, its maker brings.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "folio/pool/name.h"
#include "folio/tier/medium.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// The medium to check.
struct MediumSubject {
  /// A medium over one place, which is empty at the first call and the same at each. The one before
  /// has been destroyed then.
  std::function<Result<std::unique_ptr<Medium>>(const TierOptions&)> make;
  /// Given to `make`; `on_change` is the check's own. There is room for 16 pages of `page_bytes`.
  TierOptions options = {};
  int64_t page_bytes = 10'000;  ///< of the largest page that is stored, 5'000 or more
  /// What one medium has stored, the next one has. Without: two rules less.
  bool keeps = false;
  /// It tells `TierOptions::on_change` of what it stores and gives up.
  bool tells = false;
  /// So many pages of `page_bytes` are more than it has room for; 0: that rule is left out.
  int32_t too_many_pages = 0;
  /// Spoils what is stored under a name, which is there; null: that rule is left out.
  std::function<void(const PageName&)> damage = {};
  /// How long it is waited for what a medium hears from others: of names that it finds, counts or
  /// has dropped. 0: it knows at once what there is.
  int64_t patience_ms = 0;
};

struct MediumBreach {
  std::string rule, expected, came;
};

struct MediumReport {
  std::vector<MediumBreach> breaches;
  std::vector<std::string> checked, left_out;  ///< rules, by name
  [[nodiscard]] bool is_ok() const noexcept { return breaches.empty(); }
  /// A line for each breach.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const MediumBreach& b : breaches)
      all += b.rule + ": expected " + b.expected + ", got " + b.came + "\n";
    return all;
  }
};

namespace detail {

/// A page in memory of its own: runs at odd addresses, and bytes between them that nobody may
/// write.
class GuardedPage {
 public:
  explicit GuardedPage(int64_t bytes, int32_t runs = 3) {
    memory_.assign(static_cast<size_t>(bytes + gap * (runs + 1)), guard);
    std::byte* at = memory_.data() + gap;
    for (int32_t r = 0; r < runs; ++r) {
      const int64_t size = r + 1 < runs ? bytes / runs / 2 + r : bytes;
      extents_.push_back({at, size});
      at += size + gap;
      bytes -= size;
    }
  }
  [[nodiscard]] const std::vector<Extent>& extents() const { return extents_; }
  void fill(uint32_t content) {
    for (size_t e = 0; e < extents_.size(); ++e)
      for (int64_t i = 0; i < extents_[e].bytes; ++i) extents_[e].data[i] = byte_of(content, e, i);
  }
  /// The first `count` runs have it.
  [[nodiscard]] bool has(uint32_t content, size_t count) const {
    for (size_t e = 0; e < std::min(count, extents_.size()); ++e)
      for (int64_t i = 0; i < extents_[e].bytes; ++i)
        if (extents_[e].data[i] != byte_of(content, e, i)) return false;
    return true;
  }
  [[nodiscard]] bool has(uint32_t content) const { return has(content, extents_.size()); }
  [[nodiscard]] bool is_whole_around() const {
    const std::byte* at = memory_.data();
    for (const Extent& e : extents_) {
      if (!std::all_of(at, static_cast<const std::byte*>(e.data), is_guard)) return false;
      at = e.data + e.bytes;
    }
    return std::all_of(at, memory_.data() + memory_.size(), is_guard);
  }

 private:
  static constexpr int64_t gap = 13;
  static constexpr std::byte guard{0xee};
  static bool is_guard(std::byte b) { return b == guard; }
  static std::byte byte_of(uint32_t content, size_t extent, int64_t i) {
    const uint64_t x = (uint64_t{content} << 32) + (extent << 24) + static_cast<uint64_t>(i);
    return static_cast<std::byte>((x * 0x9e37'79b9'7f4a'7c15U) >> 56);
  }
  std::vector<std::byte> memory_;
  std::vector<Extent> extents_;
};

class MediumCheck {
 public:
  explicit MediumCheck(const MediumSubject& subject) : subject_(subject) {}

  struct Rule {
    const char* name;
    void (MediumCheck::*check)();
    /// Null: it holds for every medium.
    bool (*applies)(const MediumSubject& subject);
  };
  static std::span<const Rule> rules();

  MediumReport run() {
    for (const Rule& rule : rules()) {
      rule_ = rule.name;
      if (rule.applies != nullptr && !rule.applies(subject_)) {
        report_.left_out.emplace_back(rule.name);
        continue;
      }
      report_.checked.emplace_back(rule.name);
      ++number_;
      try {
        if (medium_ != nullptr || make(subject_.options)) (this->*rule.check)();
        for (uint32_t n = 1; n <= 20 && medium_ != nullptr; ++n) medium_->drop(name_of(n));
      } catch (const std::exception& e) {
        breach("nothing thrown", std::string("an exception: ") + e.what());
      }
      if (medium_ == nullptr) break;  // there is none to go on with
    }
    medium_.reset();
    return std::move(report_);
  }

 private:
  using Change = std::pair<TierChange, PageName>;

  // ---- Rules

  void nothing_is_found_that_was_never_stored() {
    const PageName never = name_of(1);
    expect(!medium_->has(never), "has() false for a name that was never stored", "true");
    expect_find({&never, 1}, 0);
    expect_find({}, 0);
    expect_load(1, 0, {TierOutcome::missing});
    const Status fault = medium_->last_fault();
    expect(fault.is_ok(), "no fault before anything has gone wrong", std::string(fault.message()));
    const uint32_t batch = medium_->batch();
    expect(batch >= 1 && batch <= Medium::most_in_batch, "batch() of 1 .. 8192",
           std::to_string(batch));
  }

  void what_is_stored_is_found_and_loaded_exactly() {
    for (const int32_t runs : {1, 3, 17}) {
      const auto n = static_cast<uint32_t>(runs);
      expect_store(n, n, runs);
      expect_has(n);
      expect_load(n, n, {TierOutcome::done}, runs);
      expect_load(n, n, {TierOutcome::done}, runs);  // it is there still
    }
  }

  void names_are_counted_from_the_first_on() {
    const PageName names[] = {name_of(1), name_of(2), name_of(3), name_of(4)};
    for (const uint32_t n : {1U, 2U, 4U}) expect_store(n, n);
    expect_find(names, 2);
    expect_find({names, 1}, 1);
    expect_find({names + 2, 2}, 0);
    expect_find({names + 3, 1}, 1);
  }

  void each_job_ends_by_itself() {
    for (uint32_t n = 1; n <= 6; n += 2) expect_store(n, n);
    expect_batch(std::min(medium_->batch(), 6U), LoadOrder::pages);
    if (medium_->loads_in_order()) expect_batch(6, LoadOrder::extents);
  }
  /// Names with odd numbers are there.
  void expect_batch(uint32_t jobs_at_once, LoadOrder order) {
    std::deque<GuardedPage> pages;
    std::deque<Job> jobs;
    std::vector<Job*> all;
    for (uint32_t n = 1; n <= jobs_at_once; ++n) {
      pages.emplace_back(subject_.page_bytes / 2);
      set(jobs.emplace_back(), Job::Kind::load, n, pages.back(), order);
      all.push_back(&jobs.back());
    }
    medium_->run(all);
    for (uint32_t n = 1; n <= jobs_at_once; ++n)
      expect_end(jobs[n - 1], pages[n - 1], n,
                 {n % 2 == 1 ? TierOutcome::done : TierOutcome::missing});
  }

  void a_name_that_is_there_stays_as_it_is() {
    expect_store(1, 1);
    expect_store(1, 2);  // ends as done
    expect_load(1, 1, {TierOutcome::done});
  }

  void what_is_dropped_is_gone_until_it_is_stored_anew() {
    expect_store(1, 1);
    medium_->drop(name_of(1));
    expect(comes_true([&] { return !medium_->has(name_of(1)); }),
           "has() false for a name that was dropped", "true");
    expect_load(1, 0, {TierOutcome::missing});
    medium_->drop(name_of(1));  // and again
    medium_->drop(name_of(2));  // was never there
    expect_store(1, 3);
    expect_load(1, 3, {TierOutcome::done});
  }

  void a_load_of_another_size_is_no_page() {
    for (const int64_t more : {-1, 1}) {
      expect_store(1, 1);
      GuardedPage page(subject_.page_bytes / 2 + more);
      Job job;
      set(job, Job::Kind::load, 1, page);
      run_one(job);
      expect_end(job, page, 0, {TierOutcome::missing, TierOutcome::corrupt});
    }
  }

  void what_has_landed_is_there() {
    constexpr int32_t runs = 16;
    expect_store(1, 1, runs);
    GuardedPage page(subject_.page_bytes / 2, runs);
    Job job;
    set(job, Job::Kind::load, 1, page, LoadOrder::extents);
    uint32_t before = 0;
    std::string fault;
    std::jthread watch([&](const std::stop_token& end) {
      while (!end.stop_requested() && fault.empty()) {
        const uint32_t landed = job.landed.load(std::memory_order_acquire);
        if (landed > runs || landed < before || !page.has(1, landed))
          fault = std::to_string(landed) + " of 16 behind " + std::to_string(before);
        before = landed;
        std::this_thread::yield();
      }
    });
    run_one(job);
    watch.request_stop();
    watch.join();
    expect(fault.empty(), "`landed` leading extents to be in place, never fewer than before",
           fault);
    expect_end(job, page, 1, {TierOutcome::done});
    expect(job.landed <= runs, "at most 16 extents landed", std::to_string(job.landed));
  }

  void threads_do_not_meet() {
    constexpr uint32_t threads = 4, rounds = 20;
    std::atomic<uint32_t> wrong = 0, failed = 0;
    const auto work = [&](uint32_t own) {
      for (uint32_t round = 0; round < rounds; ++round) {
        for (const uint32_t n : {100 * own + round, 9U}) {  // one of its own, one of all
          GuardedPage page(subject_.page_bytes / 2), back(subject_.page_bytes / 2);
          page.fill(n);
          Job store, load;
          set(store, Job::Kind::store, n, page);
          set(load, Job::Kind::load, n, back);
          run_one(store);
          run_one(load);
          const bool may_be_gone = n == 9 && load.outcome == TierOutcome::missing;
          if (load.outcome == TierOutcome::done && !back.has(n)) ++wrong;
          if (load.outcome != TierOutcome::done && !may_be_gone) ++failed;
          if (store.outcome != TierOutcome::done) ++failed;
          medium_->drop(name_of(n));
        }
      }
    };
    std::vector<std::jthread> all;
    for (uint32_t own = 1; own <= threads; ++own)
      all.emplace_back([&, own] {
        try {
          work(own);
        } catch (...) {
          ++failed;
        }
      });
    for (std::jthread& thread : all) thread.join();
    expect(wrong == 0, "loads of four threads to be exact",
           std::to_string(wrong) + " with other bytes");
    expect(failed == 0, "jobs of four threads to end as done",
           std::to_string(failed) + " that have not");
  }

  void what_is_there_is_counted() {
    expect(comes_true([&] { return figures().pages == 0; }), "no pages, as all were dropped",
           std::to_string(figures().pages));
    const TierFigures before = figures();
    for (uint32_t n = 1; n <= 5; ++n) expect_store(n, n);
    medium_->drop(name_of(5));
    expect(comes_true([&] { return figures().pages == 4; }), "4 pages behind 5 stores and a drop",
           std::to_string(figures().pages));
    const TierFigures now = figures();
    expect(now.bytes >= before.bytes && now.dropped_pages >= before.dropped_pages,
           "bytes and dropped_pages not to fall", "fewer");
  }

  void what_it_has_no_room_for_goes_or_is_refused() {
    for (int32_t n = 1; n <= subject_.too_many_pages; ++n) {
      GuardedPage page(subject_.page_bytes);
      page.fill(static_cast<uint32_t>(n));
      Job job;
      set(job, Job::Kind::store, static_cast<uint32_t>(n), page);
      run_one(job);
      expect_end(job, page, static_cast<uint32_t>(n), {TierOutcome::done, TierOutcome::full});
      const int64_t bytes = figures().bytes;
      expect(bytes <= subject_.options.max_bytes,
             "at most max_bytes, " + std::to_string(subject_.options.max_bytes),
             std::to_string(bytes) + " bytes");
    }
    int32_t there = 0;
    for (int32_t n = 1; n <= subject_.too_many_pages; ++n) {
      GuardedPage page(subject_.page_bytes);
      Job job;
      set(job, Job::Kind::load, static_cast<uint32_t>(n), page);
      run_one(job);
      there += job.outcome == TierOutcome::done ? 1 : 0;
      expect_end(job, page, static_cast<uint32_t>(n), {TierOutcome::done, TierOutcome::missing});
      medium_->drop(name_of(static_cast<uint32_t>(n)));
    }
    expect(there > 0 && there < subject_.too_many_pages, "some of the pages to be there, not all",
           std::to_string(there) + " of " + std::to_string(subject_.too_many_pages));
  }

  void changes_are_told_once() {
    static_cast<void>(take_changes());
    expect_store(1, 1);
    expect_store(1, 1);
    medium_->drop(name_of(1));
    medium_->drop(name_of(1));
    std::vector<Change> told = take_changes();
    std::erase_if(told, [&](const Change& change) { return change.second != name_of(1); });
    expect(told == std::vector<Change>{{TierChange::stored, name_of(1)},
                                       {TierChange::removed, name_of(1)}},
           "`stored` once and `removed` once",
           std::to_string(told.size()) + " changes of the name");
  }

  void what_is_kept_is_there_for_the_next_one() {
    for (uint32_t n = 1; n <= 2; ++n) expect_store(n, n);
    medium_->drop(name_of(2));
    expect_store(3, 3);
    if (!make_again(subject_.options)) return;
    for (const uint32_t n : {1U, 3U}) {
      expect_has(n);
      expect_load(n, n, {TierOutcome::done});
    }
    expect_load(2, 0, {TierOutcome::missing});
  }

  void pages_of_another_model_are_none() {
    expect_store(1, 1);
    TierOptions other = subject_.options;
    other.fingerprint.bytes[0] ^= 1;
    if (!make_again(other)) return;
    expect_load(1, 0, {TierOutcome::missing, TierOutcome::corrupt});
    if (!make_again(subject_.options)) return;
  }

  void damage_is_seen() {
    expect_store(1, 1);
    subject_.damage(name_of(1));
    expect_load(1, 0, {TierOutcome::missing, TierOutcome::corrupt, TierOutcome::failed});
  }

  // ---- Steps

  void breach(std::string expected, std::string came) {
    report_.breaches.push_back({rule_, std::move(expected), std::move(came)});
  }
  void expect(bool holds, std::string expected, std::string came) {
    if (!holds) breach(std::move(expected), std::move(came));
  }
  /// Of this rule alone.
  [[nodiscard]] PageName name_of(uint32_t n) const {
    PageName name;
    for (size_t i = 0; i < 4; ++i) {
      name.bytes[i] = static_cast<uint8_t>(n >> (8 * i));
      name.bytes[16 + i] = static_cast<uint8_t>(number_ >> (8 * i));
    }
    name.bytes[31] = 0xc5;
    return name;
  }
  void set(Job& job, Job::Kind kind, uint32_t n, const GuardedPage& page,
           LoadOrder order = LoadOrder::pages) const {
    job.kind = kind;
    job.name = name_of(n);
    job.extents = page.extents();
    job.order = order;
  }
  void run_one(Job& job) {
    Job* const jobs[] = {&job};
    medium_->run(jobs);
  }
  void expect_end(const Job& job, const GuardedPage& page, uint32_t content,
                  std::initializer_list<TierOutcome> outcomes) {
    std::string expected;
    for (const TierOutcome outcome : outcomes)
      expected += (expected.empty() ? "" : " or ") + std::string(name(outcome));
    const std::string what =
        job.kind == Job::Kind::load ? "a load to end as " : "a store to end as ";
    if (std::find(outcomes.begin(), outcomes.end(), job.outcome) == outcomes.end())
      breach(what + expected, name(job.outcome));
    else if (job.outcome == TierOutcome::done && !page.has(content))
      breach("the bytes that were stored", "others");
    expect(page.is_whole_around(), "the bytes around the extents untouched", "others");
  }
  void expect_store(uint32_t n, uint32_t content, int32_t runs = 3) {
    GuardedPage page(subject_.page_bytes / 2, runs);
    page.fill(content);
    Job job;
    set(job, Job::Kind::store, n, page);
    run_one(job);
    expect_end(job, page, content, {TierOutcome::done});
  }
  void expect_load(uint32_t n, uint32_t content, std::initializer_list<TierOutcome> outcomes,
                   int32_t runs = 3) {
    for (const LoadOrder order : {LoadOrder::pages, LoadOrder::extents}) {
      GuardedPage page(subject_.page_bytes / 2, runs);
      Job job;
      set(job, Job::Kind::load, n, page, order);
      (void)comes_true([&] {
        run_one(job);
        return std::find(outcomes.begin(), outcomes.end(), job.outcome) != outcomes.end();
      });
      expect_end(job, page, content, outcomes);
    }
  }
  void expect_has(uint32_t n) {
    expect(comes_true([&] { return medium_->has(name_of(n)); }),
           "has() true for a name that was stored", "false");
  }
  template <class Condition>
  [[nodiscard]] bool comes_true(const Condition& condition) const {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(subject_.patience_ms);
    for (;;) {
      if (condition()) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void expect_find(std::span<const PageName> names, int32_t expected) {
    int32_t found = 0;
    expect(comes_true([&] { return (found = medium_->find(names)) == expected; }),
           "find() of " + std::to_string(names.size()) + " names: " + std::to_string(expected),
           std::to_string(found));
  }
  [[nodiscard]] TierFigures figures() {
    TierFigures said;
    medium_->count(said);
    expect(said.pages >= 0 && said.bytes >= 0 && said.dropped_pages >= 0, "count() of 0 or more",
           "a negative number");
    return said;
  }
  [[nodiscard]] bool make(TierOptions options) {
    if (subject_.tells) options.on_change = {.function = note_changes, .context = this};
    Result<std::unique_ptr<Medium>> made = subject_.make(options);
    if (!made)
      breach("a medium to be made", std::string(made.error().message()));
    else if (*made == nullptr)
      breach("a medium to be made", "null");
    else
      medium_ = std::move(*made);
    return medium_ != nullptr;
  }
  [[nodiscard]] bool make_again(const TierOptions& options) {
    medium_.reset();
    return make(options);
  }
  [[nodiscard]] std::vector<Change> take_changes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(changes_, {});
  }
  static void note_changes(void* self, TierChange change,
                           std::span<const PageName> names) noexcept {
    auto& check = *static_cast<MediumCheck*>(self);
    const std::lock_guard lock(check.mutex_);
    for (const PageName& name : names) check.changes_.emplace_back(change, name);
  }

  const MediumSubject& subject_;
  MediumReport report_;
  const char* rule_ = "";
  uint32_t number_ = 0;  ///< of the rule
  std::mutex mutex_;
  std::vector<Change> changes_;
  std::unique_ptr<Medium> medium_;  ///< goes before what it tells
};

inline std::span<const MediumCheck::Rule> MediumCheck::rules() {
  using Subject = const MediumSubject&;
  constexpr auto keeps = [](Subject s) { return s.keeps; };
  constexpr auto tells = [](Subject s) { return s.tells; };
  constexpr auto is_full = [](Subject s) { return s.too_many_pages > 0; };
  constexpr auto is_damaged = [](Subject s) { return s.damage != nullptr; };
  static constexpr Rule all[] = {
      {"nothing_is_found_that_was_never_stored",
       &MediumCheck::nothing_is_found_that_was_never_stored, nullptr},
      {"what_is_stored_is_found_and_loaded_exactly",
       &MediumCheck::what_is_stored_is_found_and_loaded_exactly, nullptr},
      {"names_are_counted_from_the_first_on", &MediumCheck::names_are_counted_from_the_first_on,
       nullptr},
      {"each_job_ends_by_itself", &MediumCheck::each_job_ends_by_itself, nullptr},
      {"a_name_that_is_there_stays_as_it_is", &MediumCheck::a_name_that_is_there_stays_as_it_is,
       nullptr},
      {"what_is_dropped_is_gone_until_it_is_stored_anew",
       &MediumCheck::what_is_dropped_is_gone_until_it_is_stored_anew, nullptr},
      {"a_load_of_another_size_is_no_page", &MediumCheck::a_load_of_another_size_is_no_page,
       nullptr},
      {"what_has_landed_is_there", &MediumCheck::what_has_landed_is_there, nullptr},
      {"threads_do_not_meet", &MediumCheck::threads_do_not_meet, nullptr},
      {"what_is_there_is_counted", &MediumCheck::what_is_there_is_counted, nullptr},
      {"changes_are_told_once", &MediumCheck::changes_are_told_once, tells},
      {"what_is_kept_is_there_for_the_next_one",
       &MediumCheck::what_is_kept_is_there_for_the_next_one, keeps},
      {"pages_of_another_model_are_none", &MediumCheck::pages_of_another_model_are_none, keeps},
      {"damage_is_seen", &MediumCheck::damage_is_seen, is_damaged},
      {"what_it_has_no_room_for_goes_or_is_refused",
       &MediumCheck::what_it_has_no_room_for_goes_or_is_refused, is_full},
  };
  return all;
}

}  // namespace detail

/// Checks one medium after another of `subject.make`, which is not null; takes a second or so, and
/// leaves the place with pages of its own. Rules go on where one is broken. Throws bad_alloc, and
/// std::system_error where no thread is to be had.
[[nodiscard]] inline MediumReport check_medium(const MediumSubject& subject) {
  return detail::MediumCheck(subject).run();
}

}  // namespace folio::inline v1::tier
