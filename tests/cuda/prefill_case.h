// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_case.h: the prefill kernel on an AttentionCase, in the emulator, with a work
/// list made by hand.
///
/// What the kernel may read of global memory is given piece by piece: of the table, the entries of
/// pages with a visible key alone. Outputs start as poison, partials as unwritten memory. Returns
/// the emulator's fault, or what else was wrong, or an empty string.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/check.h"
#include "cuda/prefill/kernels.h"
#include "cuda/prefill/prefill.h"
#include "folio/testing/cta/grid.h"
#include "reference/visibility.h"
#include "support/attention_case.h"

namespace folio::test {

struct PrefillRun {
  int32_t blocks = 3;
  int32_t resident = 2;
  uint64_t seed = 1;
  /// tasks that share a row's spans, at the most; 1: none do
  int32_t tasks_of_row = 1;
  int32_t rows = 0;  ///< of a task at the most; 0: as the instance has them
  uint32_t arrivals = cuda::arrivals_ready;
  bool keeps_output = false;  ///< not poisoned first
};

struct PrefillResult {
  std::string fault;
  emulator::GridCounts counts;
};

using EmulatedBody = std::function<void(emulator::EmulatedThread&, const cuda::AttendCall&)>;
struct EmulatedInstance {
  int threads = 0;
  int shared_bytes = 0;
  EmulatedBody run;
};

/// By the name in src/cuda/kernels.txt; without threads: none.
EmulatedInstance emulated_instance(std::string_view name);

/// A step's plan and workspace for one batch, made as the plan kernel would.
class PrefillWork {
 public:
  PrefillWork(const AttentionProblem& resolved, const Batch& batch, const PrefillRun& how);

  [[nodiscard]] cuda::AttendCall call(const AttentionProblem& resolved, const AttentionArgs& args);
  void give(emulator::Grid& grid);
  [[nodiscard]] const std::vector<cuda::DeviceTask>& tasks() const { return tasks_; }
  [[nodiscard]] bool is_ready_again() const {
    return std::all_of(arrivals_.begin(), arrivals_.end(),
                       [](uint32_t n) { return n == cuda::arrivals_ready; });
  }

 private:
  void add_rows(int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end, int32_t spans,
                int32_t tasks);

  cuda::DevicePlan plan_;
  cuda::DeviceGeometry geometry_;
  std::vector<int32_t> block_tasks_;
  std::vector<cuda::DeviceTask> tasks_;
  std::vector<cuda::DeviceSplit> splits_;
  std::vector<uint32_t> arrivals_;
  std::vector<cuda::MaxSum> partial_rows_;
  std::vector<float> partials_;
};

/// Runs a call whose plan and workspace `give` gives to the grid.
PrefillResult run_call(AttentionCase& c, const Batch& batch, const cuda::AttendCall& call,
                       const PrefillRun& how, const std::function<void(emulator::Grid&)>& give);

/// Runs `batch` with `args`, which lie in the memory of `c`.
PrefillResult run_prefill(AttentionCase& c, const Batch& batch, const AttentionArgs& args,
                          const PrefillRun& how = {});
PrefillResult run_prefill(AttentionCase& c, const PrefillRun& how = {});

}  // namespace folio::test
