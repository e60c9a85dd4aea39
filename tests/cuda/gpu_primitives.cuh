// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_primitives.cuh: single instructions on a GPU, recorded word for word.
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "cuda/gpu_device.cuh"
#include "cuda/gpu_supervise.h"
#include "cuda/primitives/thread.cuh"
#include "cuda/probes.h"

namespace folio::test {

template <class Probe>
__global__ void __launch_bounds__(Probe::threads)
    run_probe(const __grid_constant__ ProbeArgs args) {
  cuda::Thread t;
  Probe::run(t, args);
}

inline bool is_there(Needs needs, int major) {
  return needs == Needs::nothing || (needs == Needs::bulk_copies ? major >= 9 : major == 9);
}

inline constexpr uint64_t probe_seed = 20261122;

/// Words that a probe does not write are recorded as 0xa5a5a5a5.
template <class Probe>
void record_probe(GpuRecords& records, Cases& cases, int major) {
  const std::string name = Probe::name;
  if (!is_there(Probe::needs, major)) {
    if (cases.begin(name)) records.skip(name, "not on this architecture");
    return;
  }
  Rng rng(probe_seed);
  for (int number = 0; number < Probe::cases; ++number) {
    const std::vector<uint32_t> in = Probe::input(rng, number);
    if (!cases.begin(name + " case " + std::to_string(number))) continue;
    std::vector<uint32_t> out(Probe::out_words, 0xa5a5a5a5u);
    const auto bytes = [](const std::vector<uint32_t>& words) {
      return static_cast<int64_t>(words.size() * sizeof(uint32_t));
    };
    DeviceBytes device_in(bytes(in)), device_out(bytes(out));
    device_in.upload(in.data(), bytes(in));
    device_out.upload(out.data(), bytes(out));
    launch_block(run_probe<Probe>, Probe::threads, Probe::shared_bytes,
                 ProbeArgs{device_in.as<uint32_t>(), device_out.as<uint32_t>()});
    device_out.download(out.data(), bytes(out));
    records.probe(name, number, in, out);
  }
}

inline void record_primitives(GpuRecords& records, Cases& cases, int major) {
  for_each_probe([&]<class Probe>() { record_probe<Probe>(records, cases, major); });
}

}  // namespace folio::test
