// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/tile/emulated.h: the vocabulary of tile.h in plain C++, bit for bit, for machines
/// without AMX. Tests only.
///
/// State is per thread, as on hardware. What a processor answers with #UD or #GP calls I::fault,
/// which must not return. Beyond the processor's own checks, none of which it omits, `fault` is
/// also called where a program reads a tile that nothing was written to.
///
/// Not modelled: the payload of NaNs, start_row (a load interrupted by a page fault), and the
/// corner where a result that rounds up to the least normal number is flushed.
///
/// Everything is a template on a type I with `[[noreturn]] static void fault(const char* what)`, so
/// objects of different flags share nothing when I comes from an anonymous namespace. Fused
/// multiply-adds want FMA in hardware to be quick.
#pragma once

#include "cpu/amx/tile/tile.h"

namespace folio::inline v1::amx {

template <class I>
class EmulatedTile {
 public:
  static void config(const TileConfig& config) {
    if (config.palette == 0) return release();
    if (config.palette != 1) I::fault("#GP: palette");
    if (config.start_row >= tile_height) I::fault("#GP: start_row");
    for (const uint8_t byte : config.reserved)
      if (byte != 0) I::fault("#GP: reserved byte of the configuration");
    for (int t = 0; t < 16; ++t) {
      if (t >= 8 && (config.row_bytes[t] != 0 || config.rows[t] != 0))
        I::fault("#GP: configuration of a tile that is none");
      if (config.row_bytes[t] > tile_width_bytes || config.rows[t] > tile_height)
        I::fault("#GP: tile too large");
      if ((config.row_bytes[t] == 0) != (config.rows[t] == 0))
        I::fault("#GP: tile with rows or columns alone");
    }
    state_ = State();
    state_.config = config;
    state_.configured = true;
  }
  static void release() { state_ = State(); }

  template <int T>
  static void zero() {
    check<T>();
    clear(T);
  }
  template <int T, int Offset = 0>
  static void load(const void* from, int64_t stride) {
    check<T>();
    clear(T);
    for (int r = 0; r < state_.config.rows[T]; ++r)
      __builtin_memcpy(state_.tile[T].bytes[r],
                       static_cast<const uint8_t*>(from) + Offset + r * stride,
                       state_.config.row_bytes[T]);
  }
  template <int T, int Offset = 0>
  static void load_t1(const void* from, int64_t stride) {
    load<T, Offset>(from, stride);
  }
  template <int T, int Offset = 0>
  static void store(void* to, int64_t stride) {
    check<T>();
    check_written(T);
    for (int r = 0; r < state_.config.rows[T]; ++r)
      __builtin_memcpy(static_cast<uint8_t*>(to) + Offset + r * stride, state_.tile[T].bytes[r],
                       state_.config.row_bytes[T]);
  }

  /// Two chains of fused multiply-adds from +0, one over even positions, one over odd ones; C joins
  /// last.
  template <int C, int A, int B>
  static void dpbf16() {
    const Shape shape = check_product<C, A, B>();
    float products[tile_height][32];
    for (int k = 0; k < shape.k; ++k)
      for (int i = 0; i < 32; ++i) products[k][i] = widen(word(state_.tile[B], k, i));
    for (int m = 0; m < shape.m; ++m) {
      float sums[32] = {};
      for (int k = 0; k < shape.k; ++k) {
        const float even = widen(word(state_.tile[A], m, 2 * k)),
                    odd = widen(word(state_.tile[A], m, 2 * k + 1));
        for (int i = 0; i < 32; i += 2) {
          sums[i] = flush(__builtin_fmaf(even, products[k][i], sums[i]));
          sums[i + 1] = flush(__builtin_fmaf(odd, products[k][i + 1], sums[i + 1]));
        }
      }
      float row[16];
      __builtin_memcpy(row, state_.tile[C].bytes[m], sizeof row);
      for (int n = 0; n < shape.n; ++n)
        row[n] = flush(flush(row[n]) + flush(sums[2 * n] + sums[2 * n + 1]));
      put_row(C, m, row, shape.n);
    }
    clear_behind(C, shape);
  }
  template <int C, int A, int B>
  static void dpbssd() {
    dot_bytes<C, A, B, int8_t>();
  }
  template <int C, int A, int B>
  static void dpbusd() {
    dot_bytes<C, A, B, uint8_t>();
  }

 private:
  struct alignas(64) Bytes {
    uint8_t bytes[tile_height][tile_width_bytes];
  };
  struct State {
    bool configured = false;
    bool written[8] = {};
    TileConfig config;
    Bytes tile[8] = {};
  };
  struct Shape {
    int m, n, k;  // rows of C, dwords of a row of C, dwords of a row of A
  };

  /// i32 sums wrap.
  template <int C, int A, int B, class Left>
  static void dot_bytes() {
    const Shape shape = check_product<C, A, B>();
    for (int m = 0; m < shape.m; ++m) {
      uint32_t row[16];
      __builtin_memcpy(row, state_.tile[C].bytes[m], sizeof row);
      for (int k = 0; k < shape.k; ++k)
        for (int n = 0; n < shape.n; ++n)
          for (int i = 0; i < 4; ++i) {
            const int a = static_cast<Left>(state_.tile[A].bytes[m][4 * k + i]);
            const int b = static_cast<int8_t>(state_.tile[B].bytes[k][4 * n + i]);
            row[n] += static_cast<uint32_t>(a * b);
          }
      put_row(C, m, row, shape.n);
    }
    clear_behind(C, shape);
  }

  template <int T>
  static void check() {
    static_assert(T >= 0 && T < 8);
    if (!state_.configured) I::fault("#UD: tiles not configured");
    if (state_.config.rows[T] == 0) I::fault("#UD: this tile not configured");
  }
  static void check_written(int t) {
    if (!state_.written[t]) I::fault("a tile is read that nothing was written to");
  }
  template <int C, int A, int B>
  static Shape check_product() {
    static_assert(C != A && C != B && A != B, "the processor refuses equal tiles");
    check<C>();
    check<A>();
    check<B>();
    const TileConfig& c = state_.config;
    if (c.rows[C] != c.rows[A]) I::fault("#UD: rows of C and A differ");
    if (c.row_bytes[C] != c.row_bytes[B]) I::fault("#UD: columns of C and B differ");
    if (c.row_bytes[A] % 4 != 0 || c.row_bytes[C] % 4 != 0) I::fault("#UD: columns are no dwords");
    if (c.row_bytes[A] / 4 != c.rows[B]) I::fault("#UD: columns of A and rows of B differ");
    check_written(C);
    check_written(A);
    check_written(B);
    return {c.rows[C], c.row_bytes[C] / 4, c.row_bytes[A] / 4};
  }

  static void clear(int t) {
    state_.tile[t] = Bytes();
    state_.written[t] = true;
  }
  template <class Dword>
  static void put_row(int t, int m, const Dword (&row)[16], int dwords) {
    __builtin_memcpy(state_.tile[t].bytes[m], row, static_cast<unsigned>(dwords) * 4u);
  }
  /// What lies behind the rows and columns of a result is zero.
  static void clear_behind(int t, const Shape& shape) {
    for (int m = 0; m < tile_height; ++m)
      for (int i = m < shape.m ? 4 * shape.n : 0; i < tile_width_bytes; ++i)
        state_.tile[t].bytes[m][i] = 0;
  }

  static uint16_t word(const Bytes& tile, int row, int i) {
    uint16_t word;
    __builtin_memcpy(&word, tile.bytes[row] + 2 * i, sizeof word);
    return word;
  }
  /// bf16 to f32, denormals to zeros of their sign.
  static float widen(uint16_t bits) {
    return flush(__builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16));
  }
  static float flush(float x) {
    const auto bits = __builtin_bit_cast(uint32_t, x);
    return __builtin_bit_cast(float, (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  }

  static inline thread_local State state_;
};

}  // namespace folio::inline v1::amx
