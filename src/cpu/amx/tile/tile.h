// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/tile/tile.h: the vocabulary of AMX kernels: eight tiles, loads, stores and products.
/// Hardware implementation.
///
/// Kernels are templates on a type with the static functions of HardwareTile. The other
/// implementation is EmulatedTile.
///
///     config(c)  release()                        tiles are zero after config
///     zero<T>()  load<T, Offset>(from, stride)
///     load_t1<T, Offset>(from, stride)
///     store<T, Offset>(to, stride)                T = 0 ... 7; stride in bytes, as is Offset, what
///                                                 is added to the address: 0 if not given
///     dpbf16<C, A, B>()                           C[m][n] += sum over k of A[m][2k] B[k][2n] +
///                                                 A[m][2k+1] B[k][2n+1], f32 += bf16 x bf16
///     dpbssd<C, A, B>()  dpbusd<C, A, B>()        i32 += i8 x i8, i32 += u8 x i8, four products to
///                                                 a dword
///
/// load_t1 hints that the data is not worth a place in L1. dpbf16 sums even and odd positions
/// apart, adds the two sums, and adds that to C: all rounded to nearest even, denormals read and
/// written as zeros, whatever MXCSR says.
///
/// There are no compiler intrinsics: those of g++ 12 declare no memory operands, so that the
/// compiler deletes stores to what tiles load. Every instruction is volatile, so all keep the
/// program's order, and what touches memory clobbers it. A compiler that meets no AMX intrinsic
/// allocates no tile register, so none is named as clobbered. ISA-safe: templates on a tag type; no
/// compiler flag is needed.
///
/// Source: Intel SDM vol. 1 chapter 18, vol. 2 TDPBF16PS, TILELOADD, LDTILECFG.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1::amx {

inline constexpr int tile_height = 16;
inline constexpr int tile_width_bytes = 64;

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};  // of tile t
  uint8_t rows[16] = {};        // of tile t
};
static_assert(sizeof(TileConfig) == 64);

/// Eight tiles of 64 bytes. Tiles 0 and 4 to 7, for A and C, have `rows` rows, those for B 16:
/// loads, stores and products take as long as A and C have rows.
FOLIO_ALWAYS_INLINE constexpr TileConfig tiles_of_rows(int rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = tile_width_bytes;
    config.rows[t] = static_cast<uint8_t>(t == 0 || t >= 4 ? rows : tile_height);
  }
  return config;
}
/// Eight tiles of 16 rows of 64 bytes.
FOLIO_ALWAYS_INLINE constexpr TileConfig whole_tiles() { return tiles_of_rows(tile_height); }

/// A template on a tag type from an anonymous namespace, so that kernels on it are internal to
/// their object.
template <class I>
struct HardwareTile {
  FOLIO_ALWAYS_INLINE static void config(const TileConfig& config) {
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  FOLIO_ALWAYS_INLINE static void release() { asm volatile("tilerelease" ::: "memory"); }

  template <int T>
  FOLIO_ALWAYS_INLINE static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T, int Offset = 0>
  FOLIO_ALWAYS_INLINE static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd %c3(%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T), "i"(Offset)
                 : "memory");
  }
  template <int T, int Offset = 0>
  FOLIO_ALWAYS_INLINE static void load_t1(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 %c3(%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T), "i"(Offset)
                 : "memory");
  }
  template <int T, int Offset = 0>
  FOLIO_ALWAYS_INLINE static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, %c3(%0,%1,1)" ::"r"(to), "r"(stride), "i"(T), "i"(Offset)
                 : "memory");
  }

  template <int C, int A, int B>
  FOLIO_ALWAYS_INLINE static void dpbf16() {
    static_assert(C != A && C != B && A != B, "the processor refuses equal tiles");
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FOLIO_ALWAYS_INLINE static void dpbssd() {
    static_assert(C != A && C != B && A != B, "the processor refuses equal tiles");
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  FOLIO_ALWAYS_INLINE static void dpbusd() {
    static_assert(C != A && C != B && A != B, "the processor refuses equal tiles");
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

/// Tiles of `rows` rows for one scope on one thread, at the most a task: afterwards the thread
/// leaves the clock of AMX, and a switch of threads has 8 KB less to save. Scopes do not nest, and
/// no foreign user of AMX may run inside one.
template <class Tile>
class TileScope {
 public:
  FOLIO_ALWAYS_INLINE explicit TileScope(int rows = tile_height) {
    Tile::config(tiles_of_rows(rows));
  }
  FOLIO_ALWAYS_INLINE ~TileScope() { Tile::release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

}  // namespace folio::inline v1::amx
