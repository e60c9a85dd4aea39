// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/compute_products.h: the two products of 16 or 32 rows and one staged tile of
/// 64 keys, and other work between them.
///
///     scores  S [row][64]        = Q [row tile][depth / 32][16 rows][32 dims] . K [4][depth /
///                                32][16 dim pairs][16 keys][2]
///     values  O [row][v_depth]  += P [row][128] . V [v_depth / 16][2][16 key pairs][16 columns][2]
///             P: the first 64 of each row
///
/// A group is four tiles of the result: 2 columns of 2 row tiles, or 4 columns of one, so that
/// there is one tile load to a product where there are two row tiles. What holds up the products is
/// neither loads nor arithmetic but stores of tiles: each waits for the product before it, and no
/// more than two may wait before nothing younger begins. So results of a group leave one by one
/// between the first products of the next group, for which there is a fifth accumulator: the groups
/// take turns in tiles 0 ... 4. K and V are read once and leave L1 to Q, S, P and O (load_t1).
///
/// Each element of a result is one chain of products in ascending order of dims or keys, from zero
/// or from what O held, whatever Rows is. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>

#include "cpu/tuning.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

/// Work that goes along with products: step() is called `steps` times between them.
struct NoWork {
  static constexpr int steps = 0;
  FOLIO_ALWAYS_INLINE void step() {}
};

/// Operands of a product: A and B to be read, C to be written or added to.
struct ProductOperands {
  const char* a = nullptr;
  const char* b = nullptr;
  char* c = nullptr;
};

template <class Tile, int Depth, int VDepth, int Rows>
class Products {
  static_assert(Depth % 32 == 0 && VDepth % 32 == 0 && (Rows == 16 || Rows == 32));
  static constexpr int keys = 64;
  static constexpr int kb = 1024;
  static constexpr int row_tiles = Rows / 16;
  static constexpr int columns = 4 / row_tiles;  // of a group

  struct Scores {
    static constexpr bool adds = false;
    static constexpr int steps = Depth / 32;
    static constexpr int columns = keys / 16;
    static constexpr bool a_stays = Depth <= GroupedTuning::resident_query_depth;
    static constexpr int a_stride = 64, a_step = kb, a_tile = steps * kb;
    static constexpr int c_stride = keys * 4;
  };
  struct Values {
    static constexpr bool adds = true;
    static constexpr int steps = keys / 32;
    static constexpr int columns = VDepth / 16;
    static constexpr bool a_stays = true;
    static constexpr int a_stride = keys * 4, a_step = 64, a_tile = 16 * a_stride;
    static constexpr int c_stride = VDepth * 4;
  };

  /// Group Index of a product. Slot: one of its tiles.
  template <class Product, int Index>
  struct Group {
    static constexpr int first_column = Index * columns;
    static constexpr int stride = Product::c_stride;
    static constexpr int slots =
        (Product::columns - first_column < columns ? Product::columns - first_column : columns) *
        row_tiles;
    static constexpr int row(int slot) { return slot % row_tiles; }
    static constexpr int column(int slot) { return first_column + slot / row_tiles; }
    static constexpr int c(int slot) { return column(slot) * 64 + row(slot) * 16 * stride; }
    static constexpr int a(int slot, int step) {
      return row(slot) * Product::a_tile + step * Product::a_step;
    }
    static constexpr int b(int slot, int step) {
      return (column(slot) * Product::steps + step) * kb;
    }
  };
  struct NoGroup {
    static constexpr int slots = 0;
  };

  static constexpr int groups_of(int of_columns) { return (of_columns + columns - 1) / columns; }
  static constexpr int score_groups = groups_of(Scores::columns),
                       value_groups = groups_of(Values::columns);
  static constexpr int score_products = Scores::columns * Scores::steps * row_tiles;
  static constexpr int value_products = Values::columns * Values::steps * row_tiles;

 public:
  static ProductOperands score_operands(const uint16_t* queries, const uint16_t* staged_keys,
                                        float* scores) {
    return {reinterpret_cast<const char*>(queries), reinterpret_cast<const char*>(staged_keys),
            reinterpret_cast<char*>(scores)};
  }
  static ProductOperands value_operands(const uint16_t* weights, const uint16_t* staged_values,
                                        float* output) {
    return {reinterpret_cast<const char*>(weights), reinterpret_cast<const char*>(staged_values),
            reinterpret_cast<char*>(output)};
  }

  static void scores(const ProductOperands& of) {
    NoWork none;
    run<Scores, 0, 0, 0, 1>(of, of, none);
    store_from<Group<Scores, score_groups - 1>, score_groups - 1, 0>(of);
  }
  static void values(const ProductOperands& of) {
    NoWork none;
    run<Values, 0, 0, 0, 1>(of, of, none);
    store_from<Group<Values, value_groups - 1>, value_groups - 1, 0>(of);
  }
  /// Values of one tile, then scores of another.
  template <class Work>
  FOLIO_ALWAYS_INLINE static void both(const ProductOperands& value, const ProductOperands& score,
                                       Work& work) {
    constexpr int all = value_products + score_products;
    run<Values, 0, 0, 0, all>(value, value, work);
    run<Scores, 0, value_groups, value_products, all, Group<Values, value_groups - 1>>(score, value,
                                                                                       work);
    store_from<Group<Scores, score_groups - 1>, value_groups + score_groups - 1, 0>(score);
  }

 private:
  /// Accumulator of a slot of the group that is number `turn` in turn.
  static constexpr int accumulator(int turn, int slot) { return (4 * turn + slot) % 5; }

  /// Groups Index, Index + 1, ... of a product. `Before` is the group before, of `from`; `Done` of
  /// `All` products have been issued.
  template <class Product, int Index, int Turn, int Done, int All, class Before = NoGroup,
            class Work>
  FOLIO_ALWAYS_INLINE static void run(const ProductOperands& of, const ProductOperands& from,
                                      Work& work) {
    using Now = Group<Product, Index>;
    chain<Now, Before, Product, 0, Turn, Done, All>(of, from, work);
    if constexpr (Index + 1 < groups_of(Product::columns))
      run<Product, Index + 1, Turn + 1, Done + Now::slots * Product::steps, All, Now>(of, of, work);
  }

  /// Steps Step, Step + 1, ... of a group.
  template <class Now, class Before, class Product, int Step, int Turn, int Done, int All,
            class Work>
  FOLIO_ALWAYS_INLINE static void chain(const ProductOperands& of, const ProductOperands& from,
                                        Work& work) {
    slot<Now, Before, Product, Step, Turn, Done, All, 0>(of, from, work);
    if constexpr (Step + 1 < Product::steps)
      chain<Now, NoGroup, Product, Step + 1, Turn, Done + Now::slots, All>(of, from, work);
  }

  template <class Now, class Before, class Product, int Step, int Turn, int Done, int All, int Slot,
            class Work>
  FOLIO_ALWAYS_INLINE static void slot(const ProductOperands& of, const ProductOperands& from,
                                       Work& work) {
    constexpr int c = accumulator(Turn, Slot), row = Now::row(Slot);
    constexpr int a = 5 + row, b = row_tiles == 2 ? 7 : 6 + Slot % 2;
    if constexpr (Step == 0 && Product::adds)
      Tile::template load<c, Now::c(Slot)>(of.c, Product::c_stride);
    if constexpr (Step == 0 && !Product::adds) Tile::template zero<c>();
    if constexpr (row == 0) Tile::template load_t1<b, Now::b(Slot, Step)>(of.b, 64);
    if constexpr (Slot < row_tiles) load_a<Product, a, Now::a(Slot, Step)>(of.a);
    Tile::template dpbf16<c, a, b>();
    if constexpr (Slot < Before::slots)
      Tile::template store<accumulator(Turn - 1, Slot), Before::c(Slot)>(from.c, Before::stride);
    constexpr int due = (Done + Slot + 1) * Work::steps / All - (Done + Slot) * Work::steps / All;
    for (int i = 0; i < due; ++i) work.step();
    if constexpr (Slot + 1 < Now::slots) {
      slot<Now, Before, Product, Step, Turn, Done, All, Slot + 1>(of, from, work);
    } else {
      store_from<Before, Turn - 1, Slot + 1>(from);
    }
  }

  template <class Product, int A, int Offset>
  FOLIO_ALWAYS_INLINE static void load_a(const char* from) {
    if constexpr (Product::a_stays) {
      Tile::template load<A, Offset>(from, Product::a_stride);
    } else {
      Tile::template load_t1<A, Offset>(from, Product::a_stride);
    }
  }

  /// Stores the slots of a group from Slot on.
  template <class Of, int Turn, int Slot>
  FOLIO_ALWAYS_INLINE static void store_from(const ProductOperands& of) {
    if constexpr (Slot < Of::slots) {
      Tile::template store<accumulator(Turn, Slot), Of::c(Slot)>(of.c, Of::stride);
      store_from<Of, Turn, Slot + 1>(of);
    }
  }
};

}  // namespace folio::inline v1::amx
