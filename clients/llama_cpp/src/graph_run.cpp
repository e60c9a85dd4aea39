// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/graph_run.cpp: nodes are replaced, and put back.
#include "graph_run.h"

#include <cstring>
#include <string>

#include "ggml-impl.h"
#include "ggml_functions.h"
#include "settings.h"
#include "trace.h"

namespace ggml_folio {
namespace {

void run_node(ggml_tensor*, int thread, int threads, void* node) {
  static_cast<AttentionNode*>(node)->run(thread, threads);
}

}  // namespace

void GraphRun::begin(ggml_cgraph* graph, int threads) {
  shared_.masks.next_graph();
  replaced_.clear();
  count(&Counters::graphs);
  const int size = ggml().graph_n_nodes(graph);
  for (int i = 0; i < size; ++i) {
    ggml_tensor* tensor = ggml().graph_node(graph, i);
    if (tensor->op != GGML_OP_FLASH_ATTN_EXT) continue;
    if (refusals_.refuse(tensor) == nullptr)
      replace(tensor, threads);
    else
      count(&Counters::refused);
  }
}

void GraphRun::replace(ggml_tensor* tensor, int threads) {
  if (nodes_.size() == replaced_.size()) nodes_.push_back(std::make_unique<AttentionNode>());
  AttentionNode& node = *nodes_[replaced_.size()];
  node.become(tensor, shared_);
  if (threads > 0 && node.is_mask_known()) {
    if (const folio::Status status = node.plan(threads); !status.is_ok()) {
      say("left to the CPU backend: " + std::string(status.message()));
      count(&Counters::refused);
      return;
    }
  }
  Replaced was = {.tensor = tensor, .op = tensor->op};
  std::memcpy(was.op_params, tensor->op_params, sizeof(was.op_params));
  replaced_.push_back(was);
  const ggml_custom_op_params custom = {run_node, GGML_N_TASKS_MAX, &node};
  std::memcpy(tensor->op_params, &custom, sizeof(custom));
  tensor->op = ggml().custom;
  count(&Counters::nodes);
}

bool GraphRun::end() {
  bool is_ok = true;
  for (size_t i = 0; i < replaced_.size(); ++i) {
    const Replaced& was = replaced_[i];
    was.tensor->op = was.op;
    std::memcpy(was.tensor->op_params, was.op_params, sizeof(was.op_params));
    const folio::Status& status = nodes_[i]->status();
    if (status.is_ok()) continue;
    is_ok = false;
    say("failed: " + std::string(status.message()));
  }
  return is_ok;
}

}  // namespace ggml_folio
