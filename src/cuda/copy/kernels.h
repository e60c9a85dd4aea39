// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/kernels.h: how copies between planes are cut into launches. Plain C++, no CUDA
/// header.
#pragma once

#include <cstdint>

#include "cuda/copy/copy_call.h"
#include "folio/cache/copy.h"

namespace folio::cuda {

/// A list of copies, in device memory.
struct CopyListView {
  const void* copies = nullptr;
  int64_t size = 0;
  bool of_pages = false;  ///< PageCopy; else SlotCopy
  int64_t from_limit = 0;
  int64_t to_limit = 0;
};

/// One launch: as many pairs of planes as fit.
class CopyLaunch {
 public:
  explicit CopyLaunch(const CopyListView& list) noexcept;

  /// False, and nothing is added, where the launch is full. `moves`, `scales_move`: as far as is
  /// known without reading tensor scales.
  [[nodiscard]] bool add(const PagedKVView& from, const PagedKVView& to, bool moves,
                         bool scales_move) noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return call_.num_planes == 0; }
  [[nodiscard]] const CopyCall& call() const noexcept { return call_; }
  /// An instance of src/cuda/kernels.txt.
  [[nodiscard]] const char* kernel() const noexcept {
    return of_pages_ ? "copy_pages" : "copy_slots";
  }
  [[nodiscard]] int64_t blocks(int32_t processors) const noexcept;

 private:
  CopyCall call_ = {};
  bool of_pages_ = false;
};

}  // namespace folio::cuda
