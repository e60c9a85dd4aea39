// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/concept.h: MHAOperand: what an attention kernel needs of its keys or its
/// values, wherever they lie.
///
/// Where a cache says how one plane is stored, an operand says only how to reach it: by
/// table-driven pointers, by rows, or run by run. `page_size` is a constant of the type, 0 for
/// contiguous memory, or `dynamic`. Operands are trivially copyable views and compile for host and
/// device.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "folio/cache/kv_cache.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/vec.h"
#include "folio/tma/ragged_tile.h"

namespace folio::inline v1::operand {

/// The page size or the granularity of an operand that knows it at run time only.
inline constexpr int dynamic = -1;

/// The longest stretch of keys from one on that lie at one stride.
struct OperandRun {
  /// element 0 of the head asked for; null: no memory behind these keys, they read as zero
  const std::byte* data = nullptr;
  int64_t rows = 0;               ///< keys; >= 0
  int64_t slot_stride_bytes = 0;  ///< from one key to the next, either way; each run has its own
};

}  // namespace folio::inline v1::operand

namespace folio::inline v1 {

namespace detail {

template <class O>
concept HasOperandScales = requires(const O o, int64_t i) {
  { o.template load_scale<1>(i, i, i, i) } -> std::same_as<Vec<element_t<O::scale_dtype>, 1>>;
};

template <class O>
concept HasStaticPages = requires(const O o, uint32_t u) {
  { o.template block_paged_ptr<1>(u, u, u, u) } -> std::same_as<const element_t<O::dtype>*>;
  {
    o.template populate<(O::page_size > 0 ? O::page_size : 64),
                        (O::page_size > 0 ? O::page_size : 64)>(u, u)
  };
};

}  // namespace detail

/// Token comes before head in every member. Operands with a page size known at compile time also
/// give tile pointers and `populate`.
template <class O>
concept MHAOperand = std::is_trivially_copyable_v<O> && std::same_as<typename O::device_type, O> &&
                     requires {
                       { O::dtype } -> std::convertible_to<DType>;
                       { O::page_size } -> std::convertible_to<int>;
                       { O::scale_dtype } -> std::convertible_to<DType>;
                       { O::quantization_enabled } -> std::convertible_to<bool>;
                       { O::quantization_granularity } -> std::convertible_to<int>;
                       { O::get_type_name() } -> std::convertible_to<std::string_view>;
                     } &&
                     requires(const O o, int64_t i, uint32_t u) {
                       { o.run(i, i, i) } -> std::same_as<operand::OperandRun>;
                       { o.cache_length(i) } -> std::same_as<int64_t>;
                       { o.max_context_length() } -> std::same_as<uint32_t>;
                       { o.num_kv_rows() } -> std::same_as<int64_t>;
                       { o.row_idx(u, u) } -> std::same_as<int64_t>;
                       { o.get_tma_row(i) } -> std::same_as<int64_t>;
                       {
                         o.scales_block_paged_ptr(i, i, i, i)
                       } -> std::same_as<const element_t<O::scale_dtype>*>;
                       { o.scales_raw_ptr() } -> std::same_as<const element_t<O::scale_dtype>*>;
                     } &&
                     (!O::quantization_enabled || detail::HasOperandScales<O>)&&(
                         O::page_size == operand::dynamic || detail::HasStaticPages<O>);

namespace detail {

/// Sizes that an operand admits: of a cache's row those of the cache, of run-time rows any.
template <class O>
struct TmaSample {
  static constexpr int row = 64;
  static constexpr int padded_depth = 16;
};
template <class O>
  requires requires { O::row_size + O::head_size; }
struct TmaSample<O> {
  static constexpr auto row = static_cast<int>(O::row_size);
  static constexpr int padded_depth = O::head_size * bit_width(O::dtype) / 8 - 16;
};

template <class O>
concept OperandHasTmaTiles = requires(const O o) {
  { o.tma_plane() } -> std::same_as<tma::PlaneGeometry>;
  { o.template create_tma_tile<tma::Swizzle::b128, 1, 1>() } -> std::same_as<TMATensorTile<3>>;
  {
    o.template create_ragged_tma_tile<tma::Swizzle::b128, 1, 1>()
  } -> std::same_as<RaggedTMA3DTile>;
  {
    o.template create_rope_tma_tile<tma::Swizzle::none, 1, 8, TmaSample<O>::padded_depth>()
  } -> std::same_as<TMATensorTile<3>>;
  {
    o.template create_gather4_tma_tile<TmaSample<O>::row, TmaSample<O>::row, tma::Swizzle::b128>()
  } -> std::same_as<TMATensorTile<2>>;
};

}  // namespace detail

/// An MHAOperand that TMA can load. The cache operand is one where its cache is; the scales operand
/// never.
template <class O> concept TmaMHAOperand = MHAOperand<O> && detail::OperandHasTmaTiles<O>;

}  // namespace folio::inline v1

namespace folio::inline v1 {  // flat names, for one release
using operand::dynamic;
using operand::OperandRun;
}  // namespace folio::inline v1
