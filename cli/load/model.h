// SPDX-License-Identifier: Apache-2.0
/// cli/load/model.h: the attention shapes of the models that the tool can stand in for.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/attention/problem.h"
#include "folio/cache/planes.h"
#include "folio/core/status.h"
#include "load/kv_format.h"

namespace folio::cli {

struct ModelShape {
  int32_t layers = 0;
  int32_t q_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_size = 0;    ///< of queries and keys; MLA: latent and rotated part
  int32_t v_head_size = 0;  ///< MLA: the latent part; otherwise head_size
  bool is_mla = false;
  float scale = 0.0f;  ///< of the logits; 0: 1 / sqrt(head_size)
};

/// "llama-3-8b" or "deepseek-v3". Errors: invalid_argument for any other name
Result<ModelShape> find_model(std::string_view name);

/// How the tool stores it: token-major pages over all layers.
KVShape kv_shape_of(const ModelShape& model, int32_t page_size, const KVFormat& format);

/// Causal attention over planes of that shape, f32 queries and outputs. `planes`: any layer's.
AttentionProblem problem_of(const ModelShape& model, const KVPlanes& planes);

}  // namespace folio::cli
