// SPDX-License-Identifier: Apache-2.0
/// tier/device/cuda_driver.h: the functions of the CUDA driver that copies call, found at run time.
///
/// Types are spelled out, so that no CUDA header is needed: the driver's binary interface is
/// stable, and a name ending in _v2 fixes the signature. Results are CUresult, 0 is success.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/status.h"

namespace folio::inline v1::tier {

struct CudaDriver {
  int (*init)(unsigned flags) = nullptr;
  int (*error_name)(int result, const char** name) = nullptr;
  int (*device_get)(int* device, int index) = nullptr;
  int (*context_retain)(void** context, int device) = nullptr;
  int (*context_release)(int device) = nullptr;
  int (*context_push)(void* context) = nullptr;
  int (*context_pop)(void** context) = nullptr;
  int (*host_alloc)(void** memory, size_t bytes, unsigned flags) = nullptr;
  int (*host_free)(void* memory) = nullptr;
  int (*to_device)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*to_host)(void* to, uint64_t from, size_t bytes, void* stream) = nullptr;
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_wait)(void* stream, void* event, unsigned flags) = nullptr;
  int (*stream_synchronize)(void* stream) = nullptr;
  int (*stream_capture)(void* stream, int* state) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;

  /// The driver's own word for what went wrong in `call`; out_of_memory where it is that.
  [[nodiscard]] Status failure(const char* call, int result) const noexcept;
};

/// Loaded and initialised at the first call, and kept. Errors: device. Thread safe.
[[nodiscard]] Result<const CudaDriver*> load_cuda_driver() noexcept;

}  // namespace folio::inline v1::tier
