// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/driver.h: the few functions of the CUDA driver that folio's host code calls,
/// found at run time.
///
/// Types are spelled out here, so that no CUDA header is needed: the driver's binary interface is
/// stable, and a name ending in _v2 fixes the signature. Enumerations are passed as their integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/status.h"

namespace folio::cuda {

using DriverResult = int;  ///< CUresult; 0 is success
using DriverContext = void*;
using DriverModule = void*;
using DriverFunction = void*;
using DriverStream = void*;

struct Driver {
  DriverResult (*init)(unsigned flags) = nullptr;
  DriverResult (*error_name)(DriverResult result, const char** name) = nullptr;
  DriverResult (*error_string)(DriverResult result, const char** text) = nullptr;
  DriverResult (*device_get)(int* device, int index) = nullptr;
  DriverResult (*device_attribute)(int* value, int attribute, int device) = nullptr;
  DriverResult (*context_retain)(DriverContext* context, int device) = nullptr;
  DriverResult (*context_release)(int device) = nullptr;
  DriverResult (*context_push)(DriverContext context) = nullptr;
  DriverResult (*context_pop)(DriverContext* context) = nullptr;
  DriverResult (*context_current)(DriverContext* context) = nullptr;
  DriverResult (*module_load)(DriverModule* module, const void* image) = nullptr;
  DriverResult (*module_unload)(DriverModule module) = nullptr;
  DriverResult (*module_function)(DriverFunction* out, DriverModule module,
                                  const char* name) = nullptr;
  DriverResult (*function_set)(DriverFunction function, int attribute, int value) = nullptr;
  DriverResult (*launch)(DriverFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, DriverStream stream, void** args,
                         void** extra) = nullptr;
  DriverResult (*fill_words)(uint64_t at, unsigned value, size_t words,
                             DriverStream stream) = nullptr;
  DriverResult (*stream_capture)(DriverStream stream, int* state) = nullptr;
  DriverResult (*pointer_attributes)(unsigned count, const int* attributes, void** values,
                                     uint64_t pointer) = nullptr;

  // What drivers of before CUDA 12 lack; null there.
  /// loads what lazy loading would leave to the first launch
  DriverResult (*function_load)(DriverFunction function) = nullptr;
  DriverResult (*tensor_map_encode_tiled)(void* map, int dtype, uint32_t rank, void* base,
                                          const uint64_t* dims, const uint64_t* strides,
                                          const uint32_t* box, const uint32_t* element_strides,
                                          int interleave, int swizzle, int l2_promotion,
                                          int oob_fill) = nullptr;

  /// The driver's own words for what went wrong in `call`.
  [[nodiscard]] Status failure(const char* function, const char* call,
                               DriverResult result) const noexcept;
  /// That this driver is too old for `call`.
  [[nodiscard]] static Status lacks(const char* function, const char* call) noexcept;
};

/// The driver, loaded and initialised at the first call and kept for the life of the process; or
/// why there is none, which is asked once, too. Errors: device. Thread safety: usable from any
/// thread.
[[nodiscard]] Result<const Driver*> driver(const char* function) noexcept;

/// Makes a context current for the life of the object, unless it is already.
class CurrentContext {
 public:
  explicit CurrentContext(const Driver& driver) noexcept : driver_(driver) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();
  [[nodiscard]] Status enter(const char* function, DriverContext context) noexcept;

 private:
  const Driver& driver_;
  bool is_pushed_ = false;
};

/// Holds a device's primary context and makes it current for the life of the object.
class PrimaryContext {
 public:
  PrimaryContext(const Driver& driver, int device) noexcept : driver_(driver), device_(device) {}
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext();
  [[nodiscard]] Status enter(const char* function) noexcept;

 private:
  const Driver& driver_;
  int device_;
  bool is_retained_ = false;
  bool is_current_ = false;
};

}  // namespace folio::cuda
