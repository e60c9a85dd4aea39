// SPDX-License-Identifier: Apache-2.0
/// python/src/kind.h: `Kind`: a kind of layer, and the Attentions that serve it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "call_options.h"
#include "folio/attention/plan.h"
#include "pages.h"

namespace folio::python {

/// Mask, scale, softcap, heads and reproducibility. Thread safety: any thread.
class Kind {
 public:
  explicit Kind(const AttentionProblem& options) : options_(options) {}

  /// The problem of a call over these planes.
  [[nodiscard]] AttentionProblem problem(const KVPlanes& planes, const CallOptions& call) const;
  /// An Attention within at least these limits: the one that was made for such a call before, grown
  /// where the limits ask for it. Throws folio::Error.
  Attention attention(const Pages& pages, const CallOptions& call, const AttentionLimits& limits);

  /// Without what planes and calls add.
  [[nodiscard]] const AttentionProblem& options() const { return options_; }
  [[nodiscard]] int32_t q_heads() const { return options_.q_heads; }
  /// Elements of a head of the output over these planes.
  [[nodiscard]] int32_t v_head_size(const KVPlanes& planes) const {
    return options_.value_in_key ? options_.v_head_size : planes.value.head_size;
  }

 private:
  struct Ready {
    AttentionProblem selection;
    Attention attention;
  };

  AttentionProblem options_;
  std::mutex mutex_;
  std::vector<Ready> ready_;
};

void bind_kind(nb::module_& m);

}  // namespace folio::python
