// SPDX-License-Identifier: Apache-2.0
/// folio/attention/operand/tensor_operands.h: contiguous keys or values, dense or ragged, as an
/// attention operand.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/operand/concept.h"
#include "folio/cache/row_indices.h"
#include "folio/cache/tma_members.h"
#include "folio/cache/tma_plane.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"
#include "folio/tma/row_tiles.h"

namespace folio::inline v1 {

namespace detail {

/// What the two have in common. `Self` has `tensor`, `scales` and `place(view, sequence, token,
/// head, column)`, the address of an element of either.
template <class Self, DType D, DType ScaleDType, int QuantizationGranularity>
struct PackedOperand : ContiguousRows<Self>, OperandTmaTiles<Self, TmaSizes{D}> {
  static_assert(
      is_supported(D),
      "MHAOperand: dtype has no element type, as packed and block formats: these are planes "
      "of PagedKVView alone");
  static_assert(ScaleDType == DType::invalid || is_scale_dtype(ScaleDType),
                "MHAOperand: scale_dtype is no scale's type");
  static_assert(QuantizationGranularity >= 1, "MHAOperand: quantization_granularity is at least 1");
  using device_type = Self;
  static constexpr DType dtype = D;
  static constexpr int page_size = 0;
  static constexpr bool quantization_enabled = ScaleDType != DType::invalid;
  static constexpr int quantization_granularity = QuantizationGranularity;
  static constexpr DType scale_dtype = ScaleDType;
  using element_type = element_t<D>;
  using scale_type = element_t<ScaleDType>;

  template <int TileSize>
    requires tile_divides_the_page<TileSize, 0>
  FOLIO_HOST_DEVICE constexpr const element_type* block_paged_ptr(uint32_t batch_idx,
                                                                  uint32_t start_tok_idx,
                                                                  uint32_t head_idx,
                                                                  uint32_t head_dim_idx = 0) const {
    return self().place(self().tensor, batch_idx, start_tok_idx, head_idx, head_dim_idx);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_block_paged_ptr(
      int64_t batch_idx, int64_t start_tok_idx, int64_t head_idx, int64_t head_dim_idx = 0) const {
    if (self().scales.data == nullptr) return nullptr;
    return self().place(self().scales, batch_idx, start_tok_idx, head_idx,
                        head_dim_idx / QuantizationGranularity);
  }
  FOLIO_HOST_DEVICE constexpr const scale_type* scales_raw_ptr() const {
    return self().scales.data;
  }
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
  FOLIO_HOST_DEVICE constexpr operand::OperandRun run(int64_t batch_idx, int64_t token,
                                                      int64_t head_idx) const {
    const int64_t rest = self().cache_length(batch_idx) - token;
    if (rest <= 0) return {};
    const void* data = self().place(self().tensor, batch_idx, token, head_idx, 0);
    constexpr int tokens = Self::tensor_type::rank - 3;
    return {static_cast<const std::byte*>(data), rest,
            self().tensor.stride(tokens) * int64_t{sizeof(element_type)}};
  }
  /// BMN consecutive scales of the tensor, flat. Coordinates: first scale, 0.
  template <int BMN>
    requires operand_has_scales<ScaleDType> &&
             scale_tile_is_whole_16_bytes_and_at_most_256_scales<ScaleDType, BMN>
  FOLIO_HOST_DEVICE TMATensorTile<2> create_scale_tma_tile() const {
    return tma::scale_tile(tma::address_of(self().scales.data), ScaleDType, self().scales.size(),
                           BMN);
  }
  /// The rows as the functions of tma/ take them; tiles' check() refuses sizes of the tensor that
  /// no tile fits.
  FOLIO_HOST_DEVICE tma::PlaneGeometry tma_plane() const {
    constexpr int heads = Self::tensor_type::rank - 2;
    return tma::plane_of_rows(self().tensor.data, D, self().num_kv_rows(),
                              self().tensor.extent(heads), self().tensor.extent(heads + 1));
  }

 private:
  FOLIO_HOST_DEVICE constexpr const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace detail

/// Packed keys [batch, tokens, heads, dim], with scales [batch, tokens, heads, ceil(dim /
/// granularity)] where ScaleDType is given.
template <DType D, DType ScaleDType = DType::invalid, int QuantizationGranularity = 1>
struct TensorMHAOperand
    : detail::PackedOperand<TensorMHAOperand<D, ScaleDType, QuantizationGranularity>, D, ScaleDType,
                            QuantizationGranularity> {
  using shape = IntTuple<-1, -1, -1, -1>;
  using tensor_type = TensorView<const element_t<D>, Layout<shape>>;
  using scales_type = TensorView<const element_t<ScaleDType>, Layout<shape>>;

  tensor_type tensor = {};  ///< row_major<shape>(batch, tokens, heads, dim)
  scales_type scales = {};  ///< null data: none

  constexpr TensorMHAOperand() = default;
  FOLIO_HOST_DEVICE constexpr TensorMHAOperand(const tensor_type& keys,
                                               const scales_type& scales_of_keys = {})
      : tensor(keys), scales(scales_of_keys) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "TensorMHAOperand"; }

  template <class View>
  FOLIO_HOST_DEVICE constexpr auto* place(const View& view, int64_t batch_idx, int64_t token,
                                          int64_t head_idx, int64_t column) const {
    return view.pointer(batch_idx, token, head_idx, column);
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
};

/// Packed keys [tokens, heads, dim] of all sequences; sequence b owns rows cache_row_offsets[b] ..
/// cache_row_offsets[b + 1). Scales [tokens, heads, ceil(dim / granularity)] where ScaleDType is
/// given.
template <DType D, DType ScaleDType = DType::invalid, int QuantizationGranularity = 1>
struct RaggedMHAOperand
    : detail::PackedOperand<RaggedMHAOperand<D, ScaleDType, QuantizationGranularity>, D, ScaleDType,
                            QuantizationGranularity> {
  using shape = IntTuple<-1, -1, -1>;
  using tensor_type = TensorView<const element_t<D>, Layout<shape>>;
  using scales_type = TensorView<const element_t<ScaleDType>, Layout<shape>>;

  tensor_type tensor = {};                      ///< row_major<shape>(tokens, heads, dim)
  const uint32_t* cache_row_offsets = nullptr;  ///< [batch + 1], ascending
  uint32_t max_length = 0;                      ///< upper bound of a sequence's rows
  /// row_major<shape>(tokens, heads, granules); null data: none
  scales_type scales = {};

  constexpr RaggedMHAOperand() = default;
  FOLIO_HOST_DEVICE constexpr RaggedMHAOperand(const tensor_type& keys, const uint32_t* row_offsets,
                                               uint32_t max, const scales_type& scales_of_keys = {})
      : tensor(keys), cache_row_offsets(row_offsets), max_length(max), scales(scales_of_keys) {}

  static constexpr FOLIO_HOST_DEVICE const char* get_type_name() { return "RaggedMHAOperand"; }

  template <class View>
  FOLIO_HOST_DEVICE constexpr auto* place(const View& view, int64_t batch_idx, int64_t token,
                                          int64_t head_idx, int64_t column) const {
    return view.pointer(cache_row_offsets[batch_idx] + token, head_idx, column);
  }
  FOLIO_HOST_DEVICE constexpr int64_t cache_length(int64_t batch_idx) const {
    return int64_t{cache_row_offsets[batch_idx + 1]} - cache_row_offsets[batch_idx];
  }
  FOLIO_HOST_DEVICE constexpr uint32_t max_context_length() const { return max_length; }
  FOLIO_HOST_DEVICE constexpr int64_t num_kv_rows() const { return tensor.extent(0); }
  FOLIO_HOST_DEVICE constexpr int64_t row_idx(uint32_t batch_idx, uint32_t start_tok_idx) const {
    return int64_t{cache_row_offsets[batch_idx]} + start_tok_idx;
  }
};

}  // namespace folio::inline v1
