// SPDX-License-Identifier: Apache-2.0
/// src/mask/alibi.h: positions behind a mask of ALiBi, whose numbers are -|position of the query -
/// position of the key|, rounded to the mask's type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mask/rows.h"
#include "mask/shape.h"

namespace folio::inline v1::mask {

/// Distances that are told from one another in float32, and so by attention.
inline constexpr int64_t distance_max = int64_t{1} << 24;

/// The whole distances that round to one number of a mask, nearest even.
struct Distances {
  int64_t least = 0;
  int64_t most = -1;
  int64_t exact = 0;  ///< the number itself
  [[nodiscard]] bool is_none() const { return most < least; }
};
[[nodiscard]] Distances distances_of(DType dtype, const std::byte* number) noexcept;

/// -|k| in a mask's type for the whole numbers k of a range around 0. Kept between masks.
class RoundedDistances {
 public:
  /// Room for k in [-most, most]; throws std::bad_alloc.
  void reserve(DType dtype, int64_t most);
  /// The number of k; those of k + 1, k + 2, ... follow.
  [[nodiscard]] const std::byte* of(int64_t k) const {
    return bytes_.data() + (most_ + k) * element_bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_ = DType::invalid;
  int64_t most_ = -1;
  int64_t element_bytes_ = 0;
};

/// Where every query of a stream sees one run of keys: positions [queries] of the queries, key j
/// being at position j. False where the numbers are not those of ALiBi. Throws std::bad_alloc.
[[nodiscard]] bool find_positions(const Shape& shape, const Span* spans, int64_t stream,
                                  RoundedDistances& rounded, std::vector<int64_t>& positions);

}  // namespace folio::inline v1::mask
