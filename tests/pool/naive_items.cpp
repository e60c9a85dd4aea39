// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_items.cpp: every item asks every one that is known.
#include "pool/naive_items.h"

#include <algorithm>

namespace folio::test {

uint64_t history_of(uint64_t seed, const std::vector<TokenId>& tokens,
                    const std::vector<ContentSpan>& spans, int64_t count) {
  uint64_t h = seed;
  for (int64_t i = 0; i < count; ++i) {
    h = (h ^ static_cast<uint64_t>(tokens[static_cast<size_t>(i)] + 7)) * 0x100000001b3u +
        (h >> 29);
    for (const ContentSpan& span : spans) {
      if (span.offset == i)
        h = (h ^ (span.hash.bytes[0] + 256u * static_cast<uint64_t>(span.length))) * 0x100000001b3u;
    }
  }
  return h | 1;
}

NaiveItems::NaiveItems(const PoolOptions& options)
    : page_size_(options.page_size),
      max_spans_(options.max_spans),
      max_known_(size_t{2} * options.max_sequences * options.max_spans) {}

bool NaiveItems::allow(const std::vector<ContentSpan>& spans,
                       const std::vector<TokenId>& prompt) const {
  int64_t end = 0;
  for (const ContentSpan& span : spans) {
    if (span.offset < end || span.length < 1) return false;
    end = int64_t{span.offset} + span.length;
  }
  return spans.size() <= max_spans_ && end <= std::ssize(prompt);
}

std::vector<ContentSpan> NaiveItems::touching(const std::vector<ContentSpan>& spans,
                                              size_t position) const {
  std::vector<ContentSpan> seen;
  for (ContentSpan span : spans) {
    span.offset -= static_cast<int32_t>(static_cast<int64_t>(position) * page_size_);
    if (span.offset + span.length > 0 && span.offset < page_size_) seen.push_back(span);
  }
  return seen;
}

std::vector<ContentSpan> NaiveItems::beginning_in(const std::vector<ContentSpan>& spans,
                                                  size_t position) const {
  std::vector<ContentSpan> seen = touching(spans, position);
  std::erase_if(seen, [](const ContentSpan& span) { return span.offset < 0; });
  return seen;
}

int NaiveItems::find(int parent, const std::vector<ContentSpan>& spans, size_t position) const {
  for (const ContentSpan& span : beginning_in(spans, position)) {
    const auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& item) {
      return item.parent == parent && item.span == span;
    });
    if (at == known_.end()) return 0;
    parent = at->content;
  }
  return parent;
}

std::vector<NaiveItems::Known>::iterator NaiveItems::known(int content) {
  return std::find_if(known_.begin(), known_.end(),
                      [&](const Known& item) { return item.content == content; });
}

int NaiveItems::open(int parent, const ContentSpan& span) {
  auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& item) {
    return item.parent == parent && item.span == span;
  });
  if (at == known_.end()) {
    if (known_.size() == max_known_) forget_oldest(known_);
    at = known_.insert(known_.end(), {parent, span, --last_content_});
  }
  ++at->users;
  return at->content;
}

int NaiveItems::enter(Row& row, int parent, size_t position) {
  for (const ContentSpan& span : beginning_in(row.spans, position))
    row.opened.push_back(parent = open(parent, span));
  return parent;
}

void NaiveItems::close(Row& row, size_t keep) {
  for (; row.opened.size() > keep; row.opened.pop_back()) {
    const auto at = known(row.opened.back());
    --at->users;
    at->idle_since = ++clock_;
  }
}

void NaiveItems::cut(Row& row, int32_t length, CutItems items) {
  const int64_t full = length / page_size_ * page_size_;
  close(row, static_cast<size_t>(
                 std::count_if(row.spans.begin(), row.spans.end(),
                               [&](const ContentSpan& span) { return span.offset < full; })));
  if (items == CutItems::removed)
    std::erase_if(row.spans, [&](const ContentSpan& span) { return span.offset >= length; });
}

void NaiveItems::share(Row& child, int32_t length) {
  for (const int content : child.opened) ++known(content)->users;
  cut(child, length);
}

}  // namespace folio::test
