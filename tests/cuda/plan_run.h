// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/plan_run.h: the plan kernel, run in the emulator over a batch on the host.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "cuda/plan/plan_kernel.h"
#include "cuda/plan/plan_layout.h"
#include "folio/testing/cta/grid.h"

namespace folio::test {

/// Memory of exactly so many bytes at a multiple of 64, all ones: NaN, and lengths nobody meant.
class PoisonedMemory {
 public:
  explicit PoisonedMemory(int64_t bytes)
      : bytes_(bytes), words_(static_cast<size_t>(bytes / 64 + 1)) {
    std::memset(data(), 0xff, words_.size() * 64);
  }
  [[nodiscard]] void* data() { return words_.data(); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  int64_t bytes_;
  std::vector<Line> words_;
};

inline int64_t rows_given(const Batch& batch) {
  return batch.size == 0 ? 0 : batch.query_offsets[batch.size];
}

/// Gives the grid what a batch points to, tables apart.
inline void add_batch(emulator::Grid& grid, const Batch& batch, int64_t tokens) {
  const auto add = [&grid](const char* label, const auto* data, int64_t count) {
    if (data != nullptr && count > 0)
      grid.add_input(label, data, count * static_cast<int64_t>(sizeof *data));
  };
  add("query offsets", batch.query_offsets, batch.size + 1);
  add("context lengths", batch.context_lengths, batch.size);
  add("query positions", batch.query_positions, batch.size);
  add("key positions", batch.key_positions, batch.size);
  add("visible begin", batch.visible_begin, tokens);
  add("visible end", batch.visible_end, tokens);
  add("tree", batch.tree, tokens * batch.tree_words);
}

/// A plan made by a kernel of `Threads` threads that searches `Kept` numbers in shared memory.
template <int Threads, int Kept = 64>
struct PlanRun {
  cuda::DevicePlanLayout layout;
  PoisonedMemory memory;
  std::string fault;

  PlanRun(const AttentionProblem& problem, const AttentionLimits& limits, const Batch& batch,
          const cuda::DevicePlanLayout& given, uint64_t seed = 1)
      : layout(given), memory(given.plan_bytes) {
    using Kernel = cuda::PlanKernel<Threads, Kept, Kept>;
    emulator::Grid grid({.blocks = 1,
                         .resident = 1,
                         .threads = Threads,
                         .shared_bytes = Kernel::shared_bytes,
                         .seed = seed});
    add_batch(grid, batch, limits.tokens);
    grid.add_buffer("plan", memory.data(), memory.bytes());
    cuda::PlanCall call;
    call.problem = problem;
    call.limits = limits;
    call.batch = batch;
    call.layout = layout;
    call.plan = memory.data();
    fault = grid.run([&](emulator::EmulatedThread& t) { Kernel::run(t, call); });
  }
  [[nodiscard]] const cuda::DevicePlan& plan() { return *layout.plan(memory.data()); }
  [[nodiscard]] cuda::TaskList tasks(int list) { return layout.tasks(memory.data(), list); }
  [[nodiscard]] const cuda::DeviceSplit* splits() { return layout.splits(memory.data()); }
};

}  // namespace folio::test
