// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/attention_node.h: one node of a graph as calls of folio.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "masks.h"
#include "memory.h"
#include "node.h"
#include "selected.h"
#include "team.h"

namespace ggml_folio {

/// What the nodes of a context share. Nodes run one after another, so they share workspaces, too.
struct Shared {
  Masks masks;
  Selections selections;
  /// of a node's parts
  std::vector<std::unique_ptr<Memory>> workspaces;
};

/// A served node during one run of its graph: planned, then run by ggml's threads.
///
/// It is one part, unless its streams are not one matrix (Node::is_one_matrix): then each stream is
/// a part, and their tasks follow one another.
class AttentionNode {
 public:
  /// Takes the place of what it was, for a run of another graph.
  void become(const ggml_tensor* tensor, Shared& shared);

  /// Whether the mask's numbers are there before the graph runs: it is none, or an input.
  [[nodiscard]] bool is_mask_known() const;
  /// Reads the mask, selects the kernel, plans. Once for a run.
  [[nodiscard]] folio::Status plan(int threads);

  /// Called by each thread of the graph. Plans where it was not planned.
  void run(int thread, int threads);
  /// What `run` met.
  [[nodiscard]] const folio::Status& status() const { return status_; }

 private:
  struct Part {
    const folio::Attention* attention = nullptr;
    folio::AttentionPlan plan;
    folio::AttentionArgs args;
    folio::MemorySpan workspace;
    int64_t first_task = 0;
  };

  [[nodiscard]] folio::Status add_part(Streams streams, int threads);
  [[nodiscard]] int64_t prepare(int threads);
  void run_task(int64_t task) const;

  Node node_{};
  Shared* shared_ = nullptr;
  std::vector<Part> parts_;
  bool is_planned_ = false;
  int64_t tasks_ = 0;
  folio::Status status_;
  Team team_;
};

}  // namespace ggml_folio
