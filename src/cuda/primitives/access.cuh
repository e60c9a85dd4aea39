// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/access.cuh: a thread's own accesses to shared and global memory.
///
/// A value goes as few accesses: of sizeof(T) bytes where that is 1, 2, 4, 8 or 16, else of
/// min(alignof(T), 16) bytes. Addresses are multiples of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "cuda/primitives/debug.h"

namespace folio::cuda {

extern __shared__ __align__(1024) unsigned char shared_memory[];

namespace detail {

template <int Bytes>
struct Piece;
template <>
struct Piece<1> {
  using Type = unsigned char;
};
template <>
struct Piece<2> {
  using Type = unsigned short;
};
template <>
struct Piece<4> {
  using Type = unsigned int;
};
template <>
struct Piece<8> {
  using Type = uint2;
};
template <>
struct Piece<16> {
  using Type = uint4;
};

/// Bytes of one access.
template <class T>
inline constexpr int piece_bytes =
    sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0 ? static_cast<int>(sizeof(T))
    : alignof(T) < 16                                     ? static_cast<int>(alignof(T))
                                                          : 16;

/// A value as its pieces.
template <class T>
struct Pieces {
  static_assert(std::is_trivially_copyable_v<T>, "only bytes are moved");
  using Piece = typename detail::Piece<piece_bytes<T>>::Type;
  static constexpr int count = static_cast<int>(sizeof(T)) / piece_bytes<T>;
  Piece at[count];
};

/// What other blocks wrote before they arrived is in L2, so L1 is not asked.
__device__ __forceinline__ unsigned char load_l2(const unsigned char* p) {
  uint32_t value;
  asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return static_cast<unsigned char>(value);
}
__device__ __forceinline__ unsigned short load_l2(const unsigned short* p) {
  unsigned short value;
  asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(value) : "l"(p) : "memory");
  return value;
}
__device__ __forceinline__ unsigned int load_l2(const unsigned int* p) {
  unsigned int value;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}
__device__ __forceinline__ uint2 load_l2(const uint2* p) {
  uint2 value;
  asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];"
               : "=r"(value.x), "=r"(value.y)
               : "l"(p)
               : "memory");
  return value;
}
__device__ __forceinline__ uint4 load_l2(const uint4* p) {
  uint4 value;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(p)
               : "memory");
  return value;
}

}  // namespace detail

/// Members of Thread. All addresses of shared memory are 32-bit, from shared_base() on.
class MemoryAccess {
 public:
  __device__ __forceinline__ uint32_t shared_base() const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
  }
  template <class T>
  __device__ __forceinline__ T load_shared(uint32_t at) {
    using Pieces = detail::Pieces<T>;
    Pieces pieces;
    // Relative to the array, so that the compiler knows that this is shared memory.
    const auto* from =
        reinterpret_cast<const typename Pieces::Piece*>(shared_memory + (at - shared_base()));
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) pieces.at[i] = from[i];
    return __builtin_bit_cast(T, pieces);
  }
  template <class T>
  __device__ __forceinline__ void store_shared(uint32_t at, const T& value) {
    using Pieces = detail::Pieces<T>;
    const auto pieces = __builtin_bit_cast(Pieces, value);
    auto* to = reinterpret_cast<typename Pieces::Piece*>(shared_memory + (at - shared_base()));
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) to[i] = pieces.at[i];
  }

  /// What nobody writes during the kernel.
  template <class T>
  __device__ __forceinline__ T read(const T* p) {
    using Pieces = detail::Pieces<T>;
    Pieces pieces;
    const auto* from = reinterpret_cast<const typename Pieces::Piece*>(p);
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) pieces.at[i] = __ldg(from + i);
    return __builtin_bit_cast(T, pieces);
  }
  /// What blocks exchange, after an arrival has ordered it.
  template <class T>
  __device__ __forceinline__ T load(const T* p) {
    using Pieces = detail::Pieces<T>;
    Pieces pieces;
    const auto* from = reinterpret_cast<const typename Pieces::Piece*>(p);
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) pieces.at[i] = detail::load_l2(from + i);
    return __builtin_bit_cast(T, pieces);
  }
  template <class T>
  __device__ __forceinline__ void store(T* p, const T& value) {
    using Pieces = detail::Pieces<T>;
    const auto pieces = __builtin_bit_cast(Pieces, value);
    auto* to = reinterpret_cast<typename Pieces::Piece*>(p);
#pragma unroll
    for (int i = 0; i < Pieces::count; ++i) to[i] = pieces.at[i];
  }
  /// Adds, and orders all that this block has done before all that whoever adds later does; the
  /// value before.
  __device__ __forceinline__ uint32_t add_acq_rel(uint32_t* at, uint32_t n) {
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(at), "r"(n)
                 : "memory");
    return old;
  }
  /// The launch fails; debug builds print why.
  __device__ __forceinline__ void fail(const char* why) {
    if constexpr (is_debug)
      printf("block %d thread %d: %s\n", static_cast<int>(blockIdx.x),
             static_cast<int>(threadIdx.x), why);
    __trap();
  }

  /// 16 (of L2 lines), 8 or 4 bytes to shared memory, of the open group; zeros if not valid, and
  /// then nothing is read.
  template <int Bytes = 16>
  __device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool valid) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
    const int bytes = valid ? Bytes : 0;
    if constexpr (Bytes == 16)
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                   "r"(bytes)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(Bytes),
                   "r"(bytes)
                   : "memory");
  }
  __device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// All but the last `Pending` groups of this thread have landed, as this thread sees it.
  template <int Pending>
  __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
  }
};

}  // namespace folio::cuda
