// SPDX-License-Identifier: Apache-2.0
/// src/mask/alibi.cpp: rounded distances and back.
#include "mask/alibi.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "folio/core/element.h"

namespace folio::inline v1::mask {
namespace {

float load(DType dtype, const std::byte* number) {
  return detail::visit_dtype(dtype, [number](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Element<T>) {
      T element;
      std::memcpy(&element, number, sizeof element);
      return to_float(element);
    }
    return 0.0f;
  });
}

/// Bits of a number's significand, the leading one included.
int precision_of(DType dtype) { return dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24; }

int64_t element_bytes_of(DType dtype) { return bit_width(dtype) / 8; }

/// The number of key j of a row is that of distance j - position, for the keys of [begin, end).
bool matches(const RoundedDistances& rounded, const std::byte* row, int64_t element, int64_t begin,
             int64_t end, int64_t position) {
  return begin >= end || std::memcmp(row + begin * element, rounded.of(begin - position),
                                     static_cast<size_t>((end - begin) * element)) == 0;
}

/// Where a query must stand if its numbers are those of ALiBi: at a key of number 0, or so far from
/// the nearest end of its run as the number there says. Negative distances: none.
int64_t candidate_position(DType dtype, const std::byte* row, const Span& span) {
  const int64_t element = element_bytes_of(dtype);
  for (int64_t j = span.end - 1; j >= span.begin; --j)
    if (load(dtype, row + j * element) == 0.0f) return j;
  const Distances first = distances_of(dtype, row + span.begin * element);
  const Distances last = distances_of(dtype, row + (span.end - 1) * element);
  return last.exact <= first.exact ? span.end - 1 + last.exact : span.begin - first.exact;
}

bool find_position(const Shape& shape, const Span& span, const std::byte* row,
                   RoundedDistances& rounded, int64_t& position) {
  const int64_t element = element_bytes_of(shape.dtype);
  position = candidate_position(shape.dtype, row, span);
  const int64_t furthest =
      std::max(std::abs(position - span.begin), std::abs(position - (span.end - 1)));
  if (furthest > distance_max / 16) return false;  // more than the table is meant to hold
  rounded.reserve(shape.dtype, furthest);
  const int64_t left_end = std::clamp<int64_t>(position, span.begin, span.end);
  const int64_t right_begin = std::clamp<int64_t>(position + 1, span.begin, span.end);
  if (left_end < right_begin && load(shape.dtype, row + left_end * element) != 0.0f) return false;
  return matches(rounded, row, element, span.begin, left_end, position) &&
         matches(rounded, row, element, right_begin, span.end, position);
}

}  // namespace

Distances distances_of(DType dtype, const std::byte* number) noexcept {
  const double size = -double{load(dtype, number)};
  if (!(size >= 0.0 && size <= static_cast<double>(distance_max))) return {};
  const auto exact = static_cast<int64_t>(size);
  if (static_cast<double>(exact) != size) return {};
  int exponent = 0;  // size in [2^(exponent - 1), 2^exponent)
  std::frexp(size, &exponent);
  const int unit_bits = exponent - precision_of(dtype);
  if (exact == 0 || unit_bits <= 0) return {exact, exact, exact};
  const int64_t unit = int64_t{1} << unit_bits;
  const bool is_power = (exact & (exact - 1)) == 0;  // numbers below lie half as far apart
  const int64_t half = unit / 2, half_below = is_power ? unit / 4 : half;
  const int64_t tie = exact / unit % 2;  // distances half way between go to the even number
  return {exact - half_below + tie, exact + half - tie, exact};
}

void RoundedDistances::reserve(DType dtype, int64_t most) {
  if (dtype == dtype_ && most <= most_) return;
  most = std::max(most, dtype == dtype_ ? 2 * most_ : int64_t{4096});
  dtype_ = DType::invalid;  // of no type until all is there
  element_bytes_ = element_bytes_of(dtype);
  bytes_.resize(static_cast<size_t>((2 * most + 1) * element_bytes_));
  detail::visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Element<T>) {
      for (int64_t k = 0; k <= most; ++k) {
        const T element = from_float<T>(-static_cast<float>(k));
        for (const int64_t place : {most - k, most + k})
          std::memcpy(bytes_.data() + place * element_bytes_, &element, sizeof element);
      }
    }
  });
  most_ = most;
  dtype_ = dtype;
}

bool find_positions(const Shape& shape, const Span* spans, int64_t stream,
                    RoundedDistances& rounded, std::vector<int64_t>& positions) {
  positions.assign(static_cast<size_t>(shape.queries), 0);
  int64_t first = shape.queries;  // query that sees something
  for (int64_t t = 0; t < shape.queries; ++t) {
    int64_t& position = positions[static_cast<size_t>(t)];
    if (spans[t].is_empty()) {  // anywhere: as if it followed the one before
      if (t > 0) position = positions[static_cast<size_t>(t - 1)] + 1;
      continue;
    }
    if (!find_position(shape, spans[t], shape.row(stream, 0, t), rounded, position)) return false;
    first = std::min(first, t);
  }
  if (first == shape.queries) return true;
  for (int64_t t = first; t > 0; --t)
    positions[static_cast<size_t>(t - 1)] = positions[static_cast<size_t>(t)] - 1;
  return true;
}

}  // namespace folio::inline v1::mask
