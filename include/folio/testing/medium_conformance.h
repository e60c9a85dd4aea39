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
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <iterator>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/core/status.h"
#include "folio/pool/name.h"
#include "folio/testing/medium_steps.h"
#include "folio/tier/medium.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

namespace detail {

class MediumCheck : MediumSteps {
 public:
  explicit MediumCheck(const MediumSubject& subject) : MediumSteps(subject) {}

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

  /// As the groups of a pool have pages of different layers, sizes and numbers of them.
  void pages_of_one_run_may_differ() {
    expect_unlike(std::min(medium_->batch(), 6U), LoadOrder::pages);
    if (medium_->loads_in_order()) expect_unlike(6, LoadOrder::extents);
  }
  /// Stored in one run, or so many as `batch()` allows, and loaded in one: the largest not first,
  /// nor last.
  void expect_unlike(uint32_t jobs_at_once, LoadOrder order) {
    struct Form {
      int64_t bytes;
      int32_t runs;
    };
    const int64_t most = subject_.page_bytes;
    const Form forms[] = {{most / 4, 2}, {most, 17}, {1, 1}, {most / 2, 1}, {most / 3, 5}, {77, 3}};
    run_unlike(Job::Kind::store, forms, std::min(jobs_at_once, medium_->batch()), LoadOrder::pages);
    run_unlike(Job::Kind::load, forms, jobs_at_once, order);
    for (uint32_t n = 1; n <= std::size(forms); ++n) medium_->drop(name_of(n));
  }
  template <class Form, size_t count>
  void run_unlike(Job::Kind kind, const Form (&forms)[count], uint32_t jobs_at_once,
                  LoadOrder order) {
    std::deque<GuardedPage> pages;
    std::deque<Job> jobs;
    for (uint32_t n = 1; n <= count; ++n) {
      pages.emplace_back(forms[n - 1].bytes, forms[n - 1].runs);
      if (kind == Job::Kind::store) pages.back().fill(n);
      set(jobs.emplace_back(), kind, n, pages.back(), order);
    }
    std::vector<Job*> some;
    for (size_t n = 0; n < count; ++n) {
      some.push_back(&jobs[n]);
      if (some.size() < jobs_at_once && n + 1 < count) continue;
      medium_->run(some);
      some.clear();
    }
    for (uint32_t n = 1; n <= count; ++n) {
      const Job& job = jobs[n - 1];
      expect_end(job, pages[n - 1], n, {TierOutcome::done});
      expect(job.landed <= job.extents.size(), "no more extents landed than the page has",
             std::to_string(job.landed) + " of " + std::to_string(job.extents.size()));
    }
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
    expect_named(1, true);
    medium_->drop(name_of(1));
    medium_->drop(name_of(1));
    expect_named(1, false);
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
      {"pages_of_one_run_may_differ", &MediumCheck::pages_of_one_run_may_differ, nullptr},
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
