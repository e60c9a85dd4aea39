// SPDX-License-Identifier: Apache-2.0
/// pool/admissions.cpp: what a prompt finds becomes its sequence's.
#include <cstdint>

#include "pool/lookup.h"

namespace folio::inline v1::pool {

#ifdef FOLIO_MUTANT_WRONG_HIT
namespace {

/// The fault of a test build: a findable page with other content than `page`, once; else `page`.
uint32_t wrong_hit(const PageRecord* records, uint32_t num_pages, uint32_t page) {
  static bool done = false;
  for (uint32_t other = num_pages; !done && other-- > 0;) {
    done = records[other].findable && records[other].content != records[page].content;
    if (done) return other;
  }
  return page;
}

}  // namespace
#endif

int32_t Lookup::hold_prefix(SequenceRecord& s, std::span<const TokenId> prompt) noexcept {
  uint32_t* const row = this->row(s);
  const uint32_t limit = lookup_limit(prompt.size());
  const Match match = match_prompt(s.space, prompt, items.of(index_of(s)), row);
  s.pages = match.pages;
#ifdef FOLIO_MUTANT_WRONG_HIT
  if (s.pages != 0) row[s.pages - 1] = wrong_hit(records, options.num_pages, row[s.pages - 1]);
#endif
  const uint32_t cached = lists.count_cached();
  for (uint32_t i = 0; i < s.pages; ++i) hold(row[i]);
  enter_pages(s, s.pages);
  const int64_t were_cached = cached - lists.count_cached();
  for (uint32_t i = 0; ages.on() && i < s.pages; ++i) ages.found(row[i]);
  with_policy([&](auto& policy) {
    for (uint32_t i = 0; i < s.pages; ++i) policy.found(row[i]);
  });
  s.length = s.room = static_cast<int32_t>(s.pages) * options.page_size;
  groups.expect(index_of(s), {.found = s.length,
                              .diverged = static_cast<int32_t>(match.leading) * options.page_size,
                              .prompt = static_cast<int32_t>(prompt.size())});
  hold_group_hits(s, match.states_of_tail);
  counters.lookup_pages += limit;
  counters.hit_pages += s.pages;
  counters.hit_tokens_cached += were_cached * options.page_size;
  counters.hit_tokens_used += (s.pages - were_cached) * options.page_size;
  if (heads.is_on()) admit_partial(s, match, prompt);
  counters.hit_tokens += s.length;
  s.starting = true;
  return s.length;
}

}  // namespace folio::inline v1::pool
