// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_tier.cpp: pages in memory of their own, and copies to and from there.
#include "folio/tier/host_tier.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/device/host_blocks.h"
#include "tier/host/host_medium.h"
#include "tier/host/stored_pages.h"
#include "tier/payload.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

class HostMedium final : public Medium {
 public:
  explicit HostMedium(const TierOptions& options)
      : options_(options), blocks_(options.device), pages_(options.max_bytes, options.on_change) {}

  bool has(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    return pages_.has(name);
  }

  bool loads_in_order() const noexcept override { return true; }
  bool reaches_device() const noexcept override { return true; }

  void run(std::span<Job* const> jobs) noexcept override {
    if (jobs.front()->order == LoadOrder::extents) return load_in_order(jobs);
    for (Job* const job : jobs)
      job->outcome = job->kind == Job::Kind::load ? load(*job) : store(*job);
  }

  void drop(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    pages_.drop(name);
  }

  bool visit_names(const NameVisitor& visitor) override {
    const std::lock_guard lock(mutex_);
    const std::vector<PageName> names = pages_.names();
    visitor.function(visitor.context, names);
    return true;
  }

  void count(TierFigures& figures) const noexcept override {
    const std::lock_guard lock(mutex_);
    pages_.count(figures);
  }

  Status last_fault() const noexcept override {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  using Page = StoredPages::Page;

  Page use(const PageName& name) noexcept {
    const std::lock_guard lock(mutex_);
    return pages_.use(name);
  }

  /// `missing` and null, `corrupt`, or `done`: its bytes are still to be copied and checked.
  std::pair<TierOutcome, Page> begin_load(const Job& job) {
    Page page = use(job.name);
    if (page == nullptr) return {TierOutcome::missing, nullptr};
    const char* const fault =
        fault_of(page->header, job.name, options_.fingerprint, bytes_of(job.extents));
    return {fault == nullptr ? TierOutcome::done : TierOutcome::corrupt, std::move(page)};
  }

  /// Of the bytes here: what a device got cannot be read.
  static TierOutcome end_load(const Page& page) {
    const Extent whole{page->bytes.data(), page->header.bytes};
    return crc_of({&whole, 1}) == page->header.crc ? TierOutcome::done : TierOutcome::corrupt;
  }

  TierOutcome failed(const Status& fault) noexcept {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    return TierOutcome::failed;
  }

  TierOutcome load(const Job& job) noexcept {
    const auto [outcome, page] = begin_load(job);
    if (outcome != TierOutcome::done) return outcome;
    if (Status s = blocks_.scatter(page->bytes.data(), job.extents); !s.is_ok()) return failed(s);
    return end_load(page);
  }

  struct Copying {
    Job* job;
    Page page;
    std::byte* from;  ///< of the next extent
  };

  /// Fills extent `e` of every page that has one, and has all before.
  void fill(std::span<Copying> pages, uint32_t e, std::vector<DeviceCopy>& copies) {
    const auto is_next = [e](const Copying& copying) {
      return copying.job->outcome == TierOutcome::done && e < copying.job->extents.size();
    };
    copies.clear();
    for (Copying& copying : pages) {
      if (!is_next(copying)) continue;
      const Extent& extent = copying.job->extents[e];
      copies.push_back({extent.data, copying.from, extent.bytes});
      copying.from += extent.bytes;
    }
    if (copies.empty()) return;
    const Status status = blocks_.copy(CopyDirection::to_device, copies);
    for (Copying& copying : pages) {
      if (!is_next(copying)) continue;
      if (status.is_ok())
        copying.job->landed.store(e + 1, std::memory_order_release);
      else
        copying.job->outcome = failed(status);
    }
  }

  void load_in_order(std::span<Job* const> jobs) noexcept {
    try {
      std::vector<Copying> pages;
      std::vector<DeviceCopy> copies;
      pages.reserve(jobs.size());
      copies.reserve(jobs.size());
      size_t extents = 0;
      for (Job* const job : jobs) {
        auto [outcome, page] = begin_load(*job);
        job->outcome = outcome;
        if (outcome != TierOutcome::done) continue;
        extents = std::max(extents, job->extents.size());
        std::byte* const bytes = page->bytes.data();
        pages.push_back({job, std::move(page), bytes});
      }
      for (uint32_t e = 0; e < extents; ++e) fill(pages, e, copies);
      for (const Copying& copying : pages)
        if (copying.job->outcome == TierOutcome::done)
          copying.job->outcome = end_load(copying.page);
    } catch (const std::bad_alloc&) {
      for (Job* const job : jobs) job->outcome = load(*job);
    }
  }

  TierOutcome store(const Job& job) noexcept {
    if (use(job.name) != nullptr) return TierOutcome::done;
    const int64_t bytes = bytes_of(job.extents);
    if (bytes > options_.max_bytes - static_cast<int64_t>(sizeof(PayloadHeader)))
      return TierOutcome::full;
    try {
      auto page = std::make_shared<Stored>();
      page->name = job.name;
      if (job.parent != job.name) page->parent = job.parent;
      Result<HostBlock> memory = blocks_.take(bytes);
      if (!memory) return TierOutcome::full;
      page->bytes = std::move(*memory);
      std::byte* const data = page->bytes.data();
      if (Status s = blocks_.gather(job.extents, data); !s.is_ok()) return failed(s);
      const Extent whole{data, bytes};
      page->header = header_of(job.name, options_.fingerprint, {&whole, 1});
      const std::lock_guard lock(mutex_);
      return pages_.put(std::move(page));
    } catch (const std::bad_alloc&) {
      return TierOutcome::full;
    }
  }

  const TierOptions options_;
  HostBlocks blocks_;
  mutable std::mutex mutex_;
  Status fault_;
  StoredPages pages_;
};

}  // namespace

std::unique_ptr<Medium> make_host_medium(const TierOptions& options) noexcept {
  return std::unique_ptr<Medium>(new (std::nothrow) HostMedium(options));
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::unique_ptr<Tier>> make_host_tier(const TierOptions& options) noexcept {
  std::unique_ptr<tier::Medium> medium = tier::make_host_medium(options);
  if (medium == nullptr) return fail(Errc::out_of_memory, "make_host_tier: no memory");
  return tier::QueuedTier::create(std::move(medium), options);
}

}  // namespace folio::inline v1::tier
