// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/tma_kernels.cuh: kernels that copy tiles with tensor maps and write what they got to
/// global memory.
///
/// run_loads, run_gathers and run_stores do a list of copies that the host made, and show shared
/// memory as it is: what an emulator is compared with, byte for byte. The others compute every
/// coordinate and every address in device code, with the geometry that kernels will use, and write
/// the tile as a plain matrix: what a fragment reader would see.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/listed_copy.h"
#include "cuda/primitives/thread.cuh"
#include "folio/cache/paged_kv_cache.h"
#include "folio/tma/gather4.h"
#include "folio/tma/page_tile.h"
#include "folio/tma/ragged_tile.h"

namespace folio::test {

/// Shared memory of a block: the tile at its beginning, which kernels ask for at run time, aligned
/// for every swizzle.
extern __shared__ __align__(1024) std::byte tile_memory[];

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// A barrier for one arrival; all threads.
__device__ inline uint32_t make_barrier() {
  __shared__ __align__(8) uint64_t storage;
  cuda::Thread t;
  const uint32_t barrier = shared_address(&storage);
  if (threadIdx.x == 0) {
    t.init_barrier(barrier, 1);
    t.fence_barriers();
  }
  t.fence_async();
  __syncthreads();
  return barrier;
}

__device__ inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  for (int64_t i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

/// Fills shared memory with ones, runs the copies, writes all of it to `out`.
template <int Rank>
__global__ void run_loads(const __grid_constant__ tma::EncodedTensorMap map,
                          const ListedCopy* copies, int count, int copy_bytes_each,
                          int shared_bytes, std::byte* out) {
  for (int i = threadIdx.x; i < shared_bytes; i += blockDim.x) tile_memory[i] = std::byte{0xff};
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  if (threadIdx.x == 0) {
    t.arrive_expecting(barrier, static_cast<uint32_t>(count * copy_bytes_each));
    for (int i = 0; i < count; ++i) {
      tma::Coordinates<Rank> at;
      for (int d = 0; d < Rank; ++d) at.at[d] = copies[i].at[d];
      t.copy_tile(map, at, shared_address(tile_memory) + static_cast<uint32_t>(copies[i].shared),
                  barrier);
    }
  }
  t.wait(barrier, 0);
  copy_bytes(out, tile_memory, shared_bytes);
}

/// Fills shared memory from `in` and stores its boxes.
__global__ void run_stores(const __grid_constant__ tma::EncodedTensorMap map,
                           const ListedCopy* copies, int count, int shared_bytes,
                           const std::byte* in) {
  cuda::Thread t;
  copy_bytes(tile_memory, in, shared_bytes);
  t.fence_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 0; i < count; ++i)
    t.store_tile(map, copies[i].at,
                 shared_address(tile_memory) + static_cast<uint32_t>(copies[i].shared));
  t.commit_stores();
  t.wait_stores<0>();
}

/// Writes a tile in shared memory as rows of columns, found through its layout.
__device__ inline void write_matrix(const tma::TileLayout& layout, std::byte* out) {
  const int bytes = layout.element_bytes;
  for (int i = threadIdx.x; i < layout.rows * layout.columns; i += blockDim.x) {
    const std::byte* element = tile_memory + layout.offset(i / layout.columns, i % layout.columns);
    for (int b = 0; b < bytes; ++b) out[int64_t{i} * bytes + b] = element[b];
  }
}

/// BN keys of a head from `base` on, by rows: create_tma_tile and populate.
template <class Cache, int BN>
__global__ void load_row_tile(const Cache cache, const __grid_constant__ tma::EncodedTensorMap map,
                              const TMATensorTile<3> tile, uint32_t sequence, uint32_t base,
                              int head, std::byte* out) {
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  if (threadIdx.x == 0) {
    const auto rows = cache.template populate<BN, BN>(sequence, base);
    t.arrive_expecting(barrier, static_cast<uint32_t>(tile.layout.bytes()));
    for (int piece = 0; piece < rows.num_pages; ++piece) {
      for (int chunk = 0; chunk < tile.layout.num_chunks(); ++chunk) {
        const tma::Coordinates<3> at{
            {chunk * tile.layout.chunk, head, static_cast<int32_t>(rows.rows[piece])}};
        const int64_t to = tile.layout.box_offset(piece * tile.box_shape[0], chunk);
        t.copy_tile(map, at, shared_address(tile_memory) + static_cast<uint32_t>(to), barrier);
      }
    }
  }
  t.wait(barrier, 0);
  write_matrix(tile.layout, out);
}

/// The same keys with page ids as coordinates, straight from the table: create_page_tma_tile.
template <class Cache>
__global__ void load_page_tile(const Cache cache, const __grid_constant__ tma::EncodedTensorMap map,
                               const TMATensorTile<5> tile, uint32_t sequence, uint32_t base,
                               int head, std::byte* out) {
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  if (threadIdx.x == 0) {
    t.arrive_expecting(barrier, static_cast<uint32_t>(tile.layout.bytes()));
    const int rows = tile.box_shape[3];
    for (int first = 0; first < tile.layout.rows; first += rows) {
      const uint32_t key = base + static_cast<uint32_t>(first);
      const auto page = static_cast<int32_t>(cache.lookup_table(sequence, key / Cache::page_size_));
      const tma::Coordinates<5> at{
          {0, static_cast<int32_t>(key % Cache::page_size_), 0, head, page}};
      const int64_t to = tile.layout.box_offset(first, 0);
      t.copy_tile(map, at, shared_address(tile_memory) + static_cast<uint32_t>(to), barrier);
    }
  }
  t.wait(barrier, 0);
  write_matrix(tile.layout, out);
}

/// Rows of one sequence of a ragged tensor, clipped to it; loads them, or with `in` stores them.
__global__ void copy_ragged_tile(const __grid_constant__ tma::EncodedTensorMap map,
                                 const RaggedTMA3DTile tile, const tma::RaggedRows rows,
                                 int head_group, const std::byte* in, std::byte* out) {
  const tma::TileLayout& layout = tile.layout;
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  const uint32_t shared = shared_address(tile_memory);
  if (in != nullptr) {
    for (int i = threadIdx.x; i < layout.rows * layout.columns; i += blockDim.x) {
      std::byte* element = tile_memory + layout.offset(i / layout.columns, i % layout.columns);
      for (int b = 0; b < layout.element_bytes; ++b)
        element[b] = in[int64_t{i} * layout.element_bytes + b];
    }
    t.fence_async();
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int chunk = 0; chunk < layout.num_chunks(); ++chunk)
      t.store_tile(map, tile.coordinates(rows, head_group, chunk),
                   shared + static_cast<uint32_t>(layout.box_offset(0, chunk)));
    t.commit_stores();
    t.wait_stores<0>();
    return;
  }
  if (threadIdx.x == 0) {
    t.arrive_expecting(barrier, static_cast<uint32_t>(layout.bytes()));
    for (int chunk = 0; chunk < layout.num_chunks(); ++chunk)
      t.copy_tile(map, tile.coordinates(rows, head_group, chunk),
                  shared + static_cast<uint32_t>(layout.box_offset(0, chunk)), barrier);
  }
  t.wait(barrier, 0);
  write_matrix(layout, out);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
#define FOLIO_TEST_GATHER4 1
#endif

/// run_loads with gathers. Needs compute capability 10.0; traps below.
__global__ void run_gathers(const __grid_constant__ tma::EncodedTensorMap map,
                            const ListedCopy* copies, int count, int copy_bytes_each,
                            int shared_bytes, std::byte* out) {
#ifdef FOLIO_TEST_GATHER4
  for (int i = threadIdx.x; i < shared_bytes; i += blockDim.x) tile_memory[i] = std::byte{0xff};
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  if (threadIdx.x == 0) {
    t.arrive_expecting(barrier, static_cast<uint32_t>(count * copy_bytes_each));
    for (int i = 0; i < count; ++i)
      t.copy_gather4(map, copies[i].at,
                     shared_address(tile_memory) + static_cast<uint32_t>(copies[i].shared),
                     barrier);
  }
  t.wait(barrier, 0);
  copy_bytes(out, tile_memory, shared_bytes);
#else
  __trap();
#endif
}

/// The rows of selected slots, -1 for none: create_gather4_tma_tile and get_tma_row. Needs compute
/// capability 10.0; traps below.
template <class Cache>
__global__ void load_selected(const Cache cache, const __grid_constant__ tma::EncodedTensorMap map,
                              const TMATensorTile<2> tile, const int64_t* slots, std::byte* out) {
#ifdef FOLIO_TEST_GATHER4
  const tma::TileLayout& layout = tile.layout;
  cuda::Thread t;
  const uint32_t barrier = make_barrier();
  if (threadIdx.x == 0) {
    t.arrive_expecting(barrier, static_cast<uint32_t>(layout.bytes()));
    for (int first = 0; first < layout.rows; first += 4) {
      tma::Coordinates<5> at;
      for (int i = 0; i < 4; ++i)
        at.at[1 + i] = static_cast<int32_t>(cache.get_tma_row(slots[first + i]));
      for (int chunk = 0; chunk < layout.num_chunks(); ++chunk) {
        at.at[0] = chunk * layout.chunk;
        const int64_t to = layout.box_offset(first, chunk);
        t.copy_gather4(map, at, shared_address(tile_memory) + static_cast<uint32_t>(to), barrier);
      }
    }
  }
  t.wait(barrier, 0);
  write_matrix(layout, out);
#else
  __trap();
#endif
}

}  // namespace folio::test
