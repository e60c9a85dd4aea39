// SPDX-License-Identifier: Apache-2.0
/// folio/cache/elements.h: how static caches read and write at an address that may be null, said
/// once.
///
/// On a device elements move by the widest access that their number allows, 16 bytes at most: whole
/// vectors where the address is a multiple of it, which is looked at unless the caller promises it
/// (`Alignment`), one by one where it is not. On a host the compiler does as it likes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/vec.h"

namespace folio::inline v1::detail {

/// Bytes of one access to `Width` elements of T on a device: the largest power of two that divides
/// them, at most 16.
template <class T, int Width>
inline constexpr int vector_bytes = [] {
  constexpr int bytes = Width * static_cast<int>(sizeof(T));
  constexpr int power = bytes & -bytes;
  return power < 16 ? power : 16;
}();

#ifdef __CUDA_ARCH__

/// Elements as the words of accesses of `Bytes` bytes; a memcpy of words becomes one instruction.
template <class T, int Width, int Bytes>
struct VectorWords {
  using word_type = std::conditional_t<(Bytes >= 4), uint32_t, uint16_t>;
  using bits_type = std::conditional_t<sizeof(T) == 4, uint32_t,
                                       std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>;
  static constexpr int word_bytes = sizeof(word_type);
  static constexpr int per_word = word_bytes / static_cast<int>(sizeof(T));
  static constexpr int num_words = Width / per_word;
  static constexpr int per_access = Bytes / word_bytes;
  static constexpr int bits = 8 * static_cast<int>(sizeof(T));

  __device__ __forceinline__ static void load(const T* at, Vec<T, Width>& out) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(at);
#pragma unroll
    for (int first = 0; first < num_words; first += per_access) {
      word_type word[per_access];
      __builtin_memcpy(word, __builtin_assume_aligned(bytes + first * word_bytes, Bytes), Bytes);
#pragma unroll
      for (int i = 0; i < per_access * per_word; ++i) {
        const auto lane = static_cast<bits_type>(word[i / per_word] >> (i % per_word * bits));
        out[first * per_word + i] = __builtin_bit_cast(T, lane);
      }
    }
  }
  __device__ __forceinline__ static void store(T* at, const Vec<T, Width>& values) {
    auto* bytes = reinterpret_cast<unsigned char*>(at);
#pragma unroll
    for (int first = 0; first < num_words; first += per_access) {
      word_type word[per_access] = {};
#pragma unroll
      for (int i = 0; i < per_access * per_word; ++i) {
        const auto lane = __builtin_bit_cast(bits_type, values[first * per_word + i]);
        word[i / per_word] |= static_cast<word_type>(word_type{lane} << (i % per_word * bits));
      }
      __builtin_memcpy(__builtin_assume_aligned(bytes + first * word_bytes, Bytes), word, Bytes);
    }
  }
};

/// Whether `at` is a multiple of `Bytes`; known where `Alignment` promises it.
template <int Bytes, int Alignment>
__device__ __forceinline__ bool is_vector_aligned(const void* at) {
  return Alignment % Bytes == 0 && Alignment != 0 ? true
                                                  : reinterpret_cast<uintptr_t>(at) % Bytes == 0;
}

#endif

/// The elements at `at`; zero bits where it is null: their page is unassigned. `Alignment`: what
/// `at` is promised to be a multiple of, in bytes; 0: nothing.
template <int Width, int Alignment = 0, class T>
FOLIO_HOST_DEVICE constexpr Vec<T, Width> load_elements(const T* at) {
  Vec<T, Width> out;
  if (at == nullptr) return out;
#ifdef __CUDA_ARCH__
  constexpr int bytes = vector_bytes<T, Width>;
  if constexpr (bytes > static_cast<int>(sizeof(T))) {
    if (is_vector_aligned<bytes, Alignment>(at)) {
      VectorWords<T, Width, bytes>::load(at, out);
      return out;
    }
  }
#endif
  for (int i = 0; i < Width; ++i) out[i] = at[i];
  return out;
}

/// Writes them at `at`, or nothing where it is null.
template <int Alignment = 0, class T, int Width>
FOLIO_HOST_DEVICE constexpr void store_elements(T* at, const Vec<T, Width>& values) {
  if (at == nullptr) return;
#ifdef __CUDA_ARCH__
  constexpr int bytes = vector_bytes<T, Width>;
  if constexpr (bytes > static_cast<int>(sizeof(T))) {
    if (is_vector_aligned<bytes, Alignment>(at))
      return VectorWords<T, Width, bytes>::store(at, values);
  }
#endif
  for (int i = 0; i < Width; ++i) at[i] = values[i];
}

/// Elements of type `From` as type `To`; of the same type bits, not values: a NaN keeps its
/// payload.
template <DType To, DType From, int Width>
FOLIO_HOST_DEVICE constexpr Vec<element_t<To>, Width> convert_elements(
    const Vec<element_t<From>, Width>& stored) {
  if constexpr (To == From) {
    return stored;
  } else {
    return cast<element_t<To>>(stored);
  }
}

/// Elements times their scales, in float32, then as type `To`. `scales` is that of granule 0 of
/// the head, element 0 the head's element `first`; a granule's scale is read once, those of
/// granules without an element are not read.
template <class To, int Granularity, class From, class Scale, int Width>
FOLIO_HOST_DEVICE constexpr Vec<To, Width> scale_elements(const Vec<From, Width>& stored,
                                                          const Scale* scales, int64_t first) {
  // Element i lies in granule i / Granularity behind the first one, or in the next, whatever first.
  constexpr int most = (Width + Granularity - 2) / Granularity + 1;
  const int64_t granule = first / Granularity;
  const auto offset = static_cast<int>(first - granule * Granularity);
  float scale[most + 1] = {};  // one more is named by the last elements, never chosen
  for (int g = 0; g < most; ++g)
    if (g * Granularity < offset + Width) scale[g] = to_float(scales[granule + g]);
  Vec<float, Width> product;
  for (int i = 0; i < Width; ++i) {
    const bool is_next = offset + i % Granularity >= Granularity;
    product[i] = is_next ? scale[i / Granularity + 1] : scale[i / Granularity];
  }
  const Vec<float, Width> values = cast<float>(stored);
  for (int i = 0; i < Width; ++i) product[i] = values[i] * product[i];
  return cast<To>(product);
}

}  // namespace folio::inline v1::detail
