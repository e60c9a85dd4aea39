// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_tiles.h: a matrix in global memory, a tile of it in shared memory: for tests of
/// what copies between them in the emulator.
#pragma once

#include <array>
#include <numeric>

#include "cuda/cta_run.h"
#include "folio/tma/swizzle.h"

namespace folio::test {

inline constexpr GridShape one_warp{.threads = 32, .shared_bytes = 8192};
inline constexpr int tile_at = 1024, tile_bytes = 16 * 128;

inline uint32_t at(EmulatedThread& t, int byte) {
  return t.shared_base() + static_cast<uint32_t>(byte);
}

/// 64 rows of 64 halves in global memory, and a buffer of the same size.
struct Matrix {
  alignas(128) std::array<uint16_t, 64 * 64> in;
  alignas(128) std::array<uint16_t, 64 * 64> out;
  tma::EncodedTensorMap in_map, out_map, row_map;

  Matrix() {
    std::iota(in.begin(), in.end(), uint16_t{0});
    in_map = emulator::encode(map_of(in.data(), 16));
    out_map = emulator::encode(map_of(out.data(), 16));
    row_map = emulator::encode(map_of(in.data(), 1));
  }
  static tma::TensorMap map_of(const void* base, int rows) {
    tma::TensorMap map;
    map.base = reinterpret_cast<uint64_t>(base);
    map.rank = 2;
    map.dtype = tma::DataType::bf16;
    map.swizzle = tma::Swizzle::b128;
    map.dim[0] = map.dim[1] = 64;
    map.stride_bytes[1] = 128;
    map.box[0] = 64;
    map.box[1] = rows;
    return map;
  }
  auto memory() {
    return [this](Grid& grid) {
      out.fill(0xffff);
      grid.add_input("in", in.data(), sizeof in);
      grid.add_buffer("out", out.data(), sizeof out);
    };
  }
};

/// Where column `column` of row `row` of a tile lies.
inline uint32_t element(EmulatedThread& t, int row, int column) {
  const auto plain = int64_t{t.shared_base()} + tile_at + row * 128 + column * 2;
  return static_cast<uint32_t>(tma::swizzle(tma::Swizzle::b128, plain));
}

inline void make_barrier(EmulatedThread& t, int byte = 0, bool fenced = true) {
  if (t.thread() == 0) {
    t.init_barrier(at(t, byte), 1);
    if (fenced) t.fence_barriers();
  }
  t.sync_block();
}

/// What a load does wrong.
struct LoadFaults {
  uint32_t expected = tile_bytes;
  uint32_t parity = 0;
  bool fenced_barrier = true;
  bool waits = true;
};

/// Rows from `row` on, by one thread; all look at what came.
inline auto load_tile(Matrix& m, int row, LoadFaults f = {}) {
  return [&m, row, f](EmulatedThread& t) {
    make_barrier(t, 0, f.fenced_barrier);
    if (t.thread() == 0) {
      t.arrive_expecting(at(t, 0), f.expected);
      t.copy_tile<2>(m.in_map, {{0, row}}, at(t, tile_at), at(t, 0));
    }
    if (!f.waits) return;
    t.wait(at(t, 0), f.parity);
    for (int r = 0; r < 16; ++r) {
      const int expected = row + r < 64 ? (row + r) * 64 + t.lane() : 0;
      if (t.load_shared<uint16_t>(element(t, r, t.lane())) != expected) t.fail("another element");
    }
  };
}

}  // namespace folio::test
