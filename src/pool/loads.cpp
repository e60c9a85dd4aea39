// SPDX-License-Identifier: Apache-2.0
/// pool/loads.cpp: what memory has of a load, what is new, and how it becomes the sequence's.
#include "pool/loads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pool/checks.h"

namespace folio::inline v1::pool {

// ---- What memory has

Status Loads::check_loadable(const char* call, const SequenceRecord& s,
                             std::span<const TokenId> prompt) const noexcept {
  if (Status is = check_tokens(call, "prompt", prompt); !is.is_ok()) return is;
  if (s.loading == 0 && s.room == s.length && s.length % options.page_size == 0) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: the sequence has {} tokens, room for {} and a load of {}, expected "
              "whole pages of {} without room or a load behind them",
              call, s.length, s.room, s.loading, options.page_size);
}

uint32_t Loads::find_behind(const SequenceRecord& s, std::span<const TokenId> prompt,
                            uint32_t limit) noexcept {
  if (!options.prefix_reuse) return 0;
  return match_behind(s, prompt.data(), limit, row(s));
}

void Loads::forget_found(const SequenceRecord& s, uint32_t found) noexcept {
  std::fill_n(row(s) + s.pages, found, options.num_pages);
}

GroupBits Loads::parts_of(uint32_t leading) const noexcept {
  auto bits = GroupBits{1};
  for (const Group& group : groups.companions())
    if (group.companion(leading) != no_page) bits |= static_cast<GroupBits>(1U << group.number);
  return bits;
}

uint32_t Loads::companion_at(const SequenceRecord& s, uint32_t position,
                             uint32_t group) const noexcept {
  const uint32_t own = row(s)[position], page = groups.companion(own, group);
  return page != no_page ? page : groups.companion(index.findable_twin(own), group);
}

PageParts Loads::parts_at(const SequenceRecord& s, uint32_t position) const noexcept {
  PageParts parts{.present = 1, .held = 1, .likely = 1};
  for (const Group& group : groups.companions()) {
    const uint32_t page = companion_at(s, position, group.number);
    if (page == no_page) continue;
    const uint32_t entry = entry_of(group, position, options.page_size);
    const auto bit = static_cast<GroupBits>(1U << group.number);
    parts.present |= bit;
    if (group.row_of(index_of(s))[entry] == page) parts.held |= bit;
    if (group.is_likely(groups.expected(index_of(s)), entry)) parts.likely |= bit;
  }
  return parts;
}

// ---- What a load takes

uint32_t Loads::page_there(const SequenceRecord& s, const Group& group, uint32_t entry,
                           int32_t length) const noexcept {
  if (keeps_entry(s, group, entry)) return group.row_of(index_of(s))[entry];
  const uint32_t leading = row(s)[leading_of(group, entry, length, options.page_size)];
  const bool is_full = leading != options.num_pages && records[leading].content != 0;
  return is_full ? group.companion(leading) : no_page;
}

template <class Visit>
void Loads::visit_revived(const SequenceRecord& s, int32_t length, Visit visit) const noexcept {
  const uint32_t* const pages = row(s);
  const auto last = static_cast<uint32_t>(length / options.page_size);
  for (uint32_t p = s.pages; p < last && groups.slabs.has(number); ++p)
    if (pages[p] != options.num_pages && is_evictable(records[pages[p]].list))
      visit(number, pages[p]);
  for (const Group& group : groups.companions()) {
    group.visit_entries(group.row_for(length), [&](uint32_t p) {
      const uint32_t page = page_there(s, group, p, length);
      if (page != no_page && is_idle(group.number, page)) visit(group.number, page);
    });
  }
}

Status Loads::count_needs(const char* call, const SequenceRecord& s, int32_t length,
                          Needs& needs) noexcept {
  const uint32_t* const pages = row(s);
  const auto first = static_cast<uint32_t>(s.length / options.page_size);
  const uint32_t last = pages_for(length);
  for (uint32_t p = std::max(first, s.pages); p < last; ++p) {
    if (pages[p] == options.num_pages) {
      ++needs.pages[number];
    } else if (is_evictable(records[pages[p]].list)) {
      ++needs.revived_leading;
    }
  }
  for (const Group& group : groups.companions()) {
    bool is_lost = false;
    group.visit_entries(group.row_for(length), [&](uint32_t p) {
      const uint32_t page = page_there(s, group, p, length);
      if (page == no_page) {
        ++needs.pages[group.number];
        is_lost |= leading_of(group, p, length, options.page_size) < first;
      }
    });
    if (is_lost) return cannot_load(call, s, length, group.number);
  }
  visit_revived(s, length,
                [&](uint32_t g, uint32_t page) { groups.slabs.revive(g, page, needs.revived); });
  visit_revived(s, length,
                [&](uint32_t g, uint32_t page) { groups.slabs.forget_revived(g, page); });
  return {};
}

Status Loads::cannot_load(const char* call, const SequenceRecord& s, int32_t length,
                          uint32_t group) noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::{}: length is {}, expected one for which group {} still has what lies "
              "before the sequence's {} tokens",
              call, length, group, s.length);
}

Status Loads::check_needs(const char* call, const SequenceRecord& s,
                          const Needs& needs) const noexcept {
  const uint32_t held_back = this->held_back(s, needs.pages[number], 0);
  GroupNeeds all = {};
  std::copy_n(needs.pages, max_groups, all);
  all[number] += held_back;
  const bool takes = std::any_of(all, all + groups.count(), [](uint32_t n) { return n != 0; });
  const bool has_slabs = !groups.active() || groups.slabs.can_give(all, needs.revived);
  const bool has_leading =
      groups.slabs.has(number) || uint64_t{all[number]} + needs.revived_leading <= available();
  if (!takes || (has_slabs && has_leading)) return {};
  return fail(Errc::out_of_pages,
              "PagePool::{}: {} leading pages and those of other groups needed, more than are free "
              "or can be evicted; {} leading ones are held back",
              call, needs.pages[number], held_back);
}

void Loads::hold_there(const SequenceRecord& s, Group& group, int32_t length) noexcept {
  uint32_t* const pages = group.row_of(index_of(s));
  group.visit_entries(group.row_for(length), [&](uint32_t p) {
    if (keeps_entry(s, group, p)) return;
    const uint32_t page = page_there(s, group, p, length);
    if (page != no_page) group.hold(page);
    const uint32_t old = std::exchange(pages[p], page == no_page ? group.num_pages : page);
    if (old != group.num_pages) group.drop(old, unfinished_steps(s));  // another state
  });
}

void Loads::take_missing(const SequenceRecord& s, Group& group, int32_t length,
                         std::span<GroupBits> fill) noexcept {
  uint32_t* const pages = group.row_of(index_of(s));
  const auto first = static_cast<uint32_t>(s.length / options.page_size);
  group.visit_entries(group.row_for(length), [&](uint32_t p) {
    if (pages[p] != group.num_pages) return;
    pages[p] = take_page(group);
    fill[leading_of(group, p, length, options.page_size) - first] |=
        static_cast<GroupBits>(1U << group.number);
  });
}

void Loads::open_load(SequenceRecord& s, int32_t length, const Needs& needs,
                      std::span<GroupBits> fill) noexcept {
  uint32_t* const pages = row(s);
  const uint32_t last = pages_for(length);
  std::ranges::fill(fill, GroupBits{0});
  // All is held before anything is taken.
  const uint32_t own = s.pages;
  for (uint32_t p = own; p < last; ++p) {
    if (pages[p] == options.num_pages) continue;
    hold(pages[p]);
    note_found(pages[p]);
  }
  for (Group& group : groups.companions()) hold_there(s, group, length);
  for (Group& group : groups.companions()) {
    GroupRow& r = group.rows[index_of(s)];
    const GroupRow of_load = group.row_for(length);
    const uint32_t kept = group.sink_pages;
    drop_group_pages(s, group, std::max(r.begin, kept), std::min(r.end, of_load.begin));
    drop_group_pages(s, group, of_load.end, r.end);
    r = of_load;
  }
  drop_pages(s, std::min(s.pages, last));
  groups.claim(needs.pages);
  for (uint32_t p = own; p < last; ++p) {
    if (pages[p] != options.num_pages) continue;
    pages[p] = take_page();
    fill[p - static_cast<uint32_t>(s.length / options.page_size)] |= GroupBits{1};
  }
  for (Group& group : groups.companions()) take_missing(s, group, length, fill);
  s.pages = last;
  s.room = s.loading = length;
  s.starting = false;
}

// ---- Its end

void Loads::commit_load(SequenceRecord& s, std::span<const TokenId> written, bool merges) noexcept {
  const uint32_t* const pages = row(s);
  const auto first = static_cast<uint32_t>(s.length / options.page_size);
  const auto last = static_cast<uint32_t>(s.loading / options.page_size);
  const auto page_size = static_cast<size_t>(options.page_size);
  if (const auto cut = static_cast<size_t>(s.loading) % page_size; cut != 0)
    std::memcpy(tokens_of(pages[last]), &written[written.size() - cut], cut * sizeof(TokenId));
  s.length = std::exchange(s.loading, 0);
  for (uint32_t p = first; p < last;) {
    uint32_t end = p;
    if (records[pages[p]].content != 0) {  // memory's
      while (end < last && records[pages[end]].content != 0) ++end;
      enter_pages(s, end);
    } else {
      for (; end < last && records[pages[end]].content == 0; ++end)
        std::memcpy(tokens_of(pages[end]), &written[(end - first) * page_size],
                    page_size * sizeof(TokenId));
      if (options.prefix_reuse) name_full_pages(s, p, end, merges);
    }
    p = end;
  }
  groups.expect_found(index_of(s), s.length);
  advance_groups(s, first, merges);
}

}  // namespace folio::inline v1::pool
