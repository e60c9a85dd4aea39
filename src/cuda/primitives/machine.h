// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/machine.h: what kernels may ask of their Thread, checked on both sides: by
/// nvcc of cuda::Thread, by the host's compiler of emulator::EmulatedThread.
///
///   Machine         every architecture, sm_80 on
///   TileMachine     and mbarriers, bulk copies, boxes by tensor maps: sm_90 on
///   GatherMachine   and gather4: sm_100 on
///   GroupMachine    and wgmma: sm_90a alone
///
/// Addresses of shared memory are 32-bit, in bytes, from shared_base() on, and multiples of what is
/// accessed; of values larger than 16 bytes multiples of min(alignof(T), 16).
#pragma once

#include <concepts>
#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/tma/encode.h"

namespace folio::cuda {

namespace detail {

struct alignas(16) SixteenBytes {
  uint32_t words[4];
};

template <class T>
concept HasIds = requires(const T& t) {
  { t.thread() } -> std::same_as<int>;
  { t.lane() } -> std::same_as<int>;
  { t.warp() } -> std::same_as<int>;
  { t.threads() } -> std::same_as<int>;
  { t.block() } -> std::same_as<int>;
  { t.blocks() } -> std::same_as<int>;
};

template <class T>
concept HasMemory = requires(T& t, uint32_t at, const void* bytes, const float* in, float* out,
                             uint32_t* counter, const SixteenBytes& value) {
  { t.shared_base() } -> std::same_as<uint32_t>;
  { t.template load_shared<SixteenBytes>(at) } -> std::same_as<SixteenBytes>;
  { t.store_shared(at, value) } -> std::same_as<void>;
  { t.read(in) } -> std::same_as<float>;
  { t.load(in) } -> std::same_as<float>;
  { t.store(out, 1.0f) } -> std::same_as<void>;
  { t.add_acq_rel(counter, 1u) } -> std::same_as<uint32_t>;
  { t.fail("why") } -> std::same_as<void>;
  { t.copy_async(at, bytes, true) } -> std::same_as<void>;
  { t.template copy_async<4>(at, bytes, true) } -> std::same_as<void>;
  { t.template copy_async<8>(at, bytes, true) } -> std::same_as<void>;
  { t.commit_copies() } -> std::same_as<void>;
  { t.template wait_copies<0>() } -> std::same_as<void>;
};

template <class T>
concept HasCollectives = requires(T& t, uint32_t bits, float x, uint32_t (&registers)[4],
                                  const uint32_t (&a)[4], float (&c)[4]) {
  { t.sync_warp() } -> std::same_as<void>;
  { t.sync_block() } -> std::same_as<void>;
  { t.sync_threads(1, 32) } -> std::same_as<void>;
  { t.shuffle(bits, 0) } -> std::same_as<uint32_t>;
  { t.shuffle(x, 0) } -> std::same_as<float>;
  { t.shuffle_xor(bits, 1) } -> std::same_as<uint32_t>;
  { t.shuffle_xor(x, 1) } -> std::same_as<float>;
  { t.ballot(true) } -> std::same_as<uint32_t>;
  { t.template load_matrices<false>(registers, bits) } -> std::same_as<void>;
  { t.template load_matrices<true>(registers, bits) } -> std::same_as<void>;
  { t.template multiply<DType::bf16>(c, a, bits, bits) } -> std::same_as<void>;
  { t.template multiply<DType::f16>(c, a, bits, bits) } -> std::same_as<void>;
};

template <class T>
concept HasNumbers = requires(T& t, float x, uint32_t bits, uint16_t pair) {
  { t.exp2(x) } -> std::same_as<float>;
  { t.log2(x) } -> std::same_as<float>;
  { t.tanh(x) } -> std::same_as<float>;
  { t.fma(x, x, x) } -> std::same_as<float>;
  { t.template pack<DType::bf16>(x, x) } -> std::same_as<uint32_t>;
  { t.template pack<DType::f16>(x, x) } -> std::same_as<uint32_t>;
  { t.template unpack<DType::bf16>(bits, 1) } -> std::same_as<float>;
  { t.template unpack<DType::f16>(bits, 0) } -> std::same_as<float>;
  { t.half_pair_of_e4m3(pair) } -> std::same_as<uint32_t>;
  { t.half_pair_of_e5m2(pair) } -> std::same_as<uint32_t>;
  { t.to_e4m3(x, x) } -> std::same_as<uint16_t>;
  { t.to_e5m2(x, x) } -> std::same_as<uint16_t>;
};

}  // namespace detail

template <class T>
concept Machine =
    detail::HasIds<T> && detail::HasMemory<T> && detail::HasCollectives<T> && detail::HasNumbers<T>;

template <class T>
concept TileMachine =
    Machine<T> &&
    requires(T& t, uint32_t at, const void* from, void* to, const tma::EncodedTensorMap& map,
             const tma::Coordinates<3>& c3, const tma::Coordinates<5>& c5) {
      { t.init_barrier(at, 1u) } -> std::same_as<void>;
      { t.fence_barriers() } -> std::same_as<void>;
      { t.fence_async() } -> std::same_as<void>;
      { t.arrive(at) } -> std::same_as<void>;
      { t.arrive_expecting(at, 16u) } -> std::same_as<void>;
      { t.wait(at, 0u) } -> std::same_as<void>;
      { t.template copy_tile<3>(map, c3, at, at) } -> std::same_as<void>;
      { t.template copy_tile<5>(map, c5, at, at) } -> std::same_as<void>;
      { t.template store_tile<3>(map, c3, at) } -> std::same_as<void>;
      { t.template prefetch_tile<5>(map, c5) } -> std::same_as<void>;
      { t.prefetch_map(map) } -> std::same_as<void>;
      { t.copy_bulk(at, from, 16u, at) } -> std::same_as<void>;
      { t.store_bulk(to, at, 16u) } -> std::same_as<void>;
      { t.commit_stores() } -> std::same_as<void>;
      { t.template wait_stores<0>() } -> std::same_as<void>;
      { t.template wait_store_reads<0>() } -> std::same_as<void>;
    };

template <class T>
concept GatherMachine =
    TileMachine<T> &&
    requires(T& t, uint32_t at, const tma::EncodedTensorMap& map, const tma::Coordinates<5>& c) {
      { t.copy_gather4(map, c, at, at) } -> std::same_as<void>;
    };

template <class T>
concept GroupMachine =
    TileMachine<T> && requires(T& t, float (&d)[8], const uint32_t (&a)[4], uint64_t descriptor) {
      { t.warpgroup_arrive() } -> std::same_as<void>;
      {
        t.template multiply_group<16, DType::bf16>(d, descriptor, descriptor, true)
      } -> std::same_as<void>;
      {
        t.template multiply_group<16, DType::f16, false, true>(d, descriptor, descriptor, true)
      } -> std::same_as<void>;
      { t.template multiply_group<16, DType::f16>(d, a, descriptor, false) } -> std::same_as<void>;
      { t.commit_multiplies() } -> std::same_as<void>;
      { t.template wait_multiplies<0>() } -> std::same_as<void>;
    };

}  // namespace folio::cuda
