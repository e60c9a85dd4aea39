// SPDX-License-Identifier: Apache-2.0
/// pool/check_groups.cpp: what a pool refuses of groups, and what must always be true of them.
#include <cstring>
#include <limits>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::Group;
using pool::GroupPage;
using pool::PageList;
using pool::PageUse;
using pool::SequenceRecord;

namespace {

constexpr int64_t max_page_bytes = int64_t{1} << 40;

Status check_extent(size_t group, const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return fail(Errc::invalid_argument, "PagePool::create: groups[{}].{} is {}, expected {} .. {}",
              group, field, value, least, most);
}

/// A field that belongs to one rule: in its range there, and 0 elsewhere.
Status check_field(size_t group, const char* field, int32_t value, bool belongs, int32_t least,
                   int32_t most) {
  return check_extent(group, field, value, belongs ? least : 0, belongs ? most : 0);
}

Status check_one(size_t i, const GroupOptions& g, int32_t page_size) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  if (g.rule > GroupRule::state || (i == 0 && g.rule != GroupRule::full)) {
    return fail(
        Errc::invalid_argument, "PagePool::create: groups[{}].rule is {}, expected {}", i,
        static_cast<int>(g.rule),
        i == 0 ? "full, as the first group leads" : "full, window, chunked or state (0 .. 3)");
  }
  if (Status s = check_extent(i, "page_bytes", g.page_bytes, i == 0 ? 0 : 1, max_page_bytes);
      !s.is_ok())
    return s;
  const bool window = g.rule == GroupRule::window, state = g.rule == GroupRule::state;
  if (Status s = check_field(i, "window", g.window, window, 1, most); !s.is_ok()) return s;
  if (Status s = check_field(i, "sinks", g.sinks, window, 0, g.window - 1); !s.is_ok()) return s;
  if (Status s = check_field(i, "chunk", g.chunk, g.rule == GroupRule::chunked, 1, most);
      !s.is_ok())
    return s;
  if (Status s = check_field(i, "checkpoint", g.checkpoint, state, page_size, most); !s.is_ok())
    return s;
  if (!state || g.checkpoint % page_size == 0) return {};
  return fail(Errc::invalid_argument,
              "PagePool::create: groups[{}].checkpoint is {}, expected a multiple of page_size {}",
              i, g.checkpoint, page_size);
}

SlabLayout layout_of(const PoolOptions& o) {
  int64_t bytes[max_groups] = {};
  for (size_t i = 0; i < o.groups.size(); ++i) bytes[i] = o.groups[i].page_bytes;
  return lay_out_slabs({bytes, o.groups.size()}, o.arena_bytes);
}

Status check_arena(const PoolOptions& o) {
  const SlabLayout layout = layout_of(o);
  const bool has_bytes = layout.slab_bytes != 0;
  if (has_bytes && layout.num_slabs == 0) {
    return fail(
        Errc::invalid_argument,
        "PagePool::create: arena_bytes is {}, expected at least {} (one slab of the groups' "
        "pages)",
        o.arena_bytes, layout.slab_bytes);
  }
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (size_t i = 0; i < o.groups.size(); ++i) {
    if (int64_t{layout.num_slabs} * layout.pages_per_slab[i] <= most) continue;
    return fail(Errc::invalid_argument,
                "PagePool::create: arena_bytes is {}, expected less, as more than {} pages of "
                "groups[{}] would lie in it",
                o.arena_bytes, most, i);
  }
  if ((o.num_pages == 0) == (layout.pages_per_slab[0] != 0)) return {};
  return fail(Errc::invalid_argument, "PagePool::create: num_pages is {}, expected {}", o.num_pages,
              o.num_pages == 0 ? "1 or more, as pages of groups[0] have 0 bytes"
                               : "0, as arena_bytes and groups[0] say how many there are");
}

}  // namespace

Status check_group_options(const PoolOptions& o) noexcept {
  if (o.groups.empty()) {
    if (o.arena_bytes == 0) return {};
    return fail(Errc::invalid_argument,
                "PagePool::create: arena_bytes is {}, expected 0 without groups", o.arena_bytes);
  }
  if (o.groups.size() > max_groups) {
    return fail(Errc::invalid_argument,
                "PagePool::create: groups has {} elements, expected 1 .. {}", o.groups.size(),
                max_groups);
  }
  if (o.groups.data() == nullptr) return null_memory("create", "groups", o.groups.size());
  for (size_t i = 0; i < o.groups.size(); ++i) {
    if (Status s = check_one(i, o.groups[i], o.page_size); !s.is_ok()) return s;
  }
  if (o.arena_bytes >= 0) return check_arena(o);
  return fail(Errc::invalid_argument, "PagePool::create: arena_bytes is {}, expected 0 or more",
              o.arena_bytes);
}

uint32_t leading_pages_of(const PoolOptions& o) noexcept {
  if (o.groups.empty()) return 0;
  const SlabLayout layout = layout_of(o);
  return layout.num_slabs * layout.pages_per_slab[0];
}

namespace {

Status broken(const char* what, uint32_t group, int64_t which) {
  return fail(Errc::internal, "PagePool::check_invariants: group {}: {} {}", group, what, which);
}

PageUse use_of(const GroupPage& page) {
  if (page.is_held() || page.steps != 0) return PageUse::used;
  if (is_cached(page.list)) return pool::use_in(page.list);
  return page.list == PageList::free ? PageUse::free : PageUse::outside;
}

}  // namespace

Status PagePool::State::check_groups() const noexcept {
  if (const char* const fault = groups.slabs.fault(); fault != nullptr)
    return fail(Errc::internal, "PagePool::check_invariants: {}", fault);
  for (uint32_t page = 0; page < options.num_pages && groups.slabs.has(number); ++page) {
    const pool::PageRecord& r = records[page];
    const bool evictable = pool::is_evictable(r.list);  // then `steps` is `ahead`
    const bool used = r.is_held() || (!evictable && r.steps != 0);
    const PageUse use = used                       ? PageUse::used
                        : pool::is_cached(r.list)  ? pool::use_at_level(r.level)
                        : r.list == PageList::free ? PageUse::free
                                                   : PageUse::outside;
    if (use != groups.slabs.use_of(number, page))
      return broken("the slab misjudges page", number, page);
  }
  for (uint32_t g = 0; g < pool::max_groups; ++g) {
    if (groups.needs[g] != 0 && groups.slabs.has(g))
      return broken("needs pages:", g, groups.needs[g]);
  }
  for (const Group& group : groups.companions()) {
    const size_t scratch = size_t{group.num_pages} * sizeof(uint32_t);
    auto* const holds =
        static_cast<uint32_t*>(options.allocate(options.context, scratch, Carver::alignment));
    if (holds == nullptr)
      return fail(Errc::out_of_memory, "PagePool::check_invariants: {} bytes are not to be had",
                  scratch);
    std::memset(holds, 0, scratch);
    Status s = check_group(group, holds);
    options.deallocate(options.context, holds, scratch);
    if (!s.is_ok()) return s;
  }
  return {};
}

Status PagePool::State::check_group(const Group& group, uint32_t* holds) const noexcept {
  const uint32_t g = group.number;
  for (uint32_t i = 0; i < options.max_sequences; ++i) {
    if (Status s = check_group_row(sequences[i], group, holds); !s.is_ok()) return s;
  }
  uint32_t waiting = 0, companions = 0;
  const std::span<const PageCopy> pending = group.copies.pending();
  for (uint32_t i = 0; i < pending.size(); ++i) {
    ++holds[pending[i].from];
    const GroupPage& to = group.records[pending[i].to];
    if (to.pending_copy != i || to.holds != 1) return broken("nobody waits for copy", g, i);
    if (group.records[pending[i].from].waits_for_copy())
      return broken("source is not complete of copy", g, i);
  }
  for (const PageCopy& copy : group.copies.running()) {
    ++holds[copy.from];
    ++holds[copy.to];
  }
  io_pins.visit([&](const pool::IoPins::Place& place) {
    if (place.group == g) ++holds[place.page];
  });
  for (uint32_t page = 0; page < group.num_pages; ++page) {
    const GroupPage& p = group.records[page];
    if (p.holds != holds[page]) return broken("miscounted holds of page", g, page);
    waiting += p.waits_for_copy() ? 1 : 0;
    companions += p.leading != pool::no_page ? 1 : 0;
    if ((p.steps & ~unfinished) != 0) return broken("a finished step holds page", g, page);
    if ((p.steps != 0) != (p.list == PageList::leaving) ||
        use_of(p) != groups.slabs.use_of(g, page))
      return broken("wrong list for page", g, page);
    const bool held = p.is_held() || p.steps != 0;
    if (!held && (p.leading != pool::no_page) != pool::is_cached(p.list))
      return broken("cached without a leading page, or the reverse: page", g, page);
    if (p.leading == pool::no_page) continue;
    const pool::PageRecord& leading = records[p.leading];
    if (group.companion(p.leading) != page || (leading.content == 0 && !leading.is_tail))
      return broken("its leading page does not know page", g, page);
    if (pool::is_cached(p.list) && pool::level_of(p.list) != leading.level)
      return broken("its leading page has another level than page", g, page);
  }
  for (uint32_t page = 0; page < options.num_pages; ++page)
    companions -= group.companion(page) != pool::no_page ? 1 : 0;
  if (companions != 0) return broken("companions that do not know it:", g, companions);
  if (waiting != pending.size()) return broken("pages that wait:", g, waiting);
  uint32_t faulty = pool::no_page;
  const char* const fault = group.lists.fault(group.num_pages, &faulty);
  return fault == nullptr ? Status() : broken(fault, g, faulty);
}

Status PagePool::State::check_group_row(const SequenceRecord& s, const Group& group,
                                        uint32_t* holds) const noexcept {
  const uint32_t i = index_of(s);
  const pool::GroupRow& r = group.rows[i];
  if (r.end != (s.alive ? group.pages_for(s.room) : 0) || r.begin > r.end)
    return broken("begin or end of the row of sequence", group.number, i);
  if (s.alive && r.begin > group.first_needed(s.reach()))
    return broken("pages are missing in sequence", group.number, i);
  for (int64_t p = 0; p < group.row_stride; ++p) {
    const uint32_t page = group.row_of(i)[p];
    const bool kept = p < r.end && (p < group.sink_pages || p >= r.begin);
    if (kept != (page != group.num_pages))
      return broken("a wrong entry in the row of", group.number, i);
    if (!kept) continue;
    if (page > group.num_pages) return broken("page id out of range in sequence", group.number, i);
    ++holds[page];
  }
  return {};
}

}  // namespace folio::inline v1::pool
