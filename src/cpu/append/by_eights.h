// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/by_eights.h: granules looked at eight at a time, where they are stored: what
/// lanes of registers find is joined for all eight at once (convert/lane_trees.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/append/granules.h"
#include "cpu/convert/lane_trees.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::rows {

/// `Measure` has
///
///     using Lanes;                                 what registers find of a granule; {}: of none
///     static Lanes lanes_of(const std::byte* from, int64_t n);
///     void put(int64_t i, const Lanes (&some)[8]);   joins those of granules from i on
template <class Measure>
class ByEights {
 public:
  /// What is put of granules behind the last one is that of none.
  static void run(const Granules& granules, Measure& measure) {
    const bool has_length = granules.per_head == 1 || granules.last_length == granules.length;
    const int64_t stride = granules.apart(granules.from);
    switch (has_length && stride != 0 ? granules.last_length : 0) {
      case 16: return each<16>(granules, stride, measure);
      case 32: return each<32>(granules, stride, measure);
      case 64: return each<64>(granules, stride, measure);
      case 128: return each<128>(granules, stride, measure);
      default: return each<0>(granules, stride, measure);
    }
  }

 private:
  static constexpr int lanes = Eights::count;
  using Lanes = typename Measure::Lanes;

  /// Of a usual length: whole eights have loops of their own.
  template <int64_t Length>
  static void each(const Granules& granules, int64_t stride, Measure& measure) {
    const int64_t count = granules.count();
    for (int64_t i = 0; i < count; i += lanes) {
      if (Length == 0 || count - i < lanes) {
        any(granules, i, measure);
        continue;
      }
      Lanes some[lanes];
#pragma GCC unroll 8
      for (int k = 0; k < lanes; ++k)
        some[k] = Measure::lanes_of(granules.from.first + (i + k) * stride, Length);
      measure.put(i, some);
    }
  }
  [[gnu::noinline]] static void any(const Granules& granules, int64_t first, Measure& measure) {
    const int64_t left = granules.count() - first;
    int64_t h = first / granules.per_head, g = first % granules.per_head;
    Lanes some[lanes];
    for (int k = 0; k < lanes; ++k) {
      some[k] =
          k < left ? Measure::lanes_of(granules.from.at(h, g), granules.length_of(g)) : Lanes{};
      if (++g == granules.per_head) g = 0, ++h;
    }
    measure.put(first, some);
  }
};

}  // namespace folio::inline v1::rows
