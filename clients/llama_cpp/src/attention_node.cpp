// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/attention_node.cpp: masks, kernels, plans and memory of one node.
#include "attention_node.h"

#include "trace.h"

namespace ggml_folio {
namespace {

using namespace folio;

/// Whether nothing of the graph writes the tensor: an input, or a view of one.
bool is_input(const ggml_tensor* tensor) {
  while (tensor != nullptr) {
    switch (tensor->op) {
      case GGML_OP_NONE: return true;
      case GGML_OP_VIEW:
      case GGML_OP_RESHAPE:
      case GGML_OP_PERMUTE: tensor = tensor->src[0]; break;
      default: return false;
    }
  }
  return false;
}

MemorySpan workspace_of(Shared& shared, size_t part, int64_t bytes) {
  while (shared.workspaces.size() <= part) shared.workspaces.push_back(std::make_unique<Memory>());
  return shared.workspaces[part]->at_least(bytes);
}

}  // namespace

void AttentionNode::become(const ggml_tensor* tensor, Shared& shared) {
  node_ = Node(tensor);
  shared_ = &shared;
  parts_.clear();
  is_planned_ = false;
  tasks_ = 0;
  status_ = {};
  team_.reset();
}

bool AttentionNode::is_mask_known() const { return node_.mask == nullptr || is_input(node_.mask); }

Status AttentionNode::plan(int threads) {
  if (node_.is_one_matrix()) {
    if (Status status = add_part({0, node_.streams}, threads); !status.is_ok()) return status;
  } else {
    for (int64_t s = 0; s < node_.streams; ++s)
      if (Status status = add_part({s, s + 1}, threads); !status.is_ok()) return status;
  }
  is_planned_ = true;
  return {};
}

Status AttentionNode::add_part(Streams streams, int threads) {
  Result<const Masks::Seen*> seen = shared_->masks.read(node_, streams);
  if (!seen) return seen.error();
  const MaskedBatch& masked = (*seen)->masked;
  const AttentionProblem problem = masked_problem(problem_of(node_), masked);
  Result<Selected*> selected = shared_->selections.find(problem, masked, threads);
  if (!selected) return selected.error();
  Result<AttentionPlan> plan = (*selected)->plan_of(&masked, shared_->masks.graph());
  if (!plan) return plan.error();
  Part part;
  part.attention = &(*selected)->attention();
  part.plan = *plan;
  part.args = args_of(node_, streams, masked.page_size);
  if (masked.alibi) part.args.alibi_slopes = (*seen)->slopes.data();
  if (masked.form == MaskForm::bias) {
    part.args.bias = masked.bias;
    part.args.bias_sequence_stride_bytes = masked.bias_sequence_stride_bytes;
  }
  part.workspace = workspace_of(*shared_, parts_.size(), part.attention->workspace_bytes());
  if (part.workspace.data == nullptr)
    return Status(Errc::out_of_memory, "no memory for a workspace");
  part.first_task = tasks_;
  tasks_ += part.plan.num_tasks;
  parts_.push_back(part);
  return {};
}

int64_t AttentionNode::prepare(int threads) {
  const Timer timer(&Counters::prepare_ns);
  if (!is_planned_) status_ = plan(threads);
  for (size_t i = 0; status_.is_ok() && i < parts_.size(); ++i) {
    Part& part = parts_[i];
    // A later node may have made the workspace grow.
    part.workspace = workspace_of(*shared_, i, part.attention->workspace_bytes());
    status_ = folio::prepare(*part.attention, part.plan, part.args, part.workspace);
  }
  count(&Counters::tasks, tasks_);
  return status_.is_ok() ? tasks_ : 0;
}

void AttentionNode::run_task(int64_t task) const {
  size_t i = parts_.size() - 1;
  while (parts_[i].first_task > task) --i;
  const Part& part = parts_[i];
  // Fails for arguments alone that prepare has accepted.
  (void)attend_task(*part.attention, part.plan, part.args, part.workspace, task - part.first_task);
}

void AttentionNode::run(int thread, int threads) {
  team_.work(
      thread == 0, [&] { return prepare(threads); }, [&](int64_t task) { run_task(task); });
}

}  // namespace ggml_folio
