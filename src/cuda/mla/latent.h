// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/latent.h: attention over latent (MLA) rows, whose first columns are V: up to 32
/// query rows a task, each latent row fetched from memory once for K and V.
///
/// A block does its tasks one after the other, tile by tile (config.h). Three barriers a tile: it
/// has landed; scores are exchanged; weights are. Between the first and the second the copies of
/// the tile `stages - 1` ahead begin. Rows 16 to 31 cost nothing where a task has no more than 16.
///
/// bf16 or f16 queries and rows of the same type; weights are rounded to that type before they
/// meet V, sums are float32.
#pragma once

#include <cstdint>

#include "cuda/mla/config.h"
#include "cuda/mla/fold.h"
#include "cuda/mla/loader.h"
#include "cuda/mla/rows.h"
#include "cuda/mla/softmax.h"

namespace folio::cuda::mla {

struct alignas(8) TwoFloats {
  float x[2];
};

template <class C, class Thread>
class Block {
 public:
  FOLIO_DEVICE Block(Thread& t, const AttendCall& call)
      : call_(call), lane_(t.lane()), warp_(t.warp()), base_(t.shared_base()) {}

  FOLIO_DEVICE void run(Thread& t) {
    // by reference: pointers that are seldom used take no registers
    const Batch& batch = call_.plan->batch;
    Loader<C, Thread> loader(t, call_, batch, warp_);
    const int32_t* const range = call_.list.block_tasks + t.block();
    for (int32_t index = t.read(range); index < t.read(range + 1); ++index) {
      Result<C, Thread> result(t, warp_);
      run_parts(t, batch, TaskRows(t, call_, batch, index), loader, result);
      const TaskRows rows(t, call_, batch, index);
      if (rows.task.split >= 0 && !join(t, rows, result)) continue;
      result.write(t, call_, rows);
    }
    t.template wait_copies<0>();  // empty groups
  }

 private:
  /// A fragments of the warp's steps.
  struct Queries {
    uint32_t x[C::row_tiles][C::lines][4];
  };

  FOLIO_DEVICE void run_parts(Thread& t, const Batch& batch, const TaskRows& rows,
                              Loader<C, Thread>& loader, Result<C, Thread>& result) {
    result.clear(t, rows.count());
    if (!Loader<C, Thread>::has_tiles(call_, batch, rows)) return;
    const bool stores_spans = call_.stores_spans && rows.task.split >= 0;
    RowSoftmax<C, Thread> softmax(t, call_, batch, rows, warp_);
    Queries queries;
    load_queries(t, rows, queries);
    int32_t partial = rows.task.partial;
    for (bool is_done = false; !is_done; ++partial) {
      Columns<C> values;
      is_done = run_part(t, rows.count(), queries, loader, softmax, values);
      MaxSum sums[C::lane_rows];
      FOLIO_UNROLL
      for (int i = 0; i < C::lane_rows; ++i)
        sums[i] = t.template load_shared<MaxSum>(base_ + C::sums_at +
                                                 static_cast<uint32_t>((lane_ >> 2) + 8 * i) * 8);
      if (stores_spans)
        result.store_part(t, call_, partial, rows.count(), sums, values);
      else
        result.fold(t, rows.count(), sums, values);
    }
  }
  /// Into `values`, and each row's MaxSum in shared memory. True: it was the task's last part.
  FOLIO_DEVICE bool run_part(Thread& t, int32_t count, const Queries& queries,
                             Loader<C, Thread>& loader, RowSoftmax<C, Thread>& softmax,
                             Columns<C>& values) {
    values.clear();
    softmax.clear();
    KeyTile tile;
    do {
      const uint32_t stage = loader.wait(t, tile);
      loader.fetch(t);
      if (C::rows > 16 && count > 16)
        attend_tile<C::row_tiles>(t, stage, tile, queries, softmax, values);
      else
        attend_tile<1>(t, stage, tile, queries, softmax, values);
    } while (tile.ends_part == 0);
    softmax.publish(t);
    t.sync_block();
    return tile.ends_task != 0;
  }

  template <int Tiles>
  FOLIO_DEVICE void attend_tile(Thread& t, uint32_t stage, const KeyTile& tile,
                                const Queries& queries, RowSoftmax<C, Thread>& softmax,
                                Columns<C>& values) {
    multiply_keys<Tiles>(t, stage, queries);
    t.sync_block();
    if (warp_ * C::rows_per_warp < Tiles * 16) softmax.step(t, tile);
    t.sync_block();
    multiply_values<Tiles>(t, stage, values);
  }

  /// Row r of the task as A fragments of this warp's steps: dims 64k + 16 part and on.
  FOLIO_DEVICE void load_queries(Thread& t, const TaskRows& rows, Queries& queries) {
    const ConstTensor<3>& q = call_.args.q;
    FOLIO_UNROLL
    for (int i = 0; i < 2 * C::row_tiles; ++i) {
      const int r = (lane_ >> 2) + 8 * i;
      const bool is_row = r < rows.count();
      const auto* from = static_cast<const std::byte*>(q.data);
      if (is_row)
        from += (rows.sequence.first_query + rows.token_of(r)) * q.stride_bytes[0] +
                rows.q_head_of(r) * q.stride_bytes[1];
      const auto* pairs =
          reinterpret_cast<const uint32_t*>(from) + warp_ / C::slabs * 8 + (lane_ & 3);
      FOLIO_UNROLL
      for (int k = 0; k < C::lines; ++k) {
        queries.x[i / 2][k][i % 2] = is_row ? t.read(pairs + 32 * k) : 0;
        queries.x[i / 2][k][i % 2 + 2] = is_row ? t.read(pairs + 32 * k + 4) : 0;
      }
    }
  }

  /// This warp's 16 keys and quarter of the dims.
  template <int Tiles>
  FOLIO_DEVICE void multiply_keys(Thread& t, uint32_t stage, const Queries& queries) {
    const int slab = warp_ % C::slabs, part = warp_ / C::slabs;
    const int key = slab * 16 + (lane_ & 7) + ((lane_ & 16) >> 1);
    const uint32_t from = stage + static_cast<uint32_t>(key) * C::row_bytes +
                          swizzled(key, 2 * part + (lane_ >> 3 & 1));
    float s[Tiles][2][4] = {};
    FOLIO_UNROLL
    for (int k = 0; k < C::lines; ++k) {
      uint32_t b[4];
      t.template load_matrices<false>(b, from + static_cast<uint32_t>(k) * 128);
      FOLIO_UNROLL
      for (int m = 0; m < Tiles; ++m) {
        t.template multiply<C::type>(s[m][0], queries.x[m][k], b[0], b[1]);
        t.template multiply<C::type>(s[m][1], queries.x[m][k], b[2], b[3]);
      }
    }
    const uint32_t to = base_ + C::scores_at +
                        static_cast<uint32_t>((part * C::rows + (lane_ >> 2)) * C::scores_row +
                                              slab * 16 + (lane_ & 3) * 2) *
                            4;
    FOLIO_UNROLL
    for (int i = 0; i < 2 * Tiles; ++i) {
      FOLIO_UNROLL
      for (int n = 0; n < 2; ++n)
        t.store_shared(to + static_cast<uint32_t>(8 * i * C::scores_row + n * 8) * 4,
                       TwoFloats{{s[i / 2][n][i % 2 * 2], s[i / 2][n][i % 2 * 2 + 1]}});
    }
  }

  /// This warp's columns of all rows.
  template <int Tiles>
  FOLIO_DEVICE void multiply_values(Thread& t, uint32_t stage, Columns<C>& values) {
    rescale<Tiles>(t, values);
    FOLIO_UNROLL
    for (int slab = 0; slab < C::slabs; ++slab) {
      uint32_t weights[Tiles][4];
      FOLIO_UNROLL
      for (int m = 0; m < Tiles; ++m)
        t.template load_matrices<false>(
            weights[m], base_ + C::weights_at +
                            static_cast<uint32_t>((16 * m + (lane_ & 15)) * C::weights_row +
                                                  slab * 32 + (lane_ >> 4) * 16));
      const int key = slab * 16 + (lane_ & 15);
      const uint32_t row = stage + static_cast<uint32_t>(key) * C::row_bytes;
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; j += 2) {
        uint32_t b[4];
        t.template load_matrices<true>(
            b, row + swizzled(key, warp_ * C::column_tiles + j + (lane_ >> 4)));
        FOLIO_UNROLL
        for (int m = 0; m < Tiles; ++m) {
          t.template multiply<C::type>(values.x[m][j], weights[m], b[0], b[1]);
          t.template multiply<C::type>(values.x[m][j + 1], weights[m], b[2], b[3]);
        }
      }
    }
  }
  /// What a tile found larger than all before makes earlier sums smaller. Times 1 changes no bit.
  template <int Tiles>
  FOLIO_DEVICE void rescale(Thread& t, Columns<C>& values) {
    float factor[2 * Tiles];
    bool is_needed = false;
    FOLIO_UNROLL
    for (int i = 0; i < 2 * Tiles; ++i) {
      factor[i] = t.template load_shared<float>(base_ + C::factors_at +
                                                static_cast<uint32_t>((lane_ >> 2) + 8 * i) * 4);
      is_needed |= factor[i] != 1.0f;
    }
    if (t.ballot(is_needed) == 0) return;
    FOLIO_UNROLL
    for (int i = 0; i < 2 * Tiles; ++i) {
      FOLIO_UNROLL
      for (int j = 0; j < C::column_tiles; ++j) {
        values.x[i / 2][j][i % 2 * 2] *= factor[i];
        values.x[i / 2][j][i % 2 * 2 + 1] *= factor[i];
      }
    }
  }

  /// Of a task that shares its rows: stores what it has and, as the last to arrive, folds all.
  FOLIO_DEVICE bool join(Thread& t, const TaskRows& rows, Result<C, Thread>& result) {
    const DeviceSplit split = t.read(call_.splits + rows.task.split);
    if (!call_.stores_spans) result.store(t, call_, rows.task.partial, rows.count());
    if (!arrive_last(t, call_, rows.task.split, split.tasks, base_ + C::flag_at)) return false;
    result.clear(t, rows.count());
    result.fold_stored(t, call_, split.first_partial, split.partials, rows.count());
    return true;
  }

  const AttendCall& call_;
  const int lane_, warp_;
  const uint32_t base_;
};

/// A kernel of kernels.txt.
template <class C>
struct LatentKernel {
  static constexpr int threads = C::threads, shared_bytes = C::shared_bytes, rows = C::rows;
  static constexpr int blocks_per_processor = 1;
  using Args = AttendCall;
  static_assert(sizeof(Args) <= 4096);

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& call) {
    Block<C, Thread> block(t, call);
    block.run(t);
  }
};

}  // namespace folio::cuda::mla
