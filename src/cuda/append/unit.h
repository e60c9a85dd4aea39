// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/unit.h: eight neighbouring elements, what one thread handles at a time: as they
/// lie in memory, and as floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/primitives/device.h"
#include "folio/core/dtype.h"

namespace folio::cuda {

inline constexpr int unit_size = 8;

/// What one vector access moves.
struct alignas(16) Vector16 {
  uint32_t word[4];
};
struct alignas(8) Vector8 {
  uint32_t word[2];
};

/// A unit of elements of 2 or 4 bytes.
template <int Bytes>
struct RawUnit {
  static constexpr int vectors = Bytes * unit_size / 16;
  Vector16 vector[vectors];
};

/// `is_written`: somebody writes there during the kernel. `from` is aligned to 16 bytes.
template <int Bytes, class Thread>
FOLIO_DEVICE RawUnit<Bytes> load_unit(Thread& t, const std::byte* from, bool is_written) {
  RawUnit<Bytes> unit;
  const auto* at = reinterpret_cast<const Vector16*>(from);
  FOLIO_UNROLL
  for (int i = 0; i < RawUnit<Bytes>::vectors; ++i)
    unit.vector[i] = is_written ? t.load(at + i) : t.read(at + i);
  return unit;
}

/// Two elements of 16 bits.
template <class Thread>
FOLIO_DEVICE void widen_pair(Thread& t, DType dtype, uint32_t pair, float& low, float& high) {
  if (dtype == DType::bf16) {
    low = __builtin_bit_cast(float, pair << 16);
    high = __builtin_bit_cast(float, pair & 0xffff0000u);
  } else {
    low = t.template unpack<DType::f16>(pair, 0);
    high = t.template unpack<DType::f16>(pair, 1);
  }
}

template <int Bytes, class Thread>
FOLIO_DEVICE void widen_unit(Thread& t, DType dtype, const RawUnit<Bytes>& unit,
                             float (&x)[unit_size]) {
  FOLIO_UNROLL
  for (int i = 0; i < unit_size; i += 16 / Bytes) {
    const Vector16& vector = unit.vector[i * Bytes / 16];
    FOLIO_UNROLL
    for (int k = 0; k < 4; ++k) {
      if constexpr (Bytes == 4) {
        x[i + k] = __builtin_bit_cast(float, vector.word[k]);
      } else {
        widen_pair(t, dtype, vector.word[k], x[i + 2 * k], x[i + 2 * k + 1]);
      }
    }
  }
}

/// A number of any size to [-127, 127], ties to even; NaN to 0.
FOLIO_DEVICE uint32_t to_i8(float x) {
  float clamped = x > 127.0f ? 127.0f : x < -127.0f ? -127.0f : x;
  clamped = x == x ? clamped : 0.0f;
  // the sum's last place is 1, and its last byte is the number's
  return __builtin_bit_cast(uint32_t, clamped + 0x1.8p23f) & 0xffu;
}

/// Four elements of 8 bits.
template <class Thread>
FOLIO_DEVICE uint32_t narrow_four(Thread& t, DType dtype, const float* x) {
  static_assert(folio::detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::f8_e4m3: {
      const uint32_t low = t.to_e4m3(x[0], x[1]), high = t.to_e4m3(x[2], x[3]);
      return low | high << 16;
    }
    case DType::f8_e5m2: {
      const uint32_t low = t.to_e5m2(x[0], x[1]), high = t.to_e5m2(x[2], x[3]);
      return low | high << 16;
    }
    default: return to_i8(x[0]) | to_i8(x[1]) << 8 | to_i8(x[2]) << 16 | to_i8(x[3]) << 24;
  }
}

/// Rounds to nearest even. `to` is aligned to 16 bytes, or 8 for elements of 8 bits.
template <class Thread>
FOLIO_DEVICE void store_unit(Thread& t, DType dtype, const float (&x)[unit_size], std::byte* to) {
  Vector16 v;
  static_assert(folio::detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::f32:
      FOLIO_UNROLL
      for (int i = 0; i < 2; ++i) {
        FOLIO_UNROLL
        for (int k = 0; k < 4; ++k) v.word[k] = __builtin_bit_cast(uint32_t, x[4 * i + k]);
        t.store(reinterpret_cast<Vector16*>(to) + i, v);
      }
      return;
    case DType::bf16:
      FOLIO_UNROLL
      for (int k = 0; k < 4; ++k) v.word[k] = t.template pack<DType::bf16>(x[2 * k], x[2 * k + 1]);
      return t.store(reinterpret_cast<Vector16*>(to), v);
    case DType::f16:
      FOLIO_UNROLL
      for (int k = 0; k < 4; ++k) v.word[k] = t.template pack<DType::f16>(x[2 * k], x[2 * k + 1]);
      return t.store(reinterpret_cast<Vector16*>(to), v);
    default: {
      const Vector8 bytes = {{narrow_four(t, dtype, x), narrow_four(t, dtype, x + 4)}};
      return t.store(reinterpret_cast<Vector8*>(to), bytes);
    }
  }
}

/// The elements as they are.
template <int Bytes, class Thread>
FOLIO_DEVICE void store_unit(Thread& t, const RawUnit<Bytes>& unit, std::byte* to) {
  FOLIO_UNROLL
  for (int i = 0; i < RawUnit<Bytes>::vectors; ++i)
    t.store(reinterpret_cast<Vector16*>(to) + i, unit.vector[i]);
}

}  // namespace folio::cuda
