// SPDX-License-Identifier: Apache-2.0
/// reference/quantise.cpp: scales and stored values of a granule.
#include "reference/quantise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/blocks.h"
#include "reference/elements.h"

namespace folio::reference {
namespace {

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

std::byte* row_at(const PagedKVView& view, Slot place, int64_t head) {
  return static_cast<std::byte*>(view.data) + place.page * view.page_stride_bytes +
         place.slot * view.slot_stride_bytes + head * view.head_stride_bytes;
}
std::byte* scale_at(const ScaleView& scales, Slot place, int64_t head, int32_t dim) {
  return static_cast<std::byte*>(scales.data) + place.page * scales.page_stride_bytes +
         place.slot * scales.slot_stride_bytes + head * scales.head_stride_bytes +
         dim / scales.granularity * scales.granule_stride_bytes;
}
double tensor_scale_of(const ScaleView& scales) {
  return scales.tensor_scale != nullptr ? static_cast<double>(*scales.tensor_scale) : 1.0;
}

bool has_patterns_from_0(DType dtype) { return dtype == DType::u4 || dtype == DType::u4_halves; }
bool is_signed4(DType dtype) { return dtype == DType::i4 || dtype == DType::i4_halves; }

/// The least and the largest of the finite elements; 0 of none.
struct Range {
  double low = 0.0;
  double high = 0.0;
};
Range range_of(std::span<const float> x) {
  Range range;
  bool is_first = true;
  for (const float value : x) {
    if (!std::isfinite(value)) continue;
    const auto wide = static_cast<double>(value);
    range =
        is_first ? Range{wide, wide} : Range{std::min(range.low, wide), std::max(range.high, wide)};
    is_first = false;
  }
  return range;
}

/// The smallest number of a scale's type that is not below `wanted`; of those above all, the
/// largest.
double rounded_up(DType scale_dtype, double wanted) {
  const uint32_t code = encode_up(scale_dtype, wanted);
  const double scale = decode(scale_dtype, code);
  return std::isinf(scale) ? decode(scale_dtype, code - 1) : scale;
}

/// By which the element of the largest magnitude is -8: less than 0 where that element is not.
double scale_to_lowest(const Range& range, DType scale_dtype, double tensor_scale) {
  const double amax = std::max(range.high, -range.low);
  const double size = rounded_up(scale_dtype, amax / (8.0 * tensor_scale));
  return range.high > -range.low ? -size : size;
}

/// Of f32, f16 or bf16.
constexpr double largest = 0x1.fffffep127;
double largest_of(DType scale_dtype) {
  return scale_dtype == DType::f16 ? 65504.0 : scale_dtype == DType::bf16 ? 0x1.fep127 : largest;
}

/// (high - low) / 15, rounded up to the scales' type; 1 where there is no range.
double scale_of_range(const Range& range, const ScaleView& scales) {
  if (range.high == range.low) return 1.0;
  const double wanted =
      std::min(f32(range.high - range.low), largest) / (15.0 * tensor_scale_of(scales));
  if (scales.zeros != Zeros::in_scale) return rounded_up(scales.dtype, wanted);
  const uint32_t word = encode_up(DType::f32, std::min(wanted, 0x1.ffffep127)),
                 whole = (word + 15u) & ~15u;
  return static_cast<double>(std::bit_cast<float>(whole));
}

/// Scale and zero point, or minimum, of a granule whose range they follow from.
void store_range(const ScaleView& scales, std::byte* at, std::span<const float> x) {
  Range range = range_of(x);
  if (scales.zeros == Zeros::minimum) {
    const double most = largest_of(scales.dtype);
    store(at + scales.zero_offset_bytes, scales.dtype,
          std::clamp(range.low / tensor_scale_of(scales), -most, most));
    range.low = f32(load(at + scales.zero_offset_bytes, scales.dtype) * tensor_scale_of(scales));
    range.high = std::max(range.high, range.low);
  } else {
    range = {std::min(range.low, 0.0), std::max(range.high, 0.0)};
  }
  const double scale = scale_of_range(range, scales);
  store(at, scales.dtype, scale);
  if (scales.zeros == Zeros::minimum) return;
  const double steps = f32(-range.low / f32(scale * tensor_scale_of(scales)));
  const auto zero = static_cast<uint8_t>(std::clamp(std::nearbyint(steps), 0.0, 15.0));
  if (scales.zeros == Zeros::patterns) {
    at[scales.zero_offset_bytes] = static_cast<std::byte>(zero);
  } else {
    at[0] |= static_cast<std::byte>(zero);
  }
}

/// The pattern of a u4 element.
uint32_t pattern_of(double x, const Reading& reading) {
  if (std::isnan(x)) x = reading.minimum;
  const double steps = std::nearbyint(f32(f32(x - reading.minimum) / reading.scale));
  return static_cast<uint32_t>(std::clamp(steps + reading.zero, 0.0, 15.0));
}

}  // namespace

Reading reading_of(const PagedKVView& view, Slot place, int64_t head, int32_t dim) {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr) return {};
  const std::byte* at = scale_at(scales, place, head, dim);
  Reading reading{load(at, scales.dtype), has_patterns_from_0(view.dtype) ? 8.0 : 0.0, 0.0};
  const double tensor = tensor_scale_of(scales);
  switch (scales.zeros) {
    case Zeros::none: break;
    case Zeros::patterns:
      reading.zero = std::to_integer<int>(at[scales.zero_offset_bytes]) % 16;
      break;
    case Zeros::minimum:
      reading.zero = 0.0;
      reading.minimum = load(at + scales.zero_offset_bytes, scales.dtype) * tensor;
      break;
    case Zeros::in_scale: {
      uint32_t word = 0;
      std::memcpy(&word, at, sizeof word);
      reading.zero = word % 16u;
      reading.scale = static_cast<double>(std::bit_cast<float>(word / 16u * 16u));
      break;
    }
  }
  reading.scale *= tensor;
  return reading;
}

void store_granule(const PagedKVView& view, Slot place, int64_t head, int32_t dim,
                   std::span<const float> x) {
  std::byte* const row = row_at(view, place, head);
  if (detail::is_block(view.dtype))
    return store_blocks(row + row_bytes(view.dtype, dim), view.dtype, x);
  const ScaleView& scales = view.scales;
  if (scales.data != nullptr && scales.slot_stride_bytes != 0) {
    std::byte* const at = scale_at(scales, place, head, dim);
    if (scales.zeros == Zeros::none) {
      store(at, scales.dtype, scale_of(x, view.dtype, scales.dtype, tensor_scale_of(scales)));
    } else {
      store_range(scales, at, x);
    }
  }
  Reading reading = reading_of(view, place, head, dim);
  reading.scale = f32(reading.scale);
  reading.minimum = f32(reading.minimum);
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i) + dim;
    const auto value = static_cast<double>(x[i]);
    if (has_patterns_from_0(view.dtype)) {
      store_packed(row, view.dtype, index, pattern_of(value, reading));
      continue;
    }
    const double stored = scales.data != nullptr ? f32(value / reading.scale) : value;
    if (detail::is_packed(view.dtype)) {
      store_packed(row, view.dtype, index, encode(view.dtype, stored));
    } else {
      store(row + index * bit_width(view.dtype) / 8, view.dtype, stored);
    }
  }
}

double largest_stored(DType dtype) {
  static_assert(detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::i8: return 127.0;
    case DType::f8_e4m3: return 448.0;
    case DType::f8_e5m2: return 57344.0;
    case DType::i4:
    case DType::i4_halves:
    case DType::u4:
    case DType::u4_halves: return 7.0;
    case DType::f4_e2m1: return 6.0;
    default: return 1.0;
  }
}

double scale_of(std::span<const float> granule, DType stored_dtype, DType scale_dtype,
                double tensor_scale) {
  const Range range = range_of(granule);
  const double amax = std::max(range.high, -range.low);
  if (amax == 0.0) return 1.0;
  if (is_signed4(stored_dtype) && scale_dtype != DType::f8_e8m0)
    return scale_to_lowest(range, scale_dtype, tensor_scale);
  return rounded_up(scale_dtype, amax / (largest_stored(stored_dtype) * tensor_scale));
}

double quantised(float x, DType stored_dtype, double scale, double tensor_scale) {
  const float divisor = static_cast<float>(scale) * static_cast<float>(tensor_scale);
  const float quotient = x / divisor;
  return round_to(stored_dtype, static_cast<double>(quotient));
}

void stored_row(std::span<const float> x, DType stored_dtype, DType scale_dtype, int granularity,
                double tensor_scale, double* out) {
  if (scale_dtype == DType::invalid) {
    for (size_t i = 0; i < x.size(); ++i)
      out[i] = round_to(stored_dtype, static_cast<double>(x[i]));
    return;
  }
  const auto width = static_cast<size_t>(granularity);
  for (size_t begin = 0; begin < x.size(); begin += width) {
    const std::span<const float> granule = x.subspan(begin, std::min(width, x.size() - begin));
    const double scale = scale_of(granule, stored_dtype, scale_dtype, tensor_scale);
    for (size_t i = 0; i < granule.size(); ++i) {
      out[begin + i] =
          quantised(granule[i], stored_dtype, scale, tensor_scale) * scale * tensor_scale;
    }
  }
}

}  // namespace folio::reference
