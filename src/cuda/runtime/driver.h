// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/driver.h: the few functions of the CUDA driver that folio's host code calls,
/// found at run time.
///
/// Types are spelled out here, so that no CUDA header is needed: the driver's binary interface is
/// stable, and a name ending in _v2 fixes the signature. Enumerations are passed as their integers.
#pragma once

#include <cstdint>

#include "folio/core/status.h"

namespace folio::cuda {

using DriverResult = int;  ///< CUresult; 0 is success
using DriverContext = void*;

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
  DriverResult (*tensor_map_encode_tiled)(void* map, int dtype, uint32_t rank, void* base,
                                          const uint64_t* dims, const uint64_t* strides,
                                          const uint32_t* box, const uint32_t* element_strides,
                                          int interleave, int swizzle, int l2_promotion,
                                          int oob_fill) = nullptr;

  /// The driver's own words for what went wrong in `call`.
  [[nodiscard]] Status failure(const char* function, const char* call,
                               DriverResult result) const noexcept;
};

/// The driver, loaded and initialised at the first call and kept for the life of the process; or
/// why there is none, which is asked once, too. Errors: device. Thread safety: usable from any
/// thread.
[[nodiscard]] Result<const Driver*> driver(const char* function) noexcept;

/// Makes a device's primary context current for the life of the object.
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
