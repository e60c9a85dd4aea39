// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/writer.h: one token after the other: heads are stored from where they lie, or
/// from scratch memory as floats.
///
/// The scratch memory stays in the first cache. All scales of a token's heads are made together:
/// one after the other they would wait for each other's divisions.
#pragma once

#include "cpu/append/load.h"
#include "cpu/append/scales.h"
#include "cpu/append/store.h"

namespace folio::inline v1::rows {

template <class I>
class Writer {
 public:
  /// Token by token. K and V are loaded and measured before either is stored: divisions of one
  /// overlap with the other's arithmetic.
  static void write(const Job* jobs, int num_jobs, const Place* places, int64_t tokens) {
    Writer writers[] = {Writer(jobs[0]), Writer(jobs[num_jobs - 1])};
    const int64_t count = tokens * num_jobs;
    for (int64_t t = 0; t < count; t += num_jobs) {
      for (int j = 0; j < num_jobs; ++j) {
        const int64_t coming = t + j + tokens_ahead * num_jobs;
        const bool is_coming = coming < count && places[coming].target != nullptr;
        writers[j].begin(places[t + j], places[is_coming ? coming : t + j]);
      }
      while (writers[0].has_more() || writers[num_jobs - 1].has_more()) {
        for (int j = 0; j < num_jobs; ++j) writers[j].load();
        for (int j = 0; j < num_jobs; ++j) writers[j].scale();
        for (int j = 0; j < num_jobs; ++j) writers[j].store();
      }
    }
    if (jobs[0].streams || jobs[num_jobs - 1].streams) I::fence();
  }

  /// Whole lines of the target past the caches; what lies before and behind them through the
  /// caches.
  static void move(std::byte* to, const std::byte* from, int64_t bytes, bool streams) {
    move_fetching<false>(to, from, bytes, streams, nullptr);
  }

 private:
  using V = Simd<I>;
  using U = typename V::U;
  using Loader = Load<I>;

  /// `ahead`: as many bytes of a coming token, fetched meanwhile.
  template <bool Fetches>
  static void move_fetching(std::byte* to, const std::byte* from, int64_t bytes, bool streams,
                            const std::byte* ahead) {
    if (to == from) return;
    constexpr int64_t line = 64;
    const auto begin =
        static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(line));
    if (!streams || bytes < begin + line) {
      __builtin_memcpy(to, from, static_cast<size_t>(bytes));
      return;
    }
    __builtin_memcpy(to, from, static_cast<size_t>(begin));
    int64_t i = begin;
    for (; i + line <= bytes; i += line) {
      if constexpr (Fetches) fetch(ahead + i);
      for (int64_t k = 0; k < line; k += int64_t{sizeof(U)})
        I::stream(to + i + k, V::template load_as<U>(from + i + k));
    }
    __builtin_memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
  }

  static constexpr int64_t tokens_ahead = 2;  // that are fetched: about the time that memory takes
  static constexpr int pad = 16;              // rows begin on whole registers
  static constexpr int slack = 64;            // what loads store behind the last row

  explicit Writer(const Job& job)
      : job_(job),
        from_bytes_(bit_width(job.source.dtype) / 8),
        to_bytes_(bit_width(job.target.dtype) / 8) {
    const bool is_bf16 = job.source.dtype == DType::bf16,
               is_read = is_bf16 || job.source.dtype == DType::f32;
    const bool is_changed =
        job.norm != nullptr || job.rope_dims > 0 || job.source.scale_dtype != DType::invalid;
    is_move_ = job.is_plain() && job.source.dtype == job.target.dtype;
    is_direct_ = is_read && !is_changed;
    shares_scales_ =
        job.computes_scales && job.target.scale_head_stride_bytes == 0 && job.heads > 1;
    if (job.target.granule_stride_bytes != 0) {
      granule_size_ = job.target.granularity;
    } else {
      granule_size_ =
          job.is_plain() && !is_direct_ ? smaller(job.head_size, head_size_max) : job.head_size;
    }
    granules_ = (job.head_size + granule_size_ - 1) / granule_size_;
    pitch_ = (job.head_size + pad - 1) / pad * pad;
    heads_step_ = smaller(head_size_max / pitch_, granules_max / granules_);
    if (heads_step_ == 0 || (job.is_plain() && !is_direct_)) heads_step_ = 1;
    granules_step_ = job.is_plain() ? 1 : smaller(granules_, granules_max);
    only_rotates_ = is_read && Loader::only_rotates(job) &&
                    (!is_bf16 || granules_ == 1 || granule_size_ % Loader::unit == 0);
    if (is_bf16 && is_direct_) reading_ = Reading::bf16;
    if (is_bf16 && only_rotates_) reading_ = Reading::split_floats;
  }

  void begin(const Place& place, const Place& coming) {
    place_ = &place;
    coming_ = &coming;
    head_ = place.target != nullptr ? 0 : job_.heads;
    granule_ = 0;
    if (!has_more()) return;
    prefetch(coming);
    if (is_move_) return move_heads();
    if (only_rotates_) angles_ = angles_of(place);
    if (shares_scales_) make_shared_scales();
  }
  [[nodiscard]] bool has_more() const { return head_ < job_.heads; }

  // A step of a token: some granules of some heads, or nothing where there is no more.
  void load() {
    if (!has_more()) return;
    load_step(granule_ == 0);
    if (computes_here()) measure();
  }
  void scale() {
    if (!has_more() || job_.target.scale_dtype == DType::invalid) return;
    if (computes_here()) {
      Scales<I>::make(job_, step_, magnitudes_, scales(), divisors_);
    } else {
      Scales<I>::read(job_.target, step_, scales(), divisors_);
    }
  }
  void store() {
    if (!has_more()) return;
    const Divisors* divisors = job_.target.scale_dtype != DType::invalid ? &divisors_ : nullptr;
    switch (reading_) {
      case Reading::floats: narrow<Floats<I>>(divisors); break;
      case Reading::split_floats: narrow<SplitFloats<I>>(divisors); break;
      case Reading::bf16: narrow<Bf16s<I>>(divisors); break;
    }
    advance();
  }

  [[nodiscard]] bool computes_here() const { return job_.computes_scales && !shares_scales_; }
  template <class From>
  void narrow(const Divisors* divisors) {
    Store<I, From>::narrow(job_.target.dtype, step_, divisors, job_.streams, from_bytes_);
  }
  void measure() {
    switch (reading_) {
      case Reading::floats: return Scales<I>::template measure<Floats<I>>(step_, magnitudes_);
      case Reading::split_floats:
        return Scales<I>::template measure<SplitFloats<I>>(step_, magnitudes_);
      case Reading::bf16: return Scales<I>::template measure<Bf16s<I>>(step_, magnitudes_);
    }
  }

  void load_step(bool begins_rows) {
    const int64_t first = granule_ * granule_size_;  // element
    const std::byte* source = place_->source + head_ * job_.source.head_stride_bytes;
    step_.heads = granules_step_ == granules_ ? smaller(heads_step_, job_.heads - head_) : 1;
    step_.per_head = smaller(granules_step_, granules_ - granule_);
    step_.length = granule_size_;
    step_.last_length =
        smaller(granule_size_, job_.head_size - first - (step_.per_head - 1) * granule_size_);
    step_.from = {source + first * from_bytes_, job_.source.head_stride_bytes,
                  granule_size_ * from_bytes_};
    step_.ahead = step_.from;
    step_.ahead.first += coming_->source - place_->source;
    step_.to = {place_->target + head_ * job_.target.head_stride_bytes + first * to_bytes_,
                job_.target.head_stride_bytes, granule_size_ * to_bytes_};
    if (is_direct_) return;
    if (job_.is_plain()) {
      Loader::widen(job_.source.dtype, step_.from.first, 0, 1, step_.last_length, rows_, 0);
    } else if (begins_rows) {
      load_heads(source);
    }
    constexpr int64_t size = sizeof(float);
    const int64_t loaded = job_.is_plain() ? 0 : first;
    step_.from = {reinterpret_cast<const std::byte*>(rows_ + loaded), pitch_ * size,
                  granule_size_ * size};
  }
  /// Whole heads, transformed.
  void load_heads(const std::byte* source) {
    if (!only_rotates_) return Loader::heads(job_, *place_, head_, step_.heads, rows_, pitch_);
    if (reading_ == Reading::floats) {
      Loader::template rotated<Floats<I>>(job_, source, step_.heads, angles_, rows_, pitch_);
    } else {
      Loader::template rotated<Bf16s<I>>(job_, source, step_.heads, angles_, rows_, pitch_);
    }
  }
  void advance() {
    granule_ += step_.per_head;
    if (granule_ < granules_) return;
    granule_ = 0;
    head_ += step_.heads;
  }

  void move_heads() {
    for (; has_more(); ++head_) {
      const std::byte* from = place_->source + head_ * job_.source.head_stride_bytes;
      move_fetching<true>(place_->target + head_ * job_.target.head_stride_bytes, from,
                          job_.head_size * to_bytes_, job_.streams,
                          from + (coming_->source - place_->source));
    }
  }

  [[nodiscard]] const float* angles_of(const Place& place) {
    if (reading_ == Reading::floats) return place.cos_sin;
    Loader::split_angles(place.cos_sin, job_.rope_dims, rotation_);
    return rotation_;
  }

  /// Where the scales of this step are.
  [[nodiscard]] Side<std::byte> scales() const {
    const Format& f = job_.target;
    return {place_->target_scales + head_ * f.scale_head_stride_bytes +
                granule_ * f.granule_stride_bytes,
            f.scale_head_stride_bytes, f.granule_stride_bytes};
  }

  /// Scales that the heads of a token share: made from all heads, and then as good as given.
  void make_shared_scales() {
    for (; granule_ < granules_; granule_ += step_.per_head) {
      Magnitudes all = {};
      for (head_ = 0; has_more(); head_ += step_.heads) {
        load_step(true);
        measure();
        for (int64_t i = 0; i < step_.count(); ++i)
          all.include(i % step_.per_head, magnitudes_.finite[i]);
        all.is_any_special = all.is_any_special || magnitudes_.is_any_special;
      }
      head_ = 0;
      step_.heads = 1;
      Scales<I>::make(job_, step_, all, scales(), divisors_);
    }
    granule_ = 0;
  }

  /// Of a coming token: its angles and, where stores go through the caches, what it writes. What it
  /// reads is fetched while this one is stored, evenly: a burst would fill the buffers of the first
  /// cache and stop everything behind it.
  void prefetch(const Place& place) const {
    constexpr int64_t line = 64;
    const auto* angles = reinterpret_cast<const std::byte*>(place.cos_sin);
    for (int64_t i = 0; i < job_.rope_dims * int64_t{sizeof(float)}; i += line) fetch(angles + i);
    if (job_.streams) return;
    for (int64_t head = 0; head < job_.heads; ++head) {
      const std::byte* row = place.target + head * job_.target.head_stride_bytes;
      for (int64_t i = 0; i < job_.head_size * to_bytes_; i += line) __builtin_prefetch(row + i, 1);
    }
  }

  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  const Job& job_;
  const int64_t from_bytes_;  ///< of an element
  const int64_t to_bytes_;
  bool is_move_ = false;       ///< bytes are copied
  bool is_direct_ = false;     ///< rows are stored from where they lie
  bool only_rotates_ = false;  ///< rows are rotated while they are loaded
  bool shares_scales_ = false;
  Reading reading_ = Reading::floats;
  int64_t granule_size_ = 1;  ///< of a plain job: what fits the scratch memory
  int64_t granules_ = 1;      ///< of a head
  int64_t pitch_ = 1;
  int64_t heads_step_ = 1;
  int64_t granules_step_ = 1;

  // The token, and the step: granules from granule_ on of heads from head_ on.
  const Place* place_ = nullptr;
  const Place* coming_ = nullptr;
  const float* angles_ = nullptr;  ///< in the order in which `reading_` has them
  int64_t head_ = 0;
  int64_t granule_ = 0;
  Granules step_ = {};

  // Filled for every step.
  Magnitudes magnitudes_;
  Divisors divisors_;
  alignas(64) float rows_[head_size_max + slack];
  alignas(64) float rotation_[head_size_max];
};

}  // namespace folio::inline v1::rows
