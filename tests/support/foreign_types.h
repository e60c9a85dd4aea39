// SPDX-License-Identifier: Apache-2.0
/// tests/support/foreign_types.h: a stranger's types: models of folio's concepts that have the
/// concepts' members and nothing else, over layouts that none of folio's own types has.
///
///   HeadMajorCache    KVCacheT         pages of [head][slot][dim]; says nothing of scales
///   PaddedCache       KVCacheT         one run per sequence, rows with gaps, backwards; scales
///                                      apart, granules before tokens
///   HeadMajorPlanes   KVCollectionT    of the first
///   TiledCache        TmaKVCache       the first, with its tiles
///   ChunkedKeys       MHAOperand       chunks of any length, each with its own pitch
///   TiledKeys         TmaMHAOperand    rows, with their tiles
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "folio/attention/operand/concept.h"
#include "folio/cache/kv_cache.h"
#include "folio/core/element.h"
#include "folio/tma/gather4.h"
#include "folio/tma/row_tiles.h"

namespace stranger {

using namespace folio;  // NOLINT(google-build-using-namespace): as a stranger writes it

/// pool[page][head][slot][dim] of Dim floats; each sequence has a list of pages, -1 where there is
/// none.
template <int Dim>
struct HeadMajorCache {
  using device_type = HeadMajorCache;
  static constexpr DType dtype = DType::f32;
  static constexpr KVCacheStaticParams kv_params{2, Dim};
  static constexpr int page_size_ = 4;

  float* pool = nullptr;
  int64_t pages = 0;
  const int32_t* const* lists = nullptr;  ///< [sequences]
  const uint32_t* lengths = nullptr;
  int64_t sequences = 0;

  static constexpr const char* get_type_name() { return "HeadMajorCache"; }
  static constexpr int64_t max_tile_size() { return page_size_; }
  HeadMajorCache copy() const { return *this; }
  const uint32_t* cache_lengths_nd() const { return lengths; }
  int64_t cache_length(int64_t b) const { return lengths[b]; }
  bool empty_cache() const { return sequences == 0; }
  uint32_t max_prompt_length() const { return 1; }
  uint32_t max_context_length() const { return 64; }

  template <int Width, DType Out = dtype>
  Vec<element_t<Out>, Width> load(int64_t b, int64_t head, int64_t token, int64_t dim) const {
    Vec<element_t<Out>, Width> out;
    const float* at = block_paged_ptr<1>(b, token, head, dim);
    for (int i = 0; at != nullptr && i < Width; ++i) out[i] = from_float<element_t<Out>>(at[i]);
    return out;
  }
  template <int Width>
  void store(int64_t b, int64_t head, int64_t token, int64_t dim,
             const Vec<float, Width>& v) const {
    float* at = block_paged_ptr<1>(b, token, head, dim);
    for (int i = 0; at != nullptr && i < Width; ++i) at[i] = v[i];
  }
  template <int TileSize>
  float* block_paged_ptr(int64_t b, int64_t token, int64_t head, int64_t dim = 0) const {
    const int32_t page = lists[b][token / page_size_];
    if (page < 0) return nullptr;
    return pool + ((page * 2 + head) * page_size_ + token % page_size_) * Dim + dim;
  }
  detail::no_element* scales_block_paged_ptr(int64_t, int64_t, int64_t, int64_t = 0) const {
    return nullptr;
  }
  detail::no_element* scales_raw_ptr() const { return nullptr; }
  /// Rows are those of head 0; a page has as many again.
  int64_t num_kv_rows() const { return pages * 2 * page_size_; }
  int64_t row_idx(uint32_t b, uint32_t token) const {
    const int32_t page = lists[b][token / page_size_];
    return page < 0 ? num_kv_rows() : page * 2 * page_size_ + static_cast<int>(token) % page_size_;
  }
  int64_t get_tma_row(int64_t index) const {
    return index / page_size_ * 2 * page_size_ + index % page_size_;
  }
  template <int BN, int Alignment, bool Pair, bool Leader>
  int64_t populate(uint32_t b, uint32_t first) const {
    return row_idx(b, first);
  }
};

/// Codes: 4096 bytes a sequence, its last token first, 40 bytes from token to token, 15 from head
/// to head. Scales: [sequence][head][granule][64 tokens].
struct PaddedCache {
  using device_type = PaddedCache;
  static constexpr DType dtype = DType::i8;
  static constexpr KVCacheStaticParams kv_params{2, 12};
  static constexpr int page_size_ = 0;
  static constexpr bool quantization_enabled = true;
  static constexpr int quantization_granularity = 5;
  static constexpr DType scale_dtype = DType::f32;
  static constexpr int granules = 3, longest = 64;

  int8_t* codes = nullptr;
  float* scales = nullptr;
  const uint32_t* lengths = nullptr;

  static constexpr const char* get_type_name() { return "PaddedCache"; }
  static constexpr int64_t max_tile_size() { return -1; }
  PaddedCache copy() const { return *this; }
  const uint32_t* cache_lengths_nd() const { return lengths; }
  int64_t cache_length(int64_t b) const { return lengths[b]; }
  bool empty_cache() const { return false; }
  uint32_t max_prompt_length() const { return 1; }
  uint32_t max_context_length() const { return longest; }

  template <int Width, DType Out = dtype>
  Vec<element_t<Out>, Width> load(int64_t b, int64_t head, int64_t token, int64_t dim) const {
    Vec<element_t<Out>, Width> out;
    for (int i = 0; i < Width; ++i)
      out[i] = from_float<element_t<Out>>(to_float(*block_paged_ptr<1>(b, token, head, dim + i)) *
                                          *scales_block_paged_ptr(b, token, head, dim + i));
    return out;
  }
  template <int Width>
  Vec<int8_t, Width> load_quantized(int64_t b, int64_t head, int64_t token, int64_t dim) const {
    Vec<int8_t, Width> out;
    for (int i = 0; i < Width; ++i) out[i] = block_paged_ptr<1>(b, token, head, dim)[i];
    return out;
  }
  template <int Width>
  void store(int64_t b, int64_t head, int64_t token, int64_t dim,
             const Vec<int8_t, Width>& v) const {
    for (int i = 0; i < Width; ++i) block_paged_ptr<1>(b, token, head, dim)[i] = v[i];
  }
  template <int Width>
  Vec<float, Width> load_scale(int64_t b, int64_t head, int64_t token, int64_t dim) const {
    Vec<float, Width> out;
    for (int i = 0; i < Width; ++i)
      out[i] = *scales_block_paged_ptr(b, token, head, dim + i * quantization_granularity);
    return out;
  }
  template <int Width>
  void store_scale(int64_t b, int64_t head, int64_t token, int64_t dim,
                   const Vec<float, Width>& v) const {
    for (int i = 0; i < Width; ++i)
      *scales_block_paged_ptr(b, token, head, dim + i * quantization_granularity) = v[i];
  }
  template <int TileSize>
  int8_t* block_paged_ptr(int64_t b, int64_t token, int64_t head, int64_t dim = 0) const {
    return codes + b * 4096 + (longest - 1 - token) * 40 + head * 15 + dim;
  }
  float* scales_block_paged_ptr(int64_t b, int64_t token, int64_t head, int64_t dim = 0) const {
    return scales + ((b * 2 + head) * granules + dim / quantization_granularity) * longest + token;
  }
  float* scales_raw_ptr() const { return scales; }
  int64_t num_kv_rows() const { return 2 * longest; }
  int64_t row_idx(uint32_t b, uint32_t token) const { return b * longest + token; }
  int64_t get_tma_row(int64_t index) const { return index; }
  template <int BN, int Alignment, bool Pair, bool Leader>
  int64_t populate(uint32_t b, uint32_t first) const {
    return row_idx(b, first);
  }
};

/// K and V of every layer, pool after pool.
struct HeadMajorPlanes {
  using CacheType = HeadMajorCache<12>;
  static constexpr const char* name_str = "head-major";
  static constexpr DType dtype = CacheType::dtype;
  static constexpr KVCacheStaticParams kv_params = CacheType::kv_params;

  CacheType first = {};

  CacheType get_key_cache(int64_t layer) const { return plane(2 * layer); }
  CacheType get_value_cache(int64_t layer) const { return plane(2 * layer + 1); }
  int64_t cache_length(int64_t b) const { return first.cache_length(b); }

 private:
  CacheType plane(int64_t i) const {
    CacheType cache = first;
    cache.pool += i * first.pages * 2 * 4 * 12;
    return cache;
  }
};

/// Tiles of a plane, made by the functions of tma/.
template <class Plane>
struct OwnTiles {
  template <tma::Swizzle Mode, int BN>
  static auto rows(const Plane& p, int depth = 0) {
    return tma::cache_tile(p.tma_plane(), {.swizzle = Mode, .rows = BN, .depth = depth});
  }
  template <tma::Swizzle Mode, int BN>
  static RaggedTMA3DTile ragged(const Plane& p, int depth = 0) {
    return tma::ragged_tile(p.tma_plane(), {.swizzle = Mode, .rows = BN, .depth = depth}, 1);
  }
  template <tma::Swizzle Mode, int BN, int BK, int PaddedDepth>
  static TMATensorTile<3> rope(const Plane& p) {
    return tma::rope_tile(
        p.tma_plane(), {.swizzle = Mode, .rows = BN, .columns = BK, .padded_depth = PaddedDepth});
  }
  template <int Width, int Stride, tma::Swizzle Mode>
  static TMATensorTile<2> gather4(const Plane& p) {
    return tma::gather4_tile(
        p.tma_plane(),
        {4, Width, Stride, Mode, tma::data_type_of(Plane::dtype), tma::L2Promotion::none});
  }
};

/// HeadMajorCache with heads of 16 floats, as TMA loads it.
struct TiledCache : HeadMajorCache<16> {
  using device_type = TiledCache;
  TiledCache copy() const { return *this; }
  tma::PlaneGeometry tma_plane() const {
    return {
        reinterpret_cast<uintptr_t>(pool), dtype, 2, 16, pages, 4, 2 * 4 * 64, 64, 4 * 64, true};
  }
  template <tma::Swizzle Mode, int BN>
  TMATensorTile<3> create_tma_tile() const {
    return OwnTiles<TiledCache>::rows<Mode, BN>(*this);
  }
  template <tma::Swizzle Mode, int BN>
  RaggedTMA3DTile create_ragged_tma_tile() const {
    return OwnTiles<TiledCache>::ragged<Mode, BN>(*this);
  }
  template <tma::Swizzle Mode, int BN, int BK, int PaddedDepth>
  TMATensorTile<3> create_rope_tma_tile() const {
    return OwnTiles<TiledCache>::rope<Mode, BN, BK, PaddedDepth>(*this);
  }
  template <int Width, int Stride, tma::Swizzle Mode>
  TMATensorTile<2> create_gather4_tma_tile() const {
    return OwnTiles<TiledCache>::gather4<Width, Stride, Mode>(*this);
  }
};

/// A list of chunks, as an allocator of odd sizes leaves them: each has its own number of keys and
/// its own pitch, either way, or no memory.
struct ChunkedKeys {
  struct Chunk {
    int64_t first = 0, keys = 0;  ///< of the sequence
    const float* data = nullptr;
    int64_t pitch = 0;  ///< floats
  };
  using device_type = ChunkedKeys;
  static constexpr DType dtype = DType::f32;
  static constexpr int page_size = dynamic;
  static constexpr bool quantization_enabled = false;
  static constexpr int quantization_granularity = 1;
  static constexpr DType scale_dtype = DType::invalid;

  const Chunk* chunks = nullptr;
  int64_t count = 0;
  uint32_t length = 0;

  static constexpr const char* get_type_name() { return "ChunkedKeys"; }
  OperandRun run(int64_t, int64_t token, int64_t head) const {
    for (int64_t i = 0; i < count; ++i) {
      const Chunk& c = chunks[i];
      if (token < c.first || token >= c.first + c.keys) continue;
      const int64_t rows = c.first + c.keys - token;
      if (c.data == nullptr) return {nullptr, rows, 0};
      return {reinterpret_cast<const std::byte*>(c.data + (token - c.first) * c.pitch + head * 64),
              rows, c.pitch * 4};
    }
    return {};
  }
  int64_t cache_length(int64_t) const { return length; }
  uint32_t max_context_length() const { return length; }
  int64_t num_kv_rows() const { return 0; }
  int64_t row_idx(uint32_t, uint32_t) const { return 0; }
  int64_t get_tma_row(int64_t index) const { return index; }
  const detail::no_element* scales_block_paged_ptr(int64_t, int64_t, int64_t, int64_t) const {
    return nullptr;
  }
  const detail::no_element* scales_raw_ptr() const { return nullptr; }
};

/// Rows of 64 floats.
struct TiledKeys : ChunkedKeys {
  using device_type = TiledKeys;
  tma::PlaneGeometry tma_plane() const {
    return {reinterpret_cast<uintptr_t>(chunks->data),
            dtype,
            1,
            64,
            1,
            length,
            256 * int64_t{length},
            256,
            256,
            false};
  }
  template <tma::Swizzle Mode, int BN, int Depth>
  TMATensorTile<3> create_tma_tile() const {
    return OwnTiles<TiledKeys>::rows<Mode, BN>(*this, Depth);
  }
  template <tma::Swizzle Mode, int BN, int Depth>
  RaggedTMA3DTile create_ragged_tma_tile() const {
    return OwnTiles<TiledKeys>::ragged<Mode, BN>(*this, Depth);
  }
  template <tma::Swizzle Mode, int BN, int BK, int PaddedDepth>
  TMATensorTile<3> create_rope_tma_tile() const {
    return OwnTiles<TiledKeys>::rope<Mode, BN, BK, PaddedDepth>(*this);
  }
  template <int Width, int Stride, tma::Swizzle Mode>
  TMATensorTile<2> create_gather4_tma_tile() const {
    return OwnTiles<TiledKeys>::gather4<Width, Stride, Mode>(*this);
  }
};

}  // namespace stranger
