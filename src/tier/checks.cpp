// SPDX-License-Identifier: Apache-2.0
/// tier/checks.cpp: arguments of tiers, and of what stands beside them.
#include "tier/checks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace folio::inline v1::tier {
namespace {

constexpr int64_t most_bytes = int64_t{1} << 40;  // of a page

struct Run {
  const std::byte* begin;
  const std::byte* end;
  size_t page;
};

/// All extents, by address. Those of a pool's pages lie page by page, or in the same places of each
/// layer: taken in that order they need no sorting, which costs more than short extents' copies.
std::vector<Run> runs_of(std::span<const TierPage> pages) {
  const std::less<const std::byte*> before;
  std::vector<size_t> order(pages.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, before, [&](size_t p) { return pages[p].extents[0].data; });
  size_t most = 0, count = 0;
  for (const TierPage& page : pages) {
    most = std::max(most, page.extents.size());
    count += page.extents.size();
  }
  std::vector<Run> runs;
  runs.reserve(count);
  const auto add = [&](size_t p, size_t i) {
    if (i >= pages[p].extents.size()) return;
    const Extent& e = pages[p].extents[i];
    runs.push_back({e.data, e.data + e.bytes, p});
  };
  const bool is_by_layer = order.size() > 1 && before(pages[order[1]].extents[0].data,
                                                      pages[order[0]].extents.back().data);
  if (is_by_layer) {
    for (size_t i = 0; i < most; ++i)
      for (const size_t p : order) add(p, i);
  } else {
    for (const size_t p : order)
      for (size_t i = 0; i < most; ++i) add(p, i);
  }
  if (!std::ranges::is_sorted(runs, before, &Run::begin))
    std::ranges::sort(runs, before, &Run::begin);
  return runs;
}

Status check_apart(const char* call, std::span<const TierPage> pages) {
  const std::vector<Run> runs = runs_of(pages);
  for (size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].begin < runs[i - 1].end)
      return fail(Errc::invalid_argument, "{}: pages {} and {} share bytes that are written", call,
                  std::min(runs[i].page, runs[i - 1].page),
                  std::max(runs[i].page, runs[i - 1].page));
  }
  return {};
}

}  // namespace

Status check_extents(const char* call, size_t page, std::span<const Extent> extents) noexcept {
  if (extents.empty() || extents.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: page {} has no extents, expected 1 or more", call,
                page);
  int64_t bytes = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Extent& e = extents[i];
    if (e.data == nullptr)
      return fail(Errc::invalid_argument, "{}: extent {} of page {} is null", call, i, page);
    if (e.bytes < 1 || e.bytes > most_bytes - bytes)
      return fail(Errc::invalid_argument,
                  "{}: extent {} of page {} has {} bytes, expected 1 .. {} (of a page in all)",
                  call, i, page, e.bytes, most_bytes);
    if (reinterpret_cast<uintptr_t>(e.data) > UINTPTR_MAX - static_cast<uintptr_t>(e.bytes))
      return fail(Errc::invalid_argument,
                  "{}: extent {} of page {} has {} bytes, expected none behind the last address",
                  call, i, page, e.bytes);
    bytes += e.bytes;
  }
  return {};
}

Status check_memory(const char* call, const char* argument, const void* data,
                    size_t size) noexcept {
  if (data != nullptr || size == 0) return {};
  return fail(Errc::invalid_argument, "{}: {} is null, expected memory of size {}", call, argument,
              size);
}

Status check_text(const char* call, const char* argument, std::string_view text) noexcept {
  if (Status s = check_memory(call, argument, text.data(), text.size()); !s.is_ok()) return s;
  if (text.find('\0') == std::string_view::npos) return {};
  return fail(Errc::invalid_argument, "{}: {} has a 0 in it, expected a text without one", call,
              argument);
}

Status check_label(const char* call, const char* argument, std::string_view label) noexcept {
  if (label.data() != nullptr && !label.empty() && label.size() <= 64 &&
      std::ranges::all_of(label, [](char c) { return c >= ' ' && c <= '~'; }))
    return {};
  return fail(Errc::invalid_argument,
              "{}: {} has {} bytes, expected 1 .. 64 printable characters of ASCII", call, argument,
              label.size());
}

Status check_pool(const char* call, const char* argument, const PagePool* pool,
                  PoolGroups groups) noexcept {
  const auto refuse = [&](const char* what) {
    return fail(Errc::invalid_argument, "{}: {} is {}", call, argument, what);
  };
  if (pool == nullptr) return refuse("null, expected one");
  if (pool->num_pages() == 0) return refuse("one that was moved from");
  if (groups == PoolGroups::one && pool->num_groups() != 1)
    return refuse("one of several groups, expected one group: only leading pages are known here");
  if (pool->max_io_pins() == 0) return refuse("one whose max_io_pins is 0, expected 1 or more");
  return {};
}

Status check_named_pool(const char* call, const PagePool* pool, const NameFunction& name,
                        PoolGroups groups) noexcept {
  if (Status s = check_pool(call, "pool", pool, groups); !s.is_ok()) return s;
  const auto refuse = [&](const char* what) {
    return fail(Errc::invalid_argument, "{}: {}", call, what);
  };
  if (pool->name_function().function == nullptr)
    return refuse("pool is one without names, expected PoolOptions::name");
  if (name.function == nullptr) return refuse("name.function is null, expected the pool's");
  if (name != pool->name_function()) return refuse("name is another than the pool's");
  if (pool->num_groups() > 1 && name.companion == nullptr)
    return refuse(
        "name.companion is null, expected a function: the pages of several groups have names of "
        "their own");
  return {};
}

Status moved_from(const char* call) noexcept {
  return fail(Errc::invalid_argument,
              "{}: the object was moved from, expected one that create has made", call);
}

Status out_of_memory(const char* call) noexcept {
  return fail(Errc::out_of_memory, "{}: no memory for the queue", call);
}

Status check_pages(const char* call, std::span<const TierPage> pages, bool writes) noexcept {
  if (pages.empty() || pages.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: pages are {}, expected 1 or more", call, pages.size());
  for (size_t p = 0; p < pages.size(); ++p)
    if (Status s = check_extents(call, p, pages[p].extents); !s.is_ok()) return s;
  if (!writes) return {};
  try {
    return check_apart(call, pages);
  } catch (const std::bad_alloc&) {
    return out_of_memory(call);
  }
}

Status check_options(const TierOptions& o) noexcept {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  const auto refuse = [](const char* what, int64_t is, int64_t first, int64_t last) {
    return fail(Errc::invalid_argument, "Tier::create: {} is {}, expected {} .. {}", what, is,
                first, last);
  };
  if (o.max_queued_bytes < 1) return refuse("max_queued_bytes", o.max_queued_bytes, 1, most);
  if (o.max_queued_pages < 1) return refuse("max_queued_pages", o.max_queued_pages, 1, 0xffffffffU);
  if (o.threads < 1 || o.threads > 256) return refuse("threads", o.threads, 1, 256);
  if (o.max_bytes < 1) return refuse("max_bytes", o.max_bytes, 1, most);
  if (o.on_completion == nullptr && o.context != nullptr)
    return fail(Errc::invalid_argument,
                "Tier::create: on_completion is null, expected a function, as context is not");
  if (o.on_change.function == nullptr && o.on_change.context != nullptr)
    return fail(
        Errc::invalid_argument,
        "Tier::create: on_change.function is null, expected a function, as its context is not");
  return {};
}

}  // namespace folio::inline v1::tier
