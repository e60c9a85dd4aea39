// SPDX-License-Identifier: Apache-2.0
/// pool/match.cpp: what of a prompt can be found.
#include <algorithm>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

uint32_t PagePool::State::lookup_limit(size_t prompt_tokens) const noexcept {
  return static_cast<uint32_t>((prompt_tokens - 1) / static_cast<size_t>(options.page_size));
}

PagePool::State::Match PagePool::State::match(uint32_t space, const TokenId* prompt,
                                              std::span<const ContentSpan> spans, uint32_t limit,
                                              uint32_t* found,
                                              Match* without_states) const noexcept {
  if (!groups.active()) return match_leading(space, prompt, spans, limit, found, nullptr);
  pool::JointHit joint(groups, options.page_size);
  const Match leading = match_leading(space, prompt, spans, limit, found, &joint);
  const auto up_to = [&](const pool::JointHit::Reach& reach) {
    const bool is_cut = reach.next != pool::no_page;
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

PagePool::State::Match PagePool::State::match_prompt(uint32_t space,
                                                     std::span<const TokenId> prompt,
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

PagePool::State::Match PagePool::State::match_leading(uint32_t space, const TokenId* prompt,
                                                      std::span<const ContentSpan> spans,
                                                      uint32_t limit, uint32_t* found,
                                                      pool::JointHit* joint) const noexcept {
  if (!options.prefix_reuse || space == pool::no_namespace) return {};
  limit = static_cast<uint32_t>(std::min<int64_t>(limit, max_tokens / options.page_size));
  Match all;
  pool::Before before = beginning(space);
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

PagePool::State::Match PagePool::State::match_run(pool::Before before, const TokenId* prompt,
                                                  uint32_t limit, uint32_t* found,
                                                  pool::JointHit* joint) const noexcept {
  constexpr uint32_t ahead = pool::PrefixIndex::ahead, num_hashes = 4 * ahead;
  auto [parent, hash] = before;
  uint32_t last = pool::no_page;
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
    if (page == pool::no_page) break;
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

int32_t PagePool::peek(std::span<const TokenId> prompt,
                       const SequenceOptions& options) const noexcept {
  if (state_ == nullptr || !pool::check_prompt(prompt, options).is_ok() ||
      !pool::check_spans(prompt, options, state_->options).is_ok())
    return 0;
  const uint32_t space = state_->namespaces.find(options.salt, options.adapter);
  const State::Match match = state_->match_prompt(space, prompt, options.spans, nullptr);
  const auto tokens = static_cast<int32_t>(match.pages) * page_size();
  return state_->heads.is_on() ? tokens + state_->peek_partial(space, match, prompt, options.spans)
                               : tokens;
}

}  // namespace folio::inline v1
