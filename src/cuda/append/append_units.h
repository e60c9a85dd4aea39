// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/append_units.h: append and rotate for rows whose heads are whole units of
/// aligned vectors, which is what engines have.
///
/// A warp takes some heads of one token. `Lanes` threads hold a head, `Units` units each; the warp
/// has 32 / Lanes heads at a time, times `flights` that are loaded before the first is worked on.
/// Everything that decides about shuffles is the same for a whole warp.
#pragma once

#include "cuda/append/append_call.h"
#include "cuda/append/granule_scale.h"
#include "cuda/append/token_place.h"
#include "cuda/append/unit.h"

namespace folio::cuda {

/// The rows of one token in one plane.
template <class Thread, int Lanes, int Units, int Bytes>
class TokenUnits {
 public:
  static constexpr int heads_at_once = 32 / Lanes;
  static constexpr int flights = Units == 1 ? 2 : 1;
  static constexpr int step = heads_at_once * flights;

  FOLIO_DEVICE TokenUnits(Thread& t, const AppendCall& call, int plane, int64_t token,
                          const detail::PageRun& place, const float* angles)
      : t_(t),
        call_(call),
        source_(call.planes[plane].source),
        target_(call.planes[plane].target),
        angles_at_(plane == 0 ? angles : nullptr),
        norm_(plane == 0 ? call.norm : nullptr) {
    from_ = static_cast<const std::byte*>(source_.data) + token * source_.stride_bytes[0];
    to_ = detail::row_of(target_, place.page, place.slot, 0);
    if (target_.scales.data == nullptr) return;
    scales_ = static_cast<std::byte*>(target_.scales.data) +
              detail::scale_offset_bytes(target_.scales, place.page, place.slot, 0, 0);
    tensor_scale_ = tensor_scale_of(t, target_.scales);
    granule_ = granule_size_of(target_);
  }

  FOLIO_DEVICE void write(int32_t begin, int32_t end) {
    const bool is_plain = angles_at_ == nullptr && norm_ == nullptr && scales_ == nullptr;
    if (is_plain && source_.dtype == target_.dtype) return move(begin, end);
    load_angles();
    Divisor divisors[flights][Units];
    const bool shares = heads_share_scales(target_);
    if (shares) make_shared_scales(begin, end, divisors);
    for (int32_t head = begin; head < end; head += step) {
      Floats rows;
      load(head, end, rows);
      if (scales_ != nullptr && !shares) find_scales(head, end, rows, divisors);
      if (call_.in_place) t_.sync_warp();  // all have read what any overwrites
      store(head, end, rows, divisors);
    }
  }

 private:
  struct Floats {
    float x[flights][Units][unit_size];
  };

  // This thread's part of the head in flight `f`, unit `u`.
  FOLIO_DEVICE int lane() const { return t_.lane() % Lanes; }
  FOLIO_DEVICE int32_t head_of(int32_t head, int f) const {
    return head + f * heads_at_once + t_.lane() / Lanes;
  }
  FOLIO_DEVICE int32_t dim_of(int u) const { return (lane() + u * Lanes) * unit_size; }
  FOLIO_DEVICE const std::byte* source_of(int32_t head, int32_t dim) const {
    return from_ + head * source_.stride_bytes[1] + dim * int64_t{Bytes};
  }
  FOLIO_DEVICE std::byte* target_of(int32_t head, int32_t dim) const {
    return to_ + head * target_.head_stride_bytes + dim * int64_t{bit_width(target_.dtype) / 8};
  }
  FOLIO_DEVICE RawUnit<Bytes> load_raw(int32_t head, int32_t dim) {
    return load_unit<Bytes>(t_, source_of(head, dim), call_.in_place);
  }

  FOLIO_DEVICE void move(int32_t begin, int32_t end) {
    for (int32_t head = begin; head < end; head += step) {
      RawUnit<Bytes> raw[flights][Units];
      for_own_units(head, end, [&](int f, int u, int32_t h, int32_t dim) {
        raw[f][u] = load_raw(h, dim);
      });
      for_own_units(head, end, [&](int f, int u, int32_t h, int32_t dim) {
        store_unit(t_, raw[f][u], target_of(h, dim));
      });
    }
  }
  /// Of heads below `end`.
  template <class Body>
  FOLIO_DEVICE void for_own_units(int32_t head, int32_t end, Body body) {
    FOLIO_UNROLL
    for (int f = 0; f < flights; ++f) {
      FOLIO_UNROLL
      for (int u = 0; u < Units; ++u) {
        const int32_t h = head_of(head, f), dim = dim_of(u);
        if (h < end && dim < target_.head_size) body(f, u, h, dim);
      }
    }
  }

  // ---- rotation: x cos + partner sin, with the sine's sign that the element's half has

  FOLIO_DEVICE bool is_rotated(int32_t dim) const {
    return angles_at_ != nullptr && dim >= call_.rope.first_dim &&
           dim < call_.rope.first_dim + call_.rope.dims;
  }
  /// Half-split: the unit with the other elements of this unit's pairs.
  FOLIO_DEVICE int32_t partner_of(int32_t dim) const {
    const int32_t half = call_.rope.dims / 2;
    return dim - call_.rope.first_dim < half ? dim + half : dim - half;
  }
  /// Of this thread's units: once per token.
  FOLIO_DEVICE void load_angles() {
    const Rope& rope = call_.rope;
    const int32_t half = rope.dims / 2;
    FOLIO_UNROLL
    for (int u = 0; u < Units; ++u) {
      const int32_t in_rope = dim_of(u) - rope.first_dim;
      if (!is_rotated(dim_of(u))) continue;
      const bool is_second = !rope.interleaved && in_rope >= half;
      const int32_t pair = rope.interleaved ? in_rope / 2 : is_second ? in_rope - half : in_rope;
      FOLIO_UNROLL
      for (int i = 0; i < 2; ++i) {
        // four pairs are a whole unit of neighbours, or half a unit of half-split
        const int32_t at = rope.interleaved ? pair : pair + 4 * i;
        const Vector16 cosines = t_.read(reinterpret_cast<const Vector16*>(angles_at_ + at));
        const Vector16 sines = t_.read(reinterpret_cast<const Vector16*>(angles_at_ + half + at));
        FOLIO_UNROLL
        for (int k = 0; k < 4; ++k) {
          const int of = 4 * i + k, word = rope.interleaved ? of / 2 : k;
          const float sine = __builtin_bit_cast(float, word_of(sines, word));
          cosine_[u][of] = __builtin_bit_cast(float, word_of(cosines, word));
          const bool is_first = rope.interleaved ? k % 2 == 0 : !is_second;
          sine_[u][of] = is_first ? -sine : sine;
        }
      }
    }
  }
  /// Selected, not indexed: vectors stay in registers.
  static FOLIO_DEVICE uint32_t word_of(const Vector16& v, int i) {
    return i < 2 ? (i == 0 ? v.word[0] : v.word[1]) : (i == 2 ? v.word[2] : v.word[3]);
  }
  FOLIO_DEVICE void rotate(int u, float (&x)[unit_size], const float (&partner)[unit_size]) {
    float turned[unit_size];
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) {
      const float other = call_.rope.interleaved ? x[i ^ 1] : partner[i];
      turned[i] = x[i] * cosine_[u][i] + other * sine_[u][i];
    }
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) x[i] = turned[i];
  }

  // ---- rows as floats, transformed

  FOLIO_DEVICE void load(int32_t head, int32_t end, Floats& rows) {
    RawUnit<Bytes> raw[flights][Units], partners[flights][Units];
    const bool has_partners = angles_at_ != nullptr && !call_.rope.interleaved;
    for_own_units(head, end, [&](int f, int u, int32_t h, int32_t dim) {
      raw[f][u] = load_raw(h, dim);
      if (has_partners && is_rotated(dim)) partners[f][u] = load_raw(h, partner_of(dim));
    });
    float factor[flights];
    if (norm_ != nullptr) {
      FOLIO_UNROLL
      for (int f = 0; f < flights; ++f) factor[f] = norm_factor(head_of(head, f), end);
    }
    for_own_units(head, end, [&](int f, int u, int32_t, int32_t dim) {
      float(&x)[unit_size] = rows.x[f][u];
      widen_unit(t_, source_.dtype, raw[f][u], x);
      if (norm_ != nullptr) normalise(x, factor[f], dim);
      if (!is_rotated(dim)) return;
      float partner[unit_size];
      if (has_partners) {
        widen_unit(t_, source_.dtype, partners[f][u], partner);
        if (norm_ != nullptr) normalise(partner, factor[f], partner_of(dim));
      }
      rotate(u, x, partner);
    });
  }

  FOLIO_DEVICE void normalise(float (&x)[unit_size], float factor, int32_t dim) {
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; i += 4) {
      const auto weights = t_.read(reinterpret_cast<const Vector16*>(norm_ + dim + i));
      FOLIO_UNROLL
      for (int k = 0; k < 4; ++k)
        x[i + k] = x[i + k] * factor * __builtin_bit_cast(float, weights.word[k]);
    }
  }
  /// 1 / sqrt(mean of squares + eps). Each thread adds a chain of 16, or two, element by element
  /// from the caches, where the row has just come.
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
  /// Threads of a head that share a granule.
  FOLIO_DEVICE int lanes_of_granule() const {
    return is_whole_head() ? Lanes : granule_ / unit_size;
  }
  FOLIO_DEVICE std::byte* scale_of(int32_t head, int32_t dim) const {
    return scales_ + head * target_.scales.head_stride_bytes +
           (is_whole_head() ? 0 : dim / granule_) * target_.scales.granule_stride_bytes;
  }
  static FOLIO_DEVICE uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
  FOLIO_DEVICE uint32_t largest_of(const float (&x)[unit_size]) const {
    uint32_t largest = 0;
    FOLIO_UNROLL
    for (int i = 0; i < unit_size; ++i) largest = larger(largest, finite_magnitude(x[i]));
    return largest;
  }
  /// Of all threads that share the granules of this one; of all heads of the warp if `shares`.
  FOLIO_DEVICE void reduce(uint32_t (&largest)[Units], bool shares) {
    if (Units > 1 && is_whole_head()) {
      FOLIO_UNROLL
      for (int u = 1; u < Units; ++u) largest[0] = larger(largest[0], largest[u]);
      FOLIO_UNROLL
      for (int u = 1; u < Units; ++u) largest[u] = largest[0];
    }
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
      const bool is_shared = mask < Lanes ? mask < lanes_of_granule() : shares;
      if (!is_shared) continue;
      FOLIO_UNROLL
      for (int u = 0; u < Units; ++u)
        largest[u] = larger(largest[u], t_.shuffle_xor(largest[u], mask));
    }
  }
  FOLIO_DEVICE Divisor make_scale(uint32_t largest, int32_t head, int32_t dim, bool is_head) {
    const float wanted = wanted_scale(largest, target_.dtype, tensor_scale_);
    const bool writes = is_head && dim < target_.head_size && dim % granule_ == 0;
    const float stored =
        put_scale(t_, wanted, target_.scales.dtype, writes, scale_of(head, dim));
    return Divisor::of(stored * tensor_scale_, target_.dtype);
  }
  FOLIO_DEVICE void find_scales(int32_t head, int32_t end, const Floats& rows,
                                Divisor (&divisors)[flights][Units]) {
    if (!has_computed_scales(target_)) {
      return for_own_units(head, end, [&](int f, int u, int32_t h, int32_t dim) {
        const float scale = get_scale(t_, target_.scales.dtype, scale_of(h, dim));
        divisors[f][u] = Divisor::of(scale * tensor_scale_, target_.dtype);
      });
    }
    uint32_t largest[flights][Units] = {};
    for_own_units(head, end,
                  [&](int f, int u, int32_t, int32_t) { largest[f][u] = largest_of(rows.x[f][u]); });
    FOLIO_UNROLL
    for (int f = 0; f < flights; ++f) {
      reduce(largest[f], false);
      FOLIO_UNROLL
      for (int u = 0; u < Units; ++u) {
        const int32_t h = head_of(head, f);
        divisors[f][u] = make_scale(largest[f][u], h, dim_of(u), h < end);
      }
    }
  }
  /// Of all heads, which are worked on once more afterwards.
  FOLIO_DEVICE void make_shared_scales(int32_t begin, int32_t end,
                                       Divisor (&divisors)[flights][Units]) {
    uint32_t largest[Units] = {};
    for (int32_t head = begin; head < end; head += step) {
      Floats rows;
      load(head, end, rows);
      for_own_units(head, end, [&](int f, int u, int32_t, int32_t) {
        largest[u] = larger(largest[u], largest_of(rows.x[f][u]));
      });
    }
    reduce(largest, true);
    FOLIO_UNROLL
    for (int u = 0; u < Units; ++u) {
      divisors[0][u] = make_scale(largest[u], 0, dim_of(u), t_.lane() < Lanes);
      FOLIO_UNROLL
      for (int f = 1; f < flights; ++f) divisors[f][u] = divisors[0][u];
    }
  }

  FOLIO_DEVICE void store(int32_t head, int32_t end, Floats& rows,
                          const Divisor (&divisors)[flights][Units]) {
    for_own_units(head, end, [&](int f, int u, int32_t h, int32_t dim) {
      float(&x)[unit_size] = rows.x[f][u];
      if (scales_ != nullptr) {
        FOLIO_UNROLL
        for (int i = 0; i < unit_size; ++i) x[i] = divided(t_, x[i], divisors[f][u]);
      }
      store_unit(t_, target_.dtype, x, target_of(h, dim));
    });
  }

  Thread& t_;
  const AppendCall& call_;
  const ConstTensor<3>& source_;
  const PagedKVView& target_;
  const float* angles_at_;  ///< null: not rotated
  const float* norm_;       ///< null: not normalised
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::byte* scales_ = nullptr;  ///< null: none
  float tensor_scale_ = 1.0f;
  int32_t granule_ = 1;
  float cosine_[Units][unit_size] = {};
  float sine_[Units][unit_size] = {};
};

/// Head sizes up to Lanes * Units * 8, elements of `Bytes` bytes in both sources.
template <int Lanes, int Units, int Bytes>
struct AppendUnits {
  static_assert(32 % Lanes == 0 && (Bytes == 2 || Bytes == 4));
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_processor = 2;
  using Args = AppendCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& call) {
    for_each_part(t, call, threads / 32,
                  [&](int plane, int64_t token, const detail::PageRun& place, const float* angles,
                      int32_t begin, int32_t end) {
                    TokenUnits<Thread, Lanes, Units, Bytes> rows(t, call, plane, token, place,
                                                                 angles);
                    rows.write(begin, end);
                  });
  }
};

}  // namespace folio::cuda
