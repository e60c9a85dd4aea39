// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/peer_layout.cpp: what a peer may say of its groups, and what their rules keep.
#include <algorithm>
#include <limits>

#include "tier/transfer/layout.h"

namespace folio::inline v1::tier {
namespace {

GroupOptions rule_of(const GroupLayout& g) {
  return {.rule = g.rule, .window = g.window, .sinks = g.sinks, .chunk = g.chunk};
}

Status refuse(size_t group, const char* what, int64_t is, int64_t first, int64_t last) {
  return fail(Errc::invalid_argument, "{} of group {} is {}, expected {} .. {}", what, group, is,
              first, last);
}

Status check_rule(size_t group, const GroupLayout& g) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  const bool has_window = g.rule == GroupRule::window, has_chunk = g.rule == GroupRule::chunked;
  const struct {
    const char* name;
    int64_t is, first, last;
  } ranges[] = {{"rule", static_cast<int64_t>(g.rule), 0, group == 0 ? 0 : 3},
                {"window", g.window, has_window ? 1 : 0, has_window ? most : 0},
                {"sinks", g.sinks, 0, has_window ? int64_t{g.window} - 1 : 0},
                {"chunk", g.chunk, has_chunk ? 1 : 0, has_chunk ? most : 0}};
  for (const auto& r : ranges)
    if (r.is < r.first || r.is > r.last) return refuse(group, r.name, r.is, r.first, r.last);
  return {};
}

Status check_states(size_t group, const Geometry& g) {
  constexpr int64_t most = int64_t{1} << 32;
  const struct {
    const char* name;
    int64_t is, first, last;
  } ranges[] = {{"num_layers", g.num_layers, 1, most_layers},
                {"page_size", g.page_size, 1, 1},
                {"order", static_cast<int64_t>(g.order), 1, 1},
                {"num_heads", g.num_heads, 1, 1 << 12},
                {"total_heads", g.total_heads, g.num_heads, 1 << 12},
                {"first_head", g.first_head, 0, int64_t{g.total_heads} - g.num_heads},
                {"state_rows[0]", g.state_rows[0], 1, most},
                {"state_rows[1]", g.state_rows[1], 0, most},
                {"state_rows[2]", g.state_rows[2], 0, most},
                {"state_rows[3]", g.state_rows[3], 0, most}};
  for (const auto& r : ranges)
    if (r.is < r.first || r.is > r.last) return refuse(group, r.name, r.is, r.first, r.last);
  return {};
}

/// A group that has layers, or leads without.
Status check_group(size_t group, const GroupLayout& g, int32_t page_size, bool has_layers) {
  if (Status s = check_rule(group, g); !s.is_ok()) return s;
  if (g.is_state()) {
    if (g.page_tokens < page_size || g.page_tokens % page_size != 0)
      return fail(Errc::invalid_argument,
                  "page_tokens of group {} is {}, expected a multiple of {}", group, g.page_tokens,
                  page_size);
    return check_states(group, g.pages);
  }
  if (g.page_tokens != page_size || page_size < 1 || page_size > 1 << 16)
    return fail(Errc::invalid_argument, "page_tokens of group {} is {}, expected {} in 1 .. 65536",
                group, g.page_tokens, page_size);
  if (g.pages.is_state() || g.pages.state_rows != decltype(g.pages.state_rows){})
    return fail(Errc::invalid_argument, "group {} has parts of states, expected none", group);
  if (!has_layers) return {};
  if (Status s = check_geometry(g.pages); !s.is_ok())
    return fail(Errc::invalid_argument, "group {}: {}", group, s.message());
  if (g.pages.page_size == page_size) return {};
  return fail(Errc::invalid_argument, "page_size of group {} is {}, expected {}", group,
              g.pages.page_size, page_size);
}

}  // namespace

int32_t GroupLayout::first_kept(int32_t tokens) const noexcept {
  const int64_t first = first_needed_token(rule_of(*this), tokens);
  return static_cast<int32_t>(first / page_tokens * page_tokens);
}

int32_t GroupLayout::sink_tokens(int32_t tokens) const noexcept {
  const int64_t count = (int64_t{sinks} + page_tokens - 1) / page_tokens;
  return static_cast<int32_t>(std::min<int64_t>(count * page_tokens, tokens));
}

Status check_layout(const Layout& layout) noexcept {
  const size_t groups = layout.groups.size(), layers = layout.num_layers();
  if (groups < 1 || groups > most_groups)
    return fail(Errc::invalid_argument, "there are {} groups, expected 1 .. {}", groups,
                most_groups);
  if (layers < 1 || layers > most_layers)
    return fail(Errc::invalid_argument, "there are {} layers, expected 1 .. {}", layers,
                most_layers);
  if (layout.shared_crc.size() != layers)
    return fail(Errc::invalid_argument, "there are {} checksums of scales, expected {}",
                layout.shared_crc.size(), layers);
  size_t has_layers[most_groups] = {};
  for (size_t layer = 0; layer < layers; ++layer) {
    if (layout.group_of[layer] >= groups)
      return fail(Errc::invalid_argument, "layer {} is in group {}, expected one of {}", layer,
                  layout.group_of[layer], groups);
    ++has_layers[layout.group_of[layer]];
  }
  for (size_t g = 0; g < groups; ++g) {
    if (has_layers[g] == 0 && g != 0)
      return fail(Errc::invalid_argument, "group {} has no layers, expected 1 or more", g);
    if (Status s = check_group(g, layout.groups[g], layout.page_size(), has_layers[g] != 0);
        !s.is_ok())
      return s;
    if (has_layers[g] != 0 && static_cast<size_t>(layout.groups[g].pages.num_layers) != layers)
      return fail(Errc::invalid_argument, "num_layers of group {} is {}, expected the model's {}",
                  g, layout.groups[g].pages.num_layers, layers);
  }
  return {};
}

}  // namespace folio::inline v1::tier
