// SPDX-License-Identifier: Apache-2.0
/// bench/gpu_step.h: one step of one layer on a CUDA device, with all its memory there.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/plan.h"
#include "support/cuda_device.h"

namespace folio::bench {

/// Every sequence has the same lengths; pages are permuted. v_head_size other than head_size: V is
/// in K's row.
struct GpuStepShape {
  int32_t sequences = 8;
  int32_t context = 1024;
  int32_t new_tokens = 1;
  int32_t q_heads = 32;
  int32_t kv_heads = 8;
  int32_t head_size = 128;
  int32_t v_head_size = 128;
  int32_t page_size = 16;
  DType dtype = DType::bf16;  ///< of K and V; q and out are bf16
};

/// step: plan and attend.
enum class GpuStepPart : uint8_t { plan, attend, step, append };

/// What no kernel does, in folio's words.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Every function throws Unsupported, or std::runtime_error with folio's or the driver's words.
class GpuStep {
 public:
  GpuStep(const test::CudaDevice& device, const GpuStepShape& shape);

  /// Attention needs a plan: parts without one stand on an earlier one's.
  void put(GpuStepPart part, Stream stream);
  /// Throws unless o is finite and not all zero: a figure of wrong work is none.
  void check_output(GpuStepPart part) const;
  /// What the step must move: K and V read, or read and written by append; 0 of a plan.
  [[nodiscard]] int64_t bytes(GpuStepPart part = GpuStepPart::step) const;
  /// Products and sums of the scores and the output, of visible keys.
  [[nodiscard]] double flops() const;
  [[nodiscard]] std::string kernel() const { return std::string(attention_.kernel()); }

 private:
  [[nodiscard]] PagedKVView plane(void* data, DType dtype, int32_t head_size) const;
  void make_table();
  void make_attention();
  void make_append();

  const test::CudaDevice& device_;
  GpuStepShape shape_;
  int64_t num_pages_;
  test::CudaMemory keys_, values_, table_, offsets_, contexts_, q_, out_, plan_memory_, workspace_,
      rows_;
  Batch batch_;
  Attention attention_;
  AttentionPlan plan_;
  AttentionArgs args_;
  AppendArgs append_args_;
};

}  // namespace folio::bench
