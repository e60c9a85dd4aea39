// SPDX-License-Identifier: Apache-2.0
/// pool/match.cpp: what of a prompt can be found.
#include <algorithm>

#include "pool/lookup.h"

namespace folio::inline v1::pool {

Lookup::Match Lookup::match(uint32_t space, const TokenId* prompt,
                            std::span<const ContentSpan> spans, uint32_t limit, uint32_t* found,
                            Match* without_states) const noexcept {
  if (!groups.active()) return match_leading(space, prompt, spans, limit, found, nullptr);
  JointHit joint(groups, options.page_size);
  const Match leading = match_leading(space, prompt, spans, limit, found, &joint);
  const auto up_to = [&](const JointHit::Reach& reach) {
    const bool is_cut = reach.next != no_page;
    return Match{.pages = reach.pages,
                 .last = reach.last,
                 .content = is_cut ? records[reach.next].parent : leading.content,
                 .leading = leading.pages};
  };
  if (without_states != nullptr) *without_states = up_to(joint.without_states());
  if (found != nullptr) {
    const uint32_t served = joint.without_states().pages;
    std::fill_n(found + served, leading.pages - served, options.num_pages);
  }
  return up_to(joint.all());
}

Lookup::Match Lookup::match_prompt(uint32_t space, std::span<const TokenId> prompt,
                                   std::span<const ContentSpan> spans,
                                   uint32_t* found) const noexcept {
  Match longer;
  Match match =
      this->match(space, prompt.data(), spans, lookup_limit(prompt.size()), found, &longer);
  if (longer.pages <= match.pages) return match;
  if (heads.is_on() && peek_partial(space, longer, prompt, spans) != 0) {
    longer.states_of_tail = true;
    return longer;
  }
  if (found != nullptr)
    std::fill_n(found + match.pages, longer.pages - match.pages, options.num_pages);
  return match;
}

Lookup::Match Lookup::match_leading(uint32_t space, const TokenId* prompt,
                                    std::span<const ContentSpan> spans, uint32_t limit,
                                    uint32_t* found, JointHit* joint) const noexcept {
  if (!options.prefix_reuse || space == no_namespace) return {};
  return match_on({}, beginning(space), prompt, spans, limit, found, joint);
}

uint32_t Lookup::match_behind(const SequenceRecord& s, const TokenId* prompt, uint32_t limit,
                              uint32_t* found) const noexcept {
  const auto opened = items.count(index_of(s)).opened;
  const auto spans = items.of(index_of(s)).subspan(opened);
  const Match all =
      match_on({.pages = s.pages}, before_page(s, s.pages), prompt, spans, limit, found, nullptr);
  return all.pages - s.pages;
}

Lookup::Match Lookup::match_on(Match all, Before before, const TokenId* prompt,
                               std::span<const ContentSpan> spans, uint32_t limit, uint32_t* found,
                               JointHit* joint) const noexcept {
  limit = static_cast<uint32_t>(std::min<int64_t>(limit, max_tokens / options.page_size));
  for (;;) {
    before = items.find(before, all.pages, spans);
    all.content = before.content;
    const uint32_t next_item = items.page_of_first(spans);
    if (all.content == 0 || next_item < all.pages) return all;
    const uint32_t end = std::min(limit, next_item);
    const Match run =
        match_run(before, prompt + int64_t{all.pages} * options.page_size, end - all.pages,
                  found == nullptr ? nullptr : found + all.pages, joint);
    all.pages += run.pages;
    all.content = before.content = run.content;
    if (run.pages != 0) all.last = run.last;
    if (all.pages != next_item) return all;
  }
}

Lookup::Match Lookup::match_run(Before before, const TokenId* prompt, uint32_t limit,
                                uint32_t* found, JointHit* joint) const noexcept {
  constexpr uint32_t ahead = PrefixIndex::ahead, num_hashes = 4 * ahead;
  auto [parent, hash] = before;
  uint32_t last = no_page;
  uint32_t hashes[num_hashes];
  uint32_t hits = 0, hashed = 0, asked = 0;
  for (; hits < limit; ++hits) {
    // Hashes do not depend on what is found: ask for the buckets of the next pages together, and
    // for the pages of those whose buckets have come meanwhile. Further ahead where something has
    // been found.
    if (hits % ahead == 0) {
      for (; hashed < std::min(hits == 0 ? ahead : hits + 3 * ahead, limit); ++hashed) {
        hash = index.hash(hash, prompt + int64_t{hashed} * options.page_size);
        hashes[hashed % num_hashes] = hash;
        index.prefetch(hash);
      }
      for (; asked < std::min(hits == 0 ? ahead : hits + 2 * ahead, limit); ++asked)
        index.prefetch_page(hashes[asked % num_hashes]);
    }
    const uint32_t page =
        index.find(parent, hashes[hits % num_hashes], prompt + int64_t{hits} * options.page_size);
    if (page == no_page) break;
    parent = records[page].content;
    last = page;
    if (found != nullptr) {
      found[hits] = page;
      if (!index.fits_caches()) extras.prefetch(page);
    }
    if (joint != nullptr) [[unlikely]]
      joint->add(page);
  }
  return {.pages = hits, .last = last, .content = parent};
}

}  // namespace folio::inline v1::pool
