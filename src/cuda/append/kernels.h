// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/kernels.h: which instances serve a call of append or rotate, and how its work is
/// cut. Plain C++, no CUDA header. Pure functions.
#pragma once

#include <cstdint>

#include "cuda/append/append_call.h"

namespace folio::cuda {

/// An instance of src/cuda/kernels.txt, and the planes of the call that it writes.
struct AppendLaunch {
  const char* kernel = nullptr;
  AppendCall call = {};
  int64_t blocks = 0;
};

/// One launch, or one for each plane where their rows need different kernels.
struct AppendLaunches {
  AppendLaunch launch[2] = {};
  int count = 0;
};

/// For a device with so many multiprocessors. `call` without parts, of at least one token. Total:
/// there is an instance for whatever the border lets through.
[[nodiscard]] AppendLaunches append_launches(const AppendCall& call, int32_t processors) noexcept;

}  // namespace folio::cuda
