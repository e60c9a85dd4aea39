// SPDX-License-Identifier: Apache-2.0
/// folio/core/dtype.h: the names of element types, and their widths.
///
/// The types themselves and their conversions: folio/core/element.h.
///
/// Packed formats have two elements in a byte and their scales beside them, in planes of their own
/// (ScaleView), and no C++ type. q is the pattern of four bits, z a zero point:
///
///     i4       q as two's complement, -8 to 7           the even element in the low half
///     u4       q - z, q of 0 to 15; 8 without zero points
///     f4_e2m1  a sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6
///     i4_halves, u4_halves  the same; byte i of 16 has elements i (low half) and i + 16 of 32
///
/// Block formats are those of llama.cpp's caches: rows are blocks of 32 elements and the scale that
/// they share, no element has an address of its own. d, and m, are f16; q is the element's pattern;
/// all numbers are little-endian:
///
///     q8_0    34 bytes: d, 32 bytes              q * d           q in [-128, 127]
///     q4_0    18 bytes: d, 16 bytes              (q - 8) * d     q of 4 bits: byte i holds those
///     q4_1    20 bytes: d, m, 16 bytes           q * d + m       of i (low half) and i + 16
///     q5_0    22 bytes: d, 4 bytes, 16 bytes     (q - 16) * d    a fifth bit for each element:
///     q5_1    24 bytes: d, m, 4 bytes, 16 bytes  q * d + m       bit i of the 4 bytes
///     iq4_nl  18 bytes: d, 16 bytes              values[q] * d, a table of 16
///
/// A plane of a cache may have either: CPU attention reads them in place, `append` writes them
/// (attention/append.h states how), copies move and convert them. Rows are whole blocks of 32
/// elements, or whole bytes. Whatever else takes a dtype refuses them by name, on other devices
/// all.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Fixed values: they are part of the C ABI and of stored files.
enum class DType : uint8_t {
  invalid = 0,
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  f8_e4m3 = 4,
  f8_e5m2 = 5,
  f8_e8m0 = 6,
  i8 = 7,
  f4_e2m1 = 8,
  i4 = 9,
  q8_0 = 10,
  q4_0 = 11,
  q4_1 = 12,
  q5_0 = 13,
  q5_1 = 14,
  iq4_nl = 15,
  u4 = 16,
  i4_halves = 17,
  u4_halves = 18,
};

namespace detail {

/// What may have elements of a type. All but `none` and `packed` have rows or scales to read.
enum class DTypeFamily : uint8_t {
  none,        ///< `invalid`, and values outside the enumeration
  activation,  ///< queries, outputs, terms of logits, planes, scales
  byte,        ///< planes
  scale,       ///< scales alone
  packed,      ///< planes; block_elements of them share bytes
  block,       ///< planes; block_elements of them share what stands beside them
};

/// What is known of a type. Whatever follows from it reads it here.
struct DTypeRow {
  const char* name = "invalid";
  DTypeFamily family = DTypeFamily::none;
  int bits = 0;            ///< of an element that has an address
  int block_elements = 1;  ///< that are stored together
  int block_bytes = 0;     ///< of those of a packed or a block format
  int ggml = -1;           ///< its number in ggml's enum ggml_type; -1: it has none
};

/// The table of types. A function, so that it serves devices, and leaves no object behind in those
/// of an instruction set.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr DTypeRow row_of(DType dtype) {
  using enum DTypeFamily;
  switch (dtype) {
    case DType::invalid: return {};
    case DType::f32: return {"f32", activation, 32, 1, 0, 0};
    case DType::f16: return {"f16", activation, 16, 1, 0, 1};
    case DType::bf16: return {"bf16", activation, 16, 1, 0, 30};
    case DType::f8_e4m3: return {"f8_e4m3", byte, 8};
    case DType::f8_e5m2: return {"f8_e5m2", byte, 8};
    case DType::f8_e8m0: return {"f8_e8m0", scale, 8};
    case DType::i8: return {"i8", byte, 8};
    case DType::f4_e2m1: return {"f4_e2m1", packed, 4, 2, 1};
    case DType::i4: return {"i4", packed, 4, 2, 1};
    case DType::q8_0: return {"q8_0", block, 0, 32, 34, 8};
    case DType::q4_0: return {"q4_0", block, 0, 32, 18, 2};
    case DType::q4_1: return {"q4_1", block, 0, 32, 20, 3};
    case DType::q5_0: return {"q5_0", block, 0, 32, 22, 6};
    case DType::q5_1: return {"q5_1", block, 0, 32, 24, 7};
    case DType::iq4_nl: return {"iq4_nl", block, 0, 32, 18, 20};
    case DType::u4: return {"u4", packed, 4, 2, 1};
    case DType::i4_halves: return {"i4_halves", packed, 4, 32, 16};
    case DType::u4_halves: return {"u4_halves", packed, 4, 32, 16};
  }
  return {};
}

constexpr int count_dtypes() {
  int count = 1;
  while (row_of(static_cast<DType>(count)).family != DTypeFamily::none) ++count;
  return count;
}

/// Values of DType, `invalid` among them: 0 to num_dtypes - 1.
inline constexpr int num_dtypes = count_dtypes();

/// The numbers of some types. They follow one another, so that asking for them is a comparison.
struct DTypeRange {
  int first = num_dtypes;
  int last = 0;
  int count = 0;
};
template <class Is>
constexpr DTypeRange range_where(Is is) {
  DTypeRange range;
  for (int i = num_dtypes - 1; i > 0; --i) {
    if (!is(static_cast<DType>(i))) continue;
    range.last = range.count++ == 0 ? i : range.last;
    range.first = i;
  }
  return range;
}
inline constexpr DTypeRange elements_of_types = range_where([](DType dtype) {
  const DTypeFamily family = row_of(dtype).family;
  return family == DTypeFamily::activation || family == DTypeFamily::byte ||
         family == DTypeFamily::scale;
});
inline constexpr DTypeRange block_formats =
    range_where([](DType dtype) { return row_of(dtype).family == DTypeFamily::block; });
inline constexpr auto first_element = static_cast<DType>(elements_of_types.first),
                      last_element = static_cast<DType>(elements_of_types.last),
                      first_block = static_cast<DType>(block_formats.first),
                      last_block = static_cast<DType>(block_formats.last);
static_assert(elements_of_types.last - elements_of_types.first + 1 == elements_of_types.count);
static_assert(block_formats.last - block_formats.first + 1 == block_formats.count);

}  // namespace detail

/// Bits of one element; 0 for `invalid` and block formats, whose elements have no address. Bits,
/// not bytes: 4-bit types must fit the size arithmetic.
FOLIO_HOST_DEVICE constexpr int bit_width(DType dtype) {
  switch (dtype) {  // of few values, which devices fold
    case DType::f32: return 32;
    case DType::f16:
    case DType::bf16: return 16;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
    case DType::i8: return 8;
    case DType::f4_e2m1:
    case DType::i4:
    case DType::u4:
    case DType::i4_halves:
    case DType::u4_halves: return 4;
    default: return 0;
  }
}

/// Elements that are stored together: 32 in a block format, 2 or 32 in a packed one, 1 in all
/// others.
FOLIO_HOST_DEVICE constexpr int block_elements(DType dtype) {
  switch (dtype) {
    case DType::f4_e2m1:
    case DType::i4:
    case DType::u4: return 2;
    case DType::i4_halves:
    case DType::u4_halves: return 32;
    default: return dtype >= detail::first_block && dtype <= detail::last_block ? 32 : 1;
  }
}

/// Bytes of a row of `elements`, a multiple of block_elements.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t row_bytes(DType dtype, int64_t elements) {
  return bit_width(dtype) == 0 ? elements / 32 * detail::row_of(dtype).block_bytes
                               : elements * bit_width(dtype) / 8;
}

/// "bf16", "f8_e4m3", ...; "invalid" also for values outside the enumeration.
FOLIO_HOST_DEVICE constexpr const char* name(DType dtype) { return detail::row_of(dtype).name; }

namespace detail {

/// What the patterns of f4_e2m1 without their sign stand for.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr float f4_e2m1_value(int pattern) {
  if (pattern < 2) return 0.5f * static_cast<float>(pattern);
  return static_cast<float>((2 + pattern % 2) << pattern / 2) / 4.0f;
}

/// What the patterns of iq4_nl are multiples of d by.
inline constexpr int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};

/// Whether the value is one of the enumeration other than invalid.
FOLIO_HOST_DEVICE constexpr bool is_dtype(DType dtype) {
  return dtype != DType::invalid && static_cast<int>(dtype) < num_dtypes;
}
FOLIO_HOST_DEVICE constexpr bool is_block(DType dtype) {
  return dtype >= first_block && dtype <= last_block;
}
/// Whether elements share bytes, and have their scales beside them.
FOLIO_HOST_DEVICE constexpr bool is_packed(DType dtype) { return bit_width(dtype) == 4; }
/// Whether `dtype` has an element type, i.e. can be loaded and stored today.
FOLIO_HOST_DEVICE constexpr bool is_supported(DType dtype) {
  return dtype >= first_element && dtype <= last_element;
}
/// Whether it has one that planes may have; they may have packed and block formats, too.
FOLIO_HOST_DEVICE constexpr bool is_plane_dtype(DType dtype) {
  return is_supported(dtype) && dtype != DType::f8_e8m0;
}
/// Whether rows of a plane may have it.
FOLIO_HOST_DEVICE constexpr bool is_row_dtype(DType dtype) {
  return is_plane_dtype(dtype) || is_packed(dtype) || is_block(dtype);
}
/// Whether scales may have it.
FOLIO_HOST_DEVICE constexpr bool is_scale_dtype(DType dtype) {
  return is_supported(dtype) && dtype != DType::f8_e5m2 && dtype != DType::i8;
}

template <class Is>
constexpr int count_where(Is is) {
  int count = 0;
  for (int i = 0; i < num_dtypes; ++i) count += is(static_cast<DType>(i)) ? 1 : 0;
  return count;
}
// A `default:` that stands for the last of some types asserts their number beside it: one type
// more does not compile until it has its case.
inline constexpr int num_plane_dtypes = count_where(is_plane_dtype);
inline constexpr int num_scale_dtypes = count_where(is_scale_dtype);
inline constexpr int num_packed_dtypes = count_where(is_packed);
inline constexpr int num_block_dtypes = count_where(is_block);
inline constexpr int num_activation_dtypes =
    count_where([](DType d) { return row_of(d).family == DTypeFamily::activation; });

/// A type as an argument.
template <DType D>
struct DTypeConstant {
  static constexpr DType value = D;
};

/// f(DTypeConstant<D>{}) for the type of a plane's rows `dtype`, D: an element's, a packed or a
/// block format. Requires is_row_dtype(dtype).
template <class F>
FOLIO_ALWAYS_INLINE constexpr decltype(auto) visit_plane(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(DTypeConstant<DType::f32>{});
    case DType::bf16: return f(DTypeConstant<DType::bf16>{});
    case DType::f16: return f(DTypeConstant<DType::f16>{});
    case DType::f8_e4m3: return f(DTypeConstant<DType::f8_e4m3>{});
    case DType::f8_e5m2: return f(DTypeConstant<DType::f8_e5m2>{});
    case DType::i8: return f(DTypeConstant<DType::i8>{});
    case DType::q8_0: return f(DTypeConstant<DType::q8_0>{});
    case DType::q4_0: return f(DTypeConstant<DType::q4_0>{});
    case DType::q4_1: return f(DTypeConstant<DType::q4_1>{});
    case DType::q5_0: return f(DTypeConstant<DType::q5_0>{});
    case DType::q5_1: return f(DTypeConstant<DType::q5_1>{});
    case DType::iq4_nl: return f(DTypeConstant<DType::iq4_nl>{});
    case DType::f4_e2m1: return f(DTypeConstant<DType::f4_e2m1>{});
    case DType::i4: return f(DTypeConstant<DType::i4>{});
    case DType::u4: return f(DTypeConstant<DType::u4>{});
    case DType::i4_halves: return f(DTypeConstant<DType::i4_halves>{});
    case DType::u4_halves: return f(DTypeConstant<DType::u4_halves>{});
    case DType::invalid:
    case DType::f8_e8m0: break;
  }
  __builtin_unreachable();
}

static_assert(count_where([](DType d) { return bit_width(d) != row_of(d).bits; }) == 0);
static_assert(count_where([](DType d) { return block_elements(d) != row_of(d).block_elements; }) ==
              0);
static_assert(count_where([](DType d) { return is_block(d) && block_elements(d) != 32; }) == 0,
              "row_bytes, and whoever reads or writes blocks, take 32 elements");
static_assert(count_where([](DType d) {
                return is_packed(d) != (row_of(d).family == DTypeFamily::packed) ||
                       (is_packed(d) && row_of(d).block_bytes * 2 != row_of(d).block_elements);
              }) == 0,
              "packed formats are those of 4 bits");
static_assert(count_where([](DType d) {
                return is_supported(d) &&
                       (row_of(d).family == DTypeFamily::scale) == is_plane_dtype(d);
              }) == 0,
              "is_plane_dtype has all families but that of scales alone");

}  // namespace detail
}  // namespace folio::inline v1
