// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/view_operand.h: a plane of the run-time face as an attention operand:
/// any strides, any page size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/page_table.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/cache/tma_members.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Element type and scale type are constants, everything else is a value. There are no tile
/// pointers and no `populate`: walk by `run`.
template <DType D, DType ScaleDType = DType::invalid>
struct ViewMHAOperand
    : detail::PagedOperandTmaTiles<ViewMHAOperand<D, ScaleDType>, detail::TmaSizes{D}> {
  static_assert(
      detail::is_supported(D),
      "ViewMHAOperand: dtype has no element type, as packed and block formats: these are planes "
      "of PagedKVView alone");
  static_assert(ScaleDType == DType::invalid || detail::is_scale_dtype(ScaleDType),
                "ViewMHAOperand: scale_dtype is no scale's type");
  using device_type = ViewMHAOperand;
  static constexpr DType dtype = D;
  static constexpr int page_size = operand::dynamic;
  static constexpr bool quantization_enabled = ScaleDType != DType::invalid;
  static constexpr int quantization_granularity = quantization_enabled ? operand::dynamic : 1;
  static constexpr DType scale_dtype = ScaleDType;
  using element_type = element_t<D>;
  using scale_type = element_t<ScaleDType>;

  PagedKVView view = {};
  PageTable table = {};
  const int32_t* context_lengths = nullptr;  ///< [batch] keys of each sequence
  uint32_t max_length = 0;                   ///< upper bound of them

  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr ViewMHAOperand() {
  }  // NOLINT(modernize-use-equals-default): = default may be emitted out of line
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr ViewMHAOperand(const PagedKVView& plane,
                                                                 const PageTable& pages,
                                                                 const int32_t* lengths,
                                                                 uint32_t max)
      : view(plane), table(pages), context_lengths(lengths), max_length(max) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "ViewMHAOperand"; }

  /// The page walk. 0 <= token < 2^31 - 1. Reads the table entry of the token's page.
  FOLIO_HOST_DEVICE operand::OperandRun run(int64_t batch_idx, int64_t token,
                                            int64_t head_idx) const {
    const detail::PageRun found =
        detail::run_of(view, table.entries + table.row_start(batch_idx), token, INT32_MAX);
    if (found.data == nullptr) return {nullptr, found.rows, found.slot_stride_bytes};
    return {found.data + head_idx * view.head_stride_bytes, found.rows, found.slot_stride_bytes};
  }
  /// The scale of an element, wherever its strides put it; null without scales or for an unassigned
  /// page.
  FOLIO_HOST_DEVICE const scale_type* scales_block_paged_ptr(int64_t batch_idx,
                                                             int64_t start_tok_idx,
                                                             int64_t head_idx,
                                                             int64_t head_dim_idx = 0) const {
    const detail::PageRun found =
        detail::run_of(view, table.entries + table.row_start(batch_idx), start_tok_idx, INT32_MAX);
    if (!quantization_enabled || view.scales.data == nullptr || found.data == nullptr)
      return nullptr;
    const int64_t offset = detail::scale_offset_bytes(
        view.scales, found.page, found.slot, head_idx,
        detail::granule_of(view.scales, static_cast<int32_t>(head_dim_idx)));
    const void* at = static_cast<const std::byte*>(view.scales.data) + offset;
    return static_cast<const scale_type*>(at);
  }
  FOLIO_HOST_DEVICE const scale_type* scales_raw_ptr() const {
    return quantization_enabled ? static_cast<const scale_type*>(view.scales.data) : nullptr;
  }
  /// Scales of consecutive granules; without the tensor's second factor.
  template <int Width>
    requires detail::cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE Vec<scale_type, Width> load_scale(int64_t batch_idx, int64_t start_tok_idx,
                                                      int64_t head_idx,
                                                      int64_t head_dim_idx) const {
    Vec<scale_type, Width> out;
    const void* first = scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
    for (int i = 0; first != nullptr && i < Width; ++i) {
      const void* at = static_cast<const std::byte*>(first) + i * view.scales.granule_stride_bytes;
      out[i] = *static_cast<const scale_type*>(at);
    }
    return out;
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return context_lengths[batch_idx];
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return max_length; }

  /// A row of a view is a slot's record as wide as the slot stride: these four mean something where
  /// that is positive and the page stride a multiple of it, as in every cache of one tensor.
  FOLIO_HOST_DEVICE constexpr int64_t row_stride() const {
    return view.page_stride_bytes / view.slot_stride_bytes;
  }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    if (view.num_pages == 0 || view.page_size == unbounded_page_size) return view.num_pages;
    return (view.num_pages - 1) * row_stride() + view.page_size;
  }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    const auto page_rows = static_cast<uint32_t>(view.page_size);
    const int64_t page = detail::page_of(
        view, table.entries[table.row_start(batch_idx) + start_tok_idx / page_rows]);
    if (page == detail::no_page) return num_kv_rows();
    const int64_t row = page * row_stride() + start_tok_idx % page_rows;
    return row < num_kv_rows() ? row : num_kv_rows();
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    if (encoded_index < 0 || view.page_size == unbounded_page_size) return encoded_index;
    if (encoded_index / view.page_size >= view.num_pages) return -1;
    return encoded_index / view.page_size * row_stride() + encoded_index % view.page_size;
  }

  /// The rows as the functions of tma/ take them; tiles' check() refuses sizes and strides that no
  /// tile fits.
  FOLIO_HOST_DEVICE tma::PlaneGeometry tma_plane() const { return tma::plane_of(view); }
};

/// A view as an operand of the given element types. `context_lengths` [batch] and the table are
/// borrowed. Strides may be negative: data is then not the lowest address. Errors: invalid_argument
/// if the view's data is null, its dtype or scale dtype is another, page_size or granularity is
/// less than 1, slot_stride_bytes is 0, or its rows are rotated or scaled by channels.
template <DType D, DType ScaleDType = DType::invalid>
[[nodiscard]] Result<ViewMHAOperand<D, ScaleDType>> view_operand(const PagedKVView& view,
                                                                 const PageTable& table,
                                                                 const int32_t* context_lengths,
                                                                 uint32_t max_length) noexcept {
  if (view.data == nullptr) return fail(Errc::invalid_argument, "view_operand: view.data is null");
  if (view.dtype != D)
    return fail(Errc::invalid_argument, "view_operand: view.dtype is {}, the operand's is {}",
                view.dtype, D);
  const DType scales = view.scales.data == nullptr ? DType::invalid : view.scales.dtype;
  if (scales != ScaleDType) {
    return fail(Errc::invalid_argument,
                "view_operand: the view's scales are {}, the operand's are {}", scales, ScaleDType);
  }
  if (scales != DType::invalid && view.scales.granularity < 1) {
    return fail(Errc::invalid_argument,
                "view_operand: view.scales.granularity is {}, expected at least 1",
                view.scales.granularity);
  }
  if (view.page_size < 1)
    return fail(Errc::invalid_argument, "view_operand: view.page_size is {}, expected at least 1",
                view.page_size);
  if (view.slot_stride_bytes == 0)
    return fail(Errc::invalid_argument,
                "view_operand: view.slot_stride_bytes is 0, expected another number of bytes");
  if (view.hadamard != Hadamard{} || view.has_channel_scales)
    return fail(Errc::invalid_argument,
                "view_operand: the view has {}, expected rows as they are: an operand says nothing "
                "of them",
                view.has_channel_scales ? "channel_scales" : "a hadamard rotation");
  return ViewMHAOperand<D, ScaleDType>{view, table, context_lengths, max_length};
}

}  // namespace folio::inline v1
