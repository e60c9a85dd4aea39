// SPDX-License-Identifier: Apache-2.0
/// cli/layer_runner.h: the model's side of a replay: cache memory, and append and attend for each
/// layer of a step.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/plan.h"
#include "folio/core/buffer.h"
#include "folio/core/status.h"
#include "model.h"
#include "scheduler.h"

namespace folio::cli {

class Verifier;

struct LayerRunnerOptions {
  ModelShape model = {};
  KVShape shape = {};
  int64_t pages = 0;
  AttentionLimits limits = {};
  bool poison = false;  ///< the cache starts as NaN instead of what its memory holds
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
  [[nodiscard]] double engine_seconds() const {
    return plan_seconds + copy_seconds + append_seconds + attend_seconds;
  }
};

class LayerRunner {
 public:
  /// Chooses the kernel. Takes no memory of size yet.
  /// Errors: those of make_planes and Attention::create
  static Result<LayerRunner> create(const LayerRunnerOptions& options, const Executor& executor);

  /// What `allocate` will take: the cache, activations, plan and workspace.
  [[nodiscard]] double required_bytes() const;
  /// Errors: out_of_memory
  Status allocate();

  /// Runs all layers of a step: invents q, k and v, appends, attends, shows the outputs to the
  /// verifier (may be null).
  Status run(const Step& step, PageTable table, std::span<const PageCopy> copies,
             Verifier* verifier);

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
  Buffer blocks_, scales_;
  Buffer q_, k_, v_, out_;  // [step tokens, heads, head size] f32
  Buffer plan_, workspace_;
  LayerTotals totals_;
};

}  // namespace folio::cli
