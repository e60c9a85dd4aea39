// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_runner.cpp: a launch as a grid of the emulator, over the memory that the
/// device can reach.
#include "cuda/emulated_runner.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

#include "folio/testing/cta/tile_map.h"

namespace folio::test {
namespace {

/// All that the process may read, as the system lists it; what it may write too are buffers.
void add_process_memory(emulator::Grid& grid) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "r"),
                                                             &std::fclose);
  char line[1024];
  while (maps != nullptr && std::fgets(line, sizeof line, maps.get()) != nullptr) {
    uintptr_t begin = 0, end = 0;
    char rights[8] = {};
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &begin, &end, rights) != 3) continue;
    if (rights[0] != 'r' || std::strstr(line, "[v") != nullptr) continue;
    auto* const data = reinterpret_cast<void*>(begin);
    const auto bytes = static_cast<int64_t>(end - begin);
    if (rights[1] == 'w') {
      grid.add_buffer("memory of the process", data, bytes, true);
    } else {
      grid.add_input("memory of the process", data, bytes);
    }
  }
}

int encode_map(void*, const EncodeCall& call, void* out) {
  tma::TensorMap map;
  map.base = reinterpret_cast<uint64_t>(call.base);
  map.rank = static_cast<int32_t>(call.rank);
  map.dtype = static_cast<tma::DataType>(call.dtype);
  map.interleave = static_cast<tma::Interleave>(call.interleave);
  map.swizzle = static_cast<tma::Swizzle>(call.swizzle);
  map.l2_promotion = static_cast<tma::L2Promotion>(call.l2_promotion);
  map.oob_fill = static_cast<tma::OobFill>(call.oob_fill);
  // The driver is not told what a map is for: this is what gather4 asks of one.
  if (call.rank == 2 && call.box[1] == 1) map.use = tma::Use::gather4;
  map.stride_bytes[0] = tma::element_bytes(map.dtype);
  for (uint32_t i = 0; i < call.rank; ++i) {
    map.dim[i] = static_cast<int64_t>(call.dims[i]);
    if (i > 0) map.stride_bytes[i] = static_cast<int64_t>(call.strides[i - 1]);
    map.box[i] = static_cast<int32_t>(call.box[i]);
    map.element_stride[i] = static_cast<int32_t>(call.element_strides[i]);
  }
  const tma::EncodedTensorMap encoded = emulator::encode(map);
  std::memcpy(out, &encoded, sizeof encoded);
  return 0;
}

}  // namespace

KernelRunner EmulatedRunner::callbacks() {
  KernelRunner out;
  out.context = this;
  out.args_bytes = [](void* context, const char* name) -> int64_t {
    const EmulatedKernel* const kernel = static_cast<EmulatedRunner*>(context)->find(name);
    return kernel == nullptr ? -1 : kernel->entry.args_bytes;
  };
  out.run = [](void* context, const LaunchCall& call) -> const char* {
    auto& runner = *static_cast<EmulatedRunner*>(context);
    runner.words_ = runner.run(*runner.find(call.name), call);
    return runner.words_.empty() ? nullptr : runner.words_.c_str();
  };
  out.encode = &encode_map;
  return out;
}

const EmulatedKernel* EmulatedRunner::find(std::string_view name) const {
  const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const EmulatedKernel& k) { return name == k.entry.name; });
  return found == kernels_.end() ? nullptr : &*found;
}

std::string EmulatedRunner::run(const EmulatedKernel& kernel, const LaunchCall& call) {
  if (call.threads != kernel.entry.threads || call.shared_bytes != kernel.entry.shared_bytes)
    return "launched with other threads or shared memory than it asks for";
  emulator::GridShape shape;
  shape.blocks = static_cast<int>(call.blocks);
  shape.resident = processors_ * kernel.entry.blocks_per_processor;
  shape.threads = call.threads;
  shape.shared_bytes = call.shared_bytes;
  shape.seed = call.seed;
  emulator::Grid grid(shape);
  for (int64_t i = 0; i < call.num_ranges; ++i) {
    const MemoryRange& range = call.memory[i];
    grid.add_buffer("allocation " + std::to_string(i), range.begin, range.bytes, true);
  }
  if (call.memory == nullptr) add_process_memory(grid);
  const void* const args = call.args;
  std::string fault = grid.run([&](emulator::EmulatedThread& t) { kernel.run(t, args); });
  counts_ = grid.counts();
  return fault;
}

}  // namespace folio::test
