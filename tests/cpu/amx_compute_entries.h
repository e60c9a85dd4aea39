// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_entries.h: the AMX compute of grouped heads, compiled for AVX512-BF16, for
/// a test that is not.
#pragma once

#include "cpu/amx/grouped/staged_tile.h"

namespace folio::test {

enum class Vocabulary { emulated, hardware };

/// Padded sizes that are compiled.
struct Depths {
  int depth;
  int v_depth;
};
inline constexpr Depths compute_depths[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {256, 256}};

/// Jobs [0, count) of `rows` = 16 or 32 rows, in one scope of tiles.
void attend_jobs(Vocabulary vocabulary, Depths depths, int rows, const amx::TileJob* jobs,
                 int count, float scale_log2);

/// Its pieces: depths of up to 128, and those above.
using AttendJobs = decltype(attend_jobs);
AttendJobs attend_narrow;
AttendJobs attend_wide;

}  // namespace folio::test
