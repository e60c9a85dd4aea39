// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_eviction.cpp: each policy as its definition reads.
#include "pool/naive_eviction.h"

#include <algorithm>

namespace folio::test {

void NaiveEviction::created(int content, uint32_t mark) {
  const size_t remembered = std::min<size_t>(ghosts_.size(), num_pages_);
  notes_[content].is_main = std::find(ghosts_.end() - static_cast<std::ptrdiff_t>(remembered),
                                      ghosts_.end(), mark) != ghosts_.end();
}

void NaiveEviction::add(uint32_t page, int content, uint32_t mark) {
  const Note& note = notes_[content];
  std::erase_if(waiting_, [&](const Waiting& w) { return w.page == page; });
  const int worth = policy_ == Eviction::cost ? std::min(note.found, 31) + 2 * note.eighths
                                              : std::min(note.found, 62);
  waiting_.push_back({page, content, mark, age_ + 1 + worth});
}

uint32_t NaiveEviction::take(const std::function<bool(uint32_t)>& is_cached) {
  std::erase_if(waiting_, [&](const Waiting& w) { return !is_cached(w.page); });
  switch (policy_) {
    case Eviction::lru: break;
    case Eviction::s3_fifo: return take_s3_fifo();
    case Eviction::lfu:
    case Eviction::cost: return take_lfu();
  }
  return waiting_.front().page;
}

uint32_t NaiveEviction::take_s3_fifo() {
  for (;;) {
    const auto of_main = [&](const Waiting& w) { return is_main(w); };
    const auto in_main = std::count_if(waiting_.begin(), waiting_.end(), of_main);
    const bool from_main = std::ssize(waiting_) - in_main <= in_main;
    const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& w) { return is_main(w) == from_main; });
    const Waiting first = *at;
    Note& note = notes_[first.content];
    if (note.found == 0) {
      if (!from_main) ghosts_.push_back(first.mark);
      return first.page;
    }
    note.found = from_main ? std::min(note.found, 3) - 1 : 0;
    note.is_main = true;
    waiting_.erase(at);
    waiting_.push_back(first);
  }
}

uint32_t NaiveEviction::take_lfu() {
  const auto lowest =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [](const Waiting& a, const Waiting& b) { return a.key < b.key; });
  age_ = lowest->key;
  return lowest->page;
}

}  // namespace folio::test
