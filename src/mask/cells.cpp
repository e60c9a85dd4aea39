// SPDX-License-Identifier: Apache-2.0
/// src/mask/cells.cpp: keys that come and go, query by query.
#include "mask/cells.h"

#include <algorithm>
#include <limits>

#include "mask/alibi.h"

namespace folio::inline v1::mask {

struct Cells::Stream {
  const Rows& rows;
  const Span* spans;
  int64_t stream;
  int64_t queries;
  uint32_t first_row;
  const Shape* alibi;

  [[nodiscard]] const uint64_t* bits(int64_t query) const { return rows.bits(stream, query); }
  /// The query shares no key with the one behind it.
  [[nodiscard]] bool is_apart(int64_t query) const;
};

namespace {

constexpr int32_t never = std::numeric_limits<int32_t>::max();

/// Words in which one of two queries sees something.
struct Words {
  int64_t begin = 0, end = 0;
};
Words words_of_both(const Span& a, const Span& b) {
  if (a.is_empty()) return {b.begin / word_keys, words_of(b.end)};
  if (b.is_empty()) return {a.begin / word_keys, words_of(a.end)};
  return {std::min(a.begin, b.begin) / word_keys, words_of(std::max(a.end, b.end))};
}

/// Whether several keys of `a` are none of `b`, and one of them lies behind a key of both.
bool has_other_tail(const uint64_t* a, const uint64_t* b, const Words& words) {
  int64_t gone = 0;
  bool is_behind = false, shares = false;
  for (int64_t w = words.begin; w < words.end; ++w) {
    const uint64_t left = a[w] & ~b[w], both = a[w] & b[w];
    gone += std::popcount(left);
    is_behind |= shares ? left != 0 : both != 0 && left >> std::countr_zero(both) != 0;
    shares |= both != 0;
  }
  return is_behind && gone > 1;
}

}  // namespace

bool Cells::Stream::is_apart(int64_t query) const {
  if (query + 1 == queries) return true;
  if (spans[query].is_empty() && spans[query + 1].is_empty()) return false;
  const uint64_t *const a = bits(query), *const b = bits(query + 1);
  const Words words = words_of_both(spans[query], spans[query + 1]);
  for (int64_t w = words.begin; w < words.end; ++w)
    if ((a[w] & b[w]) != 0) return false;
  return true;
}

bool Cells::add(Arrays& arrays, const Shape& shape, const Rows& rows, int64_t stream,
                uint32_t first_row, const Shape* alibi) {
  const Stream s{rows, rows.spans(stream), stream, shape.queries, first_row, alibi};
  keys_.clear();  // those of a mask whose numbers were not ALiBi's
  came_.assign(static_cast<size_t>(shape.keys), -1);
  last_.resize(std::max(last_.size(), static_cast<size_t>(shape.keys)));
  for (int64_t begin = 0; begin < shape.queries;) {
    if (alibi == nullptr && s.is_apart(begin)) {
      emit_alone(arrays, s, begin++);
      continue;
    }
    int64_t end = grow(s, begin);
    if (alibi != nullptr) {
      Found found = find_positions(s, begin, end);
      if (found == Found::conflict) {  // alone, a query stands where its numbers say
        forget_keys();
        end = begin + 1;
        list_keys(s, begin, 0, nullptr);
        found = find_positions(s, begin, end);
      }
      if (found != Found::all) return false;
    }
    emit(arrays, s, begin, end);
    forget_keys();
    begin = end;
  }
  return true;
}

/// The keys of one query, as they stand.
void Cells::emit_alone(Arrays& arrays, const Stream& stream, int64_t query) {
  const uint64_t* const bits = stream.bits(query);
  const Span& span = stream.spans[query];
  const int64_t first = span.begin / word_keys, behind = words_of(span.end);
  int32_t count = 0;
  for (int64_t w = first; w < behind; ++w) count += std::popcount(bits[w]);
  arrays.begin_sequence();
  const size_t before = arrays.entries.size();
  arrays.entries.resize(before + static_cast<size_t>(count));
  uint32_t* to = arrays.entries.data() + before;
  for (int64_t w = first; w < behind; ++w)
    for_each_key(bits[w], w,
                 [&](int32_t key) { *to++ = stream.first_row + static_cast<uint32_t>(key); });
  arrays.push_interval(0, count);
  arrays.end_sequence(1, count);
}

/// Lists the keys of queries from `begin` on, as far as they can share a sequence. The one behind
/// the last of them.
int64_t Cells::grow(const Stream& stream, int64_t begin) {
  alive_.clear();
  oldest_ = 0;
  list_keys(stream, begin, 0, nullptr);
  int64_t end = begin + 1;
  for (; end < stream.queries; ++end) {
    const auto index = static_cast<int32_t>(end - begin);
    if (!joins(stream, end, index)) break;
    list_keys(stream, end, index, stream.bits(end - 1));
  }
  sort_keys();
  return end;
}

/// Keys that the query sees and the one before it did not come with it.
void Cells::list_keys(const Stream& stream, int64_t query, int32_t index,
                      const uint64_t* hidden_by) {
  const uint64_t* const bits = stream.bits(query);
  const Span& span = stream.spans[query];
  const size_t before = keys_.size();
  for (int64_t w = span.begin / word_keys; w < words_of(span.end); ++w)
    for_each_key(bits[w] & ~(hidden_by != nullptr ? hidden_by[w] : 0), w, [&](int32_t key) {
      keys_.push_back(key);
      came_[static_cast<size_t>(key)] = index;
      last_[static_cast<size_t>(key)] = never;
    });
  alive_.push_back(static_cast<int32_t>(keys_.size() - before));
}

/// Whether the query shares a key with the one before it, sees none again that was gone, and keeps
/// none that came before one that is gone now. Those that are gone were last seen by the one before
/// it. Queries of two sequences with the same prefix do not join: by themselves their table rows
/// begin alike, which `plan` sees.
bool Cells::joins(const Stream& stream, int64_t query, int32_t index) {
  const Span& before = stream.spans[query - 1];
  const Span& now = stream.spans[query];
  if (before.is_empty() && now.is_empty()) return true;
  const uint64_t *const a = stream.bits(query - 1), *const b = stream.bits(query);
  const Words words = words_of_both(before, now);
  bool shares = false, is_back = false;
  int32_t newest_gone = -1;
  if (has_other_tail(a, b, words)) return false;
  for (int64_t w = words.begin; w < words.end; ++w) {
    shares |= (a[w] & b[w]) != 0;
    if (a[w] == b[w]) continue;
    for_each_key(b[w] & ~a[w], w,
                 [&](int32_t key) { is_back |= came_[static_cast<size_t>(key)] >= 0; });
    for_each_key(a[w] & ~b[w], w, [&](int32_t key) {
      const int32_t came = came_[static_cast<size_t>(key)];
      last_[static_cast<size_t>(key)] = index - 1;
      --alive_[static_cast<size_t>(came)];
      newest_gone = std::max(newest_gone, came);
    });
  }
  if (!shares || is_back) return false;
  while (alive_[static_cast<size_t>(oldest_)] == 0) ++oldest_;  // one is left: it is shared
  return newest_gone <= oldest_;
}

/// Keys stand in the order in which they came; of those that came together, what goes first first.
void Cells::sort_keys() {
  const auto came = [this](int32_t key) { return came_[static_cast<size_t>(key)]; };
  const auto goes_first = [this](int32_t a, int32_t b) {
    return last_[static_cast<size_t>(a)] < last_[static_cast<size_t>(b)];
  };
  for (auto from = keys_.begin(); from != keys_.end();) {
    const auto to =
        std::find_if(from, keys_.end(), [&](int32_t k) { return came(k) != came(*from); });
    if (!std::is_sorted(from, to, goes_first)) std::stable_sort(from, to, goes_first);
    from = to;
  }
}

void Cells::emit(Arrays& arrays, const Stream& stream, int64_t begin, int64_t end) const {
  arrays.begin_sequence();
  for (const int32_t key : keys_)
    arrays.entries.push_back(stream.first_row + static_cast<uint32_t>(key));
  const auto count = static_cast<int32_t>(end - begin),
             context = static_cast<int32_t>(keys_.size());
  int32_t first = 0, behind = 0;
  for (int32_t t = 0; t < count; ++t) {
    while (first < context && last_[static_cast<size_t>(keys_[static_cast<size_t>(first)])] < t)
      ++first;
    while (behind < context && came_[static_cast<size_t>(keys_[static_cast<size_t>(behind)])] <= t)
      ++behind;
    arrays.push_interval(first, behind);
  }
  arrays.end_sequence(count, context);
  if (stream.alibi == nullptr) return;
  arrays.query_positions.push_back(0);
  for (size_t i = 0; i < keys_.size(); ++i)
    arrays.key_positions.push_back(static_cast<int32_t>(position_[i]));
}

void Cells::forget_keys() {
  for (const int32_t key : keys_) came_[static_cast<size_t>(key)] = -1;
  keys_.clear();
}

/// Query t of the sequence stands at position t and no key behind the queries that see it (a query
/// alone tells no side from the other): each number narrows where its key may stand. What is left
/// serves all of them, and of it the place that the first query that sees the key puts it at, or
/// the nearest to that.
Cells::Found Cells::find_positions(const Stream& stream, int64_t begin, int64_t end) {
  for (auto* array : {&least_, &most_, &position_}) array->resize(keys_.size());
  int32_t first = 0, behind = 0;
  const auto context = static_cast<int32_t>(keys_.size());
  for (int64_t query = begin; query < end; ++query) {
    const auto t = static_cast<int32_t>(query - begin);
    while (first < context && last_[static_cast<size_t>(keys_[static_cast<size_t>(first)])] < t)
      ++first;
    while (behind < context && came_[static_cast<size_t>(keys_[static_cast<size_t>(behind)])] <= t)
      ++behind;
    for (int32_t i = first; i < behind; ++i) {
      const Found found = narrow(stream, query, t, i);
      if (found != Found::all) return found;
    }
  }
  for (size_t i = 0; i < keys_.size(); ++i)
    position_[i] = std::clamp(position_[i], least_[i], most_[i]);
  return Found::all;
}

Cells::Found Cells::narrow(const Stream& stream, int64_t query, int32_t index, int32_t place) {
  const auto i = static_cast<size_t>(place);
  const auto key = static_cast<size_t>(keys_[i]);
  const int64_t bytes = bit_width(stream.alibi->dtype) / 8;
  const Distances d = distances_of(stream.alibi->dtype,
                                   stream.alibi->row(stream.stream, 0, query) + keys_[i] * bytes);
  if (d.is_none()) return Found::none;
  if (came_[key] == index) {
    least_[i] = index - d.most;
    most_[i] = index - d.least;
    position_[i] = index - d.exact;
    return Found::all;
  }
  least_[i] = std::max(least_[i], index - d.most);
  most_[i] = std::min(most_[i], index - d.least);
  return least_[i] <= most_[i] ? Found::all : Found::conflict;
}

}  // namespace folio::inline v1::mask
