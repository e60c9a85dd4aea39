// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/graph_run.cpp: nodes are replaced, and put back.
#include "graph_run.h"

#include <cstring>
#include <string>
#include <string_view>

#include "ggml_functions.h"
#include "settings.h"
#include "trace.h"

namespace ggml_folio {
namespace {

void run_node(ggml_tensor*, int thread, int threads, void* node) {
  static_cast<AttentionNode*>(node)->run(thread, threads);
}

/// The softmax that llama.cpp makes a node of where a layer has no flash attention.
bool is_plain_attention(const ggml_tensor* tensor) {
  return std::string_view(ggml().get_name(tensor)).starts_with("kq_soft_max");
}

}  // namespace

void GraphRun::begin(ggml_cgraph* graph, int threads) {
  shared_.masks.next_graph();
  replaced_.clear();
  count(&Counters::graphs);
  const int size = ggml().graph_n_nodes(graph);
  int layer = 0;  // where names do not tell
  for (int i = 0; i < size; ++i) {
    ggml_tensor* tensor = ggml().graph_node(graph, i);
    if (tensor->op == operations().attention) {
      const std::string refusal = take(tensor, threads);
      if (!refusal.empty()) count(&Counters::refused);
      const char* const keys = tensor->src[1] != nullptr ? ggml().get_name(tensor->src[1]) : "";
      layers_.see(layer_in(keys, layer++), refusal);
    } else if (layers_.is_first() && is_plain_attention(tensor)) {
      layers_.see(layer_in(ggml().get_name(tensor), layer++), "flash attention is off");
    }
  }
  const std::string line = layers_.end_graph(threads);
  if (!line.empty() && has_begun()) log(line);
}

std::string GraphRun::take(ggml_tensor* tensor, int threads) {
  if (const char* refusal = refusals_.refuse(tensor)) return refusal;
  if (nodes_.size() == replaced_.size()) nodes_.push_back(std::make_unique<AttentionNode>());
  AttentionNode& node = *nodes_[replaced_.size()];
  node.become(tensor, shared_);
  if (threads > 0 && node.is_mask_known()) {
    if (const folio::Status status = node.plan(threads); !status.is_ok()) {
      say("left to the CPU backend: " + std::string(status.message()));
      return std::string(status.message());
    }
  }
  Replaced was = {.tensor = tensor, .op = tensor->op};
  std::memcpy(was.op_params, tensor->op_params, sizeof(was.op_params));
  replaced_.push_back(was);
  const ggml_custom_op_params custom = {run_node, GGML_N_TASKS_MAX, &node};
  std::memcpy(tensor->op_params, &custom, sizeof(custom));
  tensor->op = operations().custom;
  count(&Counters::nodes);
  return {};
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
