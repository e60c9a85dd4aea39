// SPDX-License-Identifier: Apache-2.0
/// tier/manager/group_pages.cpp: what a manager is told of groups, checked.
#include "tier/manager/group_pages.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace folio::inline v1::tier {
namespace {

Status check_layers(const char* call, std::span<const GroupOfCache> groups) {
  std::vector<int32_t> all;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupOfCache& of = groups[g];
    if ((of.planes.data() == nullptr && !of.planes.empty()) ||
        (of.states.data() == nullptr && !of.states.empty()) ||
        (of.layers.data() == nullptr && !of.layers.empty()))
      return fail(Errc::invalid_argument,
                  "{}: groups[{}] has planes, states or layers that are null, expected memory",
                  call, g);
    if (!of.planes.empty() && !of.states.empty())
      return fail(Errc::invalid_argument,
                  "{}: groups[{}] has planes and states, expected one of these", call, g);
    const size_t count = of.planes.size() + of.states.size();
    if (of.layers.size() != count)
      return fail(Errc::invalid_argument, "{}: groups[{}].layers has {} numbers, expected {}", call,
                  g, of.layers.size(), count);
    if (!std::ranges::is_sorted(of.layers))
      return fail(Errc::invalid_argument,
                  "{}: groups[{}].layers do not rise, expected the model's "
                  "order",
                  call, g);
    all.insert(all.end(), of.layers.begin(), of.layers.end());
  }
  std::ranges::sort(all);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] != static_cast<int32_t>(i))
      return fail(Errc::invalid_argument,
                  "{}: layers of groups are numbered {} where {} is expected: each of the model's "
                  "in one group, from 0 on",
                  call, all[i], i);
  return {};
}

Status check_one(const char* call, const PagePool& pool, uint32_t g, const GroupOfCache& of) {
  const GroupOptions rule = pool.group_options(g).value();
  const bool is_state = rule.rule == GroupRule::state;
  const bool is_empty = of.planes.empty() && of.states.empty();
  if (g == 0 && rule.page_bytes == 0) {
    if (is_empty) return {};
    return fail(Errc::invalid_argument,
                "{}: groups[0] has layers, expected none: its pages have 0 bytes", call);
  }
  if (is_empty || is_state == of.states.empty())
    return fail(Errc::invalid_argument, "{}: groups[{}] has {} planes and {} states, expected {}",
                call, g, of.planes.size(), of.states.size(),
                is_state ? "states, as its rule says" : "planes");
  for (size_t i = 0; i < of.states.size(); ++i)
    if (of.states[i].data == nullptr || of.states[i].bytes < 1)
      return fail(Errc::invalid_argument,
                  "{}: groups[{}].states[{}] has {} bytes at {}, expected 1 or more in memory",
                  call, g, i, of.states[i].bytes,
                  of.states[i].data == nullptr ? "null" : "an address");
  return {};
}

Status check_interval(const char* call, const PagePool& pool, uint32_t g, int32_t interval) {
  if (interval == 0) return {};
  if (g == 0 || pool.group_options(g).value().rule == GroupRule::state)
    return fail(Errc::invalid_argument, "{}: groups[{}].hit_interval is {}, expected 0: {}", call,
                g, interval, g == 0 ? "all leading pages are stored" : "states have checkpoints");
  if (interval < 0 || interval % pool.page_size() != 0)
    return fail(Errc::invalid_argument,
                "{}: groups[{}].hit_interval is {}, expected 0 or more, a multiple of the {} "
                "tokens of a page",
                call, g, interval, pool.page_size());
  return {};
}

}  // namespace

bool GroupPages::goes_down(int32_t position) const noexcept {
  const int64_t end = (int64_t{position} + 1) * leading_page_size;
  if (options.rule == GroupRule::state) return end % options.checkpoint == 0;
  if (end - leading_page_size < options.sinks) return true;
  if (hit_interval == 0) return false;
  // Of the hits behind the page the shortest needs most.
  const int64_t hit = (end + hit_interval - 1) / hit_interval * hit_interval;
  return end > pool::first_needed_token(options, hit);
}

Result<std::vector<GroupPages>> make_groups(const char* call, const CacheManagerOptions& options) {
  const PagePool& pool = *options.pool;
  const uint32_t count = pool.num_groups();
  std::vector<int32_t> numbers(options.planes.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const GroupOfCache alone{.planes = options.planes, .states = {}, .layers = numbers};
  const bool is_alone = count == 1 && options.groups.empty();
  const std::span<const GroupOfCache> groups = is_alone ? std::span(&alone, 1) : options.groups;
  if (is_alone && (options.planes.empty() || options.planes.data() == nullptr))
    return fail(Errc::invalid_argument, "{}: planes is empty, expected those of all layers", call);
  if (!is_alone && !options.planes.empty())
    return fail(Errc::invalid_argument,
                "{}: planes are given, expected them in `groups`, as the pool has {} groups", call,
                count);
  if (groups.size() != count || groups.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: groups has {} elements, expected {} (the pool's)",
                call, groups.size(), count);
  if (Status s = check_layers(call, groups); !s.is_ok()) return s;
  for (uint32_t g = 0; g < count && !is_alone; ++g)
    if (Status s = check_one(call, pool, g, groups[g]); !s.is_ok()) return s;
  for (uint32_t g = 0; g < count; ++g)
    if (Status s = check_interval(call, pool, g, groups[g].hit_interval); !s.is_ok()) return s;
  std::vector<GroupPages> all;
  for (uint32_t g = 0; g < count; ++g) {
    const GroupFigures figures = pool.group(g).value();
    GroupPages& of = all.emplace_back();
    of.layers.assign(groups[g].layers.begin(), groups[g].layers.end());
    of.options = pool.group_options(g).value();
    of.page_size = figures.page_size;
    of.leading_page_size = pool.page_size();
    of.num_pages = static_cast<uint32_t>(figures.num_pages);
    of.hit_interval = groups[g].hit_interval;
    Result<PageRuns> runs = groups[g].states.empty()
                                ? PageRuns::create(call, groups[g].planes, of.num_pages)
                                : PageRuns::create(call, groups[g].states, of.num_pages);
    if (!runs) return runs.error();
    of.runs = std::move(*runs);
  }
  return all;
}

}  // namespace folio::inline v1::tier
