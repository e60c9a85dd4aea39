// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/graph_run.h: a graph with folio's attention in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention_node.h"
#include "layers.h"
#include "refusal.h"

namespace ggml_folio {

/// Runs graphs of one context. For the time of a run the attention nodes that folio serves are
/// nodes of ggml's own kind for functions of others (GGML_OP_CUSTOM), so that ggml's threads run
/// them where they run everything else: no thread of folio's, no further barrier. What folio
/// refuses stays as it is. One thread at a time.
class GraphRun {
 public:
  /// `run(graph) -> ggml_status` runs a graph on `threads` threads, 0: unknown.
  template <class Run>
  ggml_status compute(ggml_cgraph* graph, int threads, Run&& run) {
    begin(graph, threads);
    const Timer timer(&Counters::graph_ns);
    const ggml_status status = run(graph);
    return end() ? status : GGML_STATUS_FAILED;
  }

 private:
  /// What a node was.
  struct Replaced {
    ggml_tensor* tensor = nullptr;
    ggml_op op = GGML_OP_NONE;
    int32_t op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)] = {};
  };

  void begin(ggml_cgraph* graph, int threads);
  /// Puts folio in the node's place. Why not, or an empty text.
  [[nodiscard]] std::string take(ggml_tensor* tensor, int threads);
  [[nodiscard]] bool end();

  Refusals refusals_;
  Layers layers_;
  Shared shared_;
  std::vector<std::unique_ptr<AttentionNode>> nodes_;  ///< kept; the first replaced_.size() run
  std::vector<Replaced> replaced_;
};

}  // namespace ggml_folio
