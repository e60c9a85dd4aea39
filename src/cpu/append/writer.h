// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/writer.h: one token after the other: heads are stored from where they lie, or
/// from scratch memory as floats.
///
/// The scratch memory stays in the first cache. All scales of a token's heads are made together:
/// one after the other they would wait for each other's divisions.
#pragma once

#include "cpu/append/load.h"
#include "cpu/append/move.h"
#include "cpu/append/scales.h"
#include "cpu/append/store.h"
#include "cpu/append/store_blocks.h"

namespace folio::inline v1::rows {

template <class I>
class Writer {
 public:
  /// Token by token. K and V are loaded and measured before either is stored: divisions of one
  /// overlap with the other's arithmetic.
  static void write(const Conversion* conversions, int num_conversions, const TokenRow* token_rows,
                    int64_t tokens) noexcept {
    Writer writers[] = {Writer(conversions[0]), Writer(conversions[num_conversions - 1])};
    const int64_t count = tokens * num_conversions;
    const int64_t ahead = int64_t{conversions[0].tokens_ahead} * num_conversions;
    for (int64_t t = 0; t < count; t += num_conversions) {
      for (int j = 0; j < num_conversions; ++j) {
        const int64_t coming = t + j + ahead;
        const bool is_coming = coming < count && token_rows[coming].target != nullptr;
        writers[j].begin(token_rows[t + j], token_rows[is_coming ? coming : t + j]);
      }
      while (writers[0].has_more() || writers[num_conversions - 1].has_more()) {
        for (int j = 0; j < num_conversions; ++j) writers[j].load();
        for (int j = 0; j < num_conversions; ++j) writers[j].scale();
        for (int j = 0; j < num_conversions; ++j) writers[j].store();
      }
    }
    if (conversions[0].streams || conversions[num_conversions - 1].streams) I::fence();
  }

 private:
  using Loader = Load<I>;

  static constexpr int pad = 16;    // rows begin on whole registers
  static constexpr int slack = 64;  // what loads store behind the last row
  /// Elements of K, then as many of V: where little is computed, memory moves both at once faster.
  static constexpr int64_t piece = 512;
  /// Elements whose bytes are whole in every type.
  static constexpr int64_t block = 32;

  explicit Writer(const Conversion& conversion)
      : conversion_(conversion),
        from_block_bytes_(row_bytes(conversion.source.dtype, block)),
        to_block_bytes_(row_bytes(conversion.target.dtype, block)) {
    const bool is_bf16 = conversion.source.dtype == DType::bf16,
               is_read = is_bf16 || conversion.source.dtype == DType::f32;
    const bool is_changed = conversion.norm != nullptr || conversion.rope_dims > 0 ||
                            conversion.source.scale_dtype != DType::invalid;
    is_move_ = conversion.is_plain() && conversion.source.dtype == conversion.target.dtype;
    is_direct_ = is_read && !is_changed;
    shares_scales_ = conversion.computes_scales && conversion.target.scale_head_stride_bytes == 0 &&
                     conversion.heads > 1;
    if (conversion.target.granule_stride_bytes != 0) {
      granule_size_ = conversion.target.granularity;
    } else if (conversion.is_plain() && !is_direct_) {
      granule_size_ = smaller(conversion.head_size, head_size_max);
    } else if (conversion.is_plain() && conversion.target.dtype == DType::i8) {
      granule_size_ = smaller(conversion.head_size, piece);
    } else {
      granule_size_ = conversion.head_size;
    }
    granules_ = (conversion.head_size + granule_size_ - 1) / granule_size_;
    pitch_ = (conversion.head_size + pad - 1) / pad * pad;
    heads_step_ = smaller(head_size_max / pitch_, granules_max / granules_);
    if (heads_step_ == 0 || (conversion.is_plain() && !is_direct_)) heads_step_ = 1;
    granules_step_ = conversion.is_plain() ? 1 : smaller(granules_, granules_max);
    only_rotates_ = is_read && Loader::only_rotates(conversion) &&
                    (!is_bf16 || granules_ == 1 || granule_size_ % Loader::double_width == 0);
    if (is_bf16 && is_direct_) reading_ = Reading::bf16;
    if (is_bf16 && only_rotates_) reading_ = Reading::split_floats;
  }

  void begin(const TokenRow& token_row, const TokenRow& coming) {
    token_row_ = &token_row;
    coming_ = &coming;
    head_ = token_row.target != nullptr ? 0 : conversion_.heads;
    granule_ = 0;
    if (!has_more()) return;
    prefetch(coming);
    if (is_move_) return move_heads();
    if (only_rotates_) angles_ = angles_of(token_row);
    if (shares_scales_) make_shared_scales();
  }
  [[nodiscard]] bool has_more() const { return head_ < conversion_.heads; }

  // A step of a token: some granules of some heads, or nothing where there is no more.
  void load() {
    if (!has_more()) return;
    load_step(granule_ == 0);
    if (computes_here()) measure();
  }
  void scale() {
    if (!has_more() || conversion_.target.scale_dtype == DType::invalid) return;
    if (computes_here()) {
      Scales<I>::make(conversion_, step_, magnitudes_, scales(), divisors_);
    } else {
      Scales<I>::read(conversion_.target, step_, scales(), divisors_);
    }
  }
  void store() {
    if (!has_more()) return;
    const Divisors* divisors =
        conversion_.target.scale_dtype != DType::invalid ? &divisors_ : nullptr;
    switch (reading_) {
      case Reading::floats: narrow<Floats<I>>(divisors); break;
      case Reading::split_floats: narrow<SplitFloats<I>>(divisors); break;
      case Reading::bf16: narrow<Bf16s<I>>(divisors); break;
    }
    advance();
  }

  [[nodiscard]] bool computes_here() const {
    return conversion_.computes_scales && !shares_scales_;
  }
  template <class From>
  void narrow(const Divisors* divisors) {
    if (detail::is_block(conversion_.target.dtype))
      return StoreBlocks<I, From>::narrow(conversion_, step_);
    Store<I, From>::narrow(conversion_, step_, divisors);
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
    const std::byte* source = token_row_->source + head_ * conversion_.source.head_stride_bytes;
    step_.heads = granules_step_ == granules_ ? smaller(heads_step_, conversion_.heads - head_) : 1;
    step_.per_head = smaller(granules_step_, granules_ - granule_);
    step_.length = granule_size_;
    step_.last_length = smaller(
        granule_size_, conversion_.head_size - first - (step_.per_head - 1) * granule_size_);
    step_.from = {source + from_bytes(first), conversion_.source.head_stride_bytes,
                  from_bytes(granule_size_)};
    step_.ahead = {source + from_bytes(first) + (coming_->source - token_row_->source),
                   conversion_.source.head_stride_bytes, from_bytes(granule_size_)};
    step_.to = {token_row_->target + head_ * conversion_.target.head_stride_bytes + to_bytes(first),
                conversion_.target.head_stride_bytes, to_bytes(granule_size_)};
    if (is_direct_) return;
    if (conversion_.is_plain()) {
      Loader::widen(conversion_.source.dtype, step_.from.first, 0, 1, step_.last_length, rows_, 0);
    } else if (begins_rows) {
      load_heads(source);
    }
    constexpr int64_t size = sizeof(float);
    const int64_t loaded = conversion_.is_plain() ? 0 : first;
    step_.from = {reinterpret_cast<const std::byte*>(rows_ + loaded), pitch_ * size,
                  granule_size_ * size};
  }
  /// Whole heads, transformed.
  void load_heads(const std::byte* source) {
    if (!only_rotates_)
      return Loader::heads(conversion_, *token_row_, head_, step_.heads, rows_, pitch_);
    if (reading_ == Reading::floats) {
      Loader::template rotated<Floats<I>>(conversion_, source, step_.heads, angles_, rows_, pitch_);
    } else {
      Loader::template rotated<Bf16s<I>>(conversion_, source, step_.heads, angles_, rows_, pitch_);
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
      const std::byte* from = token_row_->source + head_ * conversion_.source.head_stride_bytes;
      Move<I>::fetching(token_row_->target + head_ * conversion_.target.head_stride_bytes, from,
                        to_bytes(conversion_.head_size), conversion_.streams,
                        from + (coming_->source - token_row_->source), conversion_.fetches_near);
    }
  }

  [[nodiscard]] const float* angles_of(const TokenRow& token_row) {
    if (reading_ == Reading::floats) return token_row.cos_sin;
    Loader::split_angles(token_row.cos_sin, conversion_.rope_dims, rotation_);
    return rotation_;
  }

  /// Where the scales of this step are.
  [[nodiscard]] Side<std::byte> scales() const {
    const Format& f = conversion_.target;
    return {token_row_->target_scales + head_ * f.scale_head_stride_bytes +
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
      Scales<I>::make(conversion_, step_, all, scales(), divisors_);
    }
    granule_ = 0;
  }

  /// Of a coming token: its angles and, where stores go through the caches, what it writes. What it
  /// reads is fetched while this one is stored, evenly: a burst would fill the buffers of the first
  /// cache and stop everything behind it.
  void prefetch(const TokenRow& token_row) const {
    constexpr int64_t line = 64;
    const auto* angles = reinterpret_cast<const std::byte*>(token_row.cos_sin);
    for (int64_t i = 0; i < conversion_.rope_dims * int64_t{sizeof(float)}; i += line)
      fetch(angles + i, conversion_.fetches_near);
    if (conversion_.streams) return;
    for (int64_t head = 0; head < conversion_.heads; ++head) {
      const std::byte* row = token_row.target + head * conversion_.target.head_stride_bytes;
      for (int64_t i = 0; i < to_bytes(conversion_.head_size); i += line)
        __builtin_prefetch(row + i, 1);
    }
  }

  [[nodiscard]] int64_t from_bytes(int64_t elements) const {
    return elements * from_block_bytes_ / block;
  }
  [[nodiscard]] int64_t to_bytes(int64_t elements) const {
    return elements * to_block_bytes_ / block;
  }
  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

  const Conversion& conversion_;
  const int64_t from_block_bytes_;
  const int64_t to_block_bytes_;
  bool is_move_ = false;       ///< bytes are copied
  bool is_direct_ = false;     ///< rows are stored from where they lie
  bool only_rotates_ = false;  ///< rows are rotated while they are loaded
  bool shares_scales_ = false;
  Reading reading_ = Reading::floats;
  int64_t granule_size_ = 1;  ///< of a plain conversion: what fits the scratch memory
  int64_t granules_ = 1;      ///< of a head
  int64_t pitch_ = 1;
  int64_t heads_step_ = 1;
  int64_t granules_step_ = 1;

  // The token, and the step: granules from granule_ on of heads from head_ on.
  const TokenRow* token_row_ = nullptr;
  const TokenRow* coming_ = nullptr;
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
