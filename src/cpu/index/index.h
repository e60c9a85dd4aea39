// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/index.h: the plain functions that each build of the portable index kernel exports.
#pragma once

#include "kernel/index_kernel.h"

namespace folio::inline v1 {

namespace baseline {
CollectScores collect_scores;
}  // namespace baseline

namespace x86_64_v3 {
CollectScores collect_scores;
}  // namespace x86_64_v3

namespace x86_64_v4 {
CollectScores collect_scores;
}  // namespace x86_64_v4

}  // namespace folio::inline v1
