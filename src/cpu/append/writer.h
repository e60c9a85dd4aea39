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
  static void write(const Job* jobs, int num_jobs, const Place* places, int64_t tokens) {
    alignas(64) float scratch[head_size_max + slack];
    Writer first(jobs[0], scratch), second(jobs[num_jobs - 1], scratch);
    Writer* const writers[] = {&first, &second};
    const int64_t count = tokens * num_jobs;
    for (int64_t i = 0; i < count; ++i) {
      if (places[i].target == nullptr) continue;
      const bool has_next = i + num_jobs < count && places[i + num_jobs].target != nullptr;
      writers[i % num_jobs]->write_token(places[i], has_next ? places[i + num_jobs] : places[i]);
    }
    if (jobs[0].streams || jobs[num_jobs - 1].streams) I::fence();
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

  Writer(const Job& job, float* scratch) : job_(job), pitch_((job.head_size + pad - 1) / pad * pad), scratch_(scratch) {
    heads_max_ = head_size_max / pitch_ > 0 ? head_size_max / pitch_ : 1;
    granules_ = job.target.granule_stride_bytes != 0 ? (job.head_size + job.target.granularity - 1) / job.target.granularity : 1;
    granule_size_ = granules_ > 1 ? job.target.granularity : job.head_size;
  }

  void write_token(const Place& place, const Place& next) {
    prefetch(next);
    if (job_.is_plain()) return write_plain(place, next);
    const bool is_shared = job_.computes_scales && job_.target.scale_head_stride_bytes == 0 && job_.heads > 1;
    if (is_shared) make_shared_scales(place);
    for (int64_t head = 0; head < job_.heads; head += heads_max_) {
      const int64_t heads = smaller(heads_max_, job_.heads - head);
      Load<I>::heads(job_, place, head, heads, scratch_, pitch_);
      store(place, next, head, heads, job_.computes_scales && !is_shared);
    }
  }

  /// Any length: nothing needs a whole row.
  void write_plain(const Place& place, const Place& next) {
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
        Load<I>::widen(job_.source.dtype, from + i * from_bytes, 0, 1, n, scratch_, n);
        const Run run{scratch_, n, to + i * to_bytes, no_divisor, next.source + (from - place.source) + i * from_bytes};
        Store<I>::narrow(job_.target.dtype, &run, 1, job_.streams, from_bytes);
      }
    }
  }

  /// A granule of a head: by which steps a token's rows are divided and stored.
  struct Granule {
    int64_t head = 0;
    int64_t index = 0;
  };
  [[nodiscard]] Granule after(Granule g) const { return ++g.index < granules_ ? g : Granule{g.head + 1, 0}; }
  [[nodiscard]] int64_t length_of(const Granule& g) const {
    return smaller(granule_size_, job_.head_size - g.index * granule_size_);
  }
  [[nodiscard]] const float* values_of(const Granule& g) const { return scratch_ + g.head * pitch_ + g.index * granule_size_; }
  [[nodiscard]] std::byte* scale_of(const Place& place, int64_t head, const Granule& g) const {
    return place.target_scales + (head + g.head) * job_.target.scale_head_stride_bytes +
           g.index * job_.target.granule_stride_bytes;
  }

  /// The loaded heads, of which `head` is the first, a batch of granules at a time.
  void store(const Place& place, const Place& next, int64_t head, int64_t heads, bool computes) {
    const int64_t from_bytes = bit_width(job_.source.dtype) / 8;
    const int64_t to_bytes = bit_width(job_.target.dtype) / 8;
    Granule g;
    while (g.head < heads) {
      Run runs[granule_batch + Scales<I>::lanes];
      Magnitude magnitudes[granule_batch + Scales<I>::lanes];
      std::byte* scales[granule_batch];
      int count = 0;
      for (; count < granule_batch && g.head < heads; ++count, g = after(g)) {
        Run& run = runs[count];
        run.from = values_of(g);
        run.n = length_of(g);
        run.to = place.target + (head + g.head) * job_.target.head_stride_bytes + g.index * granule_size_ * to_bytes;
        run.ahead = next.source + (head + g.head) * job_.source.head_stride_bytes + g.index * granule_size_ * from_bytes;
        run.divisor = no_divisor;
        if (job_.target.scale_dtype == DType::invalid) continue;
        scales[count] = scale_of(place, head, g);
        if (computes) {
          magnitudes[count] = Scales<I>::magnitude(run.from, run.n);
        } else {
          run.divisor = Scales<I>::given(job_.target, scales[count]);
        }
      }
      if (computes) Scales<I>::make(job_, magnitudes, scales, count, runs);
      Store<I>::narrow(job_.target.dtype, runs, count, job_.streams, from_bytes);
    }
  }

  /// Scales that the heads of a token share: made from all heads, and then as good as given.
  void make_shared_scales(const Place& place) {
    for (int64_t first = 0; first < granules_; first += granule_batch) {
      const auto count = static_cast<int>(smaller(granule_batch, granules_ - first));
      Run runs[granule_batch + Scales<I>::lanes];
      Magnitude magnitudes[granule_batch + Scales<I>::lanes];
      std::byte* scales[granule_batch];
      for (int i = 0; i < count; ++i) magnitudes[i] = {0, false};
      for (int64_t head = 0; head < job_.heads; head += heads_max_) {
        const int64_t heads = smaller(heads_max_, job_.heads - head);
        Load<I>::heads(job_, place, head, heads, scratch_, pitch_);
        for (int64_t h = 0; h < heads; ++h) {
          for (int i = 0; i < count; ++i) {
            const Granule g{h, first + i};
            magnitudes[i].include(Scales<I>::magnitude(values_of(g), length_of(g)));
          }
        }
      }
      for (int i = 0; i < count; ++i) scales[i] = scale_of(place, 0, {0, first + i});
      Scales<I>::make(job_, magnitudes, scales, count, runs);
    }
  }

  /// Of the next token: its angles and, where stores go through the caches, what it writes. What it reads is fetched while this one
  /// is stored, evenly: a burst would fill the buffers of the first cache and stop everything behind it.
  void prefetch(const Place& place) const {
    if (job_.rope_dims > 0) prefetch_lines<0>(reinterpret_cast<const std::byte*>(place.cos_sin), job_.rope_dims * int64_t{4});
    if (job_.streams) return;
    const int64_t bytes = job_.head_size * bit_width(job_.target.dtype) / 8;
    for (int64_t head = 0; head < job_.heads; ++head)
      prefetch_lines<1>(place.target + head * job_.target.head_stride_bytes, bytes);
  }
  template <int ForWriting>
  static void prefetch_lines(const std::byte* at, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, ForWriting);
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  static constexpr int pad = 16;    // rows begin on whole registers
  static constexpr int slack = 64;  // what blocks read and store behind the last row

  const Job& job_;
  int64_t pitch_;
  int64_t heads_max_ = 1;
  int64_t granules_ = 1;
  int64_t granule_size_ = 1;
  float* scratch_;
};

}  // namespace rows
}  // namespace v1
}  // namespace folio
