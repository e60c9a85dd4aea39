// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/refusal.h: which nodes folio serves, decided before any is run.
#pragma once

#include <vector>

#include "node.h"

namespace ggml_folio {

/// Null if folio serves a GGML_OP_FLASH_ATTN_EXT node, else the reason why not: a string that lives
/// as long as the program. Whatever mask comes is served: runs, cells, ALiBi and bias are all asked
/// for. Looks at types, extents and strides; tensors need no data.
[[nodiscard]] const char* refuse_node(const ggml_tensor* node);

/// refuse_node, remembered for each kind of node, since a graph has the same kind in every layer.
/// With FOLIO_GGML_TRACE=1 each reason is said once, with the node's types and extents. One thread
/// at a time.
class Refusals {
 public:
  [[nodiscard]] const char* refuse(const ggml_tensor* node);

 private:
  struct Kind {
    folio::AttentionProblem problem;
    bool has_mask = false;
    bool has_slopes = false;
    const char* reason = nullptr;
  };
  std::vector<Kind> kinds_;
};

}  // namespace ggml_folio
