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
                                              uint32_t* found) const noexcept {
  if (!groups.active()) return match_leading(space, prompt, spans, limit, found, nullptr);
  pool::JointHit joint(groups, options.page_size);
  Match match = match_leading(space, prompt, spans, limit, found, &joint);
  if (found != nullptr)
    std::fill_n(found + joint.pages(), match.pages - joint.pages(), options.num_pages);
  match.leading = match.pages;
  match.pages = joint.pages();  // its content is asked for by partial hits, which groups have not
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
    if (all.pages != next_item) return all;
  }
}

PagePool::State::Match PagePool::State::match_run(pool::Before before, const TokenId* prompt,
                                                  uint32_t limit, uint32_t* found,
                                                  pool::JointHit* joint) const noexcept {
  constexpr uint32_t ahead = pool::PrefixIndex::ahead;
  auto [parent, hash] = before;
  uint32_t hashes[2 * ahead];
  uint32_t hits = 0, hashed = 0;
  for (; hits < limit; ++hits) {
    // Hashes do not depend on what is found: ask for the buckets of the next pages together, and
    // for the pages of those whose buckets have come meanwhile. Twice as far ahead where something
    // has been found.
    if (hits % ahead == 0) {
      for (; hashed < std::min(hits == 0 ? ahead : hits + 2 * ahead, limit); ++hashed) {
        hash = index.hash(hash, prompt + int64_t{hashed} * options.page_size);
        hashes[hashed % (2 * ahead)] = hash;
        index.prefetch(hash);
      }
      for (uint32_t i = hits; i < std::min(hits + ahead, limit); ++i)
        index.prefetch_page(hashes[i % (2 * ahead)]);
    }
    const uint32_t page =
        index.find(parent, hashes[hits % (2 * ahead)], prompt + int64_t{hits} * options.page_size);
    if (page == pool::no_page) break;
    parent = records[page].content;
    if (found != nullptr) found[hits] = page;
    if (joint != nullptr) [[unlikely]]
      joint->add(page);
  }
  return {hits, parent};
}

int32_t PagePool::peek(std::span<const TokenId> prompt,
                       const SequenceOptions& options) const noexcept {
  if (state_ == nullptr || !pool::check_prompt(prompt, options).is_ok() ||
      !pool::check_spans(prompt, options, state_->options).is_ok())
    return 0;
  const uint32_t space = state_->namespaces.find(options.salt, options.adapter);
  const State::Match match = state_->match(space, prompt.data(), options.spans,
                                           state_->lookup_limit(prompt.size()), nullptr);
  const auto tokens = static_cast<int32_t>(match.pages) * page_size();
  return state_->heads.is_on() ? tokens + state_->peek_partial(space, match, prompt, options.spans)
                               : tokens;
}

}  // namespace folio::inline v1
