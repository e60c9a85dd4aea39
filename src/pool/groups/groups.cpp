// SPDX-License-Identifier: Apache-2.0
/// pool/groups/groups.cpp: the pages of the groups behind the leading one.
#include "pool/groups/groups.h"

#include <algorithm>
#include <memory>

namespace folio::inline v1::pool {

// ---- Memory

void Group::lay_out(const PoolOptions& pool, uint32_t own_number,
                    const SlabLayout& layout) noexcept {
  number = own_number;
  options = pool.groups[number];
  page_size = is_state() ? options.checkpoint : pool.page_size;
  num_pages = layout.num_slabs * layout.pages_per_slab[number];
  sink_pages =
      static_cast<uint32_t>((int64_t{options.sinks} + pool.page_size - 1) / pool.page_size);
}

void Group::carve(Carver& carver, const PoolOptions& pool) noexcept {
  row_stride =
      PageTable::padded_columns(pages_for(int64_t{pool.max_pages_per_sequence} * pool.page_size));
  table = carver.take<uint32_t>(pool.max_sequences * row_stride);
  records = carver.take<GroupPage>(num_pages);
  rows = carver.take<GroupRow>(pool.max_sequences);
  copies.carve(carver, pool.max_sequences);
  if (pool.max_retention_ms != 0) level_heads_ = carver.take<ListHead>(num_levels - 1);
}

void Group::start(const PoolOptions& pool, const Shared& with) noexcept {
  shared = with;
  std::fill_n(table, pool.max_sequences * row_stride, num_pages);
  std::uninitialized_default_construct_n(records, num_pages);
  std::uninitialized_default_construct_n(rows, pool.max_sequences);
  copies.start(pool.max_sequences);
  lists.attach(records, 0);
  if (level_heads_ == nullptr) return;
  std::fill_n(level_heads_, num_levels - 1, ListHead());
  lists.attach_levels(level_heads_);
}

void Groups::lay_out(const PoolOptions& options) noexcept {
  count_ = static_cast<uint32_t>(options.groups.size());
  if (count_ == 0) return;
  behind_ = count_ - 1;
  int64_t bytes[max_groups] = {};
  for (uint32_t g = 0; g < count_; ++g) bytes[g] = options.groups[g].page_bytes;
  layout_ = lay_out_slabs({bytes, count_}, options.arena_bytes);
  for (uint32_t g = 1; g < count_; ++g) (*this)[g].lay_out(options, g, layout_);
}

void Groups::carve(Carver& carver, const PoolOptions& options) noexcept {
  if (count_ == 0) return;
  slabs.carve(carver, layout_, count_);
  companions_ = carver.take<uint32_t>(int64_t{options.num_pages} * behind_);
  likely_ = carver.take<LikelyHits>(options.max_sequences);
  for (Group& group : companions()) group.carve(carver, options);
}

void Groups::start(const PoolOptions& options, const PageRecord* records) noexcept {
  records_ = records;
  if (count_ == 0) return;
  slabs.start();
  std::fill_n(companions_, int64_t{options.num_pages} * behind_, no_page);
  std::uninitialized_default_construct_n(likely_, options.max_sequences);
  for (Group& group : companions())
    group.start(options, {&slabs, records, companions_, behind_, &watcher});
}

// ---- Rows

uint32_t Group::first_needed(int64_t tokens) const noexcept {
  return static_cast<uint32_t>(first_needed_token(options, tokens) / page_size);
}

GroupRow Group::row_for(int64_t tokens) const noexcept {
  const uint32_t end = pages_for(tokens);
  return {std::min(first_needed(tokens), end), end};
}

bool Group::serves(uint32_t p, int64_t from, int64_t to) const noexcept {
  return p >= first_needed(from) && p < to / page_size;
}

bool Group::is_likely(const LikelyHits& hits, uint32_t p) const noexcept {
  const int64_t page_slack = page_size - 1;
  const int64_t prompt_slack = std::max<int64_t>(page_slack, prompt_slack_tokens);
  return serves(p, hits.prompt - prompt_slack, hits.prompt) ||
         serves(p, hits.diverged - page_slack, hits.diverged) ||
         serves(p, hits.found - page_slack, hits.found);
}

// ---- Companions

void Group::attach(uint32_t leading, uint32_t page) noexcept {
  GroupPage& p = records[page];
  if (p.leading == leading) return;
  if (p.leading != no_page) detach(page);
  if (const uint32_t old = place(leading); old != no_page) detach(old);
  place(leading) = page;
  p.leading = leading;
  tell(PoolEventKind::stored, leading);
}

void Group::detach(uint32_t page) noexcept {
  GroupPage& p = records[page];
  const uint32_t leading = std::exchange(p.leading, no_page);
  place(leading) = no_page;
  if (is_cached(p.list)) {
    lists.unlink(page);
    settle(page);
  }
  tell(PoolEventKind::removed, leading);
}

void Group::hand_over(uint32_t leading, uint32_t heir) noexcept {
  const uint32_t page = place(leading);
  if (page == no_page) return;
  if (heir == no_page || place(heir) != no_page) return detach(page);
  place(leading) = no_page;
  place(heir) = page;
  records[page].leading = heir;
  follow(page);
}

PageList Group::cached_list(const GroupPage& page) const noexcept {
  const uint8_t level = shared.leading[page.leading].level;
  if (level != policy_level) return level_list(level);
  return page.keeping == Keeping::behind ? behind_queue : ordinary_queue;
}

void Group::follow(uint32_t page) noexcept {
  const GroupPage& p = records[page];
  const PageList list = cached_list(p);
  if (!is_cached(p.list) || p.list == list) return;
  lists.unlink(page);
  lists.push_back(list, page);
  shared.slabs->set(number, page, use_in(list));
}

bool Groups::serve_partial(uint32_t leading, int32_t tokens, int32_t fill) const noexcept {
  for (const Group& group : companions()) {
    // the one state that a page has is of its last token
    if (group.companion(leading) == no_page || (group.is_state() && tokens != fill)) return false;
  }
  return true;
}

void Groups::follow(uint32_t leading) noexcept {
  const PageRecord& record = records_[leading];
  if (is_cached(record.list)) slabs.set(0, leading, use_at_level(record.level));
  for (Group& group : companions()) {
    if (const uint32_t page = group.companion(leading); page != no_page) group.follow(page);
  }
}

// ---- A page's life

void Group::note_used(uint32_t page) noexcept {
  shared.slabs->set(number, page, PageUse::used);
  peak_used = std::max(peak_used,
                       int64_t{shared.slabs->count(number, PageUse::used)} - lists.count_pinned());
}

void Group::rest(uint32_t page) noexcept {
  const GroupPage& p = records[page];
  if (p.leading == no_page) {
    lists.push_back(PageList::free, page);
    return shared.slabs->set(number, page, PageUse::free);
  }
  const PageList list = cached_list(p);
  lists.push_back(list, page);
  shared.slabs->set(number, page, use_in(list));
}

uint32_t Group::oldest_cached() noexcept {
  const uint32_t normal = lists.front(ordinary_queue);
  const uint32_t page = lists.front_below(normal == no_page ? pinned_level : policy_level);
  return page != no_page ? page : normal;
}

uint32_t Group::first_to_go(bool) noexcept {
  const uint32_t page = lists.front_below(policy_level);
  return page != no_page ? page : lists.front(behind_queue);
}

int Group::place_of(uint32_t page) const noexcept {
  const PageList list = records[page].list;
  if (list == PageList::free) return -1;
  return 2 * level_of(list) - (list == behind_queue ? 1 : 0);
}

GroupFigures Group::figures() const noexcept {
  GroupFigures f{
      .num_pages = num_pages,
      .page_bytes = shared.slabs->layout().page_bytes[number],
      .page_size = page_size,
      .used_pages = int64_t{shared.slabs->count(number, PageUse::used)} - lists.count_pinned(),
      .cached_pages = lists.count_cached(),
      .evicted_pages = evicted,
      .peak_used_pages = peak_used};
  f.free_pages = f.num_pages - f.used_pages - f.cached_pages;
  return f;
}

// ---- Joint hits

void JointHit::add(uint32_t leading) noexcept {
  const uint32_t position = seen_++;
  const int64_t tokens = int64_t{seen_} * page_size_;
  bool serves = true, has_states = true;
  for (const Group& group : groups_.companions()) {
    const uint32_t g = group.number;
    const bool present = group.companion(leading) != no_page;
    run_[g] = present ? run_[g] + 1 : 0;
    if (present && sinks_[g] == position) ++sinks_[g];
    if (group.is_state()) {
      has_states = has_states && present;
      continue;
    }
    serves = serves && run_[g] >= seen_ - std::min(group.first_needed(tokens), seen_) &&
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
