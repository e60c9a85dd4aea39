// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_tier.cpp: a map of pages by name, those used longest ago in front of a list.
#include "folio/tier/host_tier.h"

#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "folio/core/buffer.h"
#include "tier/medium.h"
#include "tier/payload.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

struct Stored {
  PageName name;
  PayloadHeader header;
  Buffer bytes;
};

void gather(std::span<const Extent> from, std::byte* to) {
  for (const Extent& e : from) {
    std::memcpy(to, e.data, static_cast<size_t>(e.bytes));
    to += e.bytes;
  }
}

void scatter(const std::byte* from, std::span<const Extent> to) {
  for (const Extent& e : to) {
    std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
    from += e.bytes;
  }
}

class HostMedium final : public Medium {
 public:
  explicit HostMedium(const TierOptions& options) : options_(options) {}

  bool has(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    return places_.contains(name);
  }

  void run(std::span<Job* const> jobs) noexcept override {
    for (Job* const job : jobs)
      job->outcome = job->kind == Job::Kind::load ? load(*job) : store(*job);
  }

  void drop(const PageName& name) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto at = places_.find(name); at != places_.end()) remove(at->second);
  }

  void count(TierFigures& figures) const noexcept override {
    const std::lock_guard lock(mutex_);
    figures.pages = static_cast<int64_t>(places_.size());
    figures.bytes = bytes_;
    figures.dropped_pages = dropped_;
  }

  Status last_fault() const noexcept override { return {}; }

 private:
  using Page = std::shared_ptr<const Stored>;  ///< stays while it is read
  using Order = std::list<Page>;

  static int64_t room_of(const Stored& page) {
    return page.header.bytes + static_cast<int64_t>(sizeof(PayloadHeader));
  }

  Page found(const PageName& name) {
    const std::lock_guard lock(mutex_);
    const auto at = places_.find(name);
    if (at == places_.end()) return nullptr;
    order_.splice(order_.end(), order_, at->second);
    return *at->second;
  }

  TierOutcome load(const Job& job) noexcept {
    const Page page = found(job.name);
    if (page == nullptr) return TierOutcome::missing;
    if (fault_of(page->header, job.name, options_.fingerprint, bytes_of(job.extents)) != nullptr)
      return TierOutcome::corrupt;
    scatter(page->bytes.data(), job.extents);
    return crc_of(job.extents) == page->header.crc ? TierOutcome::done : TierOutcome::corrupt;
  }

  TierOutcome store(const Job& job) noexcept {
    if (has(job.name)) return TierOutcome::done;
    const int64_t bytes = bytes_of(job.extents);
    if (bytes > options_.max_bytes - static_cast<int64_t>(sizeof(PayloadHeader)))
      return TierOutcome::full;
    try {
      auto page = std::make_shared<Stored>();
      page->name = job.name;
      Result<Buffer> memory = Buffer::allocate(bytes);
      if (!memory) return TierOutcome::full;
      page->bytes = std::move(*memory);
      std::byte* const data = page->bytes.data();
      gather(job.extents, data);
      const Extent whole{data, bytes};
      page->header = header_of(job.name, options_.fingerprint, {&whole, 1});
      return put(std::move(page));
    } catch (const std::bad_alloc&) {
      return TierOutcome::full;
    }
  }

  TierOutcome put(Page page) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(page->name)) return TierOutcome::done;
    while (bytes_ > options_.max_bytes - room_of(*page)) remove(order_.begin());
    bytes_ += room_of(*page);
    const PageName& name = page->name;
    const auto at = order_.insert(order_.end(), page);
    places_.emplace(name, at);
    return TierOutcome::done;
  }

  void remove(Order::iterator at) noexcept {
    bytes_ -= room_of(**at);
    ++dropped_;
    places_.erase((*at)->name);
    order_.erase(at);
  }

  const TierOptions options_;
  mutable std::mutex mutex_;
  Order order_;
  std::map<PageName, Order::iterator> places_;
  int64_t bytes_ = 0, dropped_ = 0;
};

}  // namespace
}  // namespace folio::inline v1::tier

namespace folio::inline v1 {

Result<std::unique_ptr<Tier>> make_host_tier(const TierOptions& options) noexcept {
  std::unique_ptr<tier::Medium> medium(new (std::nothrow) tier::HostMedium(options));
  if (medium == nullptr) return fail(Errc::out_of_memory, "make_host_tier: no memory");
  return tier::QueuedTier::create(std::move(medium), options);
}

}  // namespace folio::inline v1
