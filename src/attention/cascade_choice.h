// SPDX-License-Identifier: Apache-2.0
/// src/attention/cascade_choice.h: which shared ranges are computed by tasks of their own.
#pragma once

#include <cstdint>
#include <span>

#include "attention/sharing.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "kernel/task.h"

namespace folio::inline v1 {

/// A chosen range. Its keys begin where those of its parent end: what a range that was not chosen
/// lies between belongs to those behind it.
struct CascadeNode {
  int32_t key_begin = 0;
  int32_t key_end = 0;
  int32_t parent = -1;       // stands before it
  int32_t first_member = 0;  // of SharingMemory::order
  int32_t members = 0;
  int32_t first_state = 0;  // of each row, in its split
  int32_t end_state = 0;
};

struct ChoiceMemory {
  CascadeNode* nodes = nullptr;  // [batch]
  int64_t* gains = nullptr;      // [batch * (levels + 1)]
  int32_t* places = nullptr;     // [batch]
  int32_t* left = nullptr;       // [batch]
};

[[nodiscard]] ChoiceMemory take_choice_memory(Carver& carver, int64_t batch,
                                              int64_t levels) noexcept;

/// Of any nest of ranges at most `levels`, those that save most; each saves something. A range
/// costs its keys once for the rows of all members, instead of once for each member's, and for each
/// row a state, and one more for the keys behind it where no range was chosen before. In row-keys,
/// as Task::cost: lengths alone, no machine's numbers.
[[nodiscard]] std::span<CascadeNode> choose_ranges(std::span<const SharedRange> ranges,
                                                   const int32_t* order, const Batch& batch,
                                                   int32_t group, const KernelGeometry& geometry,
                                                   int32_t levels,
                                                   const ChoiceMemory& memory) noexcept;

}  // namespace folio::inline v1
