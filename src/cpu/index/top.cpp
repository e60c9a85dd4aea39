// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/top.cpp: which candidates stay.
#include "cpu/index/top.h"

#include <algorithm>
#include <functional>

namespace folio::inline v1::indexer {

void compact(Top& top, uint64_t* spare) noexcept {
  if (top.count < top.k) return;
  std::copy_n(top.kept, top.count, spare);
  uint64_t* const last = spare + top.k - 1;
  std::nth_element(spare, last, spare + top.count, std::greater<>());
  top.least = *last;
  top.bound = score_of(top.least);
  top.takes_nan = false;
  const uint64_t least = top.least;
  top.count = static_cast<int32_t>(
      std::remove_if(top.kept, top.kept + top.count, [least](uint64_t c) { return c < least; }) -
      top.kept);
}

void join(Top& top, const uint64_t* candidates, int32_t count, uint64_t* spare) noexcept {
  for (int32_t first = 0; first < count; first += keys_at_once) {
    if (!top.has_room()) compact(top, spare);
    const int32_t end = std::min(first + keys_at_once, count);
    for (int32_t i = first; i < end; ++i) {
      if (candidates[i] > top.least) top.keep(candidates[i]);
    }
  }
}

void write_list(Top& top, uint64_t* spare, int32_t* list) noexcept {
  compact(top, spare);
  for (int32_t i = 0; i < top.count; ++i) list[i] = key_of(top.kept[i]);
  std::fill(list + top.count, list + top.k, -1);
}

}  // namespace folio::inline v1::indexer
