// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/mutant.h: the deliberate faults that the tests build into index kernels, as
/// cpu/skeleton/mutant.h has those of attention.
#pragma once

#include <cstdint>

namespace folio::inline v1 {

enum class IndexMutant : uint8_t {
  none,
  relu_ignored,         ///< products below 0 count
  weight_of_next_head,  ///< weights taken from the head beside
  mask_of_first_query,  ///< what a task's first query sees taken for all
  dead_keys_kept,       ///< keys of unassigned pages listed with what stands in the stage
  tile_end_left_out,    ///< the last key of each tile never listed
};

}  // namespace folio::inline v1
