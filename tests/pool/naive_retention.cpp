// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_retention.cpp: every page asks every range, every deadline is looked at.
#include "pool/naive_retention.h"

#include <algorithm>

namespace folio::test {

int NaiveRetention::level(int content) const {
  const auto at = kept_.find(content);
  return at == kept_.end() ? retention_level::normal : at->second.level;
}

NaiveRetention::Wanted NaiveRetention::wanted(int level, int64_t ms) const {
  return {level, level == retention_level::normal ? 0 : now_ + (ms == 0 ? max_ms_ : ms)};
}

void NaiveRetention::put(Kept& kept, Wanted wanted) {
  kept = {wanted.first, wanted.second, ++clock_, true};
}

void NaiveRetention::give_up(const std::vector<int>& contents, int64_t page_size,
                             const NaiveWish& wish) {
  std::vector<RetentionRange> ranges = wish.ranges;
  if (wish.decode.level != DecodeRetention::not_given)
    ranges.push_back({.begin = wish.prompt,
                      .level = wish.decode.level,
                      .milliseconds = wish.decode.milliseconds});
  for (auto p = std::ssize(contents); p-- > 0;) {
    Wanted most{-1, 0};
    for (auto q = p; q < std::ssize(contents); ++q) {  // the page, and what continues it
      bool said = false;
      for (const RetentionRange& r : ranges) {
        if (r.begin >= (q + 1) * page_size || r.end <= q * page_size) continue;
        said = true;
        most = std::max(most, wanted(r.level, r.milliseconds));
      }
      if (!said) most = std::max(most, wanted(retention_level::normal, 0));
    }
    Kept& kept = kept_[contents[static_cast<size_t>(p)]];
    if (!kept.spoken_for || most > Wanted{kept.level, kept.deadline}) put(kept, most);
  }
}

std::vector<int> NaiveRetention::retain(const std::vector<int>& contents, int64_t page_size,
                                        const std::vector<RetentionRange>& ranges) {
  std::vector<int> changed;
  for (auto p = std::ssize(contents); p-- > 0;) {
    Wanted most{-1, 0};
    for (const RetentionRange& r : ranges) {
      if (r.begin < std::ssize(contents) * page_size && r.end > p * page_size)
        most = std::max(most, wanted(r.level, r.milliseconds));
    }
    if (most.first < 0) continue;
    const int content = contents[static_cast<size_t>(p)];
    if (level(content) != most.first) changed.push_back(content);
    put(kept_[content], most);
  }
  return changed;
}

std::vector<int> NaiveRetention::advance(int64_t now) {
  for (auto& [content, kept] : kept_) kept.deadline += has_started_ ? 0 : now;
  has_started_ = true;
  now_ = now;
  std::vector<std::pair<std::pair<int64_t, int64_t>, int>> due;
  for (auto& [content, kept] : kept_) {
    if (kept.level == retention_level::normal || kept.deadline > now) continue;
    due.push_back({{kept.deadline, kept.order}, content});
    kept.level = retention_level::normal;
  }
  std::sort(due.begin(), due.end());
  std::vector<int> contents;
  for (auto& [content, kept] : kept_) {
    if (kept.level == retention_level::normal) kept.deadline = 0;
  }
  for (const auto& [when, content] : due) contents.push_back(content);
  return contents;
}

void NaiveRetention::add(uint32_t page) {
  std::erase(waiting_, page);
  waiting_.push_back(page);
}

uint32_t NaiveRetention::first(const std::function<bool(uint32_t)>& of_these) const {
  return *std::find_if(waiting_.begin(), waiting_.end(), of_these);
}

}  // namespace folio::test
