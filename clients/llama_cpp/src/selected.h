// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/selected.h: the Attentions of a context, one for each kind of node and
/// power of two of its sizes, and the plans of a graph.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "folio/attention/mask_matrix.h"
#include "folio/attention/plan.h"
#include "memory.h"

namespace ggml_folio {

/// An Attention and the plans it has made: one for each mask of the present graph.
class Selected {
 public:
  explicit Selected(const folio::Attention& attention) : attention_(attention) {}

  [[nodiscard]] const folio::Attention& attention() const { return attention_; }
  /// The plan of a batch: that of the present graph, or a new one. Valid until the next graph.
  [[nodiscard]] folio::Result<folio::AttentionPlan> plan_of(const folio::MaskedBatch* masked,
                                                            uint64_t graph);

 private:
  struct Plan {
    const folio::MaskedBatch* masked = nullptr;
    uint64_t graph = 0;
    Memory memory;
    folio::AttentionPlan plan;
  };
  folio::Attention attention_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

/// The Attentions that a context has needed. One thread at a time.
class Selections {
 public:
  /// For this problem and batch, run by this many threads. The Attention's limits are the next
  /// powers of two, so that a growing context selects rarely. The pointer stays valid.
  /// Errors: as Attention::create.
  [[nodiscard]] folio::Result<Selected*> find(const folio::AttentionProblem& problem,
                                              const folio::MaskedBatch& masked, int threads);
  [[nodiscard]] int64_t created() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry {
    folio::AttentionProblem problem;
    folio::AttentionLimits limits;
    std::unique_ptr<Selected> selected;
  };
  std::vector<Entry> entries_;
};

}  // namespace ggml_folio
