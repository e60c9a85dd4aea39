// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/tensor_operands.h: contiguous keys or values, dense or ragged, as an attention operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/row_indices.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio {
inline namespace v1 {

/// Packed keys [batch, tokens, heads, dim], with scales [batch, tokens, heads, ceil(dim / granularity)] where ScaleDType is given.
template <DType D, DType ScaleDType = DType::invalid, int QuantizationGranularity = 1>
struct TensorMHAOperand {
  static_assert(is_supported(D), "TensorMHAOperand: dtype has no element type");
  static_assert(ScaleDType == DType::invalid || is_scale_dtype(ScaleDType), "TensorMHAOperand: scale_dtype is no scale's type");
  static_assert(QuantizationGranularity >= 1, "TensorMHAOperand: quantization_granularity is at least 1");
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
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx, uint32_t start_tok_idx, uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return tensor.pointer(batch_idx, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx,
                                                                       int64_t head_dim_idx = 0) const {
    if (scales.data == nullptr) return nullptr;
    return scales.pointer(batch_idx, start_tok_idx, head_idx, head_dim_idx / QuantizationGranularity);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const { return scales.data; }
  template <int Width>
    requires cache_is_quantised<ScaleDType>
  FOLIO_HOST_DEVICE constexpr Vec<scale_type, Width> load_scale(int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx,
                                                                int64_t head_dim_idx) const {
    Vec<scale_type, Width> out;
    const scale_type* at = scales_block_paged_ptr(batch_idx, start_tok_idx, head_idx, head_dim_idx);
    for (int i = 0; at != nullptr && i < Width; ++i) out[i] = at[i];
    return out;
  }
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token, int64_t head_idx) const {
    const int64_t rest = tensor.extent(1) - token;
    if (rest <= 0) return {};
    const void* data = tensor.pointer(batch_idx, token, head_idx, 0);
    return {static_cast<const std::byte*>(data), rest, tensor.stride(1) * int64_t{sizeof(element_type)}};
  }

  /// The same for every sequence.
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t) const { return tensor.extent(1); }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return static_cast<uint32_t>(tensor.extent(1)); }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return tensor.extent(0) * tensor.extent(1); }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return batch_idx * tensor.extent(1) + start_tok_idx;
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const { return encoded_index; }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> && base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::contiguous_rows<BN, PairCta, IsLeader>(row_idx(batch_idx, base_kv_row), num_kv_rows());
  }
};

/// Packed keys [tokens, heads, dim] of all sequences; sequence b owns rows cache_row_offsets[b] .. cache_row_offsets[b + 1).
template <DType D>
struct RaggedMHAOperand {
  static_assert(is_supported(D), "RaggedMHAOperand: dtype has no element type");
  using device_type = RaggedMHAOperand;
  static constexpr DType dtype = D;
  static constexpr int page_size = 0;
  static constexpr bool quantization_enabled = false;
  static constexpr int quantization_granularity = 1;
  static constexpr DType scale_dtype = DType::invalid;
  using element_type = element_t<D>;
  using scale_type = no_element;
  using shape = IntTuple<-1, -1, -1>;
  using tensor_type = TensorView<const element_type, Layout<shape>>;

  tensor_type tensor = {};                      ///< row_major<shape>(tokens, heads, dim)
  const uint32_t* cache_row_offsets = nullptr;  ///< [batch + 1], ascending
  uint32_t max_length = 0;                      ///< upper bound of a sequence's rows

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "RaggedMHAOperand"; }

  template <int TileSize>
    requires tile_divides_the_page<TileSize, page_size>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx, uint32_t start_tok_idx, uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return tensor.pointer(row_idx(batch_idx, start_tok_idx), head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(int64_t, int64_t, int64_t, int64_t = 0) const {
    return nullptr;
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const { return nullptr; }
  /// Ends with the sequence.
  FOLIO_HOST_DEVICE constexpr OperandRun run(int64_t batch_idx, int64_t token, int64_t head_idx) const {
    const int64_t rest = cache_length(batch_idx) - token;
    if (rest <= 0) return {};
    const void* data = tensor.pointer(cache_row_offsets[batch_idx] + token, head_idx, 0);
    return {static_cast<const std::byte*>(data), rest, tensor.stride(0) * int64_t{sizeof(element_type)}};
  }

  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return int64_t{cache_row_offsets[batch_idx + 1]} - cache_row_offsets[batch_idx];
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return max_length; }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return tensor.extent(0); }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return int64_t{cache_row_offsets[batch_idx]} + start_tok_idx;
  }
  FOLIO_HOST_DEVICE constexpr int64_t get_tma_row(int64_t encoded_index) const { return encoded_index; }
  template <int BN, int BaseAlignment, bool PairCta = false, bool IsLeader = true>
    requires TileGeometry<BN, 0, PairCta> && base_alignment_is_a_multiple_of_the_piece<BN, 0, BaseAlignment>
  FOLIO_HOST_DEVICE constexpr PagedRowIndices<BN, 0, PairCta, IsLeader> populate(uint32_t batch_idx, uint32_t base_kv_row) const {
    return detail::contiguous_rows<BN, PairCta, IsLeader>(row_idx(batch_idx, base_kv_row), num_kv_rows());
  }
};

}  // namespace v1
}  // namespace folio
