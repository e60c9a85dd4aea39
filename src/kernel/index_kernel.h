// SPDX-License-Identifier: Apache-2.0
/// src/kernel/index_kernel.h: what a kernel of an indexer is to the rest of folio: a name, what it
/// needs of the machine, and plain functions.
///
/// ISA-safe: no functions with bodies.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernel/capability.h"

namespace folio::inline v1 {

namespace indexer {
struct Top;
}

/// Scores of the keys [first, first + count) of one query to `top`; `spare`: as top.h says.
using CollectScores = void(const float* scores, int32_t first, int64_t count, indexer::Top& top,
                           uint64_t* spare) noexcept;

struct IndexKernel {
  std::string_view name;    ///< a literal: null-terminated
  Capabilities needs = {};  ///< what the machine must offer
  CollectScores* collect = nullptr;
};

}  // namespace folio::inline v1
