// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model.cpp: what the naive pool remembers, and the comparison with the real one.
/// Everything is recomputed, nothing is fast.
#include "pool/pool_model.h"

#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/inspection.h"

namespace folio::test {

PoolOptions PoolModel::complete(PoolOptions options) {
  if (options.prefix_reuse) options.name = names_.function();
  if (options.event_capacity == 0) return options;
  options.on_event = {.function =
                          [](void* self, const PoolEvent& event, auto) noexcept {
                            static_cast<std::vector<PoolEvent>*>(self)->push_back(event);
                          },
                      .context = &events_};
  return options;
}

PoolModel::PoolModel(const PoolOptions& options)
    : options_(memory_.hooked(complete(options))),
      page_size_(options.page_size),
      pool_(checked(PagePool::create(options_))),
      items_(options),
      eviction_(options.eviction, options.num_pages),
      retention_(options.max_retention_ms) {
  if (options_.max_pages_per_sequence == 0) options_.max_pages_per_sequence = options_.num_pages;
  pages_.resize(options_.num_pages);
  times_.resize(options_.num_pages);
  for (Page& page : pages_) page.kv.assign(static_cast<size_t>(page_size_), 0);
  table_ = pool_.table();
  check();
}

// ---- The K/V memory

uint64_t PoolModel::history(const Sequence& s, size_t position) const {
  uint64_t h = 0x9e3779b97f4a7c15u ^ s.space.adapter;
  for (const char c : s.space.salt) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return history_of(h, s.tokens, s.items.spans, static_cast<int64_t>(position) + 1);
}

/// The last first: any order will do (folio/pool/page_pool.h).
void PoolModel::run_copies() {
  for (; copies_run_ < taken_.size(); ++copies_run_) {
    const PageCopy& copy = taken_[taken_.size() - 1 - copies_run_];
    std::copy_n(pages_[copy.from].kv.begin(), copy.tokens, pages_[copy.to].kv.begin());
  }
}

bool PoolModel::incomplete(uint32_t page) const {
  const auto into = [&](const PageCopy& copy) { return copy.to == page; };
  return std::any_of(pending_.begin(), pending_.end(), into) ||
         std::any_of(taken_.begin(), taken_.end() - static_cast<std::ptrdiff_t>(copies_run_), into);
}

// ---- Pages

bool PoolModel::held(uint32_t page) const {
  const Page& p = pages_[page];
  return p.references != 0 || p.copies != 0 || p.transfers != 0 || !p.steps.empty();
}

bool PoolModel::has_twin(uint32_t page) const {
  return std::count_if(pages_.begin(), pages_.end(), [&](const Page& other) {
           return other.content == pages_[page].content;
         }) > 1;
}

int64_t PoolModel::held_pages() const {
  int64_t count = 0;
  for (uint32_t page = 0; page < options_.num_pages; ++page) count += held(page) ? 1 : 0;
  return count;
}

int64_t PoolModel::available() const {
  int64_t count = 0;
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    const bool is_pinned = is_cached(page) && level(page) == retention_level::pinned;
    count += held(page) || is_pinned ? 0 : 1;
  }
  return count;
}

/// The cached page that goes next.
uint32_t PoolModel::victim() {
  int lowest = retention_level::pinned;
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    if (is_cached(page)) lowest = std::min(lowest, level(page));
  }
  RC_ASSERT(lowest < retention_level::pinned);
  const auto of_these = [&](uint32_t page) { return is_cached(page) && level(page) == lowest; };
  return lowest == retention_level::normal ? eviction_.take(of_these) : retention_.first(of_these);
}

/// The page has become cached, or waits anew.
void PoolModel::wait(uint32_t page) {
  if (level(page) != retention_level::normal) return retention_.add(page);
  const auto mark = pool::PoolInspection::record(pool_, page).hash;
  eviction_.add(page, pages_[page].content, mark);
}

void PoolModel::wait_again(const std::vector<int>& contents) {
  for (const int content : contents) {
    for (uint32_t page = 0; page < options_.num_pages; ++page) {
      if (pages_[page].content == content && is_cached(page)) wait(page);
    }
  }
}

/// The pool has chosen `page` for new tokens: it must be free, or the one that the policy gives up
/// where none is free.
void PoolModel::take(uint32_t page) {
  RC_ASSERT(page < options_.num_pages);
  RC_ASSERT(!held(page));
  for (const Step& step : steps_)
    RC_ASSERT(std::find(step.pages.begin(), step.pages.end(), page) == step.pages.end());
  if (pages_[page].content != 0) {
    for (uint32_t other = 0; other < options_.num_pages; ++other)
      RC_ASSERT(held(other) || is_cached(other));
    RC_ASSERT(page == victim());
    count(histograms_.lifetime, taken_pages_ - times_[page].stored);
    count(histograms_.idle, taken_pages_ - times_[page].used);
    ++stats_.evicted_pages;
  }
  ++taken_pages_;
  pages_[page].content = 0;
  pages_[page].references = 1;
  std::fill(pages_[page].kv.begin(), pages_[page].kv.end(), 0);
}

void PoolModel::drop(uint32_t page, const std::vector<uint64_t>& steps) {
  for (const uint64_t ticket : steps) hold_for_step(page, ticket);
  if (--pages_[page].references != 0) return;
  const auto into = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const PageCopy& copy) { return copy.to == page; });
  if (into != pending_.end()) {
    const uint32_t from = into->from;
    pending_.erase(into);
    unhold_copy(from);
  }
  settle(page);
}

void PoolModel::hold_for_step(uint32_t page, uint64_t ticket) {
  std::vector<uint64_t>& steps = pages_[page].steps;
  if (std::find(steps.begin(), steps.end(), ticket) == steps.end()) steps.push_back(ticket);
  pages_[page].given_up = ++clock_;
}

void PoolModel::settle(uint32_t page) {
  if (held(page)) return;
  times_[page].used = taken_pages_;
  if (pages_[page].content != 0 && has_twin(page)) pages_[page].content = 0;
  if (pages_[page].content != 0) wait(page);
}

void PoolModel::expect_copy(uint32_t from, uint32_t to, int32_t tokens) {
  for (const PageCopy& copy : pending_) {
    if (copy.to == from) from = copy.from;
  }
  ++pages_[from].copies;
  pending_.push_back({from, to, tokens});
}

void PoolModel::unhold_copy(uint32_t page) {
  --pages_[page].copies;
  settle(page);
}

// ---- Comparing

std::vector<uint32_t> PoolModel::pool_row(const Sequence& s, size_t pages) const {
  const uint32_t* first = table_.entries + s.row_start;
  for (auto i = static_cast<int64_t>(pages); i < table_.row_stride; ++i)
    RC_ASSERT(first[i] == options_.num_pages);
  return {first, first + pages};
}

void PoolModel::expect_unchanged(const Status& status, Errc code,
                                 const std::vector<std::byte>& before) const {
  RC_ASSERT(status.code() == code);
  RC_ASSERT(memory_.snapshot() == before);
}

void PoolModel::count(PoolHistogram& histogram, int64_t value) {
  int bucket = 0;
  while (bucket + 1 < PoolHistogram::num_buckets && value >= int64_t{1} << bucket) ++bucket;
  ++histogram.counts[bucket];
  histogram.sum += value;
}

void PoolModel::check_events() {
  if (options_.event_capacity == 0) return;
  for (const PoolEvent& event : std::exchange(events_, {})) heard_.take(event);
  RC_ASSERT(heard_.contents() == EventReplay::of(pool_));
  std::set<int> contents;
  for (const Page& page : pages_) {
    if (std::ssize(contents_[static_cast<size_t>(page.content)].tokens) == page_size_)
      contents.insert(page.content);  // of tails nothing is told
  }
  RC_ASSERT(heard_.contents().size() == contents.size());
  for (const auto& [number, content] : heard_.contents()) RC_ASSERT(content.has_name);
  std::vector<PoolEvent> read(3);
  for (;;) {
    const EventRead got = checked(pool_.read_events(ring_.next(), read));
    if (got.lost) {
      RC_ASSERT(heard_.next() - ring_.next() > options_.event_capacity);
      ring_.heal(pool_);
    }
    for (size_t i = 0; i < got.count; ++i) ring_.take(read[i]);
    if (!got.lost && got.count < read.size()) break;
  }
  RC_ASSERT(ring_.next() == heard_.next());
  RC_ASSERT(ring_.contents() == heard_.contents());
}

void PoolModel::check() {
  check_events();
  checked(pool_.check_invariants());
  RC_ASSERT(pool_.table().entries == table_.entries);
  RC_ASSERT(pool_.table().row_stride == table_.row_stride);
  PoolStats expected = stats_;
  const PoolStats stats = pool_.stats();
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    ++(held(page)                  ? expected.used_pages
       : pages_[page].content != 0 ? expected.cached_pages
                                   : expected.free_pages);
    if (is_cached(page) && level(page) == retention_level::pinned) ++expected.pinned_pages;
  }
  expected.sequences = static_cast<int64_t>(sequences_.size());
  expected.unfinished_steps = static_cast<int64_t>(steps_.size());
  RC_ASSERT(stats.peak_used_pages >= expected.used_pages);
  expected.peak_used_pages = stats.peak_used_pages;
  RC_ASSERT(stats == expected);
  if (options_.histograms)
    RC_ASSERT(checked(pool_.histograms()) == histograms_);
  else
    RC_ASSERT(pool_.histograms().error().code() == Errc::invalid_argument);
  for (const Sequence& s : sequences_) {
    RC_ASSERT(checked(pool_.length(s.id)) == static_cast<int64_t>(s.tokens.size()));
    RC_ASSERT(checked(pool_.row_start(s.id)) == s.row_start);
    RC_ASSERT(pool_row(s, s.row.size()) == s.row);
    for (size_t t = 0; t < s.tokens.size(); ++t) {
      const uint32_t page = s.row[t / static_cast<size_t>(page_size_)];
      if (!incomplete(page))
        RC_ASSERT(pages_[page].kv[t % static_cast<size_t>(page_size_)] == history(s, t));
    }
  }
  for (const Step& step : steps_) {
    for (const auto& [slot, value] : step.reads)
      RC_ASSERT(pages_[slot.first].kv[slot.second] == value);
  }
  for (const Transfer& t : transfers_) {
    RC_ASSERT(checked(pool_.page_of(t.pin)) == t.page);
    RC_ASSERT(std::equal(t.reads.begin(), t.reads.end(), pages_[t.page].kv.begin()));
  }
  RC_ASSERT(memory_.living.size() == 1U);
  RC_ASSERT(memory_.wrong_frees == 0);
}

}  // namespace folio::test
