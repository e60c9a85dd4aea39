// SPDX-License-Identifier: Apache-2.0
/// pool/groups.cpp: the pages of the groups behind the leading one.
#include "pool/groups.h"

#include <algorithm>
#include <memory>

namespace folio::inline v1::pool {

void Groups::lay_out(const PoolOptions& options) noexcept {
  count_ = static_cast<uint32_t>(options.groups.size());
  if (count_ == 0) return;
  int64_t bytes[max_groups] = {};
  for (uint32_t g = 0; g < count_; ++g) bytes[g] = options.groups[g].page_bytes;
  layout_ = lay_out_slabs({bytes, count_}, options.arena_bytes);
  for (uint32_t g = 0; g < count_; ++g) {
    Group& group = groups_[g];
    group.options = options.groups[g];
    group.page_size =
        group.options.rule == GroupRule::state ? group.options.checkpoint : options.page_size;
    group.num_pages = layout_.num_slabs * layout_.pages_per_slab[g];
    group.sink_pages = static_cast<uint32_t>(
        (int64_t{group.options.sinks} + options.page_size - 1) / options.page_size);
  }
  if (layout_.pages_per_slab[0] == 0) groups_[0].num_pages = options.num_pages;
}

void Groups::carve(Carver& carver, const PoolOptions& options) noexcept {
  if (count_ == 0) return;
  slabs.carve(carver, layout_, count_);
  companions_ = carver.take<uint32_t>(int64_t{options.num_pages} * (count_ - 1));
  likely = carver.take<LikelyHits>(options.max_sequences);
  for (uint32_t g = 1; g < count_; ++g) {
    Group& group = groups_[g];
    const int64_t tokens = int64_t{options.max_pages_per_sequence} * options.page_size;
    group.row_stride = PageTable::padded_columns(pages_for(g, tokens));
    group.table = carver.take<uint32_t>(options.max_sequences * group.row_stride);
    group.pages = carver.take<GroupPage>(group.num_pages);
    group.rows = carver.take<GroupRow>(options.max_sequences);
    group.copies.carve(carver, options.max_sequences);
    if (options.max_retention_ms != 0) group.levels = carver.take<ListEnds>(num_levels);
  }
}

void Groups::start(const PoolOptions& options, const PageRecord* records) noexcept {
  if (count_ == 0) return;
  records_ = records;
  slabs.start();
  std::fill_n(companions_, int64_t{options.num_pages} * (count_ - 1), no_page);
  std::uninitialized_default_construct_n(likely, options.max_sequences);
  for (uint32_t g = 1; g < count_; ++g) {
    Group& group = groups_[g];
    std::fill_n(group.table, options.max_sequences * group.row_stride, group.num_pages);
    std::uninitialized_default_construct_n(group.pages, group.num_pages);
    std::uninitialized_default_construct_n(group.rows, options.max_sequences);
    group.copies.start(options.max_sequences);
    if (group.levels != nullptr) std::fill_n(group.levels, num_levels, ListEnds());
  }
}

uint32_t Groups::pages_for(uint32_t group, int64_t tokens) const noexcept {
  const int32_t size = groups_[group].page_size;
  return static_cast<uint32_t>((tokens + size - 1) / size);
}

uint32_t Groups::first_needed(uint32_t group, int64_t tokens) const noexcept {
  const Group& g = groups_[group];
  int64_t first = 0;
  switch (g.options.rule) {
    case GroupRule::full: return 0;
    case GroupRule::window: first = tokens - g.options.window + 1; break;
    case GroupRule::chunked: first = tokens / g.options.chunk * g.options.chunk; break;
    case GroupRule::state: first = tokens - 1; break;
  }
  return static_cast<uint32_t>(std::max<int64_t>(first, 0) / g.page_size);
}

GroupRow Groups::row_for(uint32_t group, int64_t tokens) const noexcept {
  const uint32_t end = pages_for(group, tokens);
  return {std::min(first_needed(group, tokens), end), end};
}

bool Groups::serves(uint32_t group, uint32_t p, int64_t from, int64_t to) const noexcept {
  return p >= first_needed(group, from) && p < to / groups_[group].page_size;
}

bool Groups::is_likely(uint32_t group, uint32_t sequence, uint32_t p) const noexcept {
  const LikelyHits& hits = likely[sequence];
  const int64_t page_slack = groups_[group].page_size - 1;
  const int64_t prompt_slack = std::max<int64_t>(page_slack, prompt_slack_tokens);
  return serves(group, p, hits.prompt - prompt_slack, hits.prompt) ||
         serves(group, p, hits.diverged - page_slack, hits.diverged) ||
         serves(group, p, hits.found - page_slack, hits.found);
}

// ---- Companions

void Groups::attach(uint32_t leading, uint32_t group, uint32_t page) noexcept {
  GroupPage& p = groups_[group].pages[page];
  if (p.leading == leading) return;
  if (p.leading != no_page) detach(group, page);
  if (const uint32_t old = place(leading, group); old != no_page) detach(group, old);
  place(leading, group) = page;
  p.leading = leading;
}

void Groups::detach(uint32_t group, uint32_t page) noexcept {
  GroupPage& p = groups_[group].pages[page];
  place(p.leading, group) = no_page;
  p.leading = no_page;
  if (!is_cached(p.list)) return;
  unlink(group, page);
  settle(group, page);
}

void Groups::forget(uint32_t leading, uint32_t heir) noexcept {
  for (uint32_t g = 1; g < count_; ++g) {
    const uint32_t page = place(leading, g);
    if (page == no_page) continue;
    if (heir == no_page || place(heir, g) != no_page) {
      detach(g, page);
      continue;
    }
    place(leading, g) = no_page;
    place(heir, g) = page;
    groups_[g].pages[page].leading = heir;
    push_cached(g, page);
  }
}

bool Groups::serve_partial(uint32_t leading, int32_t tokens, int32_t fill) const noexcept {
  for (uint32_t g = 1; g < count_; ++g) {
    // the one state that a page has is of its last token
    if (companion(leading, g) == no_page || (is_state(g) && tokens != fill)) return false;
  }
  return true;
}

void Groups::follow(uint32_t leading) noexcept {
  const PageRecord& record = records_[leading];
  if (is_cached(record.list)) slabs.set(0, leading, use_at_level(record.level));
  for (uint32_t g = 1; g < count_; ++g) {
    if (const uint32_t page = companion(leading, g); page != no_page) push_cached(g, page);
  }
}

GroupList Groups::cached_list(const GroupPage& page) const noexcept {
  const bool behind =
      page.keeping == Keeping::behind && records_[page.leading].level == policy_level;
  return behind ? GroupList::behind : GroupList::cached;
}

/// A cached companion waits where its leading page says, if it does not.
void Groups::push_cached(uint32_t group, uint32_t page) noexcept {
  const GroupPage& p = groups_[group].pages[page];
  const GroupList list = cached_list(p);
  if (!is_cached(p.list) || (p.list == list && p.level == records_[p.leading].level)) return;
  unlink(group, page);
  push(group, list, page);
  slabs.set(group, page, use_of_cached(list, p.level));
}

// ---- Holding and giving up

ListEnds& Groups::ends_of(Group& group, const GroupPage& page) noexcept {
  return page.list == GroupList::cached && page.level != policy_level
             ? group.levels[page.level]
             : group.ends[static_cast<size_t>(page.list)];
}

void Groups::push(uint32_t group, GroupList list, uint32_t page) noexcept {
  Group& g = groups_[group];
  GroupPage& p = g.pages[page];
  p.list = list;
  p.level = list == GroupList::cached ? records_[p.leading].level : policy_level;
  append(g.pages, ends_of(g, p), page);
  ++g.counts[static_cast<size_t>(list)];
  g.pinned += p.level == pinned_level ? 1 : 0;
  if (p.level != policy_level) g.present.add(p.level);
}

void Groups::unlink(uint32_t group, uint32_t page) noexcept {
  Group& g = groups_[group];
  GroupPage& p = g.pages[page];
  if (p.list == GroupList::none) return;
  take_out(g.pages, ends_of(g, p), page);
  --g.counts[static_cast<size_t>(p.list)];
  g.pinned -= p.level == pinned_level ? 1 : 0;
  p.list = GroupList::none;
  p.level = policy_level;
}

uint32_t Groups::front_below(uint32_t group, uint8_t end) noexcept {
  Group& g = groups_[group];
  return g.present.lowest_front(end, [&](uint8_t level) { return g.levels[level].front; });
}

uint32_t Groups::oldest_cached(uint32_t group) noexcept {
  const uint32_t normal = front(group, GroupList::cached);
  const uint32_t page = front_below(group, normal == no_page ? pinned_level : policy_level);
  return page != no_page ? page : normal;
}

uint32_t Groups::first_to_go(uint32_t group) noexcept {
  const uint32_t page = front_below(group, policy_level);
  return page != no_page ? page : front(group, GroupList::behind);
}

void Groups::hold(uint32_t group, uint32_t page) noexcept {
  GroupPage& p = groups_[group].pages[page];
  ++p.holds;
  if (!is_cached(p.list)) return;
  unlink(group, page);
  note_used(group, page);
}

void Groups::note_used(uint32_t group, uint32_t page) noexcept {
  slabs.set(group, page, PageUse::used);
  Group& g = groups_[group];
  g.peak_used = std::max(g.peak_used, int64_t{slabs.count(group, PageUse::used)} - g.pinned);
}

void Groups::drop(uint32_t group, uint32_t page, uint64_t steps, Keeping keeping) noexcept {
  if (steps != 0) hold_for_steps(group, page, steps);
  GroupPage& p = groups_[group].pages[page];
  p.keeping = keeping;
  if (--p.holds != 0) return;
  if (p.pending_copy != no_page) cancel_copy_into(group, page);
  settle(group, page);
}

void Groups::hold_for_steps(uint32_t group, uint32_t page, uint64_t steps) noexcept {
  groups_[group].pages[page].steps |= steps;
  unlink(group, page);
  push(group, GroupList::leaving, page);
}

void Groups::settle(uint32_t group, uint32_t page) noexcept {
  const GroupPage& p = groups_[group].pages[page];
  if (p.holds != 0 || p.steps != 0) return;
  const GroupList list = p.leading != no_page ? cached_list(p) : GroupList::free;
  push(group, list, page);
  slabs.set(group, page, use_of_cached(list, p.level));
}

void Groups::end_step(uint64_t bit) noexcept {
  for (uint32_t g = 1; g < count_; ++g) {
    GroupPage* const pages = groups_[g].pages;
    for (uint32_t page = front(g, GroupList::leaving), next; page != no_page; page = next) {
      next = pages[page].next;
      pages[page].steps &= ~bit;
      if (pages[page].steps != 0) continue;
      unlink(g, page);
      settle(g, page);
    }
  }
}

void Groups::evict(uint32_t group, uint32_t page) noexcept {
  GroupPage& p = groups_[group].pages[page];
  if (is_cached(p.list)) {
    ++groups_[group].evicted;
    detach(group, page);
  }
  unlink(group, page);
}

void Groups::take(uint32_t group, uint32_t page) noexcept {
  evict(group, page);
  groups_[group].pages[page].holds = 1;
  note_used(group, page);
}

GroupFigures Groups::figures(uint32_t group) const noexcept {
  const Group& g = groups_[group];
  GroupFigures f{.num_pages = g.num_pages,
                 .page_bytes = slabs.layout().page_bytes[group],
                 .page_size = g.page_size,
                 .used_pages = int64_t{slabs.count(group, PageUse::used)} - g.pinned,
                 .cached_pages = int64_t{g.counts[static_cast<size_t>(GroupList::cached)]} +
                                 g.counts[static_cast<size_t>(GroupList::behind)],
                 .evicted_pages = g.evicted,
                 .peak_used_pages = g.peak_used};
  f.free_pages = f.num_pages - f.used_pages - f.cached_pages;
  return f;
}

// ---- Joint hits

void JointHit::add(uint32_t leading) noexcept {
  const uint32_t position = seen_++;
  const int64_t tokens = int64_t{seen_} * page_size_;
  bool serves = true, has_states = true;
  for (uint32_t g = 1; g < groups_.count(); ++g) {
    const Group& group = groups_[g];
    const bool present = groups_.companion(leading, g) != no_page;
    run_[g] = present ? run_[g] + 1 : 0;
    if (present && sinks_[g] == position) ++sinks_[g];
    if (groups_.is_state(g)) {
      has_states = has_states && present;
      continue;
    }
    serves = serves && run_[g] >= seen_ - std::min(groups_.first_needed(g, tokens), seen_) &&
             sinks_[g] >= std::min(group.sink_pages, seen_);
  }
  const auto reach = [&](Reach& r, bool reaches) {
    if (r.pages == position) r.next = leading;
    if (reaches) r = {.pages = seen_, .last = leading};
  };
  reach(all_, serves && has_states);
  reach(without_states_, serves);
}

}  // namespace folio::inline v1::pool
