// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/hadamard.h: rows of floats turned, and turned back, as PagedKVView::hadamard
/// says.
///
/// Signs, 1 / sqrt(block), then sums and differences of pairs at a distance of 1, 2, 4, ...: each
/// element goes through the same float32 operations whatever the instruction set, so all give the
/// same bits. Eight registers go through the distances that lie within them, what is left of a
/// block is a second pass. ISA-safe: templates on a tag type.
#pragma once

#include <cstdint>
#include <utility>

#include "cpu/convert/lane_order.h"
#include "cpu/convert/sign_bits.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
class HadamardRows {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

 public:
  /// `n` floats, whole blocks.
  static void turn(float* row, int64_t n, const Hadamard& hadamard) {
    turn_from<InOrder<I>>(InPlace{row}, row, n, hadamard);
  }
  static void turn_back(float* row, int64_t n, const Hadamard& hadamard) {
    transform<InOrder<I>>(InPlace{row}, row, n, {hadamard.block});
    if (!has_signs(hadamard)) return;
    SignBits own;
    const float* const signs = sign_bits(hadamard.sign_seed, own).of;
    for (int64_t i = 0; i < n; i += W)
      V::store(row + i, V::load(row + i) * V::load(signs + i % hadamard.block));
  }

  /// The same of registers that `read(i, x)` fills with the elements from i on, in `Order`; of
  /// split ones a block has two at the least. They are stored as they lie. `row` may be what is
  /// read.
  template <class Order, class Read>
  static void turn_from(const Read& read, float* row, int64_t n, const Hadamard& hadamard) {
    if (!has_signs(hadamard)) return transform<Order>(read, row, n, hadamard);
    put_signed<Order>(read, row, n, hadamard);
    transform<Order>(InPlace{row}, row, n, hadamard);
  }

 private:
  struct InPlace {
    template <int R>
    FOLIO_ALWAYS_INLINE void operator()(int64_t i, F (&x)[R]) const {
      for (int r = 0; r < R; ++r) x[r] = V::load(row + i + r * W);
    }
    const float* row;
  };

  FOLIO_ALWAYS_INLINE static bool has_signs(const Hadamard& hadamard) {
    return hadamard.sign_seed != 0 && I::mutant != Mutant::rotation_signs_ignored;
  }
  template <class Order, class Read>
  static void transform(const Read& read, float* row, int64_t n, const Hadamard& hadamard) {
    switch (hadamard.block) {
      case 16: return blocks<Order, 16>(read, row, n);
      case 32: return blocks<Order, 32>(read, row, n);
      case 64: return blocks<Order, 64>(read, row, n);
      case 128: return blocks<Order, 128>(read, row, n);
      case 256: return blocks<Order, 256>(read, row, n);
      default: return blocks<Order, 512>(read, row, n);
    }
  }
  /// The elements as they lie in registers, times their signs.
  template <class Order, class Read>
  static void put_signed(const Read& read, float* row, int64_t n, const Hadamard& hadamard) {
    constexpr int R = Order::registers;
    SignBits own;
    const float* const signs = sign_bits(hadamard.sign_seed, own).of;
    for (int64_t i = 0; i < n; i += R * W) {
      F x[R], sign[R];
      read(i, x);
      for (int r = 0; r < R; ++r) sign[r] = V::load(signs + i % hadamard.block + r * W);
      if constexpr (R == 1) {
        V::store(row + i, x[0] * sign[0]);
      } else {
        V::store(row + i, x[0] * Order::evens(sign[0], sign[1]));
        V::store(row + i + W, x[1] * Order::odds(sign[0], sign[1]));
      }
    }
  }

  static constexpr int registers = 8;  // in which a part of a block is

  template <class Order, int Block, class Read>
  static void blocks(const Read& read, float* row, int64_t n) {
    if constexpr (Block / W >= Order::registers) {
      constexpr int part = Block / W < registers ? Block : registers * W;
      for (int64_t first = 0; first < n; first += Block) {
        for (int i = 0; i < Block; i += part) within<Order, part / W, Block>(read, first + i, row);
        if constexpr (part < Block) between<part, Block / part>(row + first);
      }
    }
  }

  /// The first distances, of R registers.
  template <class Order, int R, int Block, class Read>
  FOLIO_ALWAYS_INLINE static void within(const Read& read, int64_t i, float* row) {
    F x[R];
    read(i, x);
    const F factor = V::splat(factor_of(Block));
    for (int r = 0; r < R; ++r) x[r] = x[r] * factor;
    if constexpr (Order::registers == 2) pairs<1, 2>(x);
    lane_pairs<1>(x);
    pairs<Order::registers, R>(x);
    for (int r = 0; r < R; ++r) V::store(row + i + r * W, x[r]);
  }
  /// The last ones: of elements `Part` apart.
  template <int Part, int Parts>
  static void between(float* block) {
    for (int i = 0; i < Part; i += W) {
      F x[Parts];
      for (int p = 0; p < Parts; ++p) x[p] = V::load(block + p * Part + i);
      pairs<1, Parts>(x);
      for (int p = 0; p < Parts; ++p) V::store(block + p * Part + i, x[p]);
    }
  }

  /// 1 / sqrt(block), rounded once or twice as in float32.
  static float factor_of(int block) { return 1.0f / __builtin_sqrtf(static_cast<float>(block)); }

  /// Registers at distances from `Distance` on, below `End`.
  template <int Distance, int End, int R>
  FOLIO_ALWAYS_INLINE static void pairs(F (&x)[R]) {
    if constexpr (Distance < End) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        if ((r & Distance) != 0) continue;
        const F a = x[r], b = x[r + Distance];
        x[r] = a + b;
        x[r + Distance] = a - b;
      }
      pairs<2 * Distance, End>(x);
    }
  }
  /// Lanes of a register, from `Distance` on.
  template <int Distance, int R>
  FOLIO_ALWAYS_INLINE static void lane_pairs(F (&x)[R]) {
    if constexpr (Distance < W) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        if (Distance > 1 || I::mutant != Mutant::butterfly_stage_left_out)
          x[r] = lane_pair<Distance>(x[r], lanes{});
      lane_pairs<2 * Distance>(x);
    }
  }
  using lanes = std::make_integer_sequence<int, W>;
  /// A product with 1 or -1 is exact, and so is rounded but once whether it is fused or not.
  template <int Distance, int... L>
  FOLIO_ALWAYS_INLINE static F lane_pair(F x, std::integer_sequence<int, L...>) {
    const F other = __builtin_shufflevector(x, x, (L ^ Distance)...);
    const F signs = {((L & Distance) != 0 ? -1.0f : 1.0f)...};
    return V::fma(x, signs, other);
  }
};

}  // namespace folio::inline v1
