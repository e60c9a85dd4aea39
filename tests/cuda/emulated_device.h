// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_device.h: a CUDA device on the host, for tests of what is launched:
/// folio's own host code, over the libcuda.so.1 of the tests, with kernels that the emulator runs.
///
///   EmulatedDevice device({.order = WorkOrder::late, .seed = seed});
///   const std::span<float> out = device.allocate<float>(n);   // NaN until somebody writes
///   ASSERT_TRUE(attend_async(attention, plan, args, workspace, stream).is_ok());
///   device.synchronise(stream);                               // a fault fails the test
///
/// Nothing but what was allocated here can be touched by kernels, unless options say so. One at a
/// time; tests link folio_emulated_device and are registered by folio_device_test().
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/fake_driver.h"
#include "folio/core/execution.h"

namespace folio::inline v1::emulator {
struct GridCounts;
}

namespace folio::test {

struct EmulatedKernel;

/// Those of src/cuda/kernels.txt: link folio_emulated_kernels.
std::span<const EmulatedKernel> emulated_kernels();

struct EmulatedOptions {
  int compute_capability = 90;
  int processors = 4;
  WorkOrder order = WorkOrder::eager;
  uint64_t seed = 1;
  /// Kernels may touch whatever the process may.
  bool any_memory = false;
};

/// A captured graph.
class EmulatedGraph {
 public:
  EmulatedGraph() = default;

 private:
  friend class EmulatedDevice;
  void* instance_ = nullptr;
};

class EmulatedDevice {
 public:
  explicit EmulatedDevice(const EmulatedOptions& options = {},
                          std::span<const EmulatedKernel> kernels = emulated_kernels());
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;
  ~EmulatedDevice();

  [[nodiscard]] static constexpr Device device() { return {Device::Kind::cuda, 0}; }

  /// Memory of the kind, of all bits 1, until the device goes.
  template <class T>
  [[nodiscard]] std::span<T> allocate(size_t count, MemoryKind kind = MemoryKind::device) {
    return {static_cast<T*>(allocate_bytes(static_cast<int64_t>(count * sizeof(T)), kind)), count};
  }
  /// A copy of the values.
  template <class T>
  [[nodiscard]] std::span<T> copy_of(std::span<const T> values) {
    const std::span<T> memory = allocate<T>(values.size());
    std::copy(values.begin(), values.end(), memory.begin());
    return memory;
  }

  [[nodiscard]] Stream make_stream();
  /// Does what is on the stream; fails the test if a kernel failed.
  void synchronise(Stream stream);
  /// Does what is on the stream; what went wrong in a kernel, or "".
  [[nodiscard]] std::string fault(Stream stream);

  void begin_capture(Stream stream);
  /// Fails the test if the capture was broken by a call that captures do not allow.
  [[nodiscard]] EmulatedGraph end_capture(Stream stream);
  void launch(const EmulatedGraph& graph, Stream stream);

  /// How often folio called it since the device was made, e.g. "cuLaunchKernel".
  [[nodiscard]] int64_t calls(std::string_view call) const;
  /// Calls since the last forget_calls() that wait or allocate: a run path has none.
  [[nodiscard]] std::vector<std::string> waits_and_allocations() const;
  void forget_calls();
  /// The call fails once with the CUresult, after `skip` that do not.
  void fail_call(std::string_view call, int result, int skip = 0);
  [[nodiscard]] FakeDriver& driver();

  /// Of the kernel that ran last.
  [[nodiscard]] const emulator::GridCounts& counts() const;

 private:
  struct State;
  void* allocate_bytes(int64_t bytes, MemoryKind kind);

  std::unique_ptr<State> state_;
};

}  // namespace folio::test
