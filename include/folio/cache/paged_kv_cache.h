// SPDX-License-Identifier: Apache-2.0
/// folio/cache/paged_kv_cache.h: the K or V plane of one layer in pages, with its sizes as template
/// arguments.
///
///   blocks [num_pages, page_size, num_heads, head_size]   scales [num_pages, page_size, num_heads,
///                                                         head_dim_granularity]
///
/// Both are planes of larger tensors (PagedKVCacheCollection), so the stride from page to page is a
/// run-time value; a row, the record of one token, is packed. Key `tok_idx` of sequence `bs` is
/// slot tok_idx % page_size of page lookup_table[bs][tok_idx / page_size]. An entry >= num_pages is
/// unassigned: loads give zero bits, stores write nothing, pointers are null, rows are out of
/// bounds.
///
/// The type owns nothing, is trivially copyable, compiles for host and device and checks nothing
/// else: make it through PagedKVCacheCollection::make or cache_of, which do. Thread safety: const
/// access from any thread; stores to distinct elements.
#pragma once

#include <cstdint>

#include "folio/cache/elements.h"
#include "folio/cache/kv_cache.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/static_params.h"
#include "folio/cache/step_members.h"
#include "folio/cache/tma_members.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"
#include "folio/core/vec.h"

namespace folio::inline v1 {

template <DType D, KVCacheStaticParams Params, int PageSize, DType ScaleDType = DType::invalid,
          int QuantizationGranularity = 1>
struct PagedKVCache
    : detail::StepMembers<PagedKVCache<D, Params, PageSize, ScaleDType, QuantizationGranularity>>,
      detail::CacheTmaTiles<PagedKVCache<D, Params, PageSize, ScaleDType, QuantizationGranularity>,
                            detail::TmaSizes{D, Params.num_heads, Params.head_size, PageSize,
                                             Params.is_mla}> {
  static_assert(
      detail::is_supported(D),
      "PagedKVCache: dtype has no element type, as packed and block formats: these are planes "
      "of PagedKVView alone");
  static_assert(Params.num_heads >= 1 && Params.head_size >= 1,
                "PagedKVCache: num_heads and head_size are at least 1");
  static_assert(int64_t{Params.num_heads} * Params.head_size <= INT32_MAX,
                "PagedKVCache: a row has less than 2^31 elements");
  static_assert(PageSize >= 1, "PagedKVCache: page_size is at least 1");
  static_assert(ScaleDType == DType::invalid || detail::is_scale_dtype(ScaleDType),
                "PagedKVCache: scale_dtype is one of f32, f16, bf16, f8_e8m0, f8_e4m3, or invalid "
                "for no scales");
  static_assert(QuantizationGranularity >= 1,
                "PagedKVCache: quantization_granularity is at least 1");

  using device_type = PagedKVCache;
  static constexpr DType dtype = D;
  static constexpr KVCacheStaticParams kv_params = Params;
  static constexpr int page_size_ = PageSize;
  static constexpr bool quantization_enabled = ScaleDType != DType::invalid;
  static constexpr int quantization_granularity = QuantizationGranularity;
  static constexpr DType scale_dtype = ScaleDType;
  static constexpr int head_dim_granularity =
      (Params.head_size + QuantizationGranularity - 1) / QuantizationGranularity;
  /// elements of a row
  static constexpr int64_t row_size = int64_t{Params.num_heads} * Params.head_size;
  /// scales of a row
  static constexpr int64_t scale_row_size = int64_t{Params.num_heads} * head_dim_granularity;

  using element_type = element_t<D>;
  using scale_type = element_t<ScaleDType>;
  using blocks_shape = IntTuple<-1, PageSize, Params.num_heads, Params.head_size>;
  using blocks_strides = IntTuple<-1, row_size, Params.head_size, 1>;
  using blocks_layout = Layout<blocks_shape, blocks_strides>;
  using blocks_tt_layout = blocks_layout;
  using blocks_tt_type = TensorView<element_type, blocks_tt_layout>;
  using scales_tt_layout = Layout<IntTuple<-1, PageSize, Params.num_heads, head_dim_granularity>,
                                  IntTuple<-1, scale_row_size, head_dim_granularity, 1>>;
  using scales_tt_type = TensorView<scale_type, scales_tt_layout>;
  using Step =
      detail::StepMembers<PagedKVCache<D, Params, PageSize, ScaleDType, QuantizationGranularity>>;
  using typename Step::cache_lengths_tt_layout;
  using typename Step::cache_lengths_tt_type;
  using typename Step::lookup_table_tt_layout;
  using typename Step::lookup_table_tt_type;

  blocks_tt_type blocks = {};
  cache_lengths_tt_type cache_lengths = {};  ///< [batch] tokens in the cache before this step
  lookup_table_tt_type lookup_table = {};    ///< [batch, columns] page ids
  uint32_t max_seq_length = 0;
  uint32_t max_cache_length = 0;
  scales_tt_type scales = {};  ///< null data: none

  constexpr PagedKVCache() = default;
  FOLIO_HOST_DEVICE constexpr PagedKVCache(const blocks_tt_type& blocks_view,
                                           const cache_lengths_tt_type& lengths,
                                           const lookup_table_tt_type& table, uint32_t max_seq,
                                           uint32_t max_cache,
                                           const scales_tt_type& scales_view = {})
      : blocks(blocks_view),
        cache_lengths(lengths),
        lookup_table(table),
        max_seq_length(max_seq),
        max_cache_length(max_cache),
        scales(scales_view) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "PagedKVCache"; }
  /// Rows that lie in one page.
  static constexpr FOLIO_HOST_DEVICE int64_t max_tile_size() { return PageSize; }

  /// `Width` consecutive elements of a head. A quantised cache multiplies each by its own scale in
  /// float32, then converts. On a device one access of up to 16 bytes where the address is a
  /// multiple of it: looked at, unless `Alignment`, in bytes, promises it.
  template <int Width, DType OutputDType = D, int Alignment = 0>
    requires detail::output_type_is_supported<OutputDType> &&
             detail::quantised_load_has_another_output_type<OutputDType, D, ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<element_t<OutputDType>, Width> load(int64_t bs, int64_t head_idx,
                                                                      int64_t tok_idx,
                                                                      int64_t head_dim_idx) const {
    const auto stored = detail::load_elements<Width, Alignment>(
        block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx));
    if constexpr (quantization_enabled) {
      const scale_type* scale = scales_block_paged_ptr(bs, tok_idx, head_idx);
      if (scale == nullptr) return {};
      return detail::scale_elements<element_t<OutputDType>, QuantizationGranularity>(stored, scale,
                                                                                     head_dim_idx);
    } else {
      return detail::convert_elements<OutputDType, D>(stored);
    }
  }
  /// Writes elements of the storage type; a quantised cache's are quantised by the caller.
  template <int Width, int Alignment = 0>
  FOLIO_HOST_DEVICE constexpr void store(int64_t bs, int64_t head_idx, int64_t tok_idx,
                                         int64_t head_dim_idx,
                                         const Vec<element_type, Width>& val) const {
    detail::store_elements<Alignment>(block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx), val);
  }
  /// Elements as stored, without their scales.
  template <int Width>
    requires detail::cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<element_type, Width> load_quantized(int64_t bs, int64_t head_idx,
                                                                      int64_t tok_idx,
                                                                      int64_t head_dim_idx) const {
    return detail::load_elements<Width>(block_paged_ptr<1>(bs, tok_idx, head_idx, head_dim_idx));
  }
  /// `Width` consecutive scales from that of element `head_dim_idx`.
  template <int Width>
    requires detail::cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t bs, int64_t head_idx,
                                                                int64_t tok_idx,
                                                                int64_t head_dim_idx) const {
    return detail::load_elements<Width>(
        scales_block_paged_ptr(bs, tok_idx, head_idx, head_dim_idx));
  }
  /// Writes consecutive scales from that of element `head_dim_idx`.
  template <int Width>
    requires detail::cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr void store_scale(int64_t bs, int64_t head_idx, int64_t tok_idx,
                                               int64_t head_dim_idx,
                                               const Vec<scale_type, Width>& values) const {
    detail::store_elements(scales_block_paged_ptr(bs, tok_idx, head_idx, head_dim_idx), values);
  }

  /// The element from which `TileSize` rows may be read, row_size elements apart, if start_tok_idx
  /// % TileSize == 0.
  template <int TileSize>
    requires detail::tile_divides_the_page<TileSize, PageSize>
  FOLIO_HOST_DEVICE constexpr element_type* block_paged_ptr(int64_t batch_idx,
                                                            int64_t start_tok_idx, int64_t head_idx,
                                                            int64_t head_dim_idx = 0) const {
    const int64_t page = lookup_table(batch_idx, start_tok_idx / PageSize);
    if (page >= blocks.extent(0)) return nullptr;
    return blocks.pointer(page, start_tok_idx % PageSize, head_idx, head_dim_idx);
  }
  /// The scale of an element; null also when there are no scales.
  FOLIO_HOST_DEVICE constexpr scale_type* scales_block_paged_ptr(int64_t batch_idx,
                                                                 int64_t start_tok_idx,
                                                                 int64_t head_idx,
                                                                 int64_t head_dim_idx = 0) const {
    const int64_t page = lookup_table(batch_idx, start_tok_idx / PageSize);
    if (scales.data == nullptr || page >= blocks.extent(0)) return nullptr;
    return scales.pointer(page, start_tok_idx % PageSize, head_idx,
                          head_dim_idx / QuantizationGranularity);
  }
  /// The first scale of the plane, or null.
  FOLIO_HOST_DEVICE constexpr scale_type* scales_raw_ptr() const { return scales.data; }

  /// Rows from one page to the next, S; and of the scales.
  FOLIO_HOST_DEVICE constexpr int64_t row_stride() const { return blocks.stride(0) / row_size; }
  FOLIO_HOST_DEVICE constexpr int64_t scale_row_stride() const {
    return scales.stride(0) / scale_row_size;
  }
  /// The plane seen as a matrix of rows; and the scales'.
  FOLIO_HOST_DEVICE constexpr detail::PagedRows<PageSize> rows() const {
    return {blocks.extent(0), row_stride()};
  }
  FOLIO_HOST_DEVICE constexpr detail::PagedRows<PageSize> scale_rows() const {
    return {scales.extent(0), scale_row_stride()};
  }
  /// Rows from the plane's first to its last one; row num_kv_rows() is out of bounds.
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return rows().num_kv_rows(); }
  /// Row of a key; num_kv_rows() if its page is unassigned.
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t tok_idx) const {
    return rows().row_idx(lookup_table.pointer(batch_idx, 0), tok_idx);
  }
  /// Row of slot `encoded_index` = page * page_size + offset. Negative indices come back unchanged,
  /// those past the pages give -1.
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return rows().get_tma_row(encoded_index);
  }
  /// The rows of the BN keys from base_kv_row on, which is a multiple of BaseAlignment. Reads whole
  /// aligned groups of table entries: needs the table's padding and alignment as CacheTables states
  /// them.
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires detail::TileGeometry<BN, PageSize, PairCta> &&
             detail::base_alignment_is_a_multiple_of_the_piece<BN, PageSize, BaseAlignment>
  FOLIO_HOST_DEVICE PagedRowIndices<BN, PageSize, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::populate_rows<BN, PageSize, BaseAlignment, PairCta, IsLeader>(
        lookup_table.pointer(batch_idx, 0), base_kv_row, rows());
  }

  /// The plane as the functions of tma/ take it.
  FOLIO_HOST_DEVICE tma::PlaneGeometry tma_plane() const {
    constexpr int64_t bytes = sizeof(element_type);
    return {tma::address_of(blocks.data),
            D,
            Params.num_heads,
            Params.head_size,
            blocks.extent(0),
            PageSize,
            blocks.stride(0) * bytes,
            row_size * bytes,
            Params.head_size * bytes,
            true};
  }
};

}  // namespace folio::inline v1
