// SPDX-License-Identifier: Apache-2.0
/// src/mask/check.cpp: the border checks of masks given as matrices.
#include <cmath>

#include "cache/check_tensor.h"
#include "core/checked.h"
#include "mask/shape.h"

namespace folio::inline v1::mask {
namespace {

constexpr auto function = "MaskReader::read";

Status check_extent(const char* name, int64_t extent) {
  if (extent >= 0) return {};
  return fail(Errc::invalid_argument, "{}: mask has {} {}, expected 0 or more", function, extent,
              name);
}

Status check_extents(const Shape& shape) {
  if (Status s = check_extent("streams", shape.streams); !s.is_ok()) return s;
  if (Status s = check_extent("queries", shape.queries); !s.is_ok()) return s;
  if (Status s = check_extent("keys", shape.keys); !s.is_ok()) return s;
  if (!(CheckedSize(shape.streams) * shape.queries).is_at_most(INT32_MAX))
    return fail(Errc::invalid_argument,
                "{}: mask has {} streams of {} queries, expected a product below 2^31", function,
                shape.streams, shape.queries);
  if (shape.keys <= INT32_MAX) return {};
  return fail(Errc::invalid_argument, "{}: mask has {} keys, expected fewer than 2^31", function,
              shape.keys);
}

/// Before the slopes are looked at: there are q_heads of them.
Status check_heads(const Shape& shape, const MaskOptions& options) {
  if (options.q_heads < 0)
    return fail(Errc::invalid_argument, "{}: options.q_heads is {}, expected 0 or more", function,
                options.q_heads);
  if (shape.heads == 1) return {};
  if (shape.heads > 1 && shape.heads == options.q_heads) return {};
  return fail(Errc::invalid_argument, "{}: mask has {} heads, expected 1 or {} (options.q_heads)",
              function, shape.heads, options.q_heads);
}

Status check_slopes(const MaskOptions& options) {
  if (options.slopes == nullptr) return {};
  if (options.q_heads == 0)
    return fail(Errc::invalid_argument,
                "{}: options.q_heads is 0, expected the number of options.slopes", function);
  for (int32_t h = 0; h < options.q_heads; ++h) {
    if (std::isfinite(options.slopes[h])) continue;
    return fail(Errc::invalid_argument, "{}: options.slopes[{}] is {}, expected a finite number",
                function, h, options.slopes[h]);
  }
  return {};
}

/// The rows of the plane that table entries can name.
Status check_first_rows(const Shape& shape, const MaskOptions& options) {
  constexpr int64_t rows_max = UINT32_MAX;  // the last entry stands for none
  if (shape.tokens() == 0 || shape.keys == 0) return {};
  for (int64_t s = 0; s < shape.streams; ++s) {
    if (options.first_rows == nullptr) {
      if ((CheckedSize(shape.streams) * shape.keys).is_at_most(rows_max)) return {};
      return fail(Errc::invalid_argument,
                  "{}: mask has {} streams of {} keys, expected at most 2^32 - 1 rows of the plane",
                  function, shape.streams, shape.keys);
    }
    const int64_t first = options.first_rows[s];
    if (first >= 0 && first <= rows_max - shape.keys) continue;
    return fail(Errc::invalid_argument,
                "{}: options.first_rows[{}] is {}, expected 0 to {} (2^32 - 1 less {} keys)",
                function, s, first, rows_max - shape.keys, shape.keys);
  }
  return {};
}

/// Strides that are used lie within memory and keep elements aligned.
Status check_strides(const Shape& shape, int64_t element_bytes, CheckedSize row_bytes) {
  const struct {
    const char* name;
    int64_t extent, stride;
  } dimensions[] = {{"stream", shape.streams, shape.stream_stride},
                    {"head", shape.heads, shape.head_stride},
                    {"query", shape.queries, shape.query_stride}};
  CheckedSize reach = row_bytes;
  for (const auto& d : dimensions) {
    reach += reach_bytes(d.extent, d.stride);
    if (d.extent > 1 && d.stride % element_bytes != 0)
      return fail(Errc::invalid_argument,
                  "{}: the {} stride of mask is {} bytes, expected a multiple of {}", function,
                  d.name, d.stride, element_bytes);
    if (!reach.is_at_most(memory_bytes_max))
      return fail(Errc::invalid_argument,
                  "{}: the {} stride of mask is {} bytes over {}, expected a reach of at most 2^56 "
                  "bytes",
                  function, d.name, d.stride, d.extent);
  }
  return {};
}

Status check_data(const Shape& shape, int64_t element_bytes) {
  if (reinterpret_cast<uintptr_t>(shape.data) % static_cast<uintptr_t>(element_bytes) != 0)
    return fail(Errc::invalid_argument,
                "{}: mask is not aligned, expected an address that is a multiple of {}", function,
                element_bytes);
  if (shape.data != nullptr || shape.tokens() == 0 || shape.keys == 0) return {};
  return fail(Errc::invalid_argument,
              "{}: mask is null, expected {} streams of {} queries and {} keys", function,
              shape.streams, shape.queries, shape.keys);
}

Result<Shape> checked(Shape shape, const MaskOptions& options, int64_t element_bytes,
                      CheckedSize row_bytes) {
  if (Status s = check_extents(shape); !s.is_ok()) return s;
  if (Status s = check_heads(shape, options); !s.is_ok()) return s;
  if (Status s = check_slopes(options); !s.is_ok()) return s;
  if (Status s = check_strides(shape, element_bytes, row_bytes); !s.is_ok()) return s;
  if (Status s = check_data(shape, element_bytes); !s.is_ok()) return s;
  if (Status s = check_first_rows(shape, options); !s.is_ok()) return s;
  if (shape.streams <= 1) shape.stream_stride = 0;  // what is not used may be anything
  if (shape.heads <= 1) shape.head_stride = 0;
  if (shape.queries <= 1) shape.query_stride = 0;
  return shape;
}

}  // namespace

Result<Shape> check_matrix(const MaskMatrix& mask, const MaskOptions& options) noexcept {
  const ConstTensor<4>& values = mask.values;
  if (!is_activation_dtype(values.dtype))
    return fail(Errc::invalid_argument, "{}: mask is {}, expected f16, bf16 or f32", function,
                values.dtype);
  const int64_t element = bit_width(values.dtype) / 8;
  if (values.extent[3] > 1 && values.stride_bytes[3] != element)
    return fail(Errc::invalid_argument,
                "{}: the key stride of mask is {} bytes, expected {} (contiguous {})", function,
                values.stride_bytes[3], element, values.dtype);
  const Shape shape{static_cast<const std::byte*>(values.data),
                    values.dtype,
                    values.extent[0],
                    values.extent[1],
                    values.extent[2],
                    values.extent[3],
                    values.stride_bytes[0],
                    values.stride_bytes[1],
                    values.stride_bytes[2]};
  return checked(shape, options, element, CheckedSize(values.extent[3]) * element);
}

Result<Shape> check_bits(const MaskBits& mask, const MaskOptions& options) noexcept {
  const Shape shape{static_cast<const std::byte*>(mask.bits),
                    DType::invalid,
                    mask.streams,
                    1,
                    mask.queries,
                    mask.keys,
                    mask.stream_stride_bytes,
                    0,
                    mask.query_stride_bytes};
  return checked(shape, options, 1, CheckedSize(mask.keys / 8 + 1));
}

}  // namespace folio::inline v1::mask
