// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/driver.cpp: looks the driver's functions up in libcuda.so.1.
#include "cuda/runtime/driver.h"

#include <dlfcn.h>

#include <cstring>

namespace folio::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";

/// What the first look-up found; every later call reports the same.
struct Loaded {
  Driver driver;
  const char* missing = nullptr;  ///< a function's name
  char no_library[256] = {};      ///< the loader's reason
  DriverResult init_result = 0;
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

template <class Function>
void find(void* library, const char* name, Function*& function, const char*& missing) {
  find(library, name, function);
  if (function == nullptr && missing == nullptr) missing = name;
}

Loaded load() noexcept {
  Loaded loaded;
  // never closed: the driver does not survive it
  void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    std::strncpy(loaded.no_library, reason != nullptr ? reason : library_name,
                 sizeof loaded.no_library - 1);
    return loaded;
  }
  Driver& d = loaded.driver;
  find(library, "cuInit", d.init, loaded.missing);
  find(library, "cuGetErrorName", d.error_name, loaded.missing);
  find(library, "cuGetErrorString", d.error_string, loaded.missing);
  find(library, "cuDeviceGet", d.device_get, loaded.missing);
  find(library, "cuDeviceGetAttribute", d.device_attribute, loaded.missing);
  find(library, "cuDevicePrimaryCtxRetain", d.context_retain, loaded.missing);
  find(library, "cuDevicePrimaryCtxRelease_v2", d.context_release, loaded.missing);
  find(library, "cuCtxPushCurrent_v2", d.context_push, loaded.missing);
  find(library, "cuCtxPopCurrent_v2", d.context_pop, loaded.missing);
  find(library, "cuCtxGetCurrent", d.context_current, loaded.missing);
  find(library, "cuModuleLoadData", d.module_load, loaded.missing);
  find(library, "cuModuleUnload", d.module_unload, loaded.missing);
  find(library, "cuModuleGetFunction", d.module_function, loaded.missing);
  find(library, "cuFuncSetAttribute", d.function_set, loaded.missing);
  find(library, "cuLaunchKernel", d.launch, loaded.missing);
  find(library, "cuMemsetD32Async", d.fill_words, loaded.missing);
  find(library, "cuStreamIsCapturing", d.stream_capture, loaded.missing);
  find(library, "cuPointerGetAttributes", d.pointer_attributes, loaded.missing);
  find(library, "cuFuncLoad", d.function_load);
  find(library, "cuTensorMapEncodeTiled", d.tensor_map_encode_tiled);
  if (loaded.missing == nullptr) loaded.init_result = d.init(0);
  return loaded;
}

}  // namespace

Result<const Driver*> driver(const char* function) noexcept {
  static const Loaded loaded = load();
  if (loaded.no_library[0] != '\0')
    return fail(Errc::device, "{}: no CUDA driver: {}", function, loaded.no_library);
  if (loaded.missing != nullptr)
    return fail(Errc::device, "{}: {} has no {}, expected a driver of CUDA 11.0 or later", function,
                library_name, loaded.missing);
  if (loaded.init_result != 0) return loaded.driver.failure(function, "cuInit", loaded.init_result);
  return &loaded.driver;
}

Status Driver::failure(const char* function, const char* call, DriverResult result) const noexcept {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(result, &name) != 0 || name == nullptr) name = "unknown error";
  if (error_string(result, &text) != 0 || text == nullptr) text = "no description";
  return fail(Errc::device, "{}: {} failed with {} ({}): {}", function, call, result, name, text);
}

Status Driver::lacks(const char* function, const char* call) noexcept {
  return fail(Errc::device, "{}: {} has no {}, expected a driver of CUDA 12.0 or later", function,
              library_name, call);
}

Status CurrentContext::enter(const char* function, DriverContext context) noexcept {
  DriverContext current = nullptr;
  if (const DriverResult result = driver_.context_current(&current); result != 0)
    return driver_.failure(function, "cuCtxGetCurrent", result);
  if (current == context) return {};
  if (const DriverResult result = driver_.context_push(context); result != 0)
    return driver_.failure(function, "cuCtxPushCurrent", result);
  is_pushed_ = true;
  return {};
}

CurrentContext::~CurrentContext() {
  DriverContext context = nullptr;
  if (is_pushed_) driver_.context_pop(&context);
}

Status PrimaryContext::enter(const char* function) noexcept {
  DriverContext context = nullptr;
  if (const DriverResult result = driver_.context_retain(&context, device_); result != 0)
    return driver_.failure(function, "cuDevicePrimaryCtxRetain", result);
  is_retained_ = true;
  if (const DriverResult result = driver_.context_push(context); result != 0)
    return driver_.failure(function, "cuCtxPushCurrent", result);
  is_current_ = true;
  return {};
}

PrimaryContext::~PrimaryContext() {
  DriverContext context = nullptr;
  if (is_current_) driver_.context_pop(&context);
  if (is_retained_) driver_.context_release(device_);
}

}  // namespace folio::cuda
