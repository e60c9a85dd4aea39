// SPDX-License-Identifier: Apache-2.0
/// src/attention/streams.h: what every call that puts work on a stream asks first: a device that
/// has streams, arrays that it reaches.
#pragma once

#include <initializer_list>

#include "cuda/runtime/pointer.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// A device that there is, and that kernels are built for. Errors: unsupported on the CPU,
/// "<function>: the CPU has no streams, expected a call of <instead>"; invalid_argument for a kind
/// that there is not; those of cuda::device_facts.
[[nodiscard]] Status check_streams(const char* function, const char* instead,
                                   Device device) noexcept;

/// An argument's array; null: there is none.
struct NamedArray {
  const char* name;
  const void* data;
};

/// Arrays that there are lie on the device, or where `pinned` says. Errors: of
/// cuda::check_device_pointer, for the first that does not.
[[nodiscard]] Status check_arrays(const char* function, Device device,
                                  std::initializer_list<NamedArray> arrays,
                                  cuda::Pinned pinned = cuda::Pinned::refused) noexcept;

}  // namespace folio::inline v1
