// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_check.cu: what a GPU makes of single instructions and copies, recorded line by
/// line and compared with the emulator. See tools/gpu_check.sh.
///
/// usage: gpu_check machine|maps|primitives|tiles|roofs RESULT.jsonl     appends to the file
/// Exit status: 0 all equal, 1 something differs or fails, 77 no GPU that has what is asked for.
#include <cuda_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "cuda/gpu_device.cuh"
#include "cuda/gpu_machine.cuh"
#include "cuda/gpu_primitives.cuh"
#include "cuda/gpu_records.h"
#include "cuda/gpu_roofs.cuh"
#include "cuda/gpu_supervise.h"
#include "cuda/gpu_tiles.cuh"

namespace folio::test {
namespace {

constexpr int no_gpu = 77;
constexpr int seconds_of_a_case = 15, most_lost_cases = 6;

int run_stage(const std::string& stage, GpuRecords& records, Cases& cases) {
  const GpuHead gpu = first_gpu();
  if (gpu.gpu.empty()) {
    std::puts("gpu_check: no GPU on this machine");
    return no_gpu;
  }
  if ((stage == "maps" || stage == "tiles") && gpu.major < 9) {
    std::puts("gpu_check: the GPU of this machine has no tensor maps");
    return no_gpu;
  }
  records.head(gpu, stage);
  try {
    if (stage == "machine") {
      record_machine(records, cases);
    } else if (stage == "primitives") {
      record_primitives(records, cases, gpu.major);
    } else if (stage == "roofs") {
      record_roofs(records, cases);
    } else {
      TileRun run{records, cases, gpu.major >= 10, stage == "maps"};
      run_tiles(run);
    }
  } catch (const std::runtime_error& error) {
    records.fail(cases.name(), error.what());
    return spoiled;
  }
  std::printf("%s: %d recorded, %d equal, %d differ or fail, %d skipped\n", gpu.gpu.c_str(),
              records.recorded, records.equal, records.failed, records.skipped);
  return records.failed == 0 ? 0 : 1;
}

int main_of(const std::string& stage, const char* path) {
  GpuRecords records(path);
  if (!records.is_open()) return 2;
  return supervise(
      seconds_of_a_case, most_lost_cases,
      [&](Cases& cases) { return run_stage(stage, records, cases); },
      [&](const std::string& name, const std::string& reason) { records.fail(name, reason); });
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  const std::string stage = argc == 3 ? argv[1] : "";
  if (stage != "machine" && stage != "maps" && stage != "primitives" && stage != "tiles" &&
      stage != "roofs") {
    std::fputs("usage: gpu_check machine|maps|primitives|tiles|roofs RESULT.jsonl\n", stderr);
    return 2;
  }
  return folio::test::main_of(stage, argv[2]);
}
