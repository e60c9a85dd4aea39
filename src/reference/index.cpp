// SPDX-License-Identifier: Apache-2.0
/// reference/index.cpp: lists by a stable sort, slots by the definition of tables.
#include "reference/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention.h"

namespace folio::reference {
namespace {

/// Whether a score ranks before another: numbers by size, then NaN.
bool is_before(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a > b;
}

}  // namespace

std::vector<int32_t> top_of(std::span<const double> scores, int32_t k) {
  std::vector<int32_t> keys;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] != -std::numeric_limits<double>::infinity())
      keys.push_back(static_cast<int32_t>(j));
  }
  std::stable_sort(keys.begin(), keys.end(), [&](int32_t a, int32_t b) {
    return is_before(scores[static_cast<size_t>(a)], scores[static_cast<size_t>(b)]);
  });
  if (keys.size() > static_cast<size_t>(k)) keys.resize(static_cast<size_t>(k));
  std::sort(keys.begin(), keys.end());
  keys.resize(static_cast<size_t>(k), -1);
  return keys;
}

int64_t slot_number(const Batch& batch, int32_t sequence, int64_t key, int32_t page_size,
                    int64_t num_pages) {
  if (key < 0) return -1;
  PagedKVView view;
  view.page_size = page_size;
  view.num_pages = num_pages;
  const Slot place = slot_of(view, batch, sequence, key);
  if (place.page < 0) return -1;
  return page_size == unbounded_page_size ? place.page : place.page * page_size + place.slot;
}

}  // namespace folio::reference
