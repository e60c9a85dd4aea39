// SPDX-License-Identifier: Apache-2.0
/// cli/load/hybrid_model.h: the models whose layers do not all keep the same, as groups of a pool.
///
/// Layers of one rule are one group; a leading group with full attention always stands first. A
/// page of a group has the keys and values of all its layers, or their states after some token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "folio/attention/mask.h"
#include "folio/core/status.h"
#include "folio/pool/page_pool.h"
#include "load/model.h"

namespace folio::cli {

/// Tokens between states that can be found again.
inline constexpr int32_t usual_checkpoint = 512, most_checkpoint = 1 << 20;

/// Layers of one rule.
struct LayerKind {
  GroupRule rule = GroupRule::full;
  int32_t layers = 0;
  int32_t q_heads = 0;         ///< 0 of states
  int32_t kv_heads = 0;        ///< 0 of states
  int32_t head_size = 0;       ///< 0 of states
  float scale = 0.0f;          ///< of the logits; 0: 1 / sqrt(head_size)
  int32_t span = 0;            ///< tokens of a window or a chunk
  int32_t state_elements = 0;  ///< of one layer's state; 16-bit, whatever the cache's dtype
};

struct HybridModel {
  std::string_view name;
  std::string_view source;  ///< of the figures
  std::span<const LayerKind> kinds;
};

std::span<const HybridModel> hybrid_models();
/// Null for any other name.
const HybridModel* find_hybrid_model(std::string_view name);
/// All of them: "a, b or c".
std::string hybrid_model_names();

struct GroupSizes {
  int32_t page_size = 16;
  int32_t checkpoint = 512;  ///< tokens of a page of states, a multiple of page_size
  KVFormat kv = {};
};

/// Attention, of layers that are no states.
ModelShape shape_of(const LayerKind& kind);
Mask mask_of(const LayerKind& kind);

/// Errors: those of check_format and page_bytes
Result<std::vector<GroupOptions>> groups_of(const HybridModel& model, const GroupSizes& sizes);
/// One group whose pages have everything of all layers: keys and values of `page_size` tokens, or,
/// of a model with states, those of `checkpoint` tokens and the state behind them.
GroupOptions uniform_group(std::span<const GroupOptions> groups, const GroupSizes& sizes);
/// Tokens of its page.
int32_t uniform_page_size(std::span<const GroupOptions> groups, const GroupSizes& sizes);
/// What a sequence of so many tokens holds of one group when its last token is computed. Pages of
/// all groups but states have `page_size` tokens.
int64_t held_bytes(const GroupOptions& group, int32_t page_size, int64_t tokens);

}  // namespace folio::cli
