// SPDX-License-Identifier: Apache-2.0
/// tier/queued_tier.cpp: pages that wait, run and end.
#include "tier/queued_tier.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include "tier/checks.h"
#include "tier/device/staged_medium.h"
#include "tier/file_size_signal.h"
#include "tier/guarded_medium.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

// ---- Threads

Result<std::unique_ptr<Tier>> QueuedTier::create(std::unique_ptr<Medium> medium,
                                                 const TierOptions& options) noexcept {
  if (Status s = check_options(options); !s.is_ok()) return s;
  try {
    medium = std::make_unique<GuardedMedium>(std::move(medium));
    if (options.device != nullptr && !medium->reaches_device())
      medium = std::make_unique<StagedMedium>(std::move(medium), options.device);
    std::unique_ptr<QueuedTier> tier(new QueuedTier(std::move(medium), options));
    tier->threads_.reserve(options.threads);
    for (uint32_t i = 0; i < options.threads; ++i)
      tier->threads_.emplace_back([t = tier.get()] { t->work(); });
    return std::unique_ptr<Tier>(std::move(tier));
  } catch (const std::bad_alloc&) {
    return out_of_memory("Tier::create");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "Tier::create: no thread to be had: {}", e.what());
  }
}

QueuedTier::~QueuedTier() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

uint32_t QueuedTier::most_taken() const noexcept {
  return std::max(medium_->batch(), medium_->loads_in_order() ? Medium::most_in_order : 1);
}

void QueuedTier::take(std::vector<Pages::iterator>& taken) noexcept {
  const auto is_in_order = [&](const Page& page) {
    return page.call->order == LoadOrder::extents && medium_->loads_in_order();
  };
  auto at = first_waiting();
  const Page& first = at->second;
  const bool in_order = is_in_order(first);
  const uint32_t most = in_order ? Medium::most_in_order : medium_->batch();
  const auto belongs = [&](const Page& page) {
    return in_order ? page.call == first.call
                    : page.call->kind == first.call->kind && !is_in_order(page);
  };
  for (; taken.size() < most && at != pages_.end() && belongs(at->second); ++at) {
    deadlines_.erase({at->second.deadline, at->first});
    begun_ = at->first + 1;
    taken.push_back(at);
  }
}

void QueuedTier::work() noexcept {
  hold_back_file_size_signal();
  std::vector<Pages::iterator> taken;
  std::vector<Job*> jobs;
  taken.reserve(most_taken());
  jobs.reserve(most_taken());
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || first_waiting() != pages_.end(); });
    if (closing_) return;
    end_late();
    if (first_waiting() == pages_.end()) continue;
    take(taken);
    for (const Pages::iterator page : taken) jobs.push_back(&page->second.job);
    lock.unlock();
    medium_->run(jobs);
    lock.lock();
    for (const Pages::iterator page : taken)
      end(page, page->second.cancelled ? TierOutcome::cancelled : page->second.job.outcome);
    taken.clear();
    jobs.clear();
    announce();
  }
}

// ---- Ends

QueuedTier::Pages::iterator QueuedTier::end(Pages::iterator page, TierOutcome outcome) noexcept {
  const bool is_load = page->second.call->kind == Job::Kind::load;
  Ended& ended = page->second.end.front();
  ended.completion.outcome = outcome;
  if (outcome != TierOutcome::done) page->second.call->is_void = true;
  ++(is_load ? figures_.load_outcomes : figures_.store_outcomes)[static_cast<size_t>(outcome)];
  if (outcome == TierOutcome::done) {
    ++(is_load ? figures_.loaded_pages : figures_.stored_pages);
    (is_load ? figures_.loaded_bytes : figures_.stored_bytes) += ended.bytes;
  }
  ended_.splice(ended_.end(), page->second.end);
  return pages_.erase(page);
}

void QueuedTier::end_late() noexcept {
  if (deadlines_.empty()) return;  // no look at the clock
  const Clock::time_point now = Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    end(pages_.find(deadlines_.begin()->second), TierOutcome::late);
    deadlines_.erase(deadlines_.begin());
  }
}

void QueuedTier::announce() const noexcept {
  if (options_.on_completion != nullptr) options_.on_completion(options_.context);
}

void QueuedTier::cancel(TierTicket ticket) noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_of_call = [&](Pages::iterator page) {
    return page != pages_.end() && page->second.end.front().completion.ticket == ticket;
  };
  for (auto at = pages_.lower_bound(ticket.value); is_of_call(at);) {
    at->second.cancelled = true;
    at->second.call->is_void = true;
    if (at->first < begun_) {
      ++at;
      continue;
    }
    deadlines_.erase({at->second.deadline, at->first});
    at = end(at, TierOutcome::cancelled);
  }
}

size_t QueuedTier::poll(std::span<TierCompletion> completions) noexcept {
  if (completions.data() == nullptr) return 0;
  const std::lock_guard lock(mutex_);
  end_late();
  const size_t count = std::min(completions.size(), ended_.size());
  for (size_t i = 0; i < count; ++i) {
    completions[i] = ended_.front().completion;
    --figures_.queued_pages;
    figures_.queued_bytes -= ended_.front().bytes;
    ended_.pop_front();
  }
  return count;
}

// ---- Calls

uint32_t QueuedTier::landed(TierTicket ticket) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_of_call = [&](Pages::const_iterator page) {
    return page != pages_.end() && page->second.end.front().completion.ticket == ticket;
  };
  auto at = pages_.lower_bound(ticket.value);
  if (!is_of_call(at)) return 0;
  Call& call = *at->second.call;
  if (call.is_void || call.kind != Job::Kind::load) return 0;
  uint32_t landed = call.extents;
  for (; is_of_call(at); ++at) {
    const uint32_t extents = at->second.job.landed.load(std::memory_order_acquire);
    if (extents < at->second.extents) landed = std::min(landed, extents);
  }
  return call.landed = std::max(call.landed, landed);
}

int32_t QueuedTier::find(std::span<const PageName> names) noexcept {
  return names.data() == nullptr ? 0 : medium_->find(names);
}

void QueuedTier::find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept {
  if (there.size() != names.size() || names.data() == nullptr || there.data() == nullptr) return;
  for (size_t i = 0; i < names.size(); ++i) there[i] = medium_->has(names[i]) ? 1 : 0;
}

Result<TierTicket> QueuedTier::enqueue(const char* call, Job::Kind kind,
                                       std::span<const TierPage> pages, int64_t deadline_ms,
                                       LoadOrder order) noexcept {
  const bool is_load = kind == Job::Kind::load;
  if (Status s = check_pages(call, pages, is_load); !s.is_ok()) return s;
  constexpr int64_t countless = std::numeric_limits<int64_t>::max();  // 2^32 pages of 2^40 bytes
  int64_t bytes = 0;
  for (const TierPage& page : pages) bytes += std::min(bytes_of(page.extents), countless - bytes);
  try {
    Pages coming;
    std::set<std::pair<Clock::time_point, uint64_t>> deadlines;
    const auto deadline = deadline_ms == 0 ? Clock::time_point::max()
                                           : Clock::now() + std::chrono::milliseconds(deadline_ms);
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<int64_t>(pages.size());
    if (count > int64_t{options_.max_queued_pages} - figures_.queued_pages ||
        bytes > options_.max_queued_bytes - figures_.queued_bytes || bytes == countless) {
      ++figures_.refused_calls;
      return fail(Errc::busy,
                  "{}: {} pages of {} bytes, but {} of {} bytes are queued already, expected "
                  "at most {} and {}",
                  call, count, bytes, figures_.queued_pages, figures_.queued_bytes,
                  options_.max_queued_pages, options_.max_queued_bytes);
    }
    const TierTicket ticket{next_};
    const auto shared = std::make_shared<Call>(Call{.kind = kind, .order = order});
    for (size_t i = 0; i < pages.size(); ++i) {
      const auto extents = pages[i].extents;
      Page& page = coming[next_ + i];
      page.job.kind = kind;
      page.job.name = pages[i].name;
      if (pages[i].parent != nullptr) page.job.parent = *pages[i].parent;
      page.job.extents.assign(extents.begin(), extents.end());
      page.extents = static_cast<uint32_t>(extents.size());
      shared->extents = std::max(shared->extents, page.extents);
      page.job.order = order;
      page.call = shared;
      page.end.push_back({{ticket, static_cast<uint32_t>(i)}, bytes_of(extents)});
      page.deadline = deadline;
      if (deadline_ms != 0) deadlines.emplace(deadline, next_ + i);
    }
    pages_.merge(coming);
    deadlines_.merge(deadlines);
    figures_.queued_pages += count;
    figures_.queued_bytes += bytes;
    next_ += pages.size();
    wake_.notify_all();
    return ticket;
  } catch (const std::bad_alloc&) {
    return out_of_memory(call);
  }
}

Result<TierTicket> QueuedTier::load(std::span<const TierPage> pages, int64_t deadline_ms,
                                    LoadOrder order) noexcept {
  constexpr int64_t most = int64_t{1} << 40;
  if (deadline_ms < 0 || deadline_ms > most)
    return fail(Errc::invalid_argument, "Tier::load: deadline_ms is {}, expected 0 .. {}",
                deadline_ms, most);
  if (order > LoadOrder::extents)
    return fail(Errc::invalid_argument, "Tier::load: order is {}, expected pages or extents",
                static_cast<int>(order));
  return enqueue("Tier::load", Job::Kind::load, pages, deadline_ms, order);
}

Result<TierTicket> QueuedTier::store(std::span<const TierPage> pages) noexcept {
  return enqueue("Tier::store", Job::Kind::store, pages, 0, LoadOrder::pages);
}

Status QueuedTier::drop(std::span<const PageName> names) noexcept {
  if (Status s = check_memory("Tier::drop", "names", names.data(), names.size()); !s.is_ok())
    return s;
  for (const PageName& name : names) medium_->drop(name);
  return {};
}

Status QueuedTier::visit_names(NameVisitor visitor) noexcept {
  // A medium that throws is one that does not know them; `last_fault` says what it threw.
  if (visitor.function != nullptr && medium_->visit_names(visitor)) return {};
  return Tier::visit_names(visitor);
}

TierFigures QueuedTier::figures() const noexcept {
  TierFigures figures;
  {
    const std::lock_guard lock(mutex_);
    figures = figures_;
  }
  medium_->count(figures);
  return figures;
}

Status QueuedTier::last_fault() const noexcept { return medium_->last_fault(); }

Result<std::unique_ptr<Tier>> make_queued_tier(std::unique_ptr<Medium> medium,
                                               const TierOptions& options) noexcept {
  if (medium == nullptr)
    return fail(Errc::invalid_argument, "make_queued_tier: medium is null, expected a medium");
  return QueuedTier::create(std::move(medium), options);
}

}  // namespace folio::inline v1::tier
