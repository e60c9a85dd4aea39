// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/stage.h: the KVBuffer instance of the AMX kernel for grouped heads: staging
/// is packed B tiles of bf16.
///
/// Tiles lie in MmaTiles' order; inside those of V, columns are permuted as `value_column` says.
/// The rows of a tile are 64 addresses, those that nobody sees being one row of zeros, so pages of
/// any size, order and alignment do; they are staged in the order of memory, while a pacer fetches
/// what comes next. Scales stay with the caller: they do not vary along a row, so scores and
/// weights are multiplied by them. ISA-safe: templates on a tag type.
#pragma once

#include <new>
#include <type_traits>

#include "cpu/amx/grouped/stage_keys.h"
#include "cpu/amx/grouped/stage_values.h"
#include "cpu/skeleton/mutant.h"
#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand/view_operand.h"
#include "folio/core/element.h"

namespace folio::inline v1::amx {

/// A head of 512 elements of zeros, whatever is stored.
template <class I>
struct DeadRow {
  alignas(64) static constexpr std::byte zeros[2048] = {};
  /// for a deliberate fault: begins with NaN
  alignas(64) static constexpr float anything[512] = {__builtin_nanf("")};
};

/// The rows of a tile.
struct alignas(64) RowAddresses {
  const std::byte* at[tile_keys];
};

/// A load step is a whole tile: the pacer, if there is one, gets a tick of `lines` for each four
/// lines read.
template <class I, class Shape>
class StageLoader {
 public:
  using smem_type = typename Shape::smem_type;
  static constexpr int num_steps = 1;
  static_assert(Shape::BN == tile_keys && Shape::smem_dtype == DType::bf16 && Shape::full_kv &&
                    Shape::num_warps == 1 && Shape::depth % 32 == 0 &&
                    Shape::smem_depth == Shape::depth,
                "StageLoader: 64 keys of whole tiles of bf16");

  FOLIO_ALWAYS_INLINE explicit StageLoader(smem_type* smem) : smem_(smem) {}

  FOLIO_ALWAYS_INLINE void begin(int, const KVSource<Shape>& source) {
    columns_ = source.columns;
    for (int key = 0; key < tile_keys; ++key) {
      const std::byte* const row = source.row(key);
      rows_.at[key] = row != nullptr ? row : DeadRow<I>::zeros;
      if (I::mutant == Mutant::value_tail_not_zeroed && !Shape::transpose && row == nullptr)
        rows_.at[key] = reinterpret_cast<const std::byte*>(DeadRow<I>::anything);
    }
  }

  FOLIO_ALWAYS_INLINE void load(int stage, const KVSource<Shape>&, int) {
    using Stage = std::conditional_t<Shape::transpose, KeyStage<I, Shape::operand_type::dtype>,
                                     ValueStage<I, Shape::operand_type::dtype>>;
    Pacer<I> idle;
    FourRows<I> rows(rows_.at, stored, Shape::operand_type::dtype, columns_);
    Stage::tile(rows, columns_, Shape::depth / 32,
                reinterpret_cast<std::byte*>(smem_ + stage * Shape::smem_stage_size),
                pacer != nullptr ? *pacer : idle, lines);
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE smem_type at(int stage, int key, int column) const {
    return stage_of(
        stage)[MmaTiles<Shape>::offset(key, Shape::transpose ? column : value_column(column))];
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE const smem_type* stage_of(int stage) const {
    return smem_ + int64_t{stage} * Shape::smem_stage_size;
  }

  Pacer<I>* pacer = nullptr;
  int lines = 0;
  DType stored = Shape::operand_type::dtype;  ///< where the operand is of bf16: what rows are of

 private:
  smem_type* smem_;
  int columns_ = 0;
  RowAddresses rows_;
};

/// Its Config: `Depth` is a multiple of 32, at least the head size; a stage for each tile that is
/// held at once, two at least.
template <class I, bool Keys, int Depth, int Stages = 2>
struct StageConfig {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int num_smem_stages = Stages;
  static constexpr int BN = tile_keys, BK = 32, bk_smem = Keys ? BK : Depth, depth = Depth;
  static constexpr bool transpose = Keys;
  static constexpr DType smem_dtype = DType::bf16;
  template <class Shape>
  using Loader = StageLoader<I, Shape>;
  template <class Shape>
  using Fragments = StagedTiles<Shape>;
};

/// A KVBuffer of one plane whose stored type is known at run time: bf16 and 8 bits are staged as
/// they lie, all others converted to bf16 first.
template <class I, bool Keys, int Depth, int Stages = 2>
class StagedPlane {
 public:
  /// Columns [0, head_size) of a head. `staging`: the stages that are used, one after the other,
  /// 64-byte aligned.
  FOLIO_ALWAYS_INLINE StagedPlane(const PagedKVView& view, int head_size, std::byte* staging) {
    switch (view.dtype) {
      case DType::i8: use<DType::i8>(view, head_size, staging); break;
      case DType::f8_e4m3: use<DType::f8_e4m3>(view, head_size, staging); break;
      case DType::f8_e5m2: use<DType::f8_e5m2>(view, head_size, staging); break;
      default: use<DType::bf16>(view, head_size, staging); break;
    }
  }

  /// Brings a tile of one head to stage `stage`.
  FOLIO_ALWAYS_INLINE void load(const KeyTile& tile, int head, int stage, Pacer<I>& pacer,
                                int lines) {
    load_(*this, tile, head, stage, pacer, lines);
  }

 private:
  template <DType D>
  using Buffer = KVBuffer<ViewMHAOperand<D>, StageConfig<I, Keys, Depth, Stages>>;

  template <DType D>
  void use(const PagedKVView& view, int head_size, std::byte* staging) {
    static_assert(sizeof(Buffer<D>) == sizeof memory_);
    ViewMHAOperand<D> operand;
    operand.view = view;
    operand.view.head_size = head_size;
    if (I::mutant == Mutant::dense_page_stride) operand.view = with_dense_pages(operand.view);
    auto* const made =
        new (memory_) Buffer<D>(operand, 0, 0, {reinterpret_cast<bf16*>(staging), {}}, 0);
    made->loader().stored = view.dtype;
    load_ = [](StagedPlane& plane, const KeyTile& tile, int head, int stage, Pacer<I>& pacer,
               int lines) {
      Buffer<D>& buffer = *std::launder(reinterpret_cast<Buffer<D>*>(plane.memory_));
      buffer.loader().pacer = &pacer;
      buffer.loader().lines = lines;
      buffer.kv_cache_iter.set_tile(tile, head);
      buffer.begin_load(stage);
      buffer.finish_load();
    };
  }

  void (*load_)(StagedPlane&, const KeyTile&, int, int, Pacer<I>&, int) = nullptr;
  alignas(64) std::byte memory_[sizeof(Buffer<DType::bf16>)];
};

}  // namespace folio::inline v1::amx
