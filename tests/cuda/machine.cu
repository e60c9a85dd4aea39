// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/machine.cu: every member of cuda::Thread, compiled for the architecture at hand.
#include "cuda/primitives/machine.h"
#include "cuda/primitives/thread.cuh"

namespace folio::test {

using cuda::Thread;

static_assert(cuda::Machine<Thread>);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static_assert(cuda::TileMachine<Thread>);
#else
static_assert(!cuda::TileMachine<Thread>, "older architectures have no tensor maps");
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
static_assert(cuda::GatherMachine<Thread>);
#else
static_assert(!cuda::GatherMachine<Thread>, "gather4 came with sm_100");
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
static_assert(cuda::GroupMachine<Thread>);
#else
static_assert(!cuda::GroupMachine<Thread>, "only sm_90a has wgmma");
#endif

struct alignas(16) Values {
  float at[8];
};

__global__ void move_values(const Values* in, Values* out, uint32_t* counter) {
  Thread t;
  const uint32_t at = t.shared_base() + static_cast<uint32_t>(t.thread()) * sizeof(Values);
  t.store_shared(at, t.read(in + t.thread()));
  t.copy_async(at, in, t.lane() > 3);
  t.copy_async<8>(at + 16, in, true);
  t.copy_async<4>(at + 24, in, true);
  t.commit_copies();
  t.wait_copies<0>();
  t.sync_warp();
  t.sync_threads(1, 64);
  t.sync_block();
  const auto value = t.load_shared<Values>(at ^ 32u);
  t.store(out + t.block() * t.threads() + t.thread(), value);
  if (t.add_acq_rel(counter, 1) > static_cast<uint32_t>(t.blocks())) t.fail("too many");
  if (t.warp() == 0) t.store(out, t.load(out + 1));
}

template <DType Type>
__global__ void compute(float* out, uint32_t* bits) {
  Thread t;
  uint32_t a[4], b[4];
  float c[4] = {};
  t.load_matrices<false>(a, t.shared_base() + static_cast<uint32_t>(t.lane()) * 16u);
  t.load_matrices<true>(b, t.shared_base() + static_cast<uint32_t>(t.lane()) * 16u);
  t.multiply<Type>(c, a, b[0], b[1]);
  float x = t.fma(t.exp2(c[0]), t.log2(c[1]), t.tanh(c[2]));
  x += t.shuffle(x, 3) + t.shuffle_xor(x, 1) + t.unpack<Type>(b[2], 1) + t.unpack<Type>(b[3], 0);
  out[t.thread()] = x;
  uint32_t word = t.pack<Type>(x, c[3]) + t.shuffle(b[0], 1) + t.shuffle_xor(b[1], 2);
  word += t.half_pair_of_e4m3(static_cast<uint16_t>(word)) +
          t.half_pair_of_e5m2(static_cast<uint16_t>(word));
  word += t.to_e4m3(x, c[1]) + static_cast<uint32_t>(t.to_e5m2(x, c[0]));
  bits[t.thread()] = word + t.ballot(x > 0);
}
template __global__ void compute<DType::bf16>(float*, uint32_t*);
template __global__ void compute<DType::f16>(float*, uint32_t*);

template <int Rank, class Machine>
__device__ void copy_boxes(Machine& t, const tma::EncodedTensorMap& map, uint32_t barrier) {
  const uint32_t to = t.shared_base() + 1024;
  const tma::Coordinates<Rank> c{};
  if (t.thread() == 0) {
    t.init_barrier(barrier, 2);
    t.fence_barriers();
    t.prefetch_map(map);
    t.template prefetch_tile<Rank>(map, c);
    t.arrive_expecting(barrier, 4096);
    t.template copy_tile<Rank>(map, c, to, barrier);
    t.arrive(barrier);
    t.wait(barrier, 0);
    t.fence_async();
    t.template store_tile<Rank>(map, c, to);
    t.commit_stores();
    t.template wait_store_reads<1>();
    t.template wait_stores<0>();
  }
}

__global__ void copy_tiles(const __grid_constant__ tma::EncodedTensorMap map, std::byte* bytes) {
#if __CUDA_ARCH__ >= 900
  Thread t;
  copy_boxes<2>(t, map, t.shared_base());
  copy_boxes<3>(t, map, t.shared_base() + 8);
  copy_boxes<4>(t, map, t.shared_base() + 16);
  copy_boxes<5>(t, map, t.shared_base() + 24);
  t.copy_bulk(t.shared_base() + 1024, bytes, 16, t.shared_base());
  t.store_bulk(bytes, t.shared_base() + 1024, 16);
#endif
#if __CUDA_ARCH__ >= 1000
  t.copy_gather4(map, {}, t.shared_base() + 1024, t.shared_base());
#endif
}

template <int N, DType Type, bool Transposed>
__global__ void multiply_by_groups(uint64_t a, uint64_t b, float* out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  Thread t;
  float d[N / 2] = {};
  uint32_t registers[4] = {1, 2, 3, 4};
  t.warpgroup_arrive();
  t.multiply_group<N, Type, Transposed, Transposed>(d, a, b, false);
  t.multiply_group<N, Type, Transposed>(d, registers, b, true);
  t.commit_multiplies();
  t.wait_multiplies<0>();
  for (int i = 0; i < N / 2; ++i) out[i * 128 + t.thread()] = d[i];
#endif
}
template __global__ void multiply_by_groups<16, DType::bf16, false>(uint64_t, uint64_t, float*);
template __global__ void multiply_by_groups<32, DType::f16, true>(uint64_t, uint64_t, float*);
template __global__ void multiply_by_groups<64, DType::bf16, true>(uint64_t, uint64_t, float*);
template __global__ void multiply_by_groups<128, DType::f16, false>(uint64_t, uint64_t, float*);
template __global__ void multiply_by_groups<256, DType::bf16, false>(uint64_t, uint64_t, float*);

}  // namespace folio::test
