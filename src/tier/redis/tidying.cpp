// SPDX-License-Identifier: Apache-2.0
/// tier/redis/tidying.cpp: the thread that unlinks pages, and asks for those that nothing is known
/// of.
#include <algorithm>
#include <new>

#include "tier/redis/redis_medium.h"

namespace folio::inline v1::tier::redis {

/// Meanwhile it tells of pages whose time has ended.
void RedisMedium::wait_for_work(std::unique_lock<std::mutex>& lock) noexcept {
  const auto has_work = [&] { return closing_ || !leaving_.empty() || !asked_.empty(); };
  while (!has_work()) {
    const Clock::time_point next = known_.expire(Clock::now());
    if (next == Clock::time_point::max())
      wake_.wait(lock);
    else
      wake_.wait_until(lock, next);
  }
}

void RedisMedium::tidy() noexcept {
  constexpr std::chrono::milliseconds rest{100};  // when the server is away
  std::unique_lock lock(mutex_);
  for (;;) {
    wait_for_work(lock);
    if (closing_ && leaving_.empty()) return;
    bool went = false;
    try {
      went = tidy_some(lock);
    } catch (const std::bad_alloc&) {
      if (!lock.owns_lock()) lock.lock();
    }
    unlinking_.clear();
    tidied_.notify_all();
    if (went) continue;
    if (closing_) return;
    wake_.wait_for(lock, rest, [&] { return closing_; });
  }
}

bool RedisMedium::tidy_some(std::unique_lock<std::mutex>& lock) {
  const bool unlinks = !leaving_.empty();
  std::deque<PageName>& queue = unlinks ? leaving_ : asked_;
  std::vector<PageName> names;
  const size_t some = std::min(queue.size(), size_t{settings_.depth});
  for (const PageName& name : std::vector(queue.begin(), queue.begin() + std::ptrdiff_t(some)))
    if (!unlinks || known_.of(name, Clock::now()) != Known::present)  // it was stored anew
      names.push_back(name);
  queue.erase(queue.begin(), queue.begin() + std::ptrdiff_t(some));
  if (unlinks) unlinking_ = names;
  lock.unlock();
  std::vector<Command> commands;
  for (const PageName& name : names) {
    const std::string key = key_of(name);
    commands.push_back(command_of({unlinks ? "UNLINK" : "EXISTS", key}, key));
  }
  router_.run(commands);
  lock.lock();
  bool went = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const Clock::time_point now = Clock::now();
    const Known known = known_.of(names[i], now);
    if (commands[i].answer != Answer::integer) {
      note(commands[i], "");
      went = false;
      if (unlinks) {
        leaving_.push_front(names[i]);
      } else if (known == Known::asked) {
        known_.note(names[i], Known::nothing);
      }
    } else if (unlinks) {
      dropped_ += commands[i].integer;
      if (known == Known::leaving) known_.note_absent(names[i], now + settings_.absent);
    } else if (known == Known::asked) {
      if (commands[i].integer != 0) known_.note_seen(names[i], end_of_ttl());
      if (commands[i].integer == 0) known_.note_absent(names[i], now + settings_.absent);
    }
  }
  return went;
}

}  // namespace folio::inline v1::tier::redis
