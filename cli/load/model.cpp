// SPDX-License-Identifier: Apache-2.0
/// cli/load/model.cpp: shapes and what follows from them.
#include "load/model.h"

#include <fmt/format.h>

#include "load/hybrid_model.h"
#include "parts/text.h"

namespace folio::cli {

Result<ModelShape> find_model(std::string_view name) {
  if (name == "llama-3-8b")
    return ModelShape{
        .layers = 32, .q_heads = 32, .kv_heads = 8, .head_size = 128, .v_head_size = 128};
  // Scale: 1 / sqrt(128 + 64), the head size before the up-projection is absorbed into the query.
  if (name == "deepseek-v3") {
    return ModelShape{.layers = 61,
                      .q_heads = 128,
                      .kv_heads = 1,
                      .head_size = 576,
                      .v_head_size = 512,
                      .is_mla = true,
                      .scale = 0.0721687836f};
  }
  return Status(Errc::invalid_argument,
                fmt::format("--model: got '{}', expected llama-3-8b or deepseek-v3, or {}",
                            printable(name, 40), hybrid_model_names()));
}

KVShape kv_shape_of(const ModelShape& model, int32_t page_size, const KVFormat& format) {
  return {.num_layers = model.layers,
          .num_heads = model.kv_heads,
          .head_size = model.head_size,
          .page_size = page_size,
          .dtype = format.dtype,
          .is_mla = model.is_mla,
          .scale_dtype = format.scales(),
          .quantization_granularity = format.granule(),
          .zeros = format.zeros,
          .hadamard = format.hadamard};
}

AttentionProblem problem_of(const ModelShape& model, const KVPlanes& planes) {
  AttentionProblem problem;
  problem.key = planes.key;
  problem.value = planes.value;
  problem.q_heads = model.q_heads;
  problem.v_head_size = model.v_head_size;
  problem.q_dtype = DType::f32;
  problem.out_dtype = DType::f32;
  problem.value_in_key = model.is_mla;
  problem.mask = Mask::causal();
  problem.scale = model.scale;
  return problem;
}

}  // namespace folio::cli
