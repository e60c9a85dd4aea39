// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/queries.h: q of a task as A fragments of m16n8k16, in registers or, where these
/// are few, in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/decode/config.h"
#include "cuda/decode/lane_rows.h"

namespace folio::cuda {

/// Element `column` of row `r` of the task's q; null: there is no such row.
FOLIO_DEVICE const std::byte* query_at(const AttendCall& a, const Sequence& s,
                                       const DeviceTask& task, int r) {
  if (task.row_begin + r >= task.row_end) return nullptr;
  const TaskRow row(a, task, r);
  return static_cast<const std::byte*>(a.args.q.data) +
         (s.first_query + row.token) * a.args.q.stride_bytes[0] +
         row.head * a.args.q.stride_bytes[1];
}

template <class Config>
class RegisterQueries {
 public:
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const std::byte* const row = query_at(a, s, task, t.lane() / 4 + 8 * i);
      FOLIO_UNROLL
      for (int k = 0; k < 2 * steps; ++k) {
        const int column = k * 8 + (t.lane() & 3) * 2;
        parts_[k / 2][i + (k & 1) * 2] =
            row != nullptr ? t.read(reinterpret_cast<const uint32_t*>(row + column * 2)) : 0u;
      }
    }
  }
  template <class Thread>
  FOLIO_DEVICE void get(Thread&, int k, uint32_t (&a)[4]) const {
    FOLIO_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = parts_[k][i];
  }

 private:
  static constexpr int steps = Config::head_size / 16;
  uint32_t parts_[steps][4];
};

template <class Config>
class SharedQueries {
 public:
  /// By all threads of the block; everybody is past the products of the last task.
  template <class Thread>
  FOLIO_DEVICE void load(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    constexpr int units = Config::row_bytes / 16;
    for (int i = t.thread(); i < Config::rows * units; i += Config::threads) {
      const int r = i / units, unit = i % units;
      const std::byte* const row = query_at(a, s, task, r);
      FourFloats bits;
      if (row != nullptr) bits = t.read(reinterpret_cast<const FourFloats*>(row + unit * 16));
      t.store_shared(t.shared_base() + Config::queries_at + tile_offset(r, unit), bits);
    }
    t.sync_block();
  }
  template <class Thread>
  FOLIO_DEVICE void get(Thread& t, int k, uint32_t (&a)[4]) const {
    const TileColumns rows(t.shared_base() + Config::queries_at, t.lane() & 15, t.lane() >> 4);
    t.template load_matrices<false>(a, rows.at(k));
  }
};

}  // namespace folio::cuda
