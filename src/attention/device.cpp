// SPDX-License-Identifier: Apache-2.0
/// src/attention/device.cpp: devices as the border sees them.
#include "attention/device.h"

#include <algorithm>

#include "attention/schedule.h"
#include "core/run_on.h"
#include "cpu/features.h"
#include "cuda/attention_kernel.h"
#include "cuda/runtime/launch.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t compute_capability_min = 80;
constexpr int32_t compute_capability_tensor_maps = 90;
constexpr int64_t large_block_bytes = 227 << 10;

Status no_such_kind(const char* function, Device device) {
  return fail(Errc::invalid_argument, "{}: device.kind is {}, expected cpu (0) or cuda (1)",
              function, static_cast<int32_t>(device.kind));
}

}  // namespace

Result<Capabilities> capabilities_of(const char* function, Device device) noexcept {
  if (device.kind == Device::Kind::cpu) return machine_capabilities();
  if (device.kind != Device::Kind::cuda) return no_such_kind(function, device);
  const Result<cuda::DeviceFacts> facts = cuda::device_facts(function, device);
  if (!facts) return facts.error();
  Capabilities has;
  if (facts->compute_capability >= compute_capability_min) has |= needs_cuda;
  if (facts->compute_capability >= compute_capability_tensor_maps) has |= Capability::tensor_maps;
  if (facts->shared_bytes >= large_block_bytes) has |= Capability::large_blocks;
  return has;
}

Result<int32_t> concurrency_of_device(const char* function, Device device) noexcept {
  if (device.kind == Device::Kind::cuda) {
    const Result<cuda::DeviceFacts> facts = cuda::device_facts(function, device);
    if (!facts) return facts.error();
    return facts->processors;
  }
  const Result<int64_t> threads = concurrency_of(function, default_executor());
  if (!threads) return threads.error();
  return static_cast<int32_t>(std::min<int64_t>(*threads, parallelism_max));
}

DeviceLists device_lists(const AttentionProblem& problem, const AttentionLimits& limits,
                         const Kernel& kernel, const Kernel* many) noexcept {
  AttentionProblem of_any_mask = problem;  // with_mask keeps the memory: no mask may change the cut
  of_any_mask.mask = {};
  DeviceLists lists;
  lists.few = kernel.device->geometry(of_any_mask);
  lists.blocks_few = limits.parallelism * kernel.device->blocks_per_processor(of_any_mask);
  lists.few.rows_at_most = many == nullptr ? INT32_MAX : lists.few.rows;
  if (many != nullptr) {
    lists.many = many->device->geometry(of_any_mask);
    lists.blocks_many = limits.parallelism * many->device->blocks_per_processor(of_any_mask);
  }
  lists.layout = cuda::device_plan_layout(problem, limits, lists.few, lists.many, lists.blocks_few,
                                          lists.blocks_many);
  return lists;
}

}  // namespace folio::inline v1
