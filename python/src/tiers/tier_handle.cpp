// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier_handle.cpp: transfers, from their call to their end.
#include "tier_handle.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <utility>

namespace folio::python {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Completions::Signal {
  std::mutex mutex;
  std::condition_variable more;
  uint64_t count = 0;
};

Completions::Completions() : signal_(std::make_unique<Signal>()) {}

Completions& Completions::of_process() {
  static std::atomic<Completions*> completions;
  const auto begin = [] { completions = new Completions; };  // tiers may outlive the module
  static const bool is_made = [&] {
    begin();
    return ::pthread_atfork(nullptr, nullptr, begin) == 0;
  }();
  static_cast<void>(is_made);
  return *completions.load();
}

void Completions::note() noexcept {
  {
    const std::lock_guard lock(signal_->mutex);
    ++signal_->count;
  }
  signal_->more.notify_all();
}

uint64_t Completions::count() {
  const std::lock_guard lock(signal_->mutex);
  return signal_->count;
}

void Completions::wait(uint64_t seen, milliseconds most) {
  std::unique_lock lock(signal_->mutex);
  signal_->more.wait_for(lock, most, [&] { return signal_->count != seen; });
}

Patience::Patience(int64_t timeout_ms)
    : is_endless_(timeout_ms < 0),
      end_(steady_clock::now() +
           milliseconds(std::clamp<int64_t>(timeout_ms, 0, int64_t{1} << 40))) {}

int64_t Patience::slice_ms() const {
  constexpr int64_t between_signals = 100;
  if (is_endless_) return between_signals;
  const auto left = std::chrono::ceil<milliseconds>(end_ - steady_clock::now()).count();
  return std::clamp<int64_t>(left, 0, between_signals);
}

bool Patience::wait(uint64_t seen) const {
  const int64_t slice = slice_ms();
  if (slice == 0) return false;
  {
    const WithoutGil free;
    Completions::of_process().wait(seen, milliseconds(slice));
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return true;
}

bool wait_for_completion(uint64_t seen, int64_t timeout_ms) {
  const Patience patience(timeout_ms);
  for (;;) {
    if (Completions::of_process().count() != seen) return true;
    if (!patience.wait(seen)) return false;
  }
}

TierHandle::Signals::~Signals() {
  if (fd >= 0) ::close(fd);
}

std::unique_ptr<TierHandle::Signals> TierHandle::make_signals() {
  auto signals = std::make_unique<Signals>();
  signals->fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (signals->fd < 0)
    throw Error(fail(Errc::io, "tier: the system gives no eventfd: {}", std::strerror(errno)));
  return signals;
}

void TierHandle::note_completion(void* signals) noexcept {
  const uint64_t one = 1;
  // full: it is readable, which is all that it says
  [[maybe_unused]] const ssize_t written =
      ::write(static_cast<const Signals*>(signals)->fd, &one, sizeof one);
  Completions::of_process().note();
}

TierHandle::TierHandle(std::unique_ptr<Signals> signals, std::unique_ptr<tier::Tier> made,
                       nb::object keep, std::shared_ptr<const void> observer_use)
    : keep_(std::move(keep)),
      observer_use_(std::move(observer_use)),
      signals_(std::move(signals)),
      tier_(std::move(made)) {}

TierHandle::~TierHandle() {
  // Its threads end here; none of them asks for the GIL.
  const WithoutGil free;
  process_.end(tier_);
}

std::unique_lock<std::mutex> TierHandle::lock() {
  process_.expect_here("tier");
  return std::unique_lock(mutex_);
}

std::unique_lock<std::mutex> TierHandle::lock_with_gil() {
  process_.expect_here("tier");
  return python::lock_with_gil(mutex_);
}

tier::Tier& TierHandle::open_tier() const {
  if (tier_ == nullptr) throw Error(fail(Errc::io, "tier: it is closed"));
  return *tier_;
}

void TierHandle::expect_not_lent() const {
  if (is_lent_) throw Error(fail(Errc::busy, "tier: it is a CacheManager's"));
}

TransferPtr TierHandle::start(std::vector<PageName> names, PagesOfCall pages,
                              const std::vector<const PageName*>& parents, const Load* load) {
  std::vector<tier::TierPage> asked(names.size());
  size_t begin = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const size_t end = pages.page_ends[i];
    asked[i] = {names[i], std::span(pages.extents).subspan(begin, end - begin),
                parents.empty() ? nullptr : parents[i]};
    begin = end;
  }
  auto state = std::make_shared<TransferState>();
  state->outcomes.assign(names.size(), -1);
  state->left = names.size();
  state->names = std::move(names);
  state->is_load = load != nullptr;
  state->array_ends = std::move(pages.array_ends);
  state->keep = std::move(pages.keep);
  std::unordered_map<uint64_t, TransferPtr>
      one;  // its place, before the call that cannot be undone
  one.emplace(0, state);
  const WithoutGil free;
  const auto locked = lock();
  expect_not_lent();
  under_way_.reserve(under_way_.size() + 1);
  tier::Tier& below = open_tier();
  state->ticket = take(load != nullptr ? below.load(asked, load->deadline_ms, load->order)
                                       : below.store(asked));
  auto place = one.extract(0);
  place.key() = state->ticket.value;
  under_way_.insert(std::move(place));
  return state;
}

void TierHandle::collect() {
  std::vector<nb::object> kept;  // given back when the mutex is
  const auto locked = lock_with_gil();
  if (tier_ == nullptr || is_lent_) return;
  tier::TierCompletion completions[256];
  for (;;) {
    const size_t count = tier_->poll(completions);
    for (size_t i = 0; i < count; ++i) {
      const auto found = under_way_.find(completions[i].ticket.value);
      if (found == under_way_.end()) continue;
      const TransferPtr& transfer = found->second;
      transfer->outcomes[completions[i].page] = static_cast<int8_t>(completions[i].outcome);
      if (--transfer->left != 0) continue;
      kept.push_back(std::move(transfer->keep));
      if (notes_ended_) ended_.push_back(transfer);
      under_way_.erase(found);
    }
    if (count < std::size(completions)) return;
  }
}

std::vector<TransferPtr> TierHandle::take_ended() {
  fileno();
  clear_signal();
  collect();
  const auto locked = lock_with_gil();
  return std::exchange(ended_, {});
}

void TierHandle::clear_signal() const noexcept {
  uint64_t noted = 0;
  [[maybe_unused]] const ssize_t read = ::read(signals_->fd, &noted, sizeof noted);
}

int TierHandle::fileno() {
  const auto locked = lock_with_gil();
  expect_not_lent();
  open_tier();
  notes_ended_ = true;
  return signals_->fd;
}

bool TierHandle::wait_for_any(int64_t timeout_ms) {
  fileno();
  const Patience patience(timeout_ms);
  for (;;) {
    const uint64_t seen = Completions::of_process().count();
    collect();
    {
      const auto locked = lock_with_gil();
      if (!ended_.empty()) return true;
      open_tier();
    }
    if (!patience.wait(seen)) return false;
  }
}

bool TierHandle::wait_for(const TransferPtr& transfer, int64_t timeout_ms) {
  const Patience patience(timeout_ms);
  for (;;) {
    const uint64_t seen = Completions::of_process().count();
    if (has_ended(transfer)) return true;
    if (!patience.wait(seen)) return false;
  }
}

bool TierHandle::has_ended(const TransferPtr& transfer) {
  collect();
  const auto locked = lock_with_gil();
  return transfer->left == 0;
}

std::vector<int8_t> TierHandle::outcomes(const TransferPtr& transfer) {
  collect();
  const auto locked = lock_with_gil();
  return transfer->outcomes;
}

int64_t TierHandle::landed(const TransferPtr& transfer) {
  collect();
  const auto locked = lock_with_gil();
  const std::vector<uint32_t>& ends = transfer->array_ends;
  if (!transfer->is_load) return 0;
  if (transfer->left == 0) {
    const auto& outcomes = transfer->outcomes;
    const bool is_done = std::all_of(outcomes.begin(), outcomes.end(), [](int8_t o) {
      return o == static_cast<int8_t>(tier::TierOutcome::done);
    });
    return is_done ? std::ssize(ends) : 0;
  }
  const uint32_t runs = tier_ == nullptr ? 0 : tier_->landed(transfer->ticket);
  return std::upper_bound(ends.begin(), ends.end(), runs) - ends.begin();
}

void TierHandle::cancel(const TransferPtr& transfer) {
  const WithoutGil free;
  const auto locked = lock();
  if (tier_ != nullptr) tier_->cancel(transfer->ticket);
}

void TierHandle::close(int64_t timeout_ms) {
  const Patience patience(timeout_ms);
  for (;;) {
    const uint64_t seen = Completions::of_process().count();
    collect();
    {
      const auto locked = lock_with_gil();
      if (tier_ == nullptr) return;
      expect_not_lent();
      if (under_way_.empty()) break;
    }
    if (!patience.wait(seen)) break;
  }
  std::unique_ptr<tier::Tier> closing;
  std::unordered_map<uint64_t, TransferPtr> given_up;
  std::vector<nb::object> memory;
  {
    const WithoutGil free;
    {
      const auto locked = lock();
      expect_not_lent();
      closing = std::move(tier_);
      given_up = std::exchange(under_way_, {});
      memory = std::exchange(lent_memory_, {});
    }
    closing.reset();  // nothing touches their bytes from here on
    const auto locked = lock();
    observer_use_.reset();
    for (const auto& [ticket, transfer] : given_up) {
      for (int8_t& outcome : transfer->outcomes)
        if (outcome < 0) outcome = static_cast<int8_t>(tier::TierOutcome::cancelled);
      transfer->left = 0;
    }
  }
  for (const auto& [ticket, transfer] : given_up) transfer->keep.reset();
  Completions::of_process().note();
}

tier::Tier* TierHandle::lend_to_manager(nb::object memory) {
  const auto locked = lock_with_gil();
  expect_not_lent();
  tier::Tier& tier = open_tier();
  if (!under_way_.empty())
    throw Error(fail(Errc::busy, "tier: transfers of its own are under way, expected none"));
  lent_memory_.push_back(std::move(memory));
  is_lent_ = true;
  return &tier;
}

void TierHandle::take_back() noexcept {
  if (!process_.is_here()) return;
  std::vector<nb::object> memory;
  const auto locked = python::lock_with_gil(mutex_);
  is_lent_ = false;
  if (tier_->figures().queued_pages == 0) memory = std::exchange(lent_memory_, {});
}

const char* outcome_name(int8_t outcome) {
  return outcome < 0 ? "" : tier::name(static_cast<tier::TierOutcome>(outcome));
}

}  // namespace folio::python
