// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/layout.cpp: what an end has of each group.
#include "tier/transfer/layout.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>

#include "tier/checks.h"
#include "tier/manager/group_pages.h"

namespace folio::inline v1::tier {
namespace {

Status wrong(const char* function, size_t group, std::string_view what) {
  return fail(Errc::invalid_argument, "{}: end.groups[{}]{}", function, group, what);
}

/// The states of a group: heads of parts.
Result<Geometry> geometry_of_states(const char* function, size_t group, const GroupOfTransfer& of,
                                    const Digest256& model) {
  const int64_t bytes = of.pages.states[0].bytes;
  for (const StatePages& state : of.pages.states)
    if (state.bytes != bytes)
      return fail(
          Errc::unsupported,
          "{}: end.groups[{}] has states of {} and {} bytes, expected layers that are alike",
          function, group, bytes, state.bytes);
  Geometry g{.model = model, .page_size = 1, .order = StorageOrder::head_major};
  if (Status s = check_memory(function, "end.groups.state_parts", of.state_parts.data(),
                              of.state_parts.size());
      !s.is_ok())
    return s;
  if (of.state_parts.size() > g.state_rows.size() ||
      std::ranges::any_of(of.state_parts, [&](int64_t part) { return part < 1 || part > bytes; }))
    return wrong(function, group,
                 ".state_parts has other parts than 1 .. 4 of 1 byte or more within a state");
  if (of.state_parts.empty()) g.state_rows[0] = bytes;
  std::ranges::copy(of.state_parts, g.state_rows.begin());
  const int64_t of_head = std::reduce(g.state_rows.begin(), g.state_rows.end());
  if (bytes % of_head != 0 || bytes / of_head > 1 << 12)
    return fail(Errc::invalid_argument,
                "{}: end.groups[{}].state_parts are {} bytes for a head, expected a divisor of the "
                "state's {}, 1 .. 4096 heads",
                function, group, of_head, bytes);
  g.num_heads = static_cast<int32_t>(bytes / of_head);
  g.first_head = of.first_head;
  g.total_heads = of.total_heads == 0 ? g.num_heads : of.total_heads;
  return g;
}

bool has_planes_alone(const GroupOfCache& of) {
  return of.states.empty() && !of.planes.empty() && of.planes.data() != nullptr &&
         of.layers.data() != nullptr && of.layers.size() == of.planes.size();
}

/// Of `own` groups of the pool, guests lie on the pages of ones that have planes.
Status check_guest(const char* function, const TransferEnd& end, size_t group, size_t own) {
  const int32_t host = end.groups[group].on_pages_of;
  if (host < 0 || static_cast<size_t>(host) >= own)
    return fail(Errc::invalid_argument,
                "{}: end.groups[{}].on_pages_of is {}, expected one of the {} groups before those "
                "that lie on others' pages",
                function, group, host, own);
  for (const size_t g : {static_cast<size_t>(host), group})
    if (!has_planes_alone(end.groups[g].pages))
      return wrong(
          function, g,
          " has no planes, or not one for each of its layers, expected them of groups that "
          "share pages");
  return {};
}

/// A group with the layers that lie on its pages.
struct HostGroup {
  std::vector<KVPlanes> planes = {};
  std::vector<int32_t> layers = {};

  void add(const GroupOfCache& of) {
    for (size_t i = 0; i < of.layers.size(); ++i) {
      const auto at = std::ranges::lower_bound(layers, of.layers[i]) - layers.begin();
      layers.insert(layers.begin() + at, of.layers[i]);
      planes.insert(planes.begin() + at, of.planes[i]);
    }
  }
};

/// The options that `make_groups` checks: groups as a manager has them.
Status check_as_managed(const char* function, const TransferEnd& end) {
  std::vector<GroupOfCache> groups;
  for (const GroupOfTransfer& group : end.groups) {
    if (group.on_pages_of != -1) break;
    groups.push_back(group.pages);
  }
  const size_t own = groups.size();
  std::vector<HostGroup> hosts(own);
  for (size_t g = own; g < end.groups.size(); ++g) {
    if (Status s = check_guest(function, end, g, own); !s.is_ok()) return s;
    const auto host = static_cast<size_t>(end.groups[g].on_pages_of);
    HostGroup& all = hosts[host];
    if (all.layers.empty()) all.add(end.groups[host].pages);
    all.add(end.groups[g].pages);
    groups[host].planes = all.planes;
    groups[host].layers = all.layers;
  }
  CacheManagerOptions options{.pool = end.pool};
  if (end.pool->num_groups() != 1 || groups.size() != 1) {
    options.groups = groups;
  } else {  // a pool without PoolOptions::groups does not know the bytes of its pages
    const GroupOfCache& only = groups[0];
    std::vector<int32_t> numbers(only.planes.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    if (!only.states.empty() || !std::ranges::equal(only.layers, numbers))
      return wrong(
          function, 0,
          " has other layers than 0, 1, ... with planes, expected these of the pool's only "
          "group");
    options.planes = only.planes;
  }
  const auto made = make_groups(function, options);
  return made ? Status() : made.error();
}

uint32_t pool_group_of(const TransferEnd& end, uint32_t group) {
  const int32_t host = end.groups[group].on_pages_of;
  return host < 0 ? group : static_cast<uint32_t>(host);
}

Result<GroupLayout> layout_of_group(const char* function, const TransferEnd& end, uint32_t group) {
  const GroupOfTransfer& of = end.groups[group];
  const GroupOptions options = end.pool->group_options(pool_group_of(end, group)).value();
  const GroupFigures figures = end.pool->group(pool_group_of(end, group)).value();
  GroupLayout g{.rule = options.rule,
                .window = options.window,
                .sinks = options.sinks,
                .chunk = options.chunk,
                .page_tokens = figures.page_size};
  const std::string name = "end.groups[" + std::to_string(group) + "].";
  if (!of.pages.states.empty()) {
    Result<Geometry> states = geometry_of_states(function, group, of, end.model);
    if (!states) return states.error();
    g.pages = *states;
  } else if (!of.pages.planes.empty()) {
    Result<Geometry> planes = geometry_of(function,
                                          {.planes = of.pages.planes,
                                           .first_head = of.first_head,
                                           .total_heads = of.total_heads,
                                           .num_pages = figures.num_pages,
                                           .page_size = figures.page_size,
                                           .name = name.c_str()},
                                          end.model);
    if (!planes) return planes.error();
    g.pages = *planes;
  }
  return g;
}

Result<EndPages> pages_of_groups(const char* function, const TransferEnd& end) {
  if (Status s = check_end(function, end); !s.is_ok()) return s;
  if (!end.planes.empty() || end.first_head != 0 || end.total_heads != 0)
    return fail(Errc::invalid_argument,
                "{}: end.planes, end.first_head or end.total_heads are given, expected them in "
                "end.groups",
                function);
  if (end.groups.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: end.groups is null, expected groups", function);
  if (Status s = check_as_managed(function, end); !s.is_ok()) return s;
  EndPages pages;
  size_t layers = 0;
  for (const GroupOfTransfer& group : end.groups) layers += group.pages.layers.size();
  pages.layout.group_of.resize(layers);
  pages.layout.shared_crc.resize(layers);
  pages.planes.resize(layers);
  pages.states.resize(layers);
  for (uint32_t g = 0; g < end.groups.size(); ++g) {
    Result<GroupLayout> group = layout_of_group(function, end, g);
    if (!group) return group.error();
    group->pages.num_layers = static_cast<int32_t>(layers);
    group->pages.shared_crc = 0;  // by layer
    pages.layout.groups.push_back(*group);
    pages.pool_group.push_back(pool_group_of(end, g));
    pages.num_pages.push_back(end.pool->group(pages.pool_group[g])->num_pages);
    const GroupOfCache& of = end.groups[g].pages;
    for (size_t i = 0; i < of.layers.size(); ++i) {
      const auto layer = static_cast<size_t>(of.layers[i]);
      pages.layout.group_of[layer] = static_cast<uint8_t>(g);
      if (!of.states.empty()) {
        pages.states[layer] = of.states[i];
        continue;
      }
      pages.planes[layer] = of.planes[i];
      pages.layout.shared_crc[layer] = shared_crc_of(of.planes[i], end.groups[g].first_head);
    }
  }
  if (Status s = check_layout(pages.layout); !s.is_ok())
    return fail(Errc::invalid_argument, "{}: end.groups: {}", function, s.message());
  return pages;
}

}  // namespace

Result<EndPages> pages_of(const char* function, const TransferEnd& end) noexcept {
  try {
    if (!end.groups.empty()) return pages_of_groups(function, end);
    const Result<Geometry> geometry = geometry_of(function, end);
    if (!geometry) return geometry.error();
    return EndPages{.layout = layout_of(*geometry),
                    .planes = {end.planes.begin(), end.planes.end()},
                    .states = std::vector<StatePages>(end.planes.size()),
                    .num_pages = {end.pool->num_pages()},
                    .pool_group = {0}};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for what layers are like", function);
  }
}

Layout layout_of(const Geometry& geometry) {
  return {.groups = {{.pages = geometry, .page_tokens = geometry.page_size}},
          .group_of = std::vector<uint8_t>(static_cast<size_t>(geometry.num_layers)),
          .shared_crc =
              std::vector<uint32_t>(static_cast<size_t>(geometry.num_layers), geometry.shared_crc)};
}

Result<std::vector<Place>> places_of(const char* function, const TransferEnd& end,
                                     const EndPages& pages) noexcept {
  try {
    std::vector<Place> places;
    for (size_t layer = 0; layer < pages.planes.size(); ++layer) {
      const Geometry& geometry = pages.layout.of(layer).pages;
      Status s =
          geometry.is_state()
              ? add_places(function, end.regions, geometry, pages.states[layer],
                           pages.num_pages[pages.layout.group_of[layer]], layer, places)
              : add_places(function, end.regions, geometry, pages.planes[layer], layer, places);
      if (!s.is_ok()) return s;
    }
    return places;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for places", function);
  }
}

}  // namespace folio::inline v1::tier
