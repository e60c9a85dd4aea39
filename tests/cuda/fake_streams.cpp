// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_streams.cpp: memory, streams, captures and graphs of the libcuda.so.1 of the
/// tests.
#include <cstdint>
#include <cstring>
#include <string>

#include "cuda/fake_state.h"

namespace folio::test {
namespace {

constexpr const char* out_of_reach = "touches memory that the device cannot reach";

/// The device can reach all the bytes.
bool reaches(const FakeState& state, const void* begin, int64_t bytes) {
  return state.driver.any_memory_is_device || state.device->range_of(begin, bytes) != nullptr;
}

/// Where a driver refuses whoever has made no device current.
bool lacks_context(const FakeState& state) {
  return state.driver.all_want_a_context && !is_context_current();
}

int allocate(const char* name, void** memory, size_t bytes, MemoryKind kind) {
  const Entered call(name);
  if (call.result() != 0) return call.result();
  if (lacks_context(call.state())) return invalid_context;
  if (call.device().break_captures()) return capture_unsupported;
  if (bytes == 0) return invalid_value;
  *memory = call.device().allocate(static_cast<int64_t>(bytes), kind);
  return success;
}

int release(const char* name, void* memory) {
  const Entered call(name);
  if (lacks_context(call.state())) return invalid_context;
  return call.device().release(memory) ? call.result() : invalid_value;
}

/// After all that is on the null stream; `on_device` is the end that the device must reach.
int copy_now(const char* name, void* to, const void* from, size_t bytes, const void* on_device) {
  const Entered call(name);
  if (call.result() != 0) return call.result();
  if (lacks_context(call.state())) return invalid_context;
  if (call.device().break_captures()) return capture_unsupported;
  if (!reaches(call.state(), on_device, static_cast<int64_t>(bytes))) return invalid_value;
  FakeStream& null = *call.device().stream(nullptr);
  const int result = call.device().put(null, [=] {
    std::memcpy(to, from, bytes);
    return std::string();
  });
  call.device().finish(null.last);
  return call.device().is_broken() ? launch_failed : result;
}

/// When the stream comes to it; `on_device` as above, `on_host` is the end that is pinned.
int copy_later(const char* name, void* to, const void* from, size_t bytes, const void* on_device,
               const void* on_host, void* handle) {
  const Entered call(name);
  if (call.result() != 0) return call.result();
  if (!is_context_current()) return invalid_context;
  const auto count = static_cast<int64_t>(bytes);
  const MemoryRange* const pinned = call.device().range_of(on_host, count);
  if (pinned == nullptr || pinned->kind != MemoryKind::pinned ||
      !reaches(call.state(), on_device, count))
    return invalid_value;
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  return call.device().put(*stream, [=] {
    std::memcpy(to, from, bytes);
    return std::string();
  });
}

/// What a pointer is: a CUmemorytype, whether it is managed, and its device.
void attribute_of(const FakeState& state, int attribute, uint64_t pointer, void* value) {
  const MemoryRange* const range =
      state.device->range_of(reinterpret_cast<const void*>(pointer), 1);
  const bool is_unknown = range == nullptr && !state.driver.any_memory_is_device;
  const bool is_pinned = range != nullptr && range->kind == MemoryKind::pinned;
  const bool is_managed = range != nullptr && range->kind == MemoryKind::managed;
  int answer = 0;
  // Managed memory is said to be where it is just now: here, on the host.
  if (attribute == 2) answer = is_unknown ? 0 : is_pinned || is_managed ? 1 : 2;
  if (attribute == 8) answer = is_managed ? 1 : 0;
  if (attribute == 9) answer = is_unknown ? -2 : range == nullptr ? 0 : range->device;
  std::memcpy(value, &answer, sizeof answer);
}

}  // namespace
}  // namespace folio::test

using namespace folio::test;  // NOLINT(google-build-using-namespace): for the driver's interface

extern "C" {

int cuMemAlloc_v2(void** memory, size_t bytes) {
  return allocate("cuMemAlloc", memory, bytes, MemoryKind::device);
}
int cuMemAllocManaged(void** memory, size_t bytes, unsigned) {
  return allocate("cuMemAllocManaged", memory, bytes, MemoryKind::managed);
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return allocate("cuMemHostAlloc", memory, bytes, MemoryKind::pinned);
}
int cuMemFree_v2(void* memory) { return release("cuMemFree", memory); }
int cuMemFreeHost(void* memory) { return release("cuMemFreeHost", memory); }

int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) {
  return copy_now("cuMemcpyHtoD", to, from, bytes, to);
}
int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) {
  return copy_now("cuMemcpyDtoH", to, from, bytes, from);
}
int cuMemcpyDtoD_v2(void* to, const void* from, size_t bytes) {
  return copy_now("cuMemcpyDtoD", to, from, bytes, to);
}

int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy_later("cuMemcpyHtoDAsync", to, from, bytes, to, from, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy_later("cuMemcpyDtoHAsync", to, from, bytes, from, to, stream);
}

int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, uint64_t pointer) {
  const Entered call("cuPointerGetAttributes");
  if (call.result() != 0) return call.result();
  for (unsigned i = 0; i < count; ++i)
    attribute_of(call.state(), attributes[i], pointer, values[i]);
  return success;
}

int cuMemsetD32Async(uint64_t at, unsigned value, size_t words, void* handle) {
  const Entered call("cuMemsetD32Async");
  if (call.result() != 0) return call.result();
  if (!is_context_current()) return invalid_context;
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  auto* const begin = reinterpret_cast<uint32_t*>(at);
  return call.device().put(*stream, [=, &state = call.state()]() -> std::string {
    if (!reaches(state, begin, static_cast<int64_t>(4 * words)))
      return std::string("cuMemsetD32Async ") + out_of_reach;
    for (size_t i = 0; i < words; ++i) begin[i] = value;
    return {};
  });
}

int cuStreamCreate(void** handle, unsigned) {
  const Entered call("cuStreamCreate");
  if (lacks_context(call.state())) return invalid_context;
  *handle = call.device().add_stream();
  return call.result();
}
int cuStreamDestroy_v2(void* handle) {
  const Entered call("cuStreamDestroy");
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr || handle == nullptr) return invalid_handle;
  if (stream->last != nullptr) call.device().finish(stream->last);
  return call.device().remove_stream(handle) ? success : invalid_handle;
}
int cuStreamSynchronize(void* handle) {
  const Entered call("cuStreamSynchronize");
  if (call.result() != 0) return call.result();
  if (call.device().break_captures()) return capture_unsupported;
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  if (stream->last != nullptr) call.device().finish(stream->last);
  return call.device().is_broken() ? launch_failed : success;
}
int cuCtxSynchronize() {
  const Entered call("cuCtxSynchronize");
  if (call.result() != 0) return call.result();
  if (call.device().break_captures()) return capture_unsupported;
  call.device().finish(nullptr);
  return call.device().is_broken() ? launch_failed : success;
}

int cuEventCreate(void** event, unsigned) {
  const Entered call("cuEventCreate");
  if (call.result() != 0) return call.result();
  if (lacks_context(call.state())) return invalid_context;
  *event = new FakeEvent;
  return success;
}
int cuEventDestroy_v2(void* event) {
  const Entered call("cuEventDestroy");
  delete static_cast<FakeEvent*>(event);
  return call.result();
}
int cuEventRecord(void* event, void* handle) {
  const Entered call("cuEventRecord");
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  static_cast<FakeEvent*>(event)->recorded = stream->last;
  return call.result();
}
int cuEventSynchronize(void* event) {
  const Entered call("cuEventSynchronize");
  if (call.device().break_captures()) return capture_unsupported;
  const std::shared_ptr<Work> recorded = static_cast<FakeEvent*>(event)->recorded;
  if (recorded != nullptr) call.device().finish(recorded);
  return call.device().is_broken() ? launch_failed : call.result();
}
int cuEventElapsedTime(float* milliseconds, void*, void*) {
  const Entered call("cuEventElapsedTime");
  *milliseconds = 1;  // nothing here has a duration
  return call.result();
}
int cuStreamWaitEvent(void* handle, void* event, unsigned) {
  const Entered call("cuStreamWaitEvent");
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  call.device().wait_for(*stream, static_cast<FakeEvent*>(event)->recorded);
  return call.result();
}

int cuStreamIsCapturing(void* handle, int* state) {
  const Entered call("cuStreamIsCapturing");
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  *state = static_cast<int>(stream->capture);
  return call.result();
}
int cuStreamBeginCapture_v2(void* handle, int) {
  const Entered call("cuStreamBeginCapture");
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  if (handle == nullptr || stream->capture != Capture::none) return capture_unsupported;
  stream->capture = Capture::active;
  stream->captured.clear();
  return call.result();
}
int cuStreamEndCapture(void* handle, void** graph) {
  const Entered call("cuStreamEndCapture");
  FakeStream* const stream = call.device().stream(handle);
  *graph = nullptr;
  if (stream == nullptr || stream->capture == Capture::none) return invalid_handle;
  const bool is_whole = stream->capture == Capture::active;
  stream->capture = Capture::none;
  if (!is_whole) return capture_invalidated;
  *graph = new FakeGraph{stream->captured};
  return call.result();
}
int cuGraphInstantiateWithFlags(void** instance, void* graph, uint64_t) {
  const Entered call("cuGraphInstantiate");
  *instance = new FakeGraph(*static_cast<FakeGraph*>(graph));
  return call.result();
}
int cuGraphLaunch(void* instance, void* handle) {
  const Entered call("cuGraphLaunch");
  if (call.result() != 0) return call.result();
  FakeStream* const stream = call.device().stream(handle);
  if (stream == nullptr) return invalid_handle;
  for (const Operation& operation : static_cast<FakeGraph*>(instance)->operations) {
    if (const int result = call.device().put(*stream, operation); result != 0) return result;
  }
  return success;
}
int cuGraphDestroy(void* graph) {
  const Entered call("cuGraphDestroy");
  delete static_cast<FakeGraph*>(graph);
  return success;
}
int cuGraphExecDestroy(void* instance) {
  const Entered call("cuGraphExecDestroy");
  delete static_cast<FakeGraph*>(instance);
  return success;
}

}  // extern "C"
