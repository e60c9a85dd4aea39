// SPDX-License-Identifier: Apache-2.0
/// tests/tier/medium/faulty_medium.h: a medium in a map that breaks one rule, or none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"

namespace folio::test {

/// What it does wrong: each breaks the rule of the same place in `broken_by`.
enum class MediumFault : uint8_t {
  none,
  hopes,            ///< has what was never stored
  swaps_bytes,      ///< the last byte of a page is another one
  writes_beyond,    ///< a byte behind the last extent
  throws,           ///< a load of a page of many runs
  counts_all,       ///< find() says how many of them it has, in whatever order
  first_job_alone,  ///< runs the first job, and says of the others what it says of that
  expects_alike,    ///< runs no job that has more extents than the first
  overwrites,       ///< a name that is there
  keeps_dropped,    ///< drop() does nothing
  loads_any_size,   ///< as many bytes as there is room for
  lands_early,      ///< says so before the bytes are there
  mixes_threads,    ///< two loads at once use one buffer
  counts_stores,    ///< and not what is there
  tells_again,      ///< a store of what is there is told
  forgets,          ///< what the one before had stored
  ignores_model,    ///< gives pages of every fingerprint
  ignores_damage,   ///< gives whatever bytes there are
  grows,            ///< beyond max_bytes
  counts_negative,  ///< bytes that are there
};

/// Where pages are, whoever has stored them.
struct MediumPlace {
  struct Page {
    PageName name;
    std::vector<std::byte> bytes;
    std::array<std::byte, tier::page_header_bytes> header;
  };
  std::mutex mutex;
  std::list<Page> pages;  ///< the oldest first
  int64_t bytes = 0;

  std::list<Page>::iterator find(const PageName& name) {
    return std::ranges::find(pages, name, &Page::name);
  }
};

class FaultyMedium final : public tier::Medium {
 public:
  FaultyMedium(MediumPlace& place, const TierOptions& options, MediumFault fault)
      : place_(place), options_(options), fault_(fault) {
    if (fault_ == MediumFault::forgets) {
      place_.pages.clear();
      place_.bytes = 0;
    }
  }

  bool has(const PageName& name) override {
    const std::lock_guard lock(place_.mutex);
    return fault_ == MediumFault::hopes || place_.find(name) != place_.pages.end();
  }
  int32_t find(std::span<const PageName> names) override {
    if (fault_ != MediumFault::counts_all) return Medium::find(names);
    return static_cast<int32_t>(std::ranges::count_if(names, [&](auto& n) { return has(n); }));
  }
  void run(std::span<tier::Job* const> jobs) override {
    for (tier::Job* const job : jobs) {
      if (fault_ == MediumFault::first_job_alone && job != jobs.front())
        job->outcome = jobs.front()->outcome;
      else if (fault_ == MediumFault::expects_alike &&
               job->extents.size() > jobs.front()->extents.size())
        job->outcome = TierOutcome::failed;
      else
        job->outcome = job->kind == tier::Job::Kind::load ? load(*job) : store(*job);
    }
  }
  void drop(const PageName& name) override {
    if (fault_ == MediumFault::keeps_dropped) return;
    const std::lock_guard lock(place_.mutex);
    erase(place_.find(name));
  }
  uint32_t batch() const override { return 4; }
  void count(TierFigures& figures) const override {
    const std::lock_guard lock(place_.mutex);
    figures.pages =
        fault_ == MediumFault::counts_stores ? stores_ : static_cast<int64_t>(place_.pages.size());
    figures.bytes = fault_ == MediumFault::counts_negative ? -1 : place_.bytes;
    figures.dropped_pages = dropped_;
  }
  Status last_fault() const override { return {}; }

 private:
  using Pages = std::list<MediumPlace::Page>;

  // The place is locked.
  void erase(Pages::iterator at) {
    if (at == place_.pages.end()) return;
    tier::tell(options_.on_change, TierChange::removed, at->name);
    place_.bytes -= bytes_of(*at);
    place_.pages.erase(at);
    ++dropped_;
  }
  static int64_t bytes_of(const MediumPlace::Page& page) {
    return static_cast<int64_t>(page.bytes.size()) + tier::page_header_bytes;
  }

  TierOutcome store(const tier::Job& job) {
    MediumPlace::Page page{.name = job.name, .bytes = {}, .header = {}};
    for (const Extent& e : job.extents)
      page.bytes.insert(page.bytes.end(), e.data, e.data + e.bytes);
    page.header = tier::make_page_header(job.name, options_.fingerprint, job.extents);
    if (bytes_of(page) > options_.max_bytes) return TierOutcome::full;
    const std::lock_guard lock(place_.mutex);
    ++stores_;
    const auto at = place_.find(job.name);
    if (at != place_.pages.end()) {
      if (fault_ == MediumFault::overwrites) *at = page;
      if (fault_ == MediumFault::tells_again)
        tier::tell(options_.on_change, TierChange::stored, job.name);
      return TierOutcome::done;
    }
    while (fault_ != MediumFault::grows && place_.bytes + bytes_of(page) > options_.max_bytes)
      erase(place_.pages.begin());
    place_.bytes += bytes_of(page);
    place_.pages.push_back(std::move(page));
    tier::tell(options_.on_change, TierChange::stored, job.name);
    return TierOutcome::done;
  }

  TierOutcome load(tier::Job& job) {
    MediumPlace::Page page;
    {
      const std::lock_guard lock(place_.mutex);
      const auto at = place_.find(job.name);
      if (at == place_.pages.end()) return TierOutcome::missing;
      page = *at;
    }
    if (fault_ == MediumFault::throws && job.extents.size() > 10)
      throw std::runtime_error("too many");
    if (fault_ == MediumFault::mixes_threads) {
      shared_ = page.bytes.front();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      page.bytes.front() = shared_;
    }
    if (fault_ == MediumFault::swaps_bytes) page.bytes.back() ^= std::byte{1};
    const char* const wrong = fill(job, page);
    return wrong == nullptr || is_let_through(wrong) ? TierOutcome::done : TierOutcome::corrupt;
  }
  /// What is wrong with the page, once its bytes are in the job's extents.
  const char* fill(tier::Job& job, const MediumPlace::Page& page) {
    size_t from = 0;
    for (uint32_t e = 0; e < job.extents.size(); ++e) {
      const Extent& extent = job.extents[e];
      const size_t bytes = std::min(static_cast<size_t>(extent.bytes), page.bytes.size() - from);
      if (fault_ == MediumFault::lands_early) {
        job.landed.store(e + 1, std::memory_order_release);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      std::memcpy(extent.data, page.bytes.data() + from, bytes);
      job.landed.store(e + 1, std::memory_order_release);
      from += bytes;
    }
    const Extent& last = job.extents.back();
    if (fault_ == MediumFault::writes_beyond) last.data[last.bytes] = std::byte{0};
    return tier::fault_of_page(page.header, job.name, options_.fingerprint, job.extents);
  }
  [[nodiscard]] bool is_let_through(std::string_view wrong) const {
    switch (fault_) {
      case MediumFault::ignores_model: return wrong == "another model or geometry";
      case MediumFault::loads_any_size: return wrong == "another size";
      case MediumFault::ignores_damage:
      case MediumFault::swaps_bytes:
      case MediumFault::mixes_threads: return wrong == "damaged bytes";
      default: return false;
    }
  }

  MediumPlace& place_;
  const TierOptions options_;
  const MediumFault fault_;
  int64_t stores_ = 0, dropped_ = 0;
  std::atomic<std::byte> shared_;
};

}  // namespace folio::test
