// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_driver.cpp: a libcuda.so.1 that notes its arguments and is a device on the host,
/// so that what folio asks of the driver is tested without one: init, contexts, kernels, tensor
/// maps. Memory and streams: fake_streams.cpp.
#include "cuda/fake_driver.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/fake_state.h"

namespace folio::test {

namespace {

thread_local int pushed_here = 0;  // a current context is a thread's

}  // namespace

FakeState& fake_state() {
  static FakeState state;
  return state;
}

bool is_context_current() { return pushed_here > 0; }

Entered::Entered(const char* call) : state_(fake_state()), lock_(state_.mutex) {
  FakeDriver& fake = state_.driver;
  for (CallCount& c : fake.calls) {
    if (c.call[0] == '\0') std::strncpy(c.call, call, sizeof c.call - 1);
    if (std::string_view(c.call) != call) continue;
    ++c.count;
    break;
  }
  for (InjectedError& error : fake.injected) {
    if (std::string_view(error.call) != call) continue;
    if (error.skip-- > 0) continue;
    result_ = error.result;
    error = {};
    return;
  }
  if (state_.device->is_broken()) result_ = launch_failed;
}

}  // namespace folio::test

using namespace folio::test;  // NOLINT(google-build-using-namespace): for the driver's interface

extern "C" {

FakeDriver* fake_driver() { return &fake_state().driver; }

void fake_driver_reset() {
  FakeState& state = fake_state();
  const std::lock_guard lock(state.mutex);
  const int inits = state.driver.inits;
  state.driver = first_answers();
  state.driver.inits = inits;
  state.device = std::make_unique<FakeDevice>(state.driver);
  state.functions.clear();
  state.modules = 0;
}

int cuInit(unsigned) { return ++fake_state().driver.inits, 0; }
int cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> names = {
      {invalid_value, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},
      {invalid_image, "CUDA_ERROR_INVALID_IMAGE"},
      {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
      {invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
      {not_found, "CUDA_ERROR_NOT_FOUND"},
      {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
      {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}};
  const auto found = names.find(result);
  *name = found == names.end() ? nullptr : found->second;
  return *name == nullptr ? 1 : 0;
}
int cuGetErrorString(int result, const char** text) {
  *text = result == invalid_value   ? "invalid argument"
          : result == launch_failed ? "unspecified launch failure"
          : result == 101           ? "invalid device ordinal"
                                    : "as the name says";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "emulated device");
  return success;
}
int cuDeviceGet(int* device, int index) {
  const Entered call("cuDeviceGet");
  if (index < 0 || index >= call.driver().num_devices) return 101;
  *device = 40 + index;
  return call.result();
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const Entered call("cuDeviceGetAttribute");
  const FakeDriver& fake = call.driver();
  *value = attribute == 16   ? fake.processors
           : attribute == 75 ? fake.major
           : attribute == 76 ? fake.minor
           : attribute == 97 ? fake.shared_bytes
                             : -1;
  return device >= 40 ? call.result() : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  const Entered call("cuDevicePrimaryCtxRetain");
  FakeDriver& fake = call.driver();
  *context = &fake;
  const int result = fake.retain_result != 0 ? fake.retain_result : call.result();
  fake.retained += result == 0 ? 1 : 0;
  return result;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  const Entered call("cuDevicePrimaryCtxRelease");
  return --call.driver().retained, 0;
}
int cuCtxPushCurrent_v2(void* context) {
  const Entered call("cuCtxPushCurrent");
  FakeDriver& fake = call.driver();
  const int result = fake.push_result != 0 ? fake.push_result : call.result();
  if (context != &fake || result != 0) return result;
  ++pushed_here;
  ++fake.pushed;
  return success;
}
int cuCtxPopCurrent_v2(void** context) {
  const Entered call("cuCtxPopCurrent");
  *context = &call.driver();
  if (pushed_here == 0) return invalid_context;
  --pushed_here;
  --call.driver().pushed;
  return success;
}
int cuCtxGetCurrent(void** context) {
  const Entered call("cuCtxGetCurrent");
  *context = is_context_current() ? &call.driver() : nullptr;
  return call.result();
}

int cuModuleLoadData(void** module, const void* image) {
  const Entered call("cuModuleLoadData");
  if (call.result() != 0) return call.result();
  if (!is_context_current()) return invalid_context;
  if (call.device().break_captures()) return capture_unsupported;
  if (image == nullptr) return invalid_image;
  *module = const_cast<void*>(image);
  ++call.state().modules;
  return success;
}
int cuModuleUnload(void*) {
  const Entered call("cuModuleUnload");
  --call.state().modules;
  return success;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  const Entered call("cuModuleGetFunction");
  if (call.result() != 0) return call.result();
  const KernelRunner& runner = call.driver().runner;
  const int64_t bytes = runner.args_bytes == nullptr ? -1 : runner.args_bytes(runner.context, name);
  if (bytes < 0) return not_found;
  auto& functions = call.state().functions;
  functions.push_back(std::make_unique<FakeFunction>(FakeFunction{name, bytes}));
  *function = functions.back().get();
  return success;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  const Entered call("cuFuncSetAttribute");
  if (call.result() != 0) return call.result();
  FakeFunction* const kernel = call.state().function(function);
  if (kernel == nullptr) return invalid_handle;
  if (attribute != 8 || value > call.driver().shared_bytes) return invalid_value;
  kernel->max_shared_bytes = value;
  return success;
}
int cuFuncLoad(void* function) {
  const Entered call("cuFuncLoad");
  if (call.result() != 0) return call.result();
  return call.state().function(function) == nullptr ? invalid_handle : success;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream_handle, void** args, void** extra) {
  const Entered call("cuLaunchKernel");
  if (call.result() != 0) return call.result();
  if (!is_context_current()) return invalid_context;
  FakeFunction* const kernel = call.state().function(function);
  FakeStream* const stream = call.device().stream(stream_handle);
  if (kernel == nullptr || stream == nullptr) return invalid_handle;
  if (grid_x == 0 || grid_x > 0x7fffffffu || grid_y != 1 || grid_z != 1 || block_x == 0 ||
      block_x > 1024 || block_y != 1 || block_z != 1 || extra != nullptr ||
      shared_bytes > static_cast<unsigned>(kernel->max_shared_bytes))
    return invalid_value;
  const auto* bytes = static_cast<const unsigned char*>(args[0]);
  const std::vector<unsigned char> given(bytes, bytes + kernel->args_bytes);
  return call.device().put(*stream, [=, &state = call.state()]() -> std::string {
    // Arguments lie as they lie in constant memory.
    auto* const copy =
        static_cast<unsigned char*>(::operator new(given.size(), std::align_val_t{64}));
    std::copy(given.begin(), given.end(), copy);
    FakeDriver& fake = state.driver;
    LaunchCall launch{kernel->name.c_str(),
                      grid_x,
                      static_cast<int>(block_x),
                      shared_bytes,
                      copy,
                      fake.seed + static_cast<uint64_t>(++state.launches),
                      nullptr,
                      0};
    if (!fake.any_memory_is_device) {
      launch.memory = state.device->memory().data();
      launch.num_ranges = static_cast<int64_t>(state.device->memory().size());
    }
    const char* const fault = fake.runner.run(fake.runner.context, launch);
    ::operator delete(copy, std::align_val_t{64});
    return fault == nullptr ? std::string() : kernel->name + ": " + fault;
  });
}

int cuTensorMapEncodeTiled(void* map, int dtype, uint32_t rank, void* base, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box,
                           const uint32_t* element_strides, int interleave, int swizzle,
                           int l2_promotion, int oob_fill) {
  const Entered entered("cuTensorMapEncodeTiled");
  FakeDriver& fake = entered.driver();
  EncodeCall& call = fake.encoded;
  const int count = call.count + 1;
  call = {count,    dtype,           rank, base, {}, {}, {}, {}, interleave, swizzle, l2_promotion,
          oob_fill, fake.pushed == 1};
  for (uint32_t i = 0; i < std::min(rank, 5u); ++i) {
    call.dims[i] = dims[i];
    if (i > 0) call.strides[i - 1] = strides[i - 1];
    call.box[i] = box[i];
    call.element_strides[i] = element_strides[i];
  }
  if (fake.runner.encode != nullptr) return fake.runner.encode(fake.runner.context, call, map);
  std::memset(map, 0x5a, 128);
  return fake.encode_result != 0 ? fake.encode_result : entered.result();
}

}  // extern "C"
