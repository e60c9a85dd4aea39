// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_copies.cpp: names, copies and clocks of the libcuda.so.1 of the tests. Its clock
/// stands: whatever is measured takes a millisecond.
#include <cstdint>
#include <cstring>
#include <string>

#include "cuda/fake_state.h"

namespace folio::test {
namespace {

/// Behind everything that was put on the device, as the null stream's copies are.
int copy(const char* name, void* to, const void* from, size_t bytes) {
  const Entered call(name);
  if (call.result() != 0) return call.result();
  if (!is_context_current()) return invalid_context;
  if (call.device().break_captures()) return capture_unsupported;
  call.device().finish(nullptr);
  if (call.device().is_broken()) return launch_failed;
  std::memcpy(to, from, bytes);
  return success;
}

}  // namespace
}  // namespace folio::test

using namespace folio::test;  // NOLINT(google-build-using-namespace): for the driver's interface

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  if (bytes <= 0 || device < 40) return invalid_value;
  std::strncpy(name, "emulated device", static_cast<size_t>(bytes) - 1);
  name[bytes - 1] = '\0';
  return success;
}

int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) {
  return copy("cuMemcpyHtoD", to, from, bytes);
}
int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) {
  return copy("cuMemcpyDtoH", to, from, bytes);
}
int cuMemcpyDtoD_v2(void* to, const void* from, size_t bytes) {
  return copy("cuMemcpyDtoD", to, from, bytes);
}

int cuEventSynchronize(void* event) {
  const Entered call("cuEventSynchronize");
  if (call.result() != 0) return call.result();
  if (const auto& work = static_cast<FakeEvent*>(event)->recorded; work != nullptr)
    call.device().finish(work);
  return call.device().is_broken() ? launch_failed : success;
}
int cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 1.0f;
  return success;
}

}  // extern "C"
