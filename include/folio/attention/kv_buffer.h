// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer.h: KVBuffer: the data path of K or V, from pages through staging to
/// register tiles.
///
///     pages --kv_cache_iter--> rows of a tile --Loader--> staging (smem_tile) --kv_mma_op-->
///     register tiles --> multiply
///
/// A buffer serves one plane and one KV head; K and V have one each. The plain instance
/// (PlainLoader, KVMmaOp) runs anywhere and shows what every other must do. An instruction set
/// replaces, through its Config, the loader and the fragments and nothing else:
///
///     struct Keys {                                       // a type of an anonymous namespace in
///                                                         ISA objects: no weak symbols
///       static constexpr IndexList<3> mma_shape{16, 16, 32};
///       static constexpr int BN = 64, BK = 128, depth = 128;
///       static constexpr bool transpose = true;           // K
///       static constexpr DType smem_dtype = DType::bf16;  // what is staged; the operand's dtype
///                                                         if left out
///       template <class Shape> using Loader = ...;        // PlainLoader
///       template <class Shape> using Fragments = ...;     // KVMmaOp
///     };
///
/// Shape is KVBufferShape<Operand, Config>: all parameters, with defaults, and all derived
/// constants.
///
/// A Loader moves memory to staging:
///
///     Loader(smem_type* smem)                             num_smem_stages * smem_stage_size
///                                                         elements, aligned as the caller likes
///     num_steps                                           constant: pieces of a stage; each is
///                                                         loaded once, in any order. Warps of a
///                                                         block share them: warp w takes load
///                                                         steps w, w + num_warps, ..
///     begin(stage, source)                                a stage is about to be loaded: look at
///                                                         the rows, load nothing heavy
///     load(stage, source, step)                           one piece
///     at(stage, key, column) -> smem_type                 a staged element; for tests and for
///                                                         plain fragments
///
/// Loaders that convert multiply the elements of a quantised operand by their scales in float32, be
/// it a view or an operand whose scales `load_scale` gives; PlainLoader stages what is stored.
///
/// `source` (KVSource<Shape>) gives row(key), null if it reads as zero, group<Count>(first), the
/// rows at one stride if all are there, `columns` (those from there on read as zero) and scale(key,
/// column). Rows past the end, rows that nobody sees and rows of unassigned pages MUST come out as
/// zero in every element, columns from `columns` up to smem_cols too: staging is never clean
/// before.
///
/// Fragments move staging to register tiles, and are the type of kv_mma_op:
///
///     load<bk_tile>(loader, stage, first_column, first_key)   strip bk_tile into slot bk_tile %
///                                                             reg_num_k_tiles
///     tile<k_mma, bk_tile>(lane) -> MMATileType                num_mmas x input_frag_size elements
///     zero_partial_tile_pad()                                  columns from depth on of the last
///                                                              strip of K become zero
///
/// Loaders that ship beside PlainLoader: InPlaceLoader (staging is the page: loading is
/// prefetching), TileLoader with the fragments StagedTiles (staging is packed, converted MMA tiles;
/// register tiles are addresses). A loader of an instruction set that keeps MmaTiles' order of
/// tiles uses StagedTiles as it is.
///
/// On a GPU a buffer is the lane's own registers: CpAsyncLoader or TmaLoader, which look rows up
/// themselves (LaneIterator), with WarpFragments. They and their views of shared memory are
/// templates over the machine, a thread of a kernel, and run in the emulator too. A kernel gives
/// SmemParentType{{&t, address}, {}} as staging, or a TmaStaging.
///
/// Loading comes in pieces, so that a consumer can place them between its own steps:
///
///     buffer.kv_cache_iter.set_tile(keys, head);           // found once by PageCursor, or leave
///                                                          it to next_tile
///     buffer.begin_load(stage);
///     while (computing) { ...; buffer.load_from_dram_step(); }
///     buffer.finish_load();                                // = load_from_dram<stage>(), in three
///                                                          calls
#pragma once

#include <cstdint>
#include <type_traits>

#include "folio/attention/kv_buffer/cp_async_loader.h"
#include "folio/attention/kv_buffer/in_place_loader.h"
#include "folio/attention/kv_buffer/iterator.h"
#include "folio/attention/kv_buffer/lane_iterator.h"
#include "folio/attention/kv_buffer/mma_op.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/kv_buffer/plain_loader.h"
#include "folio/attention/kv_buffer/shape.h"
#include "folio/attention/kv_buffer/source.h"
#include "folio/attention/kv_buffer/tile_loader.h"
#include "folio/attention/kv_buffer/tma_loader.h"
#include "folio/attention/kv_buffer/warp_fragments.h"
#include "folio/attention/operand/concept.h"
#include "folio/core/host_device.h"
#include "folio/core/tensor_view.h"

namespace folio::inline v1 {

namespace detail {

template <class Shape, class Config>
struct BufferLoader {
  using type = kv_buffer::PlainLoader<Shape>;
};
template <class Shape, class Config>
  requires requires { typename Config::template Loader<Shape>; }
struct BufferLoader<Shape, Config> {
  using type = typename Config::template Loader<Shape>;
};
template <class Shape, class Config>
struct BufferFragments {
  using type = KVMmaOp<Shape>;
};
template <class Shape, class Config>
  requires requires { typename Config::template Fragments<Shape>; }
struct BufferFragments<Shape, Config> {
  using type = typename Config::template Fragments<Shape>;
};

/// Loaders of lanes look the rows of a tile up themselves.
template <class Loader> concept LoaderIsForLanes = requires { requires Loader::is_for_lanes; };

/// Views of staging: of memory, or as the loader has them.
template <class Loader, class T, class L>
struct StagingView {
  using type = TensorView<T, L>;
};
template <class Loader, class T, class L>
  requires LoaderIsForLanes<Loader>
struct StagingView<Loader, T, L> {
  using type = typename Loader::template View<L>;
};
/// Staging as a kernel gives it to a buffer: a view, and what else the loader needs.
template <class Loader, class T, class L>
struct StagingParent : StagingView<Loader, T, L> {};
template <class Loader, class T, class L>
  requires requires { typename Loader::template Parent<L>; }
struct StagingParent<Loader, T, L> {
  using type = typename Loader::template Parent<L>;
};

}  // namespace detail

namespace detail {

/// The last strip of K covers at most half of its fragment, so that one half of every fragment is
/// pad.
template <class Shape>
concept partial_strip_is_at_most_half_of_BK = Shape::depth % Shape::BK <= Shape::BK / 2;
/// All strips have their own register slot.
template <class Shape>
concept registers_hold_all_strips = Shape::reg_num_k_tiles == Shape::num_k_tiles;

}  // namespace detail

/// See above. Thread safety: none; the warps of a block have a buffer each, over one staging
/// memory, and synchronise themselves.
template <MHAOperand Operand, class Config>
class KVBuffer : public KVBufferShape<Operand, Config> {
 public:
  using Shape = KVBufferShape<Operand, Config>;
  using Loader = typename detail::BufferLoader<Shape, Config>::type;
  using KVMmaOpType = typename detail::BufferFragments<Shape, Config>::type;
  using smem_type = typename Shape::smem_type;
  /// All stages: (row, column) with row < BN; columns count through the blocks of all stages and
  /// are multiples of bk_smem.
  using SmemParentType = typename detail::StagingParent<
      Loader, smem_type,
      Layout<IntTuple<Shape::BN, Shape::total_cols>, IntTuple<Shape::bk_smem, Shape::BN>>>::type;
  /// (tile_rows, bk_smem) rows of a block of it.
  template <int tile_rows>
  using SmemBlockType =
      typename detail::StagingView<Loader, smem_type,
                                   Layout<IntTuple<tile_rows, Shape::bk_smem>>>::type;
  static constexpr bool is_for_lanes = detail::LoaderIsForLanes<Loader>;
  using KVCacheIteratorType = std::conditional_t<
      is_for_lanes,
      kv_buffer::LaneIterator<Operand, Shape::BN, Shape::kv_num_heads, Shape::depth,
                              Shape::cache_depth, Shape::head_dim_offset>,
      KVCacheIterator<Operand, Shape::BN, Shape::kv_num_heads, Shape::depth, Shape::cache_depth,
                      Shape::head_dim_offset>>;
  using MMATileType = typename KVMmaOpType::MMATileType;
  /// Elements of staging that the caller provides.
  static constexpr int64_t smem_elements = int64_t{Shape::num_smem_stages} * Shape::smem_stage_size;

  KVMmaOpType kv_mma_op = {};         ///< register tiles
  SmemParentType smem_tile = {};      ///< staging, shared by the warps of a block
  KVCacheIteratorType kv_cache_iter;  ///< what is loaded next
  uint32_t warp_id = 0;               ///< of num_warps

  /// Keys [0, end) of sequence `batch_idx`, head `head_idx`. `smem_tile`: smem_elements elements,
  /// borrowed.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE KVBuffer(const Operand& k_cache, int64_t batch_idx,
                                                 int64_t head_idx, SmemParentType smem, int64_t end,
                                                 uint32_t warp = 0)
      : smem_tile(smem),
        kv_cache_iter(k_cache, batch_idx, head_idx, end),
        warp_id(warp),
        loader_(loader_of(smem)) {}

  KVBuffer(const KVBuffer&) = delete;  // a load in progress points into its own iterator
  KVBuffer& operator=(const KVBuffer&) = delete;

  /// A (tile_rows, bk_smem) block of staging before the swizzle, rows bk_smem apart: rows [tile_row
  /// * tile_rows, ..) of block `block_col`, which counts through the blocks of all stages.
  template <int tile_rows>
  FOLIO_HOST_DEVICE SmemBlockType<tile_rows> smem_block_tile(int tile_row, int block_col) const {
    return {smem_tile.data + int64_t{tile_row} * tile_rows * Shape::bk_smem +
                int64_t{block_col} * Shape::bk_smem * Shape::BN,
            {}};
  }

  /// This warp's part of the next tile, or of its next strip where stages are streamed, into stage
  /// `buffer_idx`.
  template <int buffer_idx>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load_from_dram() {
    static_assert(buffer_idx >= 0 && buffer_idx < Shape::num_smem_stages,
                  "load_from_dram: no such stage");
    begin_load(buffer_idx);
    finish_load();
  }
  /// The same in pieces. One load at a time.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void begin_load(int stage) {
    if constexpr (is_for_lanes) {
      if (strip_ == 0) source_.tile = kv_cache_iter.next_tile();
    } else {
      if constexpr (detail::HasLoadedScales<Operand>) {
        if (strip_ == 0)
          source_.loaded_scales = {&kv_cache_iter.operand(), kv_cache_iter.batch_idx(),
                                   kv_cache_iter.kv_head_idx(), kv_cache_iter.tile_start_row()};
      }
      if (strip_ == 0) source_.tile = &kv_cache_iter.next_tile();
      if constexpr (detail::HasView<Operand>) {
        const ScaleView& scales = kv_cache_iter.operand().view.scales;
        source_.scale_view = scales.data != nullptr ? &scales : nullptr;
      }
    }
    source_.first_column = strip_ * Shape::bk_smem;
    const int32_t columns = kv_cache_iter.columns() - source_.first_column;
    source_.columns = columns < 0 ? 0 : columns < Shape::smem_cols ? columns : Shape::smem_cols;
    stage_ = stage;
    step_ = static_cast<int32_t>(warp_id);
    set_first_column(stage, source_.first_column);
    strip_ = strip_ + 1 < Shape::num_strips ? strip_ + 1 : 0;
    loader_.begin(stage, source());
  }
  /// Takes one load step; false if there was none left.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE bool load_from_dram_step() {
    if (step_ >= Loader::num_steps) return false;
    loader_.load(stage_, source(), step_);
    step_ += Shape::num_warps;
    return true;
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void finish_load() {
    for (; step_ < Loader::num_steps; step_ += Shape::num_warps)
      loader_.load(stage_, source(), step_);
  }

  /// All strips of stage `buffer` to registers; of a streamed stage of K, the strip that it holds.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load_from_shared(int buffer)
    requires detail::registers_hold_all_strips<Shape>
  {
    load_strips<0>(buffer);
  }
  /// Strip `bk_tile` of stage `buffer` into slot bk_tile % reg_num_k_tiles. A streamed stage of K
  /// holds that strip.
  template <int bk_tile>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load_from_shared(int buffer) {
    static_assert(bk_tile >= 0 && bk_tile < Shape::num_k_tiles, "load_from_shared: no such strip");
    constexpr int num_warp_columns = Shape::BN / Shape::WN;
    const int first_key = static_cast<int>(warp_id % num_warp_columns) * Shape::WN;
    kv_mma_op.template load<bk_tile>(loader_, buffer, first_column(buffer), first_key);
  }

  /// Register tiles of K = [k_mma * MMA_K, + MMA_K) of strip `bk_tile`, as lane `lane` of the warp
  /// holds them.
  template <int k_mma_tile_idx, int bk_tile_idx>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE MMATileType get_mma_tile(int lane = 0) const {
    static_assert(k_mma_tile_idx < Shape::num_k_mmas2 && bk_tile_idx < Shape::num_k_tiles,
                  "get_mma_tile: no such tile");
    return kv_mma_op.template tile<k_mma_tile_idx, bk_tile_idx>(lane);
  }
  /// The seed's second name for it.
  template <int k_mma_tile_idx, int bk_tile_idx>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE MMATileType mma_subtile(int lane = 0) const {
    return get_mma_tile<k_mma_tile_idx, bk_tile_idx>(lane);
  }
  /// Makes the columns from `depth` on of the last, partial strip of K zero. After every load of
  /// that strip; nothing to do where depth % BK == 0.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void zero_partial_tile_pad()
    requires detail::partial_strip_is_at_most_half_of_BK<Shape>
  {
    kv_mma_op.zero_partial_tile_pad();
  }

  /// For what a loader offers beyond the contract.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Loader& loader() { return loader_; }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE const Loader& loader() const { return loader_; }

 private:
  template <int bk_tile>
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void load_strips(int buffer) {
    const bool is_there =
        !Shape::transpose || Shape::full_kv || first_column(buffer) == bk_tile * Shape::BK;
    if (is_there) load_from_shared<bk_tile>(buffer);
    if constexpr (bk_tile + 1 < Shape::num_k_tiles) load_strips<bk_tile + 1>(buffer);
  }

  /// What of a tile lanes keep; the rows are the iterator's.
  struct LanePart {
    kv_buffer::LaneTile tile = {};
    int32_t first_column = 0;
    int32_t columns = 0;
  };
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE decltype(auto) source() const {
    if constexpr (is_for_lanes) {
      return detail::LaneSource<KVCacheIteratorType>{kv_cache_iter, source_.tile,
                                                     source_.first_column, source_.columns};
    } else {
      return (source_);
    }
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE static decltype(auto) loader_of(
      const SmemParentType& staging) {
    if constexpr (std::is_constructible_v<Loader, const SmemParentType&>) {
      return Loader(staging);
    } else {
      return Loader(staging.data);
    }
  }
  /// The first column of what a stage holds. Stages are found by comparison: an index that is no
  /// constant would put the array into a lane's local memory.
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE int32_t first_column(int stage) const {
    if constexpr (Shape::num_strips == 1) {
      return 0;
    } else {
      int32_t column = first_column_[0];
      FOLIO_UNROLL
      for (int s = 1; s < Shape::num_smem_stages; ++s)
        column = s == stage ? first_column_[s] : column;
      return column;
    }
  }
  FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE void set_first_column(int stage, int32_t column) {
    FOLIO_UNROLL
    for (int s = 0; s < Shape::num_smem_stages; ++s)
      first_column_[s] = s == stage ? column : first_column_[s];
  }

  Loader loader_;
  std::conditional_t<is_for_lanes, LanePart, kv_buffer::KVSource<Shape>> source_ = {};
  int32_t stage_ = 0;
  int32_t step_ = Loader::num_steps;
  int32_t strip_ = 0;                                  ///< the next load's
  int32_t first_column_[Shape::num_smem_stages] = {};  ///< of what each stage holds
};

}  // namespace folio::inline v1
