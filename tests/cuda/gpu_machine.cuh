// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_machine.cuh: facts of the machine, as the driver, the system and the tools say
/// them.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cuda/gpu_device.cuh"
#include "cuda/gpu_supervise.h"

namespace folio::test {

/// The first lines of what a command says.
inline std::string words_of(const std::string& command) {
  struct Close {
    void operator()(std::FILE* pipe) const { pclose(pipe); }
  };
  std::string text;
  const std::unique_ptr<std::FILE, Close> pipe(popen((command + " 2>&1").c_str(), "r"));
  char part[256];
  while (pipe != nullptr && text.size() < 2000 && std::fgets(part, sizeof part, pipe.get()))
    text += part;
  return text;
}

inline void record_machine(GpuRecords& records, Cases& cases) {
  if (cases.begin("properties")) {
    const struct {
      const char* name;
      cudaDeviceAttr attribute;
    } each[] = {{"processors", cudaDevAttrMultiProcessorCount},
                {"threads_per_processor", cudaDevAttrMaxThreadsPerMultiProcessor},
                {"registers_per_processor", cudaDevAttrMaxRegistersPerMultiprocessor},
                {"shared_bytes_per_processor", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                {"shared_bytes_per_block", cudaDevAttrMaxSharedMemoryPerBlockOptin},
                {"l2_bytes", cudaDevAttrL2CacheSize},
                {"clock_khz", cudaDevAttrClockRate},
                {"memory_clock_khz", cudaDevAttrMemoryClockRate},
                {"memory_bus_bits", cudaDevAttrGlobalMemoryBusWidth},
                {"copy_engines", cudaDevAttrAsyncEngineCount},
                {"reads_pageable_memory", cudaDevAttrPageableMemoryAccess},
                {"host_pointers_are_device_pointers", cudaDevAttrCanUseHostPointerForRegisteredMem},
                {"native_host_atomics", cudaDevAttrHostNativeAtomicSupported},
                {"cooperative_launch", cudaDevAttrCooperativeLaunch},
                {"memory_pools", cudaDevAttrMemoryPoolsSupported},
                {"ecc", cudaDevAttrEccEnabled}};
    std::string members;
    for (const auto& [name, attribute] : each) {
      int value = -1;
      cudaDeviceGetAttribute(&value, attribute, 0);
      members +=
          std::string(members.empty() ? "" : ", ") + "\"" + name + "\": " + std::to_string(value);
    }
    records.facts(members);
  }
  for (const char* command :
       {"nvidia-smi --query-gpu=name,driver_version,vbios_version,memory.total,clocks.max.sm,"
        "clocks.max.mem,power.limit,ecc.mode.current,mig.mode.current --format=csv",
        "uname -srm", "grep -m 1 'model name' /proc/cpuinfo", "cat /proc/driver/nvidia/version",
        "compute-sanitizer --version", "ncu --version", "nvcc --version"}) {
    if (cases.begin(command))
      records.facts("\"command\": \"" + GpuRecords::escaped(command) + "\", \"says\": \"" +
                    GpuRecords::escaped(words_of(command)) + "\"");
  }
}

}  // namespace folio::test
