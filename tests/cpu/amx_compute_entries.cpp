// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_entries.cpp: which piece of the AMX compute of grouped heads has the
/// depths asked for.
#include "cpu/amx_compute_entries.h"

namespace folio::test {

void attend_jobs(Vocabulary vocabulary, Depths depths, int rows, const amx::TileJob* jobs,
                 int count, float scale_log2) {
  const auto attend = depths.depth <= 128 ? attend_narrow : attend_wide;
  attend(vocabulary, depths, rows, jobs, count, scale_log2);
}

}  // namespace folio::test
