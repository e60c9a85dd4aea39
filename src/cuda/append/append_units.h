// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/append_units.h: append and rotate for rows whose heads are whole units of
/// aligned vectors, which is what engines have.
///
/// A warp takes some heads of one token. `Lanes` threads hold a head, a unit each, in rounds where
/// the head is longer; so the warp has 32 / Lanes heads at a time. Everything that decides about
/// shuffles is the same for a whole warp. What is worked on twice is loaded and transformed twice,
/// from the caches: registers are what lets enough warps run.
#pragma once

#include "cuda/append/append_call.h"
#include "cuda/append/granule_scale.h"
#include "cuda/append/token_place.h"
#include "cuda/append/unit.h"

namespace folio::cuda {

/// The rows of one token in one plane, of elements of `Bytes` bytes. `General`: with norm and
/// scales.
template <class Thread, int Lanes, int Bytes, bool General, int Plane>
class TokenUnits {
 public:
  FOLIO_DEVICE TokenUnits(Thread& t, const AppendCall& call, int64_t token,
                          const folio::detail::PageRun& place, const float* angles)
      : t_(t),
        call_(call),
        source_(call.planes[Plane].source),
        target_(call.planes[Plane].target),
        angles_at_(angles) {
    from_ = static_cast<const std::byte*>(source_.data) + token * source_.stride_bytes[0];
    to_ = folio::detail::row_of(target_, place.page, place.slot, 0);
    if (!has_scales()) return;
    scales_ = static_cast<std::byte*>(target_.scales.data) +
              folio::detail::scale_offset_bytes(target_.scales, place.page, place.slot, 0, 0);
    tensor_scale_ = tensor_scale_of(t, target_.scales);
    granule_ = granule_size_of(target_);
  }

  FOLIO_DEVICE void write(int32_t begin, int32_t end) {
    if (!rotates() && !normalises() && !has_scales() && source_.dtype == target_.dtype)
      return move(begin, end);
    if (keeps_angles() && is_rotated(dim_of(0))) angles_ = angles_of(dim_of(0));
    const bool shares = has_scales() && heads_share_scales(target_);
    Divisor divisor;
    if (shares) divisor = make_scale(largest_of_heads(begin, end), 0, 0, t_.lane() < Lanes, true);
    for (int32_t head = begin; head < end; head += heads_at_once)
      write_heads(head, end, shares, divisor);
  }

 private:
  static constexpr int heads_at_once = 32 / Lanes;
  static constexpr int round_size = Lanes * unit_size;  ///< elements
  /// Sines with the sign that they have in the element's half of its pair.
  struct Angles {
    float cosine[unit_size];
    float sine[unit_size];
  };

  /// K and Q are, V is not.
  FOLIO_DEVICE bool rotates() const { return Plane == 0 && call_.rope.cos_sin != nullptr; }
  FOLIO_DEVICE bool normalises() const { return General && Plane == 0 && call_.norm != nullptr; }
  FOLIO_DEVICE bool has_scales() const { return General && target_.scales.data != nullptr; }
  FOLIO_DEVICE bool is_one_round() const { return Lanes < 32 || target_.head_size <= round_size; }

  /// Where registers are left: once for all heads.
  FOLIO_DEVICE bool keeps_angles() const { return !General && Lanes < 32; }

  // This thread's part of the heads from `head` on, and of a round.
  FOLIO_DEVICE int lane() const { return t_.lane() % Lanes; }
  FOLIO_DEVICE int32_t own(int32_t head) const { return head + t_.lane() / Lanes; }
  FOLIO_DEVICE int32_t dim_of(int32_t round) const { return round + lane() * unit_size; }

  FOLIO_DEVICE const std::byte* source_of(int32_t head, int32_t dim) const {
    return from_ + head * source_.stride_bytes[1] + dim * int64_t{Bytes};
  }
  FOLIO_DEVICE std::byte* target_of(int32_t head, int32_t dim) const {
    return to_ + head * target_.head_stride_bytes + dim * int64_t{bit_width(target_.dtype) / 8};
  }
  FOLIO_DEVICE RawUnit<Bytes> load_raw(int32_t head, int32_t dim) {
    return load_unit<Bytes>(t_, source_of(head, dim), call_.in_place);
  }

  /// Two steps of heads are on their way at a time.
  FOLIO_DEVICE void move(int32_t begin, int32_t end) {
    for (int32_t round = 0; round < target_.head_size; round += round_size) {
      const int32_t dim = dim_of(round);
      if (dim >= target_.head_size) continue;
      for (int32_t head = own(begin); head < end; head += 2 * heads_at_once) {
        const int32_t next = head + heads_at_once < end ? head + heads_at_once : head;
        const RawUnit<Bytes> first = load_raw(head, dim), second = load_raw(next, dim);
        store_unit(t_, first, target_of(head, dim));
        store_unit(t_, second, target_of(next, dim));
      }
    }
  }

  /// One head for each `Lanes` threads. Heads from `end` on take part in shuffles alone.
  FOLIO_DEVICE void write_heads(int32_t head, int32_t end, bool shares, Divisor divisor) {
    float factor = 1.0f;
    if (normalises()) factor = norm_factor(own(head), end);
    const bool measures = has_scales() && !shares && has_computed_scales(target_);
    const bool measures_first = measures && is_whole_head() && !is_one_round();
    if (measures_first) {
      const uint32_t largest = largest_of_head(head, end, factor);
      divisor = make_scale(reduced(largest, false), own(head), 0, own(head) < end, true);
    }
    for (int32_t round = 0; round < target_.head_size; round += round_size) {
      const int32_t dim = dim_of(round);
      const bool is_mine = own(head) < end && dim < target_.head_size;
      float x[unit_size] = {};
      if (is_mine) load(own(head), dim, factor, x);
      if (measures && !measures_first) {
        const uint32_t largest = reduced(largest_of(x), false);
        divisor = make_scale(largest, own(head), dim, is_mine, dim % granule_ == 0);
      }
      if (call_.in_place) t_.sync_warp();  // all have read what any overwrites
      if (is_mine) store(own(head), dim, x, divisor);
    }
  }

  /// A unit as floats, transformed.
  FOLIO_DEVICE void load(int32_t head, int32_t dim, float factor, float (&x)[unit_size]) {
    const RawUnit<Bytes> raw = load_raw(head, dim);
    float partner[unit_size] = {};
    const bool has_partner = is_rotated(dim) && !call_.rope.interleaved;
    if (has_partner) widen_unit(t_, source_.dtype, load_raw(head, partner_of(dim)), partner);
    widen_unit(t_, source_.dtype, raw, x);
    if (normalises()) {
      normalise(x, factor, dim);
      if (has_partner) normalise(partner, factor, partner_of(dim));
    }
    if (is_rotated(dim)) rotate(keeps_angles() ? angles_ : angles_of(dim), x, partner);
  }

  // ---- rotation: x cos + partner sin

  FOLIO_DEVICE bool is_rotated(int32_t dim) const {
    return rotates() && dim >= call_.rope.first_dim && dim < call_.rope.first_dim + call_.rope.dims;
  }
  /// Half-split: the unit with the other elements of this unit's pairs.
  FOLIO_DEVICE int32_t partner_of(int32_t dim) const {
    const int32_t half = call_.rope.dims / 2;
    return dim - call_.rope.first_dim < half ? dim + half : dim - half;
  }
  /// Of the unit at `dim`, which is rotated.
  FOLIO_DEVICE Angles angles_of(int32_t dim) {
    const Rope& rope = call_.rope;
    const int32_t half = rope.dims / 2, in_rope = dim - rope.first_dim;
    const bool is_second = !rope.interleaved && in_rope >= half;
    const int32_t pair = rope.interleaved ? in_rope / 2 : is_second ? in_rope - half : in_rope;
    Angles angles;
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; i += 4) {
      // of neighbours, four pairs are a whole unit; of half-split, half a unit
      const int32_t at = rope.interleaved ? pair : pair + i;
      const auto cosines = t_.read(reinterpret_cast<const Vector16*>(angles_at_ + at));
      const auto sines = t_.read(reinterpret_cast<const Vector16*>(angles_at_ + half + at));
      FOLIO_UNROLL
      for (int k = 0; k < 4; ++k) {
        const int word = (i + k) / 2;  // of neighbours
        const uint32_t cosine = rope.interleaved ? cosines.word[word] : cosines.word[k];
        const uint32_t sine = rope.interleaved ? sines.word[word] : sines.word[k];
        const bool is_first = rope.interleaved ? k % 2 == 0 : !is_second;
        angles.cosine[i + k] = __builtin_bit_cast(float, cosine);
        angles.sine[i + k] = __builtin_bit_cast(float, is_first ? sine ^ 0x80000000u : sine);
      }
    }
    return angles;
  }
  FOLIO_DEVICE void rotate(const Angles& angles, float (&x)[unit_size],
                           const float (&partner)[unit_size]) const {
    float turned[unit_size];
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) {
      const float other = call_.rope.interleaved ? x[i ^ 1] : partner[i];
      turned[i] = x[i] * angles.cosine[i] + other * angles.sine[i];
    }
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) x[i] = turned[i];
  }

  // ---- norm

  FOLIO_DEVICE void normalise(float (&x)[unit_size], float factor, int32_t dim) {
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; i += 4) {
      const auto weights = t_.read(reinterpret_cast<const Vector16*>(call_.norm + dim + i));
      FOLIO_UNROLL
      for (int k = 0; k < 4; ++k)
        x[i + k] = x[i + k] * factor * __builtin_bit_cast(float, weights.word[k]);
    }
  }
  /// 1 / sqrt(mean of squares + eps). Each thread adds a chain of 16, or two, element by element
  /// from the caches, where the row comes anyway.
  FOLIO_DEVICE float norm_factor(int32_t head, int32_t end) {
    constexpr int chains = 16;
    float sum = 0.0f;
    if (head < end) {
      sum = chain_sum(head, lane() % chains);
      if constexpr (Lanes < chains) sum = sum + chain_sum(head, lane() + Lanes);
    }
    FOLIO_UNROLL
    for (int mask = (Lanes < chains ? Lanes : chains) / 2; mask > 0; mask /= 2)
      sum = sum + t_.shuffle_xor(sum, mask);
    const float mean = sum / static_cast<float>(target_.head_size);
    return 1.0f / square_root(mean + call_.norm_eps);
  }
  FOLIO_DEVICE float chain_sum(int32_t head, int32_t first) {
    float sum = 0.0f;
    for (int32_t dim = first; dim < target_.head_size; dim += 16) {
      const float x = load_element(source_of(head, dim));
      sum = sum + x * x;
    }
    return sum;
  }
  FOLIO_DEVICE float load_element(const std::byte* at) {
    if constexpr (Bytes == 4) {
      const auto* element = reinterpret_cast<const float*>(at);
      return call_.in_place ? t_.load(element) : t_.read(element);
    } else {
      const auto* element = reinterpret_cast<const uint16_t*>(at);
      const uint32_t bits = call_.in_place ? t_.load(element) : t_.read(element);
      float low, high;
      widen_pair(t_, source_.dtype, bits, low, high);
      return low;
    }
  }

  // ---- scales

  FOLIO_DEVICE bool is_whole_head() const { return granule_ >= target_.head_size; }
  FOLIO_DEVICE std::byte* scale_of(int32_t head, int32_t dim) const {
    return scales_ + head * target_.scales.head_stride_bytes +
           (is_whole_head() ? 0 : dim / granule_) * target_.scales.granule_stride_bytes;
  }
  static FOLIO_DEVICE uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
  static FOLIO_DEVICE uint32_t largest_of(const float (&x)[unit_size]) {
    uint32_t largest = 0;
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) largest = larger(largest, finite_magnitude(x[i]));
    return largest;
  }
  /// This thread's part of a head.
  FOLIO_DEVICE uint32_t largest_of_head(int32_t head, int32_t end, float factor) {
    uint32_t largest = 0;
    for (int32_t round = 0; round < target_.head_size; round += round_size) {
      float x[unit_size] = {};
      if (own(head) < end && dim_of(round) < target_.head_size)
        load(own(head), dim_of(round), factor, x);
      largest = larger(largest, largest_of(x));
    }
    return largest;
  }
  /// Of all heads that share a scale, for all threads.
  FOLIO_DEVICE uint32_t largest_of_heads(int32_t begin, int32_t end) {
    uint32_t largest = 0;
    for (int32_t head = begin; head < end; head += heads_at_once) {
      const float factor = normalises() ? norm_factor(own(head), end) : 1.0f;
      largest = larger(largest, largest_of_head(head, end, factor));
    }
    return reduced(largest, true);
  }
  /// The largest of the threads that share a granule, in all heads of the warp if `shares`.
  FOLIO_DEVICE uint32_t reduced(uint32_t largest, bool shares) {
    const int lanes = is_whole_head() ? Lanes : granule_ / unit_size;
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
      if (mask < Lanes ? mask < lanes : shares)
        largest = larger(largest, t_.shuffle_xor(largest, mask));
    }
    return largest;
  }
  /// `begins`: the thread has the granule's first element.
  FOLIO_DEVICE Divisor make_scale(uint32_t largest, int32_t head, int32_t dim, bool is_mine,
                                  bool begins) {
    const float wanted = wanted_scale(t_, largest, target_.dtype);
    const bool writes = is_mine && begins && (!is_whole_head() || lane() == 0);
    return Divisor::of(put_scale(t_, wanted, target_.scales.dtype, writes, scale_of(head, dim)));
  }

  FOLIO_DEVICE void store(int32_t head, int32_t dim, float (&x)[unit_size], Divisor divisor) {
    if (has_scales()) {
      if (!has_computed_scales(target_)) {
        const float scale = get_scale(t_, target_.scales.dtype, scale_of(head, dim));
        divisor = Divisor::of(scale * tensor_scale_);
      }
      FOLIO_UNROLL
      for (int i = 0; i < unit_size; ++i) x[i] = divided(t_, x[i], divisor);
    }
    store_unit(t_, target_.dtype, x, target_of(head, dim));
  }

  Thread& t_;
  const AppendCall& call_;
  const ConstTensor<3>& source_;
  const PagedKVView& target_;
  const float* angles_at_;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::byte* scales_ = nullptr;
  float tensor_scale_ = 1.0f;
  int32_t granule_ = 1;
  Angles angles_ = {};  ///< of the thread's unit, where it has only one
};

/// Head sizes up to Lanes * 8, or any with 32; both sources of elements of `Bytes` bytes. Not
/// `General`: neither norm nor scales. What else a call must have for it: kernels.cpp.
template <int Lanes, int Bytes, bool General>
struct AppendUnits {
  static_assert(32 % Lanes == 0 && (Bytes == 2 || Bytes == 4));
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_processor = General ? 3 : 4;
  using Args = AppendCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& call) {
    for_each_part(t, call, threads / 32,
                  [&](auto plane, int64_t token, const folio::detail::PageRun& place,
                      const float* angles, int32_t begin, int32_t end) {
                    constexpr int key_or_value = decltype(plane)::value;
                    TokenUnits<Thread, Lanes, Bytes, General, key_or_value> rows(t, call, token,
                                                                                 place, angles);
                    rows.write(begin, end);
                  });
  }
};

}  // namespace folio::cuda
