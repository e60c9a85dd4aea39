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
#include "cpu/append/store_packed.h"
#include "cpu/append/zero_points.h"

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
        to_block_bytes_(row_bytes(conversion.target.dtype, block)),
        is_packed_(folio::detail::is_packed(conversion.target.dtype)),
        turns_(conversion.target.hadamard.block != 0),
        granule_size_(granule_size(conversion)),
        granules_((conversion.head_size + granule_size_ - 1) / granule_size_),
        pitch_((conversion.head_size + pad - 1) / pad * pad),
        heads_step_(heads_step()),
        granules_step_(conversion.is_plain() ? 1 : smaller(granules_, granules_max)),
        units_(heads_step_, is_packed_ ? conversion.head_size : 0, granule_size_, granules_) {
    is_move_ = conversion.is_plain() && conversion.source.dtype == conversion.target.dtype;
    shares_scales_ = conversion.computes_scales && conversion.target.scale_head_stride_bytes == 0 &&
                     conversion.heads > 1;
    choose_readings();
  }

  static bool is_read(const Conversion& c) {
    return c.source.dtype == DType::bf16 || c.source.dtype == DType::f32;
  }
  static int64_t granule_size(const Conversion& c) {
    if (c.target.granule_stride_bytes != 0) return c.target.granularity;
    if (c.is_plain() && !is_read(c)) return smaller(c.head_size, head_size_max);
    if (c.is_plain() && c.target.dtype == DType::i8) return smaller(c.head_size, piece);
    return c.head_size;
  }
  [[nodiscard]] int64_t heads_step() const {
    const int64_t heads = smaller(head_size_max / pitch_, granules_max / granules_);
    return heads == 0 || (conversion_.is_plain() && !is_read(conversion_)) ? 1 : heads;
  }

  /// How rows lie before they are turned, and when they are stored.
  void choose_readings() {
    constexpr int64_t pair = Loader::double_width;
    const Conversion& c = conversion_;
    const bool is_bf16 = c.source.dtype == DType::bf16, has_pairs = c.head_size % pair == 0;
    const bool is_as_given = is_read(c) && c.norm == nullptr && c.rope_dims == 0 &&
                             c.source.scale_dtype == DType::invalid && !c.source.is_turned() &&
                             !c.scales_channels();
    const bool has_granule_pairs = granules_ == 1 || granule_size_ % pair == 0;
    turns_split_ = turns_ && has_pairs && has_granule_pairs &&
                   c.target.hadamard.block % pair == 0 && block_elements(c.target.dtype) <= 2;
    is_direct_ = is_as_given && !turns_;
    only_rotates_ = is_read(c) && Loader::only_rotates(c) &&
                    (!is_bf16 || (turns_ ? turns_split_ : has_granule_pairs));
    if (is_bf16 && only_rotates_) given_ = Reading::split_floats;
    if (is_bf16 && is_as_given && (!turns_ || turns_split_)) given_ = Reading::bf16;
    reads_source_ = is_as_given && (!turns_ || turns_split_);
    reading_ = turns_split_ ? Reading::split_floats : turns_ ? Reading::floats : given_;
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
    const Format& f = conversion_.target;
    const bool has_zeros = f.zeros != Zeros::none;
    if (computes_here()) {
      if (has_zeros)
        return ZeroPoints<I>::make(conversion_, step_, ranges_, scales(), divisors_, shifts_);
      return Scales<I>::make(conversion_, step_, magnitudes_, scales(), divisors_);
    }
    if (has_zeros) return ZeroPoints<I>::read(f, step_, scales(), divisors_, shifts_);
    Scales<I>::read(f, step_, scales(), divisors_);
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
    if (is_packed_)
      return StorePacked<I, From>::narrow(conversion_, step_, units_, divisors_, shifts_);
    if (detail::is_block(conversion_.target.dtype))
      return StoreBlocks<I, From>::narrow(conversion_, step_);
    Store<I, From>::narrow(conversion_, step_, divisors);
  }
  void measure() {
    switch (reading_) {
      case Reading::floats: return measure_as<Floats<I>>();
      case Reading::split_floats: return measure_as<SplitFloats<I>>();
      case Reading::bf16: return measure_as<Bf16s<I>>();
    }
  }
  template <class From>
  void measure_as() {
    if (conversion_.target.zeros == Zeros::minimum)
      return ZeroPoints<I>::template measure<From, false>(step_, ranges_);
    if (conversion_.target.zeros != Zeros::none)
      return ZeroPoints<I>::template measure<From, true>(step_, ranges_);
    if (Scales<I>::has_signs(conversion_.target))
      return Scales<I>::template measure<From, true>(step_, magnitudes_);
    Scales<I>::template measure<From, false>(step_, magnitudes_);
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
    if (only_rotates_ && given_ == Reading::floats) {
      Loader::template rotated<Floats<I>>(conversion_, source, step_.heads, angles_, rows_, pitch_);
    } else if (only_rotates_) {
      Loader::template rotated<Bf16s<I>>(conversion_, source, step_.heads, angles_, rows_, pitch_);
    } else if (!reads_source_) {
      Loader::heads(conversion_, *token_row_, head_, step_.heads, rows_, pitch_);
    }
    if (turns_) turn_heads(source);
  }
  void turn_heads(const std::byte* source) {
    if (!turns_split_) return Loader::turn(conversion_, rows_, step_.heads, pitch_);
    switch (given_) {
      case Reading::floats: return turn_as<Floats<I>>(source);
      case Reading::split_floats: return turn_as<SplitFloats<I>>(source);
      case Reading::bf16: return turn_as<Bf16s<I>>(source);
    }
  }
  template <class From>
  void turn_as(const std::byte* source) {
    constexpr int64_t size = sizeof(float);
    const std::byte* const from =
        reads_source_ ? source : reinterpret_cast<const std::byte*>(rows_);
    const int64_t stride = reads_source_ ? conversion_.source.head_stride_bytes : pitch_ * size;
    Loader::template turn_split<From>(conversion_, from, stride, step_.heads, rows_, pitch_);
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
    if (given_ == Reading::floats) return token_row.cos_sin;
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
  const bool is_packed_;  ///< the target is
  const bool turns_;
  bool is_move_ = false;       ///< bytes are copied
  bool is_direct_ = false;     ///< rows are stored from where they lie
  bool reads_source_ = false;  ///< rows are read first where they lie
  bool only_rotates_ = false;  ///< rows are rotated while they are loaded
  bool turns_split_ = false;   ///< and are split then
  bool shares_scales_ = false;
  Reading given_ = Reading::floats;    ///< before rows are turned
  Reading reading_ = Reading::floats;  ///< when they are stored
  const int64_t granule_size_;         ///< of a plain conversion: what fits the scratch memory
  const int64_t granules_;             ///< of a head
  const int64_t pitch_;
  const int64_t heads_step_;
  const int64_t granules_step_;
  const UnitGranules units_;

  // The token, and the step: granules from granule_ on of heads from head_ on.
  const TokenRow* token_row_ = nullptr;
  const TokenRow* coming_ = nullptr;
  const float* angles_ = nullptr;  ///< in the order in which `reading_` has them
  int64_t head_ = 0;
  int64_t granule_ = 0;
  Granules step_ = {};

  // Filled for every step.
  Magnitudes magnitudes_;
  Ranges ranges_;
  Shifts shifts_{8};  ///< patterns of u4 without zero points
  Divisors divisors_;
  alignas(64) float rows_[head_size_max + slack];
  alignas(64) float rotation_[head_size_max];
};

}  // namespace folio::inline v1::rows
