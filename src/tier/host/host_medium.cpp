// SPDX-License-Identifier: Apache-2.0
/// tier/host/host_medium.cpp: copies to and from pages in the host's memory.
#include "tier/host/host_medium.h"

#include <algorithm>
#include <new>

#include "tier/payload.h"

namespace folio::inline v1::tier {
namespace {

/// Of the bytes here: what a device got cannot be read.
TierOutcome end_load(const Stored& page) {
  const Extent whole{page.bytes.data(), page.header.bytes};
  return crc_of({&whole, 1}) == page.header.crc ? TierOutcome::done : TierOutcome::corrupt;
}

}  // namespace

HostMedium::HostMedium(const TierOptions& options, std::unique_ptr<PageArena> arena)
    : options_(options),
      most_page_bytes_(arena != nullptr
                           ? arena->page_bytes()
                           : options.max_bytes - static_cast<int64_t>(sizeof(PayloadHeader))),
      blocks_(options.device),
      arena_(std::move(arena)),
      pages_(options.max_bytes, options.on_change) {}

HostMedium::~HostMedium() = default;

bool HostMedium::has(const PageName& name) noexcept {
  const std::lock_guard lock(mutex_);
  return pages_.has(name);
}

void HostMedium::run(std::span<Job* const> jobs) noexcept {
  if (jobs.front()->order == LoadOrder::extents) return load_in_order(jobs);
  for (Job* const job : jobs)
    job->outcome = job->kind == Job::Kind::load ? load(*job) : store(*job);
}

void HostMedium::drop(const PageName& name) noexcept {
  const std::lock_guard lock(mutex_);
  pages_.drop(name);
}

bool HostMedium::visit_names(const NameVisitor& visitor) {
  const std::lock_guard lock(mutex_);
  const std::vector<PageName> names = pages_.names();
  visitor.function(visitor.context, names);
  return true;
}

void HostMedium::count(TierFigures& figures) const noexcept {
  const std::lock_guard lock(mutex_);
  pages_.count(figures);
}

Status HostMedium::last_fault() const noexcept {
  const std::lock_guard lock(mutex_);
  return fault_;
}

TierOutcome HostMedium::failed(const Status& fault) noexcept {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  return TierOutcome::failed;
}

HostMedium::Page HostMedium::use(const PageName& name) noexcept {
  const std::lock_guard lock(mutex_);
  return pages_.use(name);
}

// ---- Loads

/// `missing` and null, `corrupt`, or `done`: its bytes are still to be copied and checked.
std::pair<TierOutcome, HostMedium::Page> HostMedium::begin_load(const Job& job) {
  Page page = use(job.name);
  if (page == nullptr) return {TierOutcome::missing, nullptr};
  const char* const fault =
      fault_of(page->header, job.name, options_.fingerprint, bytes_of(job.extents));
  return {fault == nullptr ? TierOutcome::done : TierOutcome::corrupt, std::move(page)};
}

TierOutcome HostMedium::load(const Job& job) noexcept {
  const auto [outcome, page] = begin_load(job);
  if (outcome != TierOutcome::done) return outcome;
  if (Status s = blocks_.scatter(page->bytes.data(), job.extents); !s.is_ok()) return failed(s);
  return end_load(*page);
}

/// Fills extent `e` of every page that has one, and has all before.
void HostMedium::fill(std::span<Copying> pages, uint32_t e, std::vector<DeviceCopy>& copies) {
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

void HostMedium::load_in_order(std::span<Job* const> jobs) noexcept {
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
      if (copying.job->outcome == TierOutcome::done) copying.job->outcome = end_load(*copying.page);
  } catch (const std::bad_alloc&) {
    for (Job* const job : jobs) job->outcome = load(*job);
  }
}

// ---- Stores

/// For a page that continues `parent`. In an arena pages go for it now; where each has memory of
/// its own, when it is put among the others. No block where there is no memory, or nothing may go.
HostBlock HostMedium::take(int64_t bytes, const std::optional<PageName>& parent) noexcept {
  if (arena_ == nullptr) {
    Result<HostBlock> block = blocks_.take(bytes);
    return block ? std::move(*block) : HostBlock();
  }
  for (;;) {
    HostBlock block = arena_->take();
    if (block.data() != nullptr) return block;
    const std::lock_guard lock(mutex_);
    if (!pages_.remove_oldest(parent)) return {};
  }
}

TierOutcome HostMedium::store(const Job& job) noexcept {
  if (use(job.name) != nullptr) return TierOutcome::done;
  const int64_t bytes = bytes_of(job.extents);
  if (bytes > most_page_bytes_) return TierOutcome::full;
  try {
    auto page = std::make_shared<Stored>();
    page->name = job.name;
    if (job.parent != job.name) page->parent = job.parent;
    page->bytes = take(bytes, page->parent);
    std::byte* const data = page->bytes.data();
    if (data == nullptr) return TierOutcome::full;
    if (Status s = blocks_.gather(job.extents, data); !s.is_ok()) return failed(s);
    const Extent whole{data, bytes};
    page->header = header_of(job.name, options_.fingerprint, {&whole, 1});
    const std::lock_guard lock(mutex_);
    return pages_.put(std::move(page));
  } catch (const std::bad_alloc&) {
    return TierOutcome::full;
  }
}

std::unique_ptr<Medium> make_host_medium(const TierOptions& options) noexcept {
  return std::unique_ptr<Medium>(new (std::nothrow) HostMedium(options));
}

}  // namespace folio::inline v1::tier
