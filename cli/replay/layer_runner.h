// SPDX-License-Identifier: Apache-2.0
/// cli/replay/layer_runner.h: append and attend for the layers of one group in a step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/mask.h"
#include "folio/attention/plan.h"
#include "folio/core/buffer.h"
#include "folio/core/status.h"
#include "load/model.h"
#include "replay/scheduler.h"

namespace folio::cli {

class Verifier;

/// The layers of one group of the pool.
struct LayerRunnerOptions {
  ModelShape model = {};
  KVShape shape = {};
  int64_t pages = 0;
  AttentionLimits limits = {};
  Mask mask = Mask::causal();
  uint32_t group = 0;
  int32_t first_layer = 0;  ///< of the model
};

/// Seconds and amounts of all steps so far.
struct LayerTotals {
  double generate_seconds = 0.0;  ///< inventing queries, keys and values
  double plan_seconds = 0.0;
  double copy_seconds = 0.0;
  double append_seconds = 0.0;
  double attend_seconds = 0.0;
  /// keys, values and scales in the contexts, once per step and layer
  double attended_bytes = 0.0;
  double attended_flops = 0.0;  ///< 2 per multiply and add of scores and outputs, visible keys only
  void add(const LayerTotals& more);
  [[nodiscard]] double engine_seconds() const {
    return plan_seconds + copy_seconds + append_seconds + attend_seconds;
  }
};

class LayerRunner {
 public:
  /// Chooses the kernel. Takes no memory of size yet.
  /// Errors: those of make_planes and Attention::create
  static Result<LayerRunner> create(const LayerRunnerOptions& options, const Executor& executor);

  /// Of the cache: what `allocate` is given.
  [[nodiscard]] int64_t block_bytes() const;
  [[nodiscard]] int64_t scale_bytes() const;
  /// What `allocate` will take: activations, plan and workspace.
  [[nodiscard]] double required_bytes() const;
  /// `blocks` and `scales` outlive the runner. Errors: out_of_memory
  Status allocate(MemorySpan blocks, MemorySpan scales);

  /// Runs all layers of a step: invents q, k and v, appends, attends, shows the outputs to the
  /// verifier (may be null).
  Status run(const Step& step, const Batch& batch, std::span<const PageCopy> copies,
             Verifier* verifier);

  [[nodiscard]] const LayerRunnerOptions& options() const { return options_; }
  [[nodiscard]] const LayerTotals& totals() const { return totals_; }
  [[nodiscard]] const Attention& attention() const { return attention_; }

 private:
  LayerRunner(const LayerRunnerOptions& options, const Executor& executor,
              const Attention& attention)
      : options_(options), executor_(executor), attention_(attention) {}
  void invent(const Step& step, int32_t layer);
  Status append_layer(const Step& step, const Batch& batch, int32_t layer);
  Status attend_layer(const AttentionPlan& plan, int64_t tokens, int32_t layer);
  void count(const Step& step);

  LayerRunnerOptions options_;
  Executor executor_;
  Attention attention_;
  std::vector<KVPlanes> planes_;
  Buffer q_, k_, v_, out_;  // [step tokens, heads, head size] f32
  Buffer plan_, workspace_;
  LayerTotals totals_;
};

}  // namespace folio::cli
