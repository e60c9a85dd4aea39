// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/copy_call.h: a call of copy_pages or copy_slots as its kernels get it, by value:
/// as many planes as one argument holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/cache/paged_kv_view.h"

namespace folio::cuda {

/// What pairs of planes have in common: everything but addresses. The layers of a model mostly have
/// one form.
struct CopyForm {
  PagedKVView from = {};  ///< addresses null
  PagedKVView to = {};
  bool moves = false;        ///< bytes are moved, where the tensor scales agree; else values
  bool scales_move = false;  ///< along with the bytes
  bool operator==(const CopyForm&) const = default;
};

/// A pair of planes.
struct CopyPlane {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  const std::byte* from_scales = nullptr;
  std::byte* to_scales = nullptr;
  const float* from_tensor_scale = nullptr;
  const float* to_tensor_scale = nullptr;
  int32_t form = 0;
  int32_t width = 1;  ///< bytes moved at a time: 16, 4, 2 or 1
};

/// All pointers are of the device, or of host memory that it reaches. Entries of the list with a
/// page or slot out of range, or with a number of tokens that a page has not, do nothing.
struct CopyCall {
  static constexpr int32_t forms_max = 4;
  static constexpr int32_t planes_max = 46;

  const void* copies = nullptr;  ///< [num_copies] PageCopy or SlotCopy
  int64_t num_copies = 0;
  int64_t from_limit = 0;  ///< pages or slots that every plane has
  int64_t to_limit = 0;
  int64_t parts = 0;  ///< warps' work of a plane
  int32_t num_planes = 0;
  int32_t num_forms = 0;
  CopyForm forms[forms_max] = {};
  CopyPlane planes[planes_max] = {};
};
static_assert(sizeof(CopyCall) <= 4096, "a kernel's argument");

}  // namespace folio::cuda
