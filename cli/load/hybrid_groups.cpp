// SPDX-License-Identifier: Apache-2.0
/// cli/load/hybrid_groups.cpp: a model's layers as groups of a pool, with the bytes of their pages.
#include <algorithm>

#include "folio/cache/planes.h"
#include "load/hybrid_model.h"

namespace folio::cli {
namespace {

constexpr int64_t state_element_bytes = 2;

Result<int64_t> bytes_of(const LayerKind& kind, const GroupSizes& sizes) {
  if (kind.rule == GroupRule::state) return kind.state_elements * state_element_bytes * kind.layers;
  if (Status s = check_format(sizes.kv, kind.head_size); !s.is_ok()) return s;
  const KVShape shape = kv_shape_of(shape_of(kind), sizes.page_size, sizes.kv);
  const auto values = page_bytes(shape);
  if (!values) return values.error();
  const auto scales = scale_page_bytes(shape);
  if (!scales) return scales.error();
  return *values + *scales;
}

bool has_states(std::span<const GroupOptions> groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [](const GroupOptions& g) { return g.rule == GroupRule::state; });
}

}  // namespace

Result<std::vector<GroupOptions>> groups_of(const HybridModel& model, const GroupSizes& sizes) {
  std::vector<GroupOptions> groups;
  for (const LayerKind& kind : model.kinds) {
    const auto bytes = bytes_of(kind, sizes);
    if (!bytes) return bytes.error();
    GroupOptions group{.rule = kind.rule, .page_bytes = *bytes};
    if (kind.rule == GroupRule::window) group.window = kind.span;
    if (kind.rule == GroupRule::chunked) group.chunk = kind.span;
    if (kind.rule == GroupRule::state) group.checkpoint = sizes.checkpoint;
    groups.push_back(group);
  }
  return groups;
}

int32_t uniform_page_size(std::span<const GroupOptions> groups, const GroupSizes& sizes) {
  return has_states(groups) ? sizes.checkpoint : sizes.page_size;
}

GroupOptions uniform_group(std::span<const GroupOptions> groups, const GroupSizes& sizes) {
  const int64_t pages = uniform_page_size(groups, sizes) / sizes.page_size;
  int64_t bytes = 0;
  for (const GroupOptions& g : groups)
    bytes += g.rule == GroupRule::state ? g.page_bytes : g.page_bytes * pages;
  return {.page_bytes = bytes};
}

int64_t held_bytes(const GroupOptions& group, int32_t page_size, int64_t tokens) {
  const auto bytes = [&](int64_t count) {
    return (count + page_size - 1) / page_size * group.page_bytes;
  };
  switch (group.rule) {
    case GroupRule::full: return bytes(tokens);
    case GroupRule::window: return bytes(std::min<int64_t>(tokens, group.window));
    case GroupRule::chunked: return bytes((tokens - 1) % group.chunk + 1);
    case GroupRule::state: return group.page_bytes;
  }
  return 0;
}

}  // namespace folio::cli
