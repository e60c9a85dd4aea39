// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/item_spans.cpp: items of another kind, as namespaces.
#include "pool/lookup/item_spans.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <type_traits>
#include <utility>

namespace folio::inline v1::pool {
namespace {

/// A span as the salt of a namespace.
class Key {
 public:
  static_assert(std::has_unique_object_representations_v<ContentSpan>);
  static_assert(sizeof(ContentSpan) <= PagePool::max_salt_bytes);
  explicit Key(const ContentSpan& span) noexcept : bytes_(std::bit_cast<Bytes>(span)) {}
  [[nodiscard]] std::string_view salt() const noexcept { return {bytes_.data(), bytes_.size()}; }

 private:
  using Bytes = std::array<char, sizeof(ContentSpan)>;
  Bytes bytes_;
};

}  // namespace

int64_t ItemSpans::max_in_page(const PoolOptions& options) noexcept {
  return std::min<int64_t>(options.page_size, options.max_spans);
}

void ItemSpans::attach(const Memory& memory, const PoolOptions& options,
                       PrefixIndex* index) noexcept {
  memory_ = memory;
  max_spans_ = options.max_spans;
  page_size_ = options.page_size;
  if (!is_on()) return;
  std::fill_n(memory.counts, options.max_sequences, Count{});
  namespaces_.attach(memory.entries, memory.buckets, static_cast<uint32_t>(num_namespaces(options)),
                     index);
}

void ItemSpans::give(uint32_t sequence, std::span<const ContentSpan> spans) noexcept {
  if (!is_on()) return;
  std::copy(spans.begin(), spans.end(), row(sequence));
  memory_.counts[sequence] = {.given = static_cast<uint32_t>(spans.size())};
}

std::span<const ContentSpan> ItemSpans::of(uint32_t sequence) const noexcept {
  return is_on() ? std::span<const ContentSpan>(row(sequence), memory_.counts[sequence].given)
                 : std::span<const ContentSpan>();
}

ContentSpan ItemSpans::seen_from(int64_t position, ContentSpan span) const noexcept {
  span.offset = static_cast<int32_t>(span.offset - position * page_size_);
  return span;
}

std::span<const ContentSpan> ItemSpans::in_page(uint32_t sequence,
                                                int32_t position) const noexcept {
  const std::span<const ContentSpan> all = of(sequence);
  const int64_t begin = int64_t{position} * page_size_;
  auto span = std::partition_point(all.begin(), all.end(), [begin](const ContentSpan& s) {
    return int64_t{s.offset} + s.length <= begin;
  });
  size_t count = 0;
  for (; span != all.end() && span->offset < begin + page_size_; ++span)
    memory_.of_page[count++] = seen_from(position, *span);
  return {memory_.of_page, count};
}

uint32_t ItemSpans::page_of_first(std::span<const ContentSpan> spans) const noexcept {
  return spans.empty() ? no_page : static_cast<uint32_t>(spans.front().offset / page_size_);
}

uint32_t ItemSpans::page_to_open(uint32_t sequence) const noexcept {
  return is_on() ? page_of_first(of(sequence).subspan(memory_.counts[sequence].opened)) : no_page;
}

Before ItemSpans::find(Before before, uint32_t position,
                       std::span<const ContentSpan>& rest) const noexcept {
  for (; page_of_first(rest) == position; rest = rest.subspan(1)) {
    if (before.content == 0) continue;
    const uint32_t i =
        namespaces_.find(Key(seen_from(position, rest.front())).salt(), before.content);
    before = i == no_namespace ? Before{} : Before{namespaces_[i].content, namespaces_[i].hash};
  }
  return before;
}

Before ItemSpans::observe(Before before, uint32_t position,
                          std::span<const ContentSpan>& rest) const noexcept {
  for (; page_of_first(rest) == position; rest = rest.subspan(1)) {
    if (before.content == 0) continue;
    const Namespaces::Observed found =
        namespaces_.observe_content(Key(seen_from(position, rest.front())).salt(), before.content);
    before = {found.content, found.hash};
  }
  return before;
}

Before ItemSpans::open(Before before, uint32_t position, uint32_t sequence) noexcept {
  Count& count = memory_.counts[sequence];
  for (; page_to_open(sequence) == position; ++count.opened) {
    const Key key(seen_from(position, row(sequence)[count.opened]));
    const uint32_t i = namespaces_.open(key.salt(), before.content);
    opened(sequence)[count.opened] = i;
    before = {namespaces_[i].content, namespaces_[i].hash};
  }
  return before;
}

void ItemSpans::close_from(uint32_t sequence, uint32_t first) noexcept {
  if (!is_on()) return;
  uint32_t& count = memory_.counts[sequence].opened;
  while (count > first) namespaces_.close(opened(sequence)[--count]);
}

/// Of the sequence's items, those that begin before `end`.
uint32_t ItemSpans::count_before(uint32_t sequence, int32_t end) const noexcept {
  const std::span<const ContentSpan> all = of(sequence);
  return static_cast<uint32_t>(
      std::partition_point(all.begin(), all.end(),
                           [end](const ContentSpan& s) { return s.offset < end; }) -
      all.begin());
}

void ItemSpans::close_behind(uint32_t sequence, int32_t length) noexcept {
  close_from(sequence, count_before(sequence, length / page_size_ * page_size_));
}

void ItemSpans::remove_behind(uint32_t sequence, int32_t length) noexcept {
  if (is_on()) memory_.counts[sequence].given = count_before(sequence, length);
}

void ItemSpans::take_away(uint32_t sequence) noexcept {
  close(sequence);
  if (is_on()) memory_.counts[sequence] = {};
}

void ItemSpans::share(uint32_t from, uint32_t to, int32_t length) noexcept {
  if (!is_on()) return;
  give(to, of(from));
  Count& count = memory_.counts[to];
  count.opened = memory_.counts[from].opened;
  std::copy_n(opened(from), count.opened, opened(to));
  for (uint32_t i = 0; i < count.opened; ++i) namespaces_.retain(opened(to)[i]);
  close_behind(to, length);
  remove_behind(to, length);
}

void ItemSpans::swap(uint32_t a, uint32_t b) noexcept {
  if (!is_on()) return;
  Count &of_a = memory_.counts[a], &of_b = memory_.counts[b];
  const uint32_t most = std::max(of_a.given, of_b.given);
  std::swap_ranges(row(a), row(a) + most, row(b));
  std::swap_ranges(opened(a), opened(a) + most, opened(b));
  std::swap(of_a, of_b);
}

}  // namespace folio::inline v1::pool
