// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/writer.h: one token after the other: heads are loaded as floats into scratch memory, and stored from there.
///
/// The scratch memory stays in the first cache. All scales of a token's heads are made together: one after the other they would
/// wait for each other's divisions.
#pragma once

#include "cpu/append/load.h"
#include "cpu/append/scales.h"
#include "cpu/append/store.h"

namespace folio {
inline namespace v1 {
namespace rows {

template <class I>
class Writer {
 public:
  static void write(const Job& job, const Place* places, int64_t count) {
    Writer writer(job);
    for (int64_t i = 0; i < count; ++i) {
      if (i + 1 < count) writer.prefetch(places[i + 1]);
      writer.write_token(places[i]);
    }
    if (job.streams) I::fence();
  }

  /// Whole lines of the target past the caches; what lies before and behind them through the caches.
  static void move(std::byte* to, const std::byte* from, int64_t bytes, bool streams) {
    if (to == from) return;
    constexpr int64_t line = 64;
    const auto begin = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(line));
    if (!streams || bytes < begin + line) {
      __builtin_memcpy(to, from, static_cast<size_t>(bytes));
      return;
    }
    __builtin_memcpy(to, from, static_cast<size_t>(begin));
    int64_t i = begin;
    for (; i + line <= bytes; i += line) {
      for (int64_t k = 0; k < line; k += int64_t{sizeof(U)}) I::stream(to + i + k, V::template load_as<U>(from + i + k));
    }
    __builtin_memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
  }

 private:
  using V = Simd<I>;
  using U = typename V::U;

  explicit Writer(const Job& job) : job_(job), pitch_((job.head_size + pad - 1) / pad * pad) {
    heads_max_ = head_size_max / pitch_ > 0 ? head_size_max / pitch_ : 1;
    granules_ = job.target.granule_stride_bytes != 0 ? (job.head_size + job.target.granularity - 1) / job.target.granularity : 1;
    granule_size_ = job.target.granule_stride_bytes != 0 ? job.target.granularity : job.head_size;
  }

  void write_token(const Place& place) {
    if (job_.is_plain()) return write_plain(place);
    const bool is_shared = job_.computes_scales && job_.target.scale_head_stride_bytes == 0 && job_.heads > 1;
    if (is_shared) make_shared_scales(place);
    for (int64_t head = 0; head < job_.heads; head += heads_max_) {
      const int64_t heads = smaller(heads_max_, job_.heads - head);
      load(place, head, heads);
      if (job_.target.scale_dtype == DType::invalid) {
        for (int64_t h = 0; h < heads; ++h) store(place, head, h, 0, job_.head_size, {});
      } else if (job_.computes_scales && !is_shared) {
        quantise(place, head, heads);
      } else {
        store_with_given_scales(place, head, heads);
      }
    }
  }

  /// Any length: nothing needs a whole row.
  void write_plain(const Place& place) {
    const int64_t from_bytes = bit_width(job_.source.dtype) / 8, to_bytes = bit_width(job_.target.dtype) / 8;
    for (int64_t head = 0; head < job_.heads; ++head) {
      const std::byte* from = place.source + head * job_.source.head_stride_bytes;
      std::byte* to = place.target + head * job_.target.head_stride_bytes;
      if (job_.source.dtype == job_.target.dtype) {
        move(to, from, job_.head_size * to_bytes, job_.streams);
        continue;
      }
      for (int64_t i = 0; i < job_.head_size; i += head_size_max) {
        const int64_t n = smaller(head_size_max, job_.head_size - i);
        Load<I>::widen(job_.source.dtype, from + i * from_bytes, n, scratch_);
        Store<I>::narrow(job_.target.dtype, scratch_, n, to + i * to_bytes, {}, job_.streams);
      }
    }
  }

  void load(const Place& place, int64_t head, int64_t heads) {
    for (int64_t h = 0; h < heads; ++h) Load<I>::head(job_, place, head + h, scratch_ + h * pitch_);
  }

  /// Elements [first, first + n) of the h-th loaded head.
  void store(const Place& place, int64_t head, int64_t h, int64_t first, int64_t n, const Divisor& divisor) {
    std::byte* to = place.target + (head + h) * job_.target.head_stride_bytes + first * (bit_width(job_.target.dtype) / 8);
    Store<I>::narrow(job_.target.dtype, scratch_ + h * pitch_ + first, n, to, divisor, job_.streams);
  }

  [[nodiscard]] std::byte* scale_at(const Place& place, int64_t head, int64_t granule) const {
    return place.target_scales + head * job_.target.scale_head_stride_bytes + granule * job_.target.granule_stride_bytes;
  }
  [[nodiscard]] int64_t granule_length(int64_t granule) const {
    return smaller(granule_size_, job_.head_size - granule * granule_size_);
  }

  void store_with_given_scales(const Place& place, int64_t head, int64_t heads) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t g = 0; g < granules_; ++g) {
        store(place, head, h, g * granule_size_, granule_length(g), Scales<I>::given(job_.target, scale_at(place, head + h, g)));
      }
    }
  }

  /// A scale for every granule of every loaded head, a batch of them at a time.
  void quantise(const Place& place, int64_t head, int64_t heads) {
    for (int64_t first = 0; first < heads * granules_; first += granule_batch) {
      const auto count = static_cast<int>(smaller(granule_batch, heads * granules_ - first));
      Magnitude magnitudes[granule_batch];
      std::byte* at[granule_batch];
      Divisor divisors[granule_batch];
      for (int i = 0; i < count; ++i) {
        const int64_t h = (first + i) / granules_, g = (first + i) % granules_;
        magnitudes[i] = Scales<I>::magnitude(scratch_ + h * pitch_ + g * granule_size_, granule_length(g));
        at[i] = scale_at(place, head + h, g);
      }
      Scales<I>::make(job_, magnitudes, at, count, divisors);
      for (int i = 0; i < count; ++i) {
        const int64_t h = (first + i) / granules_, g = (first + i) % granules_;
        store(place, head, h, g * granule_size_, granule_length(g), divisors[i]);
      }
    }
  }

  /// Scales that the heads of a token share: made from all heads, and then as good as given.
  void make_shared_scales(const Place& place) {
    for (int64_t first = 0; first < granules_; first += granule_batch) {
      const auto count = static_cast<int>(smaller(granule_batch, granules_ - first));
      Magnitude magnitudes[granule_batch];
      std::byte* at[granule_batch];
      Divisor divisors[granule_batch];
      for (int64_t head = 0; head < job_.heads; head += heads_max_) {
        const int64_t heads = smaller(heads_max_, job_.heads - head);
        load(place, head, heads);
        for (int64_t h = 0; h < heads; ++h) {
          for (int i = 0; i < count; ++i) {
            const float* x = scratch_ + h * pitch_ + (first + i) * granule_size_;
            magnitudes[i].include(Scales<I>::magnitude(x, granule_length(first + i)));
          }
        }
      }
      for (int i = 0; i < count; ++i) at[i] = scale_at(place, 0, first + i);
      Scales<I>::make(job_, magnitudes, at, count, divisors);
    }
  }

  /// What the next token reads, and, where stores go through the caches, what it writes.
  void prefetch(const Place& place) const {
    constexpr int64_t line = 64;
    const int64_t from_bytes = job_.head_size * bit_width(job_.source.dtype) / 8;
    const int64_t to_bytes = job_.head_size * bit_width(job_.target.dtype) / 8;
    for (int64_t head = 0; head < job_.heads; ++head) {
      const std::byte* from = place.source + head * job_.source.head_stride_bytes;
      const std::byte* to = place.target + head * job_.target.head_stride_bytes;
      for (int64_t i = 0; i < from_bytes; i += line) __builtin_prefetch(from + i);
      if (job_.streams) continue;
      for (int64_t i = 0; i < to_bytes; i += line) __builtin_prefetch(to + i, 1);
    }
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  static constexpr int pad = 16;    // rows begin on whole registers
  static constexpr int slack = 64;  // what blocks read and store behind the last row

  const Job& job_;
  int64_t pitch_;
  int64_t heads_max_ = 1;
  int64_t granules_ = 1;
  int64_t granule_size_ = 1;
  alignas(64) float scratch_[head_size_max + slack];
};

}  // namespace rows
}  // namespace v1
}  // namespace folio
