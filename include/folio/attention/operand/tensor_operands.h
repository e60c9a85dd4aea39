// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/tensor_operands.h: contiguous keys or values, dense or ragged, as an
/// attention operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/tma_constraints.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"
#include "folio/tma/ragged_tile.h"

namespace folio::inline v1 {

/// Packed keys [batch, tokens, heads, dim], with scales [batch, tokens, heads, ceil(dim /
/// granularity)] where ScaleDType is given.
template <DType D, DType ScaleDType = DType::invalid, int QuantizationGranularity = 1>
struct TensorMHAOperand {
  static_assert(is_supported(D), "TensorMHAOperand: dtype has no element type");
  static_assert(ScaleDType == DType::invalid || is_scale_dtype(ScaleDType),
                "TensorMHAOperand: scale_dtype is no scale's type");
  static_assert(QuantizationGranularity >= 1,
                "TensorMHAOperand: quantization_granularity is at least 1");
  using device_type = TensorMHAOperand;
  static constexpr DType dtype = D;
  static constexpr int page_size = 0;
  static constexpr bool quantization_enabled = ScaleDType != DType::invalid;
  static constexpr int quantization_granularity = QuantizationGranularity;
  static constexpr DType scale_dtype = ScaleDType;
  using element_type = element_t<D>;
  using scale_type = element_t<ScaleDType>;
  using shape = IntTuple<-1, -1, -1, -1>;
  using tensor_type = TensorView<const element_type, Layout<shape>>;
  using scales_type = TensorView<const scale_type, Layout<shape>>;

  tensor_type tensor = {};  ///< row_major<shape>(batch, tokens, heads, dim)
  scales_type scales = {};  ///< null data: none

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "TensorMHAOperand"; }

  template <int TileSize>
    requires tile_divides_the_page<TileSize, page_size>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx,
                                                                  uint32_t start_tok_idx,
                                                                  uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return tensor.pointer(batch_idx, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(
      int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx, int64_t head_dim_idx = 0) const {
    if (scales.data == nullptr) return nullptr;
    return scales.pointer(batch_idx, start_tok_idx, head_idx,
                          head_dim_idx / QuantizationGranularity);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const { return scales.data; }
  template <int Width>
    requires cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t batch_idx,
                                                                int64_t start_tok_idx,
                                                                int64_t head_idx,
                                                                int64_t head_dim_idx) const {
    Vec<scale_type, Width> out;
    const scale_type* at = scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
    for (int i = 0; at != nullptr && i < Width; ++i) out[i] = at[i];
    return out;
  }
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token,
                                             int64_t head_idx) const {
    const int64_t rest = tensor.extent(1) - token;
    if (rest <= 0) return {};
    const void* data = tensor.pointer(batch_idx, token, head_idx, 0);
    return {static_cast<const std::byte*>(data), rest,
            tensor.stride(1) * int64_t{sizeof(element_type)}};
  }

  /// The same for every sequence.
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t) const { return tensor.extent(1); }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const {
    return static_cast<uint32_t>(tensor.extent(1));
  }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const {
    return tensor.extent(0) * tensor.extent(1);
  }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return batch_idx * tensor.extent(1) + start_tok_idx;
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return encoded_index;
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::contiguous_rows<BN, PairCta, IsLeader>(row_idx(batch_idx, base_kv_row),
                                                          num_kv_rows());
  }

  // ---- TMA. Descriptions for encode(); check() says what run-time values forbid, sizes of the
  // tensor among them.

  /// The rows as the functions of tma/ take them.
  FOLIO_HOST_DEVICE PlaneGeometry tma_plane() const {
    return tma_plane_of_rows(tensor.data, D, num_kv_rows(), tensor.extent(2), tensor.extent(3));
  }
  /// Tiles of BN keys and the first Depth columns of a head; as PagedKVCache's.
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(D, Mode, Depth), int Fold = 1,
            bool RowMajor = false>
    requires TmaTileGeometry<D, Mode, BN, BK, 0> &&
             TmaFold<D, Mode, BN, Depth, BK, 0, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth});
  }
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(D, Mode, Depth), int Group = 1>
    requires tile_and_heads_are_whole_groups<Group, BN, Group> &&
             TmaTileGeometry<D, Mode, BN / Group, BK, 0>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(tma_plane(),
                            {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth}, Group);
  }
  template <Swizzle Mode, int BN, int BK, int PaddedDepth>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaTileGeometry<DType::bf16, Mode, BN, BK, 0>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_rope_tma_tile() const {
    return tma::rope_tile(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .padded_depth = PaddedDepth});
  }
  template <int TileWidth, int TileStride = TileWidth, Swizzle Mode = Swizzle::none,
            int TileHeight = 4, TmaDType TmaType = tma_dtype_of(D),
            L2Promotion L2 = L2Promotion::none>
    requires TmaGather4<TmaType, TileWidth, TileStride, Mode, TileHeight>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_gather4_tma_tile() const {
    return tma::gather4_tile(tma_plane(), {TileHeight, TileWidth, TileStride, Mode, TmaType, L2});
  }
  template <int TileWidth, int PaddedDepth, Swizzle Mode = Swizzle::none, int TileHeight = 4,
            L2Promotion L2 = L2Promotion::none>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaGather4<TmaDType::bf16, TileWidth, TileWidth, Mode, TileHeight>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_rope_gather4_tma_tile() const {
    return tma::rope_gather4_tile(tma_plane(), {TileHeight, TileWidth, PaddedDepth, Mode, L2});
  }
  /// BMN consecutive scales of the tensor, flat. Coordinates: first scale, 0.
  template <int BMN>
    requires operand_has_scales<ScaleDType> &&
             scale_tile_is_whole_16_bytes_and_at_most_256_scales<ScaleDType, BMN>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_scale_tma_tile() const {
    return tma::scale_tile(address_of(scales.data), ScaleDType, scales.size(), BMN);
  }
};

/// Packed keys [tokens, heads, dim] of all sequences; sequence b owns rows cache_row_offsets[b] ..
/// cache_row_offsets[b + 1). Scales [tokens, heads, ceil(dim / granularity)] where ScaleDType is
/// given.
template <DType D, DType ScaleDType = DType::invalid, int QuantizationGranularity = 1>
struct RaggedMHAOperand {
  static_assert(is_supported(D), "RaggedMHAOperand: dtype has no element type");
  static_assert(ScaleDType == DType::invalid || is_scale_dtype(ScaleDType),
                "RaggedMHAOperand: scale_dtype is no scale's type");
  static_assert(QuantizationGranularity >= 1,
                "RaggedMHAOperand: quantization_granularity is at least 1");
  using device_type = RaggedMHAOperand;
  static constexpr DType dtype = D;
  static constexpr int page_size = 0;
  static constexpr bool quantization_enabled = ScaleDType != DType::invalid;
  static constexpr int quantization_granularity = QuantizationGranularity;
  static constexpr DType scale_dtype = ScaleDType;
  using element_type = element_t<D>;
  using scale_type = element_t<ScaleDType>;
  using shape = IntTuple<-1, -1, -1>;
  using tensor_type = TensorView<const element_type, Layout<shape>>;
  using scales_type = TensorView<const scale_type, Layout<shape>>;

  tensor_type tensor = {};                      ///< row_major<shape>(tokens, heads, dim)
  const uint32_t* cache_row_offsets = nullptr;  ///< [batch + 1], ascending
  uint32_t max_length = 0;                      ///< upper bound of a sequence's rows
  /// row_major<shape>(tokens, heads, granules); null data: none
  scales_type scales = {};

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "RaggedMHAOperand"; }

  template <int TileSize>
    requires tile_divides_the_page<TileSize, page_size>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx,
                                                                  uint32_t start_tok_idx,
                                                                  uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return tensor.pointer(row_idx(batch_idx, start_tok_idx), head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(
      int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx, int64_t head_dim_idx = 0) const {
    if (scales.data == nullptr) return nullptr;
    return scales.pointer(cache_row_offsets[batch_idx] + start_tok_idx, head_idx,
                          head_dim_idx / QuantizationGranularity);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const { return scales.data; }
  template <int Width>
    requires cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t batch_idx,
                                                                int64_t start_tok_idx,
                                                                int64_t head_idx,
                                                                int64_t head_dim_idx) const {
    Vec<scale_type, Width> out;
    const scale_type* at = scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
    for (int i = 0; at != nullptr && i < Width; ++i) out[i] = at[i];
    return out;
  }
  /// Ends with the sequence.
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token,
                                             int64_t head_idx) const {
    const int64_t rest = cache_length(batch_idx) - token;
    if (rest <= 0) return {};
    const void* data = tensor.pointer(cache_row_offsets[batch_idx] + token, head_idx, 0);
    return {static_cast<const std::byte*>(data), rest,
            tensor.stride(0) * int64_t{sizeof(element_type)}};
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return int64_t{cache_row_offsets[batch_idx + 1]} - cache_row_offsets[batch_idx];
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return max_length; }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return tensor.extent(0); }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return int64_t{cache_row_offsets[batch_idx]} + start_tok_idx;
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const {
    return encoded_index;
  }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> &&
             base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(
      uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::contiguous_rows<BN, PairCta, IsLeader>(row_idx(batch_idx, base_kv_row),
                                                          num_kv_rows());
  }

  // ---- TMA. Descriptions for encode(); check() says what run-time values forbid, sizes of the
  // tensor among them.

  /// The rows as the functions of tma/ take them.
  FOLIO_HOST_DEVICE PlaneGeometry tma_plane() const {
    return tma_plane_of_rows(tensor.data, D, num_kv_rows(), tensor.extent(1), tensor.extent(2));
  }
  /// Tiles of BN keys and the first Depth columns of a head; as PagedKVCache's.
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(D, Mode, Depth), int Fold = 1,
            bool RowMajor = false>
    requires TmaTileGeometry<D, Mode, BN, BK, 0> &&
             TmaFold<D, Mode, BN, Depth, BK, 0, Fold, RowMajor>
  FOLIO_HOST_DEVICE auto create_tma_tile() const {
    return detail::row_tile<Fold, RowMajor>(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth});
  }
  template <Swizzle Mode, int BN, int Depth, int BK = padded_depth(D, Mode, Depth), int Group = 1>
    requires tile_and_heads_are_whole_groups<Group, BN, Group> &&
             TmaTileGeometry<D, Mode, BN / Group, BK, 0>
  FOLIO_HOST_DEVICE RaggedTMA3DTile create_ragged_tma_tile() const {
    return tma::ragged_tile(tma_plane(),
                            {.swizzle = Mode, .rows = BN, .columns = BK, .depth = Depth}, Group);
  }
  template <Swizzle Mode, int BN, int BK, int PaddedDepth>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaTileGeometry<DType::bf16, Mode, BN, BK, 0>
  FOLIO_HOST_DEVICE TMATensorTile<3> create_rope_tma_tile() const {
    return tma::rope_tile(
        tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .padded_depth = PaddedDepth});
  }
  template <int TileWidth, int TileStride = TileWidth, Swizzle Mode = Swizzle::none,
            int TileHeight = 4, TmaDType TmaType = tma_dtype_of(D),
            L2Promotion L2 = L2Promotion::none>
    requires TmaGather4<TmaType, TileWidth, TileStride, Mode, TileHeight>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_gather4_tma_tile() const {
    return tma::gather4_tile(tma_plane(), {TileHeight, TileWidth, TileStride, Mode, TmaType, L2});
  }
  template <int TileWidth, int PaddedDepth, Swizzle Mode = Swizzle::none, int TileHeight = 4,
            L2Promotion L2 = L2Promotion::none>
    requires padded_depth_is_a_multiple_of_16_bytes<PaddedDepth> &&
             TmaGather4<TmaDType::bf16, TileWidth, TileWidth, Mode, TileHeight>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_rope_gather4_tma_tile() const {
    return tma::rope_gather4_tile(tma_plane(), {TileHeight, TileWidth, PaddedDepth, Mode, L2});
  }
  /// BMN consecutive scales of the tensor, flat. Coordinates: first scale, 0.
  template <int BMN>
    requires operand_has_scales<ScaleDType> &&
             scale_tile_is_whole_16_bytes_and_at_most_256_scales<ScaleDType, BMN>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_scale_tma_tile() const {
    return tma::scale_tile(address_of(scales.data), ScaleDType, scales.size(), BMN);
  }
};

}  // namespace folio::inline v1
