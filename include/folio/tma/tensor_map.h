// SPDX-License-Identifier: Apache-2.0
/// folio/tma/tensor_map.h: what a tensor map says, without a driver: a strided tensor of up to five
/// dimensions, and the box of it that
/// one copy brings to shared memory.
///
/// Dimensions are counted as the driver and PTX coordinates count them: 0 is the fastest. Shared
/// memory receives the box packed, dimension 0 fastest, then swizzled. An element whose coordinate
/// lies outside [0, dim) in any dimension is out of bounds: loads fill it, stores skip it.
/// Addresses are base + sum of coordinate * stride_bytes modulo 2^64.
///
/// `fault` holds the rules of cuTensorMapEncodeTiled and those of gather4 use; `check` turns its
/// answer into a message. A pure value: constexpr, host and device. Source: CUDA 13 driver API,
/// cuTensorMapEncodeTiled.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/export.h"
#include "folio/core/host_device.h"
#include "folio/core/status.h"
#include "folio/tma/swizzle.h"

namespace folio::inline v1::tma {

/// Element types of tensor maps; the values are the driver's CUtensorMapDataType.
enum class DataType : uint8_t {
  u8 = 0,
  u16 = 1,
  u32 = 2,
  i32 = 3,
  u64 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9,
  f32_ftz = 10,
  tf32 = 11,
  tf32_ftz = 12,
  invalid = 255,
};

/// The type that copies elements of `dtype`; fp8 and i8 are bytes. `invalid` for types that have
/// none.
FOLIO_HOST_DEVICE constexpr DataType data_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return DataType::f32;
    case DType::f16: return DataType::f16;
    case DType::bf16: return DataType::bf16;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
    case DType::i8: return DataType::u8;
    default: return DataType::invalid;
  }
}
static_assert(folio::detail::count_where([](DType dtype) {
                return (data_type_of(dtype) != DataType::invalid) !=
                       folio::detail::is_supported(dtype);
              }) == 0,
              "data_type_of has a case for each type with elements");

/// 0 for `invalid` and for values outside the enumeration.
FOLIO_HOST_DEVICE constexpr int32_t element_bytes(DataType dtype) {
  switch (dtype) {
    case DataType::u8: return 1;
    case DataType::u16:
    case DataType::f16:
    case DataType::bf16: return 2;
    case DataType::u32:
    case DataType::i32:
    case DataType::f32:
    case DataType::f32_ftz:
    case DataType::tf32:
    case DataType::tf32_ftz: return 4;
    case DataType::u64:
    case DataType::i64:
    case DataType::f64: return 8;
    case DataType::invalid: return 0;
  }
  return 0;
}
FOLIO_HOST_DEVICE constexpr bool is_floating(DataType dtype) {
  return dtype >= DataType::f16 && dtype <= DataType::tf32_ftz;
}

/// Channel-interleaved layouts of convolutions; caches have none. The driver's values, as of the
/// next two.
enum class Interleave : uint8_t { none = 0, b16 = 1, b32 = 2 };
/// Bytes that L2 fetches from memory at a time.
enum class L2Promotion : uint8_t { none = 0, b64 = 1, b128 = 2, b256 = 3 };
/// What a load writes where it is out of bounds.
enum class OobFill : uint8_t { zero = 0, nan = 1 };
/// gather4 loads, and scatter4 stores, four rows of a matrix at coordinates of their own.
enum class Use : uint8_t { tiled = 0, gather4 = 1 };

/// The rules, in the order in which they are looked at.
enum class Rule : uint8_t {
  none = 0,
  // What the driver refuses.
  rank = 1,
  enumerator = 2,  ///< a field outside its enumeration
  dtype = 3,
  rank_of_interleaved = 4,
  base_null = 5,
  base_alignment = 6,
  dim = 7,
  stride_alignment = 8,
  stride_limit = 9,
  box = 10,
  box_inner_bytes = 11,
  element_stride = 12,
  swizzle_span = 13,
  swizzle_of_interleaved = 14,
  nan_fill_type = 15,
  // What gather4 asks beyond that; two dimensions are never interleaved.
  gather4_rank = 16,
  gather4_box = 17,
  gather4_element_stride = 18,
  // What the builders refuse, before there is a map.
  cache_dtype = 32,      ///< elements that TMA cannot copy
  coordinates = 33,      ///< rows do not fit signed 32-bit coordinates
  whole_rows = 34,       ///< pages are no whole number of rows apart
  depth = 35,            ///< columns outside the head
  tile_columns = 36,     ///< no whole number of chunks
  tile_rows = 37,        ///< rows and page do not divide one another, or are no whole atoms
  box_destination = 38,  ///< a box would begin at no multiple of 128 bytes of shared memory
  row_pitch = 39,        ///< the row described is not the cache's
  extent = 40,           ///< an extent below 1
  group = 41,            ///< heads or rows are no whole groups
};

/// A broken rule: the field, what came and what is allowed. rule == none: all is well.
struct Fault {
  Rule rule = Rule::none;
  int32_t index = 0;    ///< dimension, where the field has several
  int64_t came = 0;     ///< the value; for enumerations its number
  int64_t allowed = 0;  ///< the bound or the multiple
  FOLIO_HOST_DEVICE constexpr bool is_none() const { return rule == Rule::none; }
  bool operator==(const Fault&) const = default;
};

/// The fault as invalid_argument; `function` begins the message. ok for none.
[[nodiscard]] FOLIO_EXPORT Status describe(const char* function, const Fault& fault) noexcept;

struct TensorMap {
  static constexpr int max_rank = 5;

  uint64_t base = 0;  ///< global address
  int32_t rank = 0;
  DataType dtype = DataType::invalid;
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::none;
  OobFill oob_fill = OobFill::zero;
  Use use = Use::tiled;
  int64_t dim[max_rank] = {1, 1, 1, 1, 1};  ///< elements
  int64_t stride_bytes[max_rank] = {};      ///< [0] is the element size and not read
  /// gather4: [1] is 1, a copy brings four rows
  int32_t box[max_rank] = {1, 1, 1, 1, 1};
  /// a copy brings ceil(box / element_stride) elements; [0] is ignored
  int32_t element_stride[max_rank] = {1, 1, 1, 1, 1};

  /// The first rule broken.
  FOLIO_HOST_DEVICE constexpr Fault fault() const;
  /// `fault` with its message, as invalid_argument.
  [[nodiscard]] FOLIO_EXPORT Status check() const noexcept;

  /// Elements that a copy brings along dimension i.
  FOLIO_HOST_DEVICE constexpr int32_t box_elements(int i) const {
    const int32_t step = i == 0 && interleave == Interleave::none ? 1 : element_stride[i];
    return (box[i] + step - 1) / step;
  }
  /// What a copy adds to the barrier's transaction count: the whole box, out-of-bounds elements
  /// included.
  FOLIO_HOST_DEVICE constexpr int64_t transaction_bytes() const {
    int64_t bytes = element_bytes(dtype) * (use == Use::gather4 ? 4 : 1);
    for (int i = 0; i < rank; ++i) bytes *= box_elements(i);
    return bytes;
  }
  bool operator==(const TensorMap&) const = default;
};

/// The coordinates of a copy, fastest dimension first: any signed value.
template <int Rank>
struct Coordinates {
  int32_t at[Rank] = {};
  FOLIO_HOST_DEVICE constexpr int32_t operator[](int i) const { return at[i]; }
  bool operator==(const Coordinates&) const = default;
};

FOLIO_HOST_DEVICE constexpr Fault TensorMap::fault() const {
  const auto outside = [](auto value, auto last) {
    return static_cast<int>(value) > static_cast<int>(last);
  };
  if (rank < 1 || rank > max_rank) return {Rule::rank, 0, rank, max_rank};
  if (outside(interleave, Interleave::b32))
    return {Rule::enumerator, 0, static_cast<int64_t>(interleave), 2};
  if (outside(swizzle, Swizzle::b128))
    return {Rule::enumerator, 1, static_cast<int64_t>(swizzle), 3};
  if (outside(l2_promotion, L2Promotion::b256))
    return {Rule::enumerator, 2, static_cast<int64_t>(l2_promotion), 3};
  if (outside(oob_fill, OobFill::nan))
    return {Rule::enumerator, 3, static_cast<int64_t>(oob_fill), 1};
  if (outside(use, Use::gather4)) return {Rule::enumerator, 4, static_cast<int64_t>(use), 1};
  const int64_t bytes = element_bytes(dtype);
  if (bytes == 0)
    return {Rule::dtype, 0, static_cast<int64_t>(dtype), static_cast<int64_t>(DataType::tf32_ftz)};
  const bool interleaved = interleave != Interleave::none;
  if (interleaved && rank < 3) return {Rule::rank_of_interleaved, 0, rank, 3};

  const int64_t alignment = interleave == Interleave::b32 ? 32 : 16;
  if (base == 0) return {Rule::base_null, 0, 0, alignment};
  const auto misaligned = static_cast<int64_t>(base % static_cast<uint64_t>(alignment));
  if (misaligned != 0) return {Rule::base_alignment, 0, misaligned, alignment};
  for (int i = 0; i < rank; ++i) {
    if (dim[i] < 1 || dim[i] > int64_t{1} << 32) return {Rule::dim, i, dim[i], int64_t{1} << 32};
  }
  for (int i = 1; i < rank; ++i) {
    if (stride_bytes[i] % alignment != 0)
      return {Rule::stride_alignment, i, stride_bytes[i], alignment};
    if (stride_bytes[i] < 0 || stride_bytes[i] >= int64_t{1} << 40)
      return {Rule::stride_limit, i, stride_bytes[i], (int64_t{1} << 40) - 1};
  }
  for (int i = 0; i < rank; ++i) {
    if (box[i] < 1 || box[i] > 256) return {Rule::box, i, box[i], 256};
  }
  for (int i = interleaved ? 0 : 1; i < rank; ++i) {
    if (element_stride[i] < 1 || element_stride[i] > 8)
      return {Rule::element_stride, i, element_stride[i], 8};
  }
  const int64_t inner_bytes = box[0] * bytes;
  if (!interleaved) {
    if (inner_bytes % 16 != 0) return {Rule::box_inner_bytes, 0, inner_bytes, 16};
    if (swizzle != Swizzle::none && inner_bytes > swizzle_bytes(swizzle))
      return {Rule::swizzle_span, 0, inner_bytes, swizzle_bytes(swizzle)};
  }
  if (interleave == Interleave::b32 && swizzle != Swizzle::b32)
    return {Rule::swizzle_of_interleaved, 0, static_cast<int64_t>(swizzle),
            static_cast<int64_t>(Swizzle::b32)};
  if (oob_fill == OobFill::nan && !is_floating(dtype))
    return {Rule::nan_fill_type, 0, static_cast<int64_t>(dtype),
            static_cast<int64_t>(DataType::f16)};

  if (use == Use::gather4) {
    if (rank != 2) return {Rule::gather4_rank, 0, rank, 2};
    if (box[1] != 1) return {Rule::gather4_box, 1, box[1], 1};
    if (element_stride[1] != 1) return {Rule::gather4_element_stride, 1, element_stride[1], 1};
  }
  return {};
}

}  // namespace folio::inline v1::tma

namespace folio::inline v1 {

/// The seeds' name.
using TensorMapL2Promotion = tma::L2Promotion;

}  // namespace folio::inline v1
