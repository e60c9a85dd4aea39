// SPDX-License-Identifier: Apache-2.0
/// folio/testing/medium_steps.h: the medium that folio/testing/medium_conformance.h checks, what is
/// reported of it, and the steps that its rules consist of.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
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

/// What is expected and done is a breach of the rule at hand where it is otherwise.
class MediumSteps {
 protected:
  using Change = std::pair<TierChange, PageName>;

  explicit MediumSteps(const MediumSubject& subject) : subject_(subject) {}

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
  /// By `visit_names`, of a medium that has it.
  void expect_named(uint32_t n, bool is_there) {
    struct Sought {
      PageName name;
      bool is_there = false;
    } sought{name_of(n)};
    const NameVisitor visitor{.function =
                                  [](void* self, std::span<const PageName> names) noexcept {
                                    auto& to = *static_cast<Sought*>(self);
                                    to.is_there = std::find(names.begin(), names.end(), to.name) !=
                                                  names.end();
                                  },
                              .context = &sought};
    if (!medium_->visit_names(visitor)) return;
    expect(sought.is_there == is_there, "visit_names() to have what was told to be there, alone",
           is_there ? "a name is missing" : "one is there");
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
    auto& steps = *static_cast<MediumSteps*>(self);
    const std::lock_guard lock(steps.mutex_);
    for (const PageName& name : names) steps.changes_.emplace_back(change, name);
  }

  const MediumSubject& subject_;
  MediumReport report_;
  const char* rule_ = "";
  uint32_t number_ = 0;  ///< of the rule
  std::mutex mutex_;
  std::vector<Change> changes_;
  std::unique_ptr<Medium> medium_;  ///< goes before what it tells
};

}  // namespace detail

}  // namespace folio::inline v1::tier
