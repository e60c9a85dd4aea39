// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/scale_codes.h: scales rounded toward +infinity to their type, a register at a
/// time, and put beside their granules.
///
/// What is computed for lanes behind the last granule is not stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/append/granules.h"
#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::rows {

template <class I>
class ScaleCodes {
  using V = Simd<I>;
  using F = typename V::F;
  using S = typename V::S;
  using U = typename V::U;
  static constexpr int lanes = V::W;

 public:
  /// Beyond it a scale would be infinite, or NaN: where it stays finite, the stored values
  /// saturate.
  static float largest(DType dtype) {
    static_assert(folio::detail::num_scale_dtypes == 5);
    switch (dtype) {
      case DType::f16: return 65504.0f;
      case DType::bf16: return 0x1.fep127f;
      case DType::f8_e8m0: return 0x1p127f;
      case DType::f8_e4m3: return 448.0f;
      default: return 0x1.fffffep127f;
    }
  }

  /// What quotients are rounded up of.
  struct Reach {
    explicit Reach(double reach)
        : exact(reach), is_small_integer(reach <= 1024.0 && reach == static_cast<int32_t>(reach)) {}
    double exact;
    bool is_small_integer;
  };
  /// The smallest floats that are not below x / reach; x is not negative.
  FOLIO_ALWAYS_INLINE static F quotient_up(F x, const Reach& reach) {
    // a comparison that holds is -1
    if (I::has_fma && reach.is_small_integer) {  // what is left of x is a float, however small
      const F divisor = V::splat(static_cast<float>(reach.exact)), nearest = x / divisor;
      const S is_below = V::fma(nearest, -divisor, x) > 0.0f;
      return reinterpret_cast<F>(reinterpret_cast<S>(nearest) - is_below);
    }
    const Doubles exact = __builtin_convertvector(x, Doubles) / reach.exact;
    const F nearest = __builtin_convertvector(exact, F);
    const Longs is_below = __builtin_convertvector(nearest, Doubles) < exact;
    return reinterpret_cast<F>(reinterpret_cast<S>(nearest) - __builtin_convertvector(is_below, S));
  }

  /// Positive numbers up to the largest: what they become is what their codes stand for.
  template <DType D>
  FOLIO_ALWAYS_INLINE static U round_up(F& x) {
    const U bits = V::bits(x);
    U code;
    static_assert(folio::detail::num_scale_dtypes == 5);
    if constexpr (D == DType::f32) {
      return bits;
    } else if constexpr (D == DType::bf16) {
      code = (bits + 0xffffu) >> 16;
      x = V::floats(code << 16);
    } else if constexpr (D == DType::f8_e8m0) {
      code = bits <= 0x400000u ? U{} : (bits + 0x7fffffu) >> 23;
      x = SmallFloats<I>::from_e8m0(code);
    } else {
      using Type = std::conditional_t<D == DType::f16, F16, E4m3>;
      code = (bits - (Type::rebias << 23) + ((1u << Type::drop) - 1u)) >> Type::drop;
      const S is_small = bits < (Type::rebias + 1) << 23;
      if (V::any(is_small)) code = is_small ? subnormal_up(x * Type::units, is_small) : code;
      x = V::floats((code << Type::drop) + (Type::rebias << 23));
      if (V::any(is_small))
        x = code < (1u << (23 - Type::drop))
                ? __builtin_convertvector(reinterpret_cast<S>(code), F) * (1.0f / Type::units)
                : x;
    }
    return code;
  }
  /// Calls f with the type as a constant.
  template <class Fn>
  FOLIO_ALWAYS_INLINE static auto visit(DType dtype, Fn f) {
    static_assert(folio::detail::num_scale_dtypes == 5);
    switch (dtype) {
      case DType::bf16: return f(std::integral_constant<DType, DType::bf16>());
      case DType::f16: return f(std::integral_constant<DType, DType::f16>());
      case DType::f8_e8m0: return f(std::integral_constant<DType, DType::f8_e8m0>());
      case DType::f8_e4m3: return f(std::integral_constant<DType, DType::f8_e4m3>());
      default: return f(std::integral_constant<DType, DType::f32>());
    }
  }

  /// Where numbers of `Size` bytes lie beside granules.
  template <int Size>
  class Places {
   public:
    Places(const Granules& granules, const Side<std::byte>& at)
        : granules_(granules), at_(at), stride_(granules.apart(at)) {}

    /// Of granules from `first` on, of those that there are.
    FOLIO_ALWAYS_INLINE void put(int64_t first, U numbers) const {
      const int64_t left = granules_.count() - first;
      if (stride_ != Size || left < lanes)
        return put_each(first, left < lanes ? left : lanes, numbers);
      if constexpr (Size == 2) numbers = I::pack16(numbers, numbers);
      if constexpr (Size == 1) numbers = I::pack8(I::pack16(numbers, numbers), numbers);
      __builtin_memcpy(at_.first + first * Size, &numbers, size_t{Size} * lanes);
    }

   private:
    void put_each(int64_t first, int64_t count, const U& numbers) const {
      uint32_t each[lanes];
      __builtin_memcpy(each, &numbers, sizeof each);
      for (int64_t i = 0; i < count; ++i) {
        std::byte* const to = stride_ != 0 ? at_.first + (first + i) * stride_
                                           : at_.at((first + i) / granules_.per_head,
                                                    (first + i) % granules_.per_head);
        __builtin_memcpy(to, each + i, Size);
      }
    }
    const Granules& granules_;
    Side<std::byte> at_;
    int64_t stride_;
  };

 private:
  typedef double Doubles
      __attribute__((vector_size(lanes * sizeof(double))));  // NOLINT(modernize-use-using)
  typedef int64_t Longs
      __attribute__((vector_size(lanes * sizeof(int64_t))));  // NOLINT(modernize-use-using)

  // Small floats: the bits of a float that they lack, what its exponent is less, the smallest.
  struct F16 {
    static constexpr uint32_t drop = 13, rebias = 112;
    static constexpr float units = 0x1p24f;
  };
  struct E4m3 {
    static constexpr uint32_t drop = 20, rebias = 120;
    static constexpr float units = 0x1p9f;
  };

  /// Of the lanes that are small: whole units.
  static U subnormal_up(F units, S is_small) {
    const F small = is_small ? units : F{};
    const S whole = __builtin_convertvector(small, S);
    const S is_below = __builtin_convertvector(whole, F) < small;
    return reinterpret_cast<U>(whole - is_below);
  }
};

}  // namespace folio::inline v1::rows
