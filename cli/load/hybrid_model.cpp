// SPDX-License-Identifier: Apache-2.0
/// cli/load/hybrid_model.cpp: the table of models.
#include "load/hybrid_model.h"

#include <iterator>

namespace folio::cli {
namespace {

constexpr LayerKind full(int32_t layers, int32_t q_heads, int32_t kv_heads, int32_t head_size) {
  return {.layers = layers, .q_heads = q_heads, .kv_heads = kv_heads, .head_size = head_size};
}

constexpr LayerKind local(GroupRule rule, int32_t span, const LayerKind& like, int32_t layers) {
  return {.rule = rule,
          .layers = layers,
          .q_heads = like.q_heads,
          .kv_heads = like.kv_heads,
          .head_size = like.head_size,
          .scale = like.scale,
          .span = span};
}

/// Mamba: the recurrent state, `d_state` elements for each of the expanded channels, and the last
/// d_conv - 1 inputs of their convolution.
constexpr LayerKind mamba(int32_t layers, int32_t hidden, int32_t expand, int32_t d_state,
                          int32_t d_conv) {
  return {.rule = GroupRule::state,
          .layers = layers,
          .state_elements = hidden * expand * (d_state + d_conv - 1)};
}

// Every sixth layer sees all: num_hidden_layers / sliding_window_pattern of them. Scale:
// 1 / sqrt(query_pre_attn_scalar), which is 168 here and the head size of the smaller model.
constexpr LayerKind gemma_3_27b_full{
    .layers = 10, .q_heads = 32, .kv_heads = 16, .head_size = 128, .scale = 0.0771516750f};
constexpr LayerKind gemma_3_27b[] = {gemma_3_27b_full,
                                     local(GroupRule::window, 1024, gemma_3_27b_full, 52)};
constexpr LayerKind gemma_3_12b[] = {full(8, 16, 8, 256),
                                     local(GroupRule::window, 1024, full(8, 16, 8, 256), 40)};
// Layers alternate. The sinks of these models are logits of a head, not tokens to keep.
constexpr LayerKind gpt_oss_120b[] = {full(18, 64, 8, 64),
                                      local(GroupRule::window, 128, full(18, 64, 8, 64), 18)};
constexpr LayerKind gpt_oss_20b[] = {full(12, 64, 8, 64),
                                     local(GroupRule::window, 128, full(12, 64, 8, 64), 12)};
// Every fourth layer has no rotary positions and sees all, the others their chunk.
constexpr LayerKind llama_4[] = {full(12, 40, 8, 128),
                                 local(GroupRule::chunked, 8192, full(12, 40, 8, 128), 36)};
// One layer of eight attends.
constexpr LayerKind jamba_1_5_mini[] = {full(4, 32, 8, 128), mamba(28, 4096, 2, 16, 4)};
constexpr LayerKind jamba_1_5_large[] = {full(9, 64, 8, 128), mamba(63, 8192, 2, 16, 4)};

constexpr HybridModel models[] = {
    {"gemma-3-27b", "config.json of google/gemma-3-27b-it", gemma_3_27b},
    {"gemma-3-12b", "config.json of google/gemma-3-12b-it", gemma_3_12b},
    {"gpt-oss-120b", "config.json of openai/gpt-oss-120b", gpt_oss_120b},
    {"gpt-oss-20b", "config.json of openai/gpt-oss-20b", gpt_oss_20b},
    {"llama-4-scout", "config.json of meta-llama/Llama-4-Scout-17B-16E", llama_4},
    {"jamba-1.5-mini", "config.json of ai21labs/AI21-Jamba-1.5-Mini", jamba_1_5_mini},
    {"jamba-1.5-large", "config.json of ai21labs/AI21-Jamba-1.5-Large", jamba_1_5_large},
};

}  // namespace

ModelShape shape_of(const LayerKind& kind) {
  return {.layers = kind.layers,
          .q_heads = kind.q_heads,
          .kv_heads = kind.kv_heads,
          .head_size = kind.head_size,
          .v_head_size = kind.head_size,
          .scale = kind.scale};
}

Mask mask_of(const LayerKind& kind) {
  switch (kind.rule) {
    case GroupRule::window: return Mask::sliding_window(kind.span);
    case GroupRule::chunked: return Mask::chunked(kind.span);
    case GroupRule::full:
    case GroupRule::state: break;
  }
  return Mask::causal();
}

std::span<const HybridModel> hybrid_models() { return models; }

const HybridModel* find_hybrid_model(std::string_view name) {
  for (const HybridModel& model : models)
    if (model.name == name) return &model;
  return nullptr;
}

std::string hybrid_model_names() {
  std::string names;
  for (const HybridModel& model : models) {
    const bool is_last = &model == std::end(models) - 1;
    names += (names.empty() ? "" : is_last ? " or " : ", ") + std::string(model.name);
  }
  return names;
}

}  // namespace folio::cli
