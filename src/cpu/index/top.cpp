// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/top.cpp: which candidates stay.
#include "cpu/index/top.h"

#include <algorithm>
#include <functional>

namespace folio::inline v1::indexer {
namespace {

/// The k-th greatest of candidates that all differ; their order is lost. Halves are parted without
/// a branch on a candidate: what std::nth_element guesses of one is wrong half the time.
uint64_t kth_greatest(uint64_t* candidates, int32_t count, int32_t k) {
  constexpr int32_t few = 32;
  constexpr int rounds = 40;  // as many as pivots of ill luck never take
  for (int round = 0; count > few && round < rounds; ++round) {
    const uint64_t a = candidates[0], b = candidates[count / 2], c = candidates[count - 1];
    const uint64_t pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    int32_t greater = 0;
    for (int32_t i = 0; i < count; ++i) {
      const uint64_t candidate = candidates[i];
      candidates[i] = candidates[greater];
      candidates[greater] = candidate;
      greater += candidate > pivot ? 1 : 0;
    }
    if (k <= greater) {
      count = greater;
    } else {
      candidates += greater;
      count -= greater;
      k -= greater;
    }
  }
  std::nth_element(candidates, candidates + k - 1, candidates + count, std::greater<>());
  return candidates[k - 1];
}

}  // namespace

void compact(Top& top, uint64_t* spare) noexcept {
  if (top.count < top.k) return;
  std::copy_n(top.kept, top.count, spare);
  top.least = kth_greatest(spare, top.count, top.k);
  top.bound = score_of(top.least);
  top.takes_nan = false;
  int32_t count = 0;
  for (int32_t i = 0; i < top.count; ++i) {
    top.kept[count] = top.kept[i];
    count += top.kept[i] >= top.least ? 1 : 0;
  }
  top.count = count;
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
