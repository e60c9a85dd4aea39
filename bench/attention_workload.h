// SPDX-License-Identifier: Apache-2.0
/// bench/attention_workload.h: one attention call over a pool of scattered pages, made for timing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/cache/planes.h"
#include "roofs.h"

namespace folio::bench {

struct WorkloadShape {
  int32_t sequences = 1;
  int32_t new_tokens = 1;
  int32_t context = 1024;
  int32_t q_heads = 4;
  int32_t kv_heads = 1;
  int32_t head_size = 128;
  int32_t page_size = 64;
  StorageOrder order = StorageOrder::token_major;
  DType dtype = DType::bf16;
  Mask mask = Mask::full();
};

/// Pages of all sequences in random order, random values in [-1, 1), one Attention and one plan.
class Workload {
 public:
  Workload(const WorkloadShape& shape, const std::string& kernel, int threads);

  /// One attend. Throws folio::Error on failure.
  void run();
  /// Compares sampled outputs with the reference; empty if they agree, else what differs.
  [[nodiscard]] std::string check() const;

  [[nodiscard]] double bytes() const;  ///< K and V read once
  [[nodiscard]] double flops() const;  ///< 4 * head size per visible (query, key) and head
  [[nodiscard]] const HugeMemory& memory() const { return memory_; }
  [[nodiscard]] int64_t page_bytes() const { return page_bytes_; }
  [[nodiscard]] const std::vector<uint32_t>& pages() const { return pages_; }

 private:
  [[nodiscard]] AttentionProblem problem() const;
  [[nodiscard]] AttentionArgs args() const;
  void fill();

  WorkloadShape shape_;
  int threads_;
  int32_t pages_per_sequence_;
  int64_t page_bytes_;
  HugeMemory memory_;
  std::vector<uint32_t> pages_;
  KVPlanes planes_;
  std::vector<int32_t> offsets_, contexts_;
  Batch batch_;
  mutable std::vector<float> q_, out_;
  Attention attention_;
  HugeMemory plan_memory_, workspace_;
  AttentionPlan plan_;
};

}  // namespace folio::bench
