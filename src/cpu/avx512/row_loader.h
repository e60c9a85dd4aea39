// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/row_loader.h: the KVBuffer instance of the AVX-512 kernels: staging is the page
/// itself wherever it can be.
///
/// The products read a tile as four groups of 16 rows, each at one stride. A group whose rows all
/// lie in one run of slots, as the type the products multiply, unscaled, is read where it lies.
/// Every other group (the edge of what is visible, an unassigned page, pages of fewer than 16
/// slots, another type, scales along the row, columns that end inside a vector) is brought row by
/// row into a stage of its own, with zeros where there is nothing; groups behind the last seen key
/// are not: nobody reads them. Head sizes, and what is stored, are run-time values: Shape::depth is
/// an upper bound. ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <new>

#include "cpu/avx512/copied_rows.h"
#include "cpu/avx512/layout.h"
#include "cpu/avx512/requests.h"
#include "cpu/convert/staged_row.h"
#include "cpu/skeleton/mutant.h"
#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand/view_operand.h"

namespace folio::inline v1::avx512 {

struct RowOptions {
  int32_t read_as_vectors = 0;    ///< columns that the products load by whole vectors
  int32_t stride_max = 0;         ///< runs whose rows are further apart are copied; 0: none
  bool is_as_stored = false;      ///< the products widen: rows stay of the type that is stored
  DType stored = DType::invalid;  ///< what rows are of; invalid: what the operand says
  int32_t rows = tile_keys;       ///< of a tile that are read; groups behind them hold anything
};

/// Units: a few in which lines are on their way, then rows that are not read in place are brought
/// to the stage, a few at a time. The lines of all rows are requested by the products, one by one.
template <class I, class Shape>
class RowLoader {
 public:
  using smem_type = typename Shape::smem_type;
  static constexpr int group_rows = TileGroups::group_rows;
  static constexpr int num_groups = Shape::BN / group_rows,
                       rows_at_once = Tuning<I::per_word>::staged_rows;
  static constexpr int first_copy = 4, num_steps = first_copy + Shape::BN / rows_at_once;
  static_assert(Shape::BN == tile_keys && Shape::num_smem_stages == stages &&
                    Shape::num_warps == 1 && Shape::full_kv && Shape::bk_smem == Shape::smem_cols &&
                    Shape::swizzle.bits == 0,
                "RowLoader: two full stages of 64 plain rows");

  /// Of `smem` only two stages of 64 rows of the columns in memory, rounded up to whole vectors,
  /// are used.
  FOLIO_ALWAYS_INLINE explicit RowLoader(smem_type* smem) : smem_(smem) {}

  FOLIO_ALWAYS_INLINE void begin(int stage, const KVSource<Shape>& source) {
    columns_ = source.columns;
    row_columns_ = static_cast<int>(skeleton::round_up(source.columns, vector_columns));
    row_ = StagedRow<I, smem_type>(stored());
    const bool readable = is_copied(source) && skeleton::round_up(options.read_as_vectors,
                                                                  vector_columns) <= source.columns;
    const int lines = (stored_row_bytes() + 63) / 64;
    is_staging_ = is_copying_ = false;
    LineList& list = fetch_[stage];
    list.clear();
    for (int g = 0; g < num_groups; ++g) {
      TileRows rows = source.template group<group_rows>(g * group_rows);
      if (rows.data != nullptr) {
        list.add({rows.data, rows.stride_bytes, lines, group_rows});
      } else if (g * group_rows < options.rows) {
        list_rows(source, g, lines, list);
      }
      const bool is_far = options.stride_max > 0 && rows.stride_bytes > options.stride_max;
      run_[stage][g] = readable && is_far ? rows : TileRows{};
      is_copying_ |= run_[stage][g].data != nullptr;
      if (!readable || is_far) rows.data = nullptr;
      is_in_place_[stage][g] = rows.data != nullptr;
      is_staging_ |= rows.data == nullptr && g * group_rows < options.rows;
      if (rows.data == nullptr) rows = {own_row(stage, g * group_rows), row_bytes()};
      const bool is_swapped = I::mutant == Mutant::value_order_wrong && !Shape::transpose;
      tile_[stage].group[is_swapped ? g ^ 1 : g] = rows;
    }
  }

  FOLIO_ALWAYS_INLINE void load(int stage, const KVSource<Shape>& source, int step) {
    if (step < first_copy) return;
    const int first = (step - first_copy) * rows_at_once;
    if (first >= options.rows || is_in_place_[stage][first / group_rows]) return;
    if (run_[stage][first / group_rows].data != nullptr) return copy(stage, first);
    for (int key = first; key < first + rows_at_once; ++key) bring(stage, source, key);
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE const TileGroups& groups(int stage) const {
    return tile_[stage];
  }

  /// Whether steps do anything for the tile that was begun last.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_staging() const { return is_staging_; }

  /// Whether runs of slots are among them: their lines are to be requested first.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_copying() const { return is_copying_; }

  /// Lines of the memory behind a stage, for the products to request; more may be added.
  [[nodiscard]] FOLIO_ALWAYS_INLINE LineList& fetches(int stage) { return fetch_[stage]; }

  [[nodiscard]] FOLIO_ALWAYS_INLINE smem_type at(int stage, int key, int column) const {
    smem_type value = {};
    // nothing reads further
    if (column >= (is_in_place_[stage][key / group_rows] ? columns_ : row_columns_)) return value;
    const TileRows rows = tile_[stage].group[key / group_rows];
    __builtin_memcpy(
        &value,
        rows.data + key % group_rows * rows.stride_bytes + column * int64_t{sizeof(smem_type)},
        sizeof(smem_type));
    return value;
  }

  RowOptions options = {.read_as_vectors = Shape::transpose ? 0 : Shape::depth};

 private:
  static constexpr int vector_columns = 64 / static_cast<int>(sizeof(smem_type));

  [[nodiscard]] FOLIO_ALWAYS_INLINE DType stored() const {
    return options.stored != DType::invalid ? options.stored : Shape::operand_type::dtype;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int stored_row_bytes() const {
    return static_cast<int>(folio::row_bytes(stored(), columns_));
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t row_bytes() const {
    return int64_t{row_columns_} * staged_bytes();
  }
  /// Of an element.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int staged_bytes() const {
    return options.is_as_stored ? bit_width(stored()) / 8 : static_cast<int>(sizeof(smem_type));
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE std::byte* own_row(int stage, int key) const {
    return reinterpret_cast<std::byte*>(smem_) + (int64_t{stage} * tile_keys + key) * row_bytes();
  }
  /// Rows need not be converted.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_copied(const KVSource<Shape>& source) const {
    return (row_.is_stored() || options.is_as_stored) && !source.has_scales();
  }

  /// Whole lines of a run of slots.
  FOLIO_ALWAYS_INLINE void copy(int stage, int first) {
    const TileRows& run = run_[stage][first / group_rows];
    copy_lines({run.data + first % group_rows * run.stride_bytes, run.stride_bytes}, rows_at_once,
               static_cast<int>(row_bytes() / 64), own_row(stage, first));
  }

  /// One row to its stage, with zeros behind its columns.
  __attribute__((noinline)) void bring(int stage, const KVSource<Shape>& source, int key) {
    std::byte* const to = own_row(stage, key);
    const std::byte* const from = source.row(key);
    if (I::mutant == Mutant::value_tail_not_zeroed && !Shape::transpose && from == nullptr) return;
    if (!options.is_as_stored)
      return row_.bring(source, key, row_columns_, reinterpret_cast<smem_type*>(to));
    const int64_t bytes = from == nullptr ? 0 : int64_t{columns_} * staged_bytes();
    if (bytes > 0) __builtin_memcpy(to, from, static_cast<size_t>(bytes));
    __builtin_memset(to + bytes, 0, static_cast<size_t>(row_bytes() - bytes));
  }

  /// Rows of a group that is no run of slots.
  __attribute__((noinline)) static void list_rows(const KVSource<Shape>& source, int g, int lines,
                                                  LineList& list) {
    for (int key = g * group_rows; key < (g + 1) * group_rows; ++key) {
      const std::byte* const row = source.row(key);
      if (row != nullptr) list.add({row, 0, lines, 1});
    }
  }

  smem_type* smem_;
  int columns_ = 0;
  int row_columns_ = 0;
  StagedRow<I, smem_type> row_{Shape::smem_dtype};
  TileGroups tile_[stages];
  LineList fetch_[stages];
  bool is_in_place_[stages][num_groups] = {};
  TileRows run_[stages][num_groups] = {};  // that could be read in place and is copied
  bool is_staging_ = false;
  bool is_copying_ = false;
};

/// Fragments that stay where they are: the one register tile is a tile's groups of rows.
template <class Shape>
class RowGroups {
 public:
  using MMATileType = const TileGroups*;
  template <int, class Loader>
  FOLIO_ALWAYS_INLINE void load(const Loader& loader, int stage, int, int) {
    groups_ = &loader.groups(stage);
  }
  template <int, int>
  FOLIO_ALWAYS_INLINE MMATileType tile(int = 0) const {
    return groups_;
  }
  /// Nothing reads columns that are not there, or they are zero.
  FOLIO_ALWAYS_INLINE void zero_partial_tile_pad() {}

 private:
  const TileGroups* groups_ = nullptr;
};

/// The Config of the instance; `I` is a type of an anonymous namespace.
template <class I, bool Keys, int Depth = 576>
struct RowConfig {
  static constexpr IndexList<3> mma_shape{lanes, 16, I::per_word};
  static constexpr int BN = tile_keys, depth = Depth, bk_smem = depth, BK = Keys ? depth : BN;
  static constexpr bool transpose = Keys;
  static constexpr DType smem_dtype = I::per_word == 1 ? DType::f32 : DType::bf16;
  template <class Shape>
  using Loader = RowLoader<I, Shape>;
  template <class Shape>
  using Fragments = RowGroups<Shape>;
};

/// A KVBuffer of one plane whose stored type is known at run time: its operand is one of the type
/// that is staged, the loader is told what is stored.
template <class I, bool Keys>
class Plane {
 public:
  /// `own`: two stages of 64 padded rows.
  FOLIO_ALWAYS_INLINE Plane(const PagedKVView& view, const PageTable& table,
                            const RowOptions& options, std::byte* own)
      : buffer_({view, table, nullptr, 0}, 0, 0, {reinterpret_cast<smem_type*>(own), {}}, 0) {
    buffer_.loader().options = options;
    buffer_.loader().options.stored = view.dtype;
  }

  /// Begins to bring a tile of one head into a stage, as far as its last seen key; one at a time.
  /// False: it is there.
  __attribute__((noinline)) bool begin(const KeyTile& tile, int head, int stage) {
    buffer_.loader().options.rows = static_cast<int32_t>(
        skeleton::round_up(64 - __builtin_clzll(tile.seen), TileGroups::group_rows));
    buffer_.kv_cache_iter.set_tile(tile, head);
    buffer_.begin_load(stage);
    return buffer_.loader().is_staging();
  }
  /// One piece; false: it was done.
  __attribute__((noinline)) bool step() { return buffer_.load_from_dram_step(); }
  FOLIO_ALWAYS_INLINE void finish() {
    while (step()) {}
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_copying() const {
    return buffer_.loader().is_copying();
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE const TileRows* groups(int stage) const {
    return buffer_.loader().groups(stage).group;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE LineList& fetches(int stage) {
    return buffer_.loader().fetches(stage);
  }

 private:
  static constexpr DType staged = RowConfig<I, Keys>::smem_dtype;
  using Buffer = KVBuffer<ViewMHAOperand<staged>, RowConfig<I, Keys>>;
  using smem_type = typename Buffer::smem_type;

  Buffer buffer_;
};

}  // namespace folio::inline v1::avx512
