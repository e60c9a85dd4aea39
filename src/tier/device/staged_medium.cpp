// SPDX-License-Identifier: Apache-2.0
/// tier/device/staged_medium.cpp: pages between a device and a medium.
#include "tier/device/staged_medium.h"

#include <deque>
#include <new>
#include <vector>

#include "tier/payload.h"

namespace folio::inline v1::tier {

/// A page on its way: what the medium is given instead of it.
struct StagedMedium::Staged {
  Job* page = nullptr;
  HostBlock block;
  Job job;
};

void StagedMedium::run(std::span<Job* const> jobs) noexcept {
  try {
    std::deque<Staged> pages;
    std::vector<Job*> staged;
    for (Job* const job : jobs) {
      Staged& page = pages.emplace_back();
      page.page = job;
      if (stage(page)) staged.push_back(&page.job);
    }
    if (!staged.empty()) medium_->run(staged);
    for (Staged& page : pages)
      if (page.block.data() != nullptr) end(page);
  } catch (const std::bad_alloc&) {
    for (Job* const job : jobs) job->outcome = TierOutcome::failed;
  }
}

bool StagedMedium::stage(Staged& page) noexcept {
  const Job& job = *page.page;
  const int64_t bytes = bytes_of(job.extents);
  Result<HostBlock> block = blocks_.take(bytes);
  if (!block) return fail_page(*page.page, block.error()), false;
  if (job.kind == Job::Kind::store)
    if (Status s = blocks_.gather(job.extents, block->data()); !s.is_ok())
      return fail_page(*page.page, s), false;
  page.block = std::move(*block);
  page.job.kind = job.kind;
  page.job.name = job.name;
  page.job.parent = job.parent;
  page.job.extents.push_back({page.block.data(), bytes});
  return true;
}

void StagedMedium::end(Staged& page) noexcept {
  Job& job = *page.page;
  job.outcome = page.job.outcome;
  if (job.kind == Job::Kind::store || job.outcome != TierOutcome::done) return;
  if (Status s = blocks_.scatter(page.block.data(), job.extents); !s.is_ok()) fail_page(job, s);
}

void StagedMedium::fail_page(Job& job, const Status& fault) noexcept {
  job.outcome = TierOutcome::failed;
  const std::lock_guard lock(mutex_);
  fault_ = fault;
}

Status StagedMedium::last_fault() const noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!fault_.is_ok()) return fault_;
  }
  return medium_->last_fault();
}

}  // namespace folio::inline v1::tier
