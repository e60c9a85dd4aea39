// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_roofs.cuh: the rates at which a GPU reads, writes and copies, in memory and L2:
/// what figures of kernels are held against.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cuda/gpu_device.cuh"
#include "cuda/gpu_supervise.h"

namespace folio::test {

enum class Traffic : uint8_t { read, write, copy };

/// 16 bytes a thread and access, `Unroll` of them under way. Words are never all ones.
template <Traffic What, int Unroll>
__global__ void __launch_bounds__(512) move_words(const uint4* from, uint4* to, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  uint4 seen = {};
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step * Unroll) {
    uint4 words[Unroll];
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const int64_t at = i + u * step;
      words[u] = What == Traffic::write ? make_uint4(1, 2, 3, static_cast<uint32_t>(at))
                                        : __ldcg(from + (at < count ? at : i));
    }
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      const int64_t at = i + u * step;
      if (What == Traffic::read) {
        seen.x |= words[u].x & words[u].y & words[u].z & words[u].w;
      } else if (at < count) {
        to[at] = words[u];
      }
    }
  }
  if (What == Traffic::read && seen.x == ~0u) to[0] = seen;
}

/// What the pool of a bench is filled with, too.
__global__ void fill_words(uint32_t* words, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    uint32_t z = static_cast<uint32_t>(i) * 2654435761u;
    z = (z ^ (z >> 15)) * 2246822519u;
    words[i] = (z & 0x80ff80ffu) | 0x3f003f00u;
  }
}

/// Median seconds of one of `inside` launches in a replayed graph.
template <class Launch>
double replayed_seconds(int inside, Launch launch) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  cudaEvent_t begin, end;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  must(cudaEventCreate(&begin), "cudaEventCreate");
  must(cudaEventCreate(&end), "cudaEventCreate");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < inside; ++i) launch(stream);
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  std::vector<float> times;
  for (int i = 0; i < 12; ++i) {
    must(cudaEventRecord(begin, stream), "cudaEventRecord");
    must(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
    must(cudaEventRecord(end, stream), "cudaEventRecord");
    must(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i >= 3) times.push_back(milliseconds);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e-3 / inside;
}

template <Traffic What, int Unroll>
double best_rate(const uint4* from, uint4* to, int64_t bytes, int processors, int inside,
                 std::string& how) {
  double best = 0;
  for (const int blocks : {1, 2, 4}) {
    const double seconds = replayed_seconds(inside, [&](cudaStream_t stream) {
      move_words<What, Unroll><<<processors * blocks, 512, 0, stream>>>(from, to, bytes / 16);
    });
    must(cudaGetLastError(), "launch");
    const double rate = static_cast<double>(bytes) * (What == Traffic::copy ? 2 : 1) / seconds;
    if (rate <= best) continue;
    best = rate;
    how = std::to_string(blocks) + " blocks of 512 a processor, " + std::to_string(Unroll) +
          " accesses under way";
  }
  return best;
}

template <Traffic What>
void record_roof(GpuRecords& records, Cases& cases, const char* name, bool is_hot,
                 const DeviceBytes& from, const DeviceBytes& to, int64_t bytes, int processors) {
  const std::string title = std::string(name) + (is_hot ? " hot" : " cold");
  if (!cases.begin(title)) return;
  const int inside = is_hot ? 20 : 2;
  std::string how4, how8;
  const double rate4 = best_rate<What, 4>(from.as<uint4>(), to.as<uint4>(), bytes, processors,
                                          inside, how4),
               rate8 = best_rate<What, 8>(from.as<uint4>(), to.as<uint4>(), bytes, processors,
                                          inside, how8);
  const double rate = std::max(rate4, rate8);
  records.facts("\"roof\": \"" + std::string(name) + "\", \"cache\": \"" +
                (is_hot ? "hot" : "cold") + "\", \"bytes\": " + std::to_string(bytes) +
                ", \"bytes_per_s\": " + std::to_string(rate) + ", \"how\": \"" +
                (rate8 > rate4 ? how8 : how4) + "\"");
  std::printf("%s: %.3f TB/s\n", title.c_str(), rate * 1e-12);
}

/// Cold: 2 GiB, or a quarter of what is free. Hot: a quarter of L2, read again and again.
inline void record_roofs(GpuRecords& records, Cases& cases) {
  int processors = 0, l2 = 0;
  size_t free_bytes = 0, all_bytes = 0;
  must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "attribute");
  must(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0), "attribute");
  must(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  const int64_t cold =
      std::min<int64_t>(int64_t{2} << 30, static_cast<int64_t>(free_bytes / 4) / 4096 * 4096);
  const int64_t hot = l2 / 4 / 4096 * 4096;
  const DeviceBytes from(cold), to(cold);
  fill_words<<<processors * 4, 512>>>(from.as<uint32_t>(), cold / 4);
  must(cudaGetLastError(), "launch");
  must(cudaDeviceSynchronize(), "fill_words");
  for (const bool is_hot : {false, true}) {
    const int64_t bytes = is_hot ? hot : cold;
    record_roof<Traffic::read>(records, cases, "read", is_hot, from, to, bytes, processors);
    record_roof<Traffic::copy>(records, cases, "copy", is_hot, from, to, bytes, processors);
    record_roof<Traffic::write>(records, cases, "write", is_hot, from, to, bytes, processors);
  }
}

}  // namespace folio::test
