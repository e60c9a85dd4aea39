// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/emulated_device.cpp: the libcuda.so.1 of the tests, with kernels of this program.
#include "cuda/emulated_device.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "cuda/emulated_runner.h"
#include "cuda/runtime/loaded.h"

namespace folio::test {
namespace {

/// What tests call of the driver, under its own names.
struct Entries {
  FakeDriver* driver = nullptr;
  FakeDriverReset* reset = nullptr;
  int (*memory[3])(void** memory, size_t bytes, unsigned flags) = {};
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*capture_begin)(void* stream, int mode) = nullptr;
  int (*capture_end)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** instance, void* graph, uint64_t flags) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
  int (*instance_destroy)(void* instance) = nullptr;
  int (*graph_launch)(void* instance, void* stream) = nullptr;
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

Entries load() {
  Entries entries;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  FakeDriverFunction* driver = nullptr;
  if (library != nullptr) find(library, "fake_driver", driver);
  if (driver == nullptr) return entries;
  entries.driver = driver();
  find(library, "fake_driver_reset", entries.reset);
  find(library, "cuMemAlloc_v2", entries.memory[0]);
  find(library, "cuMemAllocManaged", entries.memory[1]);
  find(library, "cuMemHostAlloc", entries.memory[2]);
  find(library, "cuStreamCreate", entries.stream_create);
  find(library, "cuStreamSynchronize", entries.stream_synchronize);
  find(library, "cuStreamBeginCapture_v2", entries.capture_begin);
  find(library, "cuStreamEndCapture", entries.capture_end);
  find(library, "cuGraphInstantiateWithFlags", entries.graph_instantiate);
  find(library, "cuGraphDestroy", entries.graph_destroy);
  find(library, "cuGraphExecDestroy", entries.instance_destroy);
  find(library, "cuGraphLaunch", entries.graph_launch);
  return entries;
}

const Entries& entries() {
  static const Entries found = load();
  return found;
}

}  // namespace

struct EmulatedDevice::State {
  EmulatedRunner runner;
  std::vector<cuda::KernelEntry> table;
  std::vector<void*> instances;
};

EmulatedDevice::EmulatedDevice(const EmulatedOptions& options,
                               std::span<const EmulatedKernel> kernels)
    : state_(new State{EmulatedRunner(kernels, options.processors), {}, {}}) {
  if (entries().driver == nullptr) {
    ADD_FAILURE() << "another libcuda.so.1 was loaded, or none: " << dlerror();
    std::abort();
  }
  entries().reset();
  for (const EmulatedKernel& kernel : kernels) state_->table.push_back(kernel.entry);
  FakeDriver& fake = driver();
  fake.major = options.compute_capability / 10;
  fake.minor = options.compute_capability % 10;
  fake.processors = options.processors;
  fake.shared_bytes = (options.compute_capability >= 120  ? 99
                       : options.compute_capability >= 90 ? 227
                                                          : 163)
                      << 10;
  fake.order = options.order;
  fake.seed = options.seed;
  fake.any_memory_is_device = options.any_memory;
  fake.runner = state_->runner.callbacks();
  cuda::use_kernel_table(state_->table);
}

EmulatedDevice::~EmulatedDevice() {
  for (void* instance : state_->instances) entries().instance_destroy(instance);
  EXPECT_STREQ(driver().fault, "") << "of a kernel, and no test asked";
  EXPECT_EQ(driver().pushed, 0) << "a context stayed current";
  cuda::use_kernel_table({});
  entries().reset();
}

void* EmulatedDevice::allocate_bytes(int64_t bytes, MemoryKind kind) {
  void* memory = nullptr;
  const int result = entries().memory[static_cast<size_t>(kind)](
      &memory, static_cast<size_t>(std::max<int64_t>(bytes, 1)), 1);
  EXPECT_EQ(result, 0) << "memory of the emulated device";
  return memory;
}

Stream EmulatedDevice::make_stream() {
  Stream stream;
  EXPECT_EQ(entries().stream_create(&stream.handle, 1), 0);
  return stream;
}

std::string EmulatedDevice::fault(Stream stream) {
  entries().stream_synchronize(stream.handle);
  std::string words = driver().fault;
  driver().fault[0] = '\0';
  return words;
}

void EmulatedDevice::synchronise(Stream stream) { EXPECT_EQ(fault(stream), ""); }

void EmulatedDevice::begin_capture(Stream stream) {
  EXPECT_EQ(entries().capture_begin(stream.handle, 0), 0);
}

EmulatedGraph EmulatedDevice::end_capture(Stream stream) {
  EmulatedGraph graph;
  void* recorded = nullptr;
  EXPECT_EQ(entries().capture_end(stream.handle, &recorded), 0)
      << "something was called that no capture allows";
  if (recorded == nullptr) return graph;
  EXPECT_EQ(entries().graph_instantiate(&graph.instance_, recorded, 0), 0);
  entries().graph_destroy(recorded);
  state_->instances.push_back(graph.instance_);
  return graph;
}

void EmulatedDevice::launch(const EmulatedGraph& graph, Stream stream) {
  EXPECT_EQ(entries().graph_launch(graph.instance_, stream.handle), 0);
}

int64_t EmulatedDevice::calls(std::string_view call) const { return entries().driver->count(call); }

std::vector<std::string> EmulatedDevice::waits_and_allocations() const {
  std::vector<std::string> found;
  for (const CallCount& c : entries().driver->calls) {
    const std::string_view call = c.call;
    if (call.find("Synchronize") != call.npos || call.starts_with("cuMemAlloc") ||
        call.starts_with("cuMemHost") || call.starts_with("cuMemFree") ||
        call.starts_with("cuModule") || call.starts_with("cuEvent"))
      found.emplace_back(call);
  }
  return found;
}

void EmulatedDevice::forget_calls() {
  for (CallCount& c : driver().calls) c = {};
}

void EmulatedDevice::fail_call(std::string_view call, int result, int skip) {
  driver().fail_call(call, result, skip);
}

FakeDriver& EmulatedDevice::driver() { return *entries().driver; }

const emulator::GridCounts& EmulatedDevice::counts() const { return state_->runner.counts(); }

}  // namespace folio::test
