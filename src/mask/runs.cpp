// SPDX-License-Identifier: Apache-2.0
/// src/mask/runs.cpp: runs that climb and overlap become one sequence.
#include "mask/runs.h"

namespace folio::inline v1::mask {
namespace {

/// Both see something, and the second goes on from the first.
bool climbs(const Span& from, const Span& to) {
  return to.begin >= from.begin && to.end >= from.end && to.begin < from.end;
}

/// Behind the last query that joins the sequence of query t. What sees nothing joins any.
/// `hull`: of what they see.
int64_t end_of_sequence(const Span* spans, int64_t queries, int64_t t, const int64_t* positions,
                        Span& hull) {
  Span last = hull = spans[t];
  int64_t u = t + 1;
  for (; u < queries; ++u) {
    if (positions != nullptr && positions[u] != positions[u - 1] + 1) break;
    if (spans[u].is_empty()) continue;
    if (last.is_empty()) {
      hull = spans[u];
    } else if (!climbs(last, spans[u])) {
      break;
    }
    last = spans[u];
    hull.end = last.end;
  }
  return u;
}

}  // namespace

void add_runs(Arrays& arrays, const Span* spans, int64_t queries, uint32_t first_row,
              const int64_t* positions) {
  for (int64_t t = 0; t < queries;) {
    Span hull;
    const int64_t end = end_of_sequence(spans, queries, t, positions, hull);
    arrays.begin_sequence();
    if (!hull.is_empty()) arrays.entries.push_back(first_row + static_cast<uint32_t>(hull.begin));
    arrays.end_sequence(static_cast<int32_t>(end - t), hull.end - hull.begin);
    if (positions != nullptr)
      arrays.query_positions.push_back(static_cast<int32_t>(positions[t] - hull.begin));
    for (; t < end; ++t) {
      if (spans[t].is_empty()) {
        arrays.push_interval(0, 0);
      } else {
        arrays.push_interval(spans[t].begin - hull.begin, spans[t].end - hull.begin);
      }
    }
  }
}

void add_spans(Arrays& arrays, const Span* spans, int64_t queries, uint32_t first_row) {
  int32_t context = 0;
  for (int64_t t = 0; t < queries; ++t) {
    arrays.push_interval(spans[t].begin, spans[t].end);
    context = std::max(context, spans[t].end);
  }
  arrays.begin_sequence();
  if (context > 0) arrays.entries.push_back(first_row);
  arrays.end_sequence(static_cast<int32_t>(queries), context);
}

}  // namespace folio::inline v1::mask
