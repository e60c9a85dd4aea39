// SPDX-License-Identifier: Apache-2.0
/// bench/attention_workload.h: one attention call over a pool of scattered pages, made for timing.
///
/// A cold workload owns several batches on pages of their own, at least four times the caches in
/// all, and runs them in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/cache/planes.h"
#include "roofs.h"

namespace folio::bench {

/// What one scale of a cache of 8 bits stands for.
enum class ScaleForm : uint8_t {
  token_and_head,
  behind_row,  ///< the same in the row itself, behind its elements
  head,
  tensor,
  granule_of_32
};

struct WorkloadShape {
  int32_t sequences = 1;
  int32_t new_tokens = 1;
  int32_t context = 1024;
  int32_t first_context = 0;  ///< of the first sequence, if not 0
  int32_t shared = 0;  ///< keys that all sequences begin with, in the same pages: whole pages
  int32_t q_heads = 4;
  int32_t kv_heads = 1;
  int32_t head_size = 128;
  int32_t v_head_size = 0;    ///< 0: head_size
  bool value_in_key = false;  ///< latent rows: V is the first v_head_size columns of K's row
  int32_t selected = 0;       ///< keys of each query's list, drawn from its sequence; 0: no lists
  int32_t page_size = 64;
  StorageOrder order = StorageOrder::token_major;
  bool is_paired = false;  ///< each head's K and V of a token side by side: [.., heads, 2, D]
  DType dtype =
      /// of K and V; 8-bit ones have f32 scales, f4_e2m1 an f8_e4m3 scale for 16 elements, others
      /// of four bits an f16 scale for 32. q and out: f32 with f32, else bf16
      DType::bf16;
  Hadamard hadamard = {};  ///< of K and V
  ScaleForm scales = ScaleForm::token_and_head;
  Mask mask = Mask::full();
  bool bf16_operands = false;  ///< AttentionProblem's
  bool int8_operands = false;  ///< AttentionProblem's
  bool cold = false;
};

/// Pages of all sequences in random order, random values, one Attention, one plan per batch.
class Workload {
 public:
  /// `kernel` empty: what Attention::create selects. Throws folio::Error where the kernel refuses.
  Workload(const WorkloadShape& shape, const std::string& kernel, int threads);

  /// One attend of the next batch. Throws folio::Error on failure.
  void run();
  /// Compares sampled outputs of the last run with the reference; empty if they agree, else what
  /// differs.
  [[nodiscard]] std::string check() const;

  /// K, V and scales of one batch, each page of it read once
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double flops() const;  ///< 2 * (head size + V's) per visible (query, key) and head
  [[nodiscard]] std::string kernel() const;  ///< which the plans are for
  /// What all batches read, in the order of sequences: whole K and V of a page.
  [[nodiscard]] ReadRuns runs() const;
  /// Wall time of the last run's workers, and the sum of their own times: equal work makes one the
  /// other divided by their number.
  [[nodiscard]] double makespan() const { return watch_->wall; }
  [[nodiscard]] double busy() const;

 private:
  /// An executor that times each worker of another.
  struct Watch {
    Executor inner;
    void (*task)(void* arg, int64_t i) noexcept = nullptr;
    void* arg = nullptr;
    double wall = 0.0;
    std::vector<double> seconds;
  };
  struct Step {
    Batch batch;
    AttentionPlan plan;
    std::unique_ptr<HugeMemory> memory;
  };

  void make_planes();
  void pair_planes();
  void share_scales();
  void put_scales_behind_rows(int64_t pages);
  void make_steps();
  void make_lists();
  [[nodiscard]] int32_t context_of(int32_t sequence) const;
  /// Pages that row `row` of all batches has of the first row of its batch.
  [[nodiscard]] int64_t shared_pages(int64_t row) const;
  [[nodiscard]] int64_t pages_of_batch() const;  ///< distinct ones
  [[nodiscard]] int64_t page_bytes_of_both() const;
  [[nodiscard]] ReadRuns listed_runs() const;
  [[nodiscard]] AttentionProblem problem() const;
  [[nodiscard]] AttentionArgs inputs() const;  ///< without `out`
  [[nodiscard]] Executor executor() const;

  WorkloadShape shape_;
  int32_t v_head_size_;
  DType activation_;
  int threads_;
  int64_t batches_;
  int64_t page_bytes_ = 0;  // of values and scales, K and V
  KVPlanes planes_;
  std::unique_ptr<HugeMemory> scales_, rows_;
  std::vector<uint32_t> pages_;  // [batches * sequences, table_stride_]
  int64_t table_stride_ = 0;
  std::vector<int32_t> offsets_, contexts_;
  std::vector<int32_t> lists_;  // of all batches, selected keys each
  std::vector<std::byte> q_, out_;
  Attention attention_;
  std::optional<HugeMemory> workspace_;
  std::vector<Step> steps_;
  size_t next_ = 0;
  std::unique_ptr<Watch> watch_;
};

}  // namespace folio::bench
