// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model_loads.cpp: loads, which fill what is new with what it is to be.
#include <algorithm>

#include "pool/checked.h"
#include "pool/group_model.h"
#include "pool/inspection.h"

namespace folio::test {

/// What memory has behind the sequence, page by page.
std::vector<pool::GroupBits> GroupModel::parts_behind(const Sequence& s,
                                                      const std::vector<TokenId>& prompt) const {
  const auto size = static_cast<size_t>(options_.page_size);
  std::vector<pool::GroupBits> parts;
  int before = content_before(s.id, std::ssize(s.tokens) / options_.page_size);
  for (size_t p = s.tokens.size() / size; (p + 1) * size < prompt.size(); ++p) {
    if (p >= options_.max_pages_per_sequence) break;
    const uint32_t page =
        find_page(items_.find(before, s.items.spans, p), prompt.data() + p * size);
    if (page == pool::no_page) break;
    pool::GroupBits bits = 1;
    for (uint32_t g = 1; g < num_groups(); ++g)
      if (pool::PoolInspection::groups(pool_).companion(page, g) != pool::no_page)
        bits = static_cast<pool::GroupBits>(bits | 1U << g);
    parts.push_back(bits);
    before = content(pool::PoolInspection::record(pool_, page).content);
  }
  return parts;
}

/// The prompt that goes on with `more`; its items are the sequence's.
void GroupModel::find_parts(size_t sequence, const std::vector<TokenId>& more) {
  const Sequence& s = sequences_[sequence];
  std::vector<TokenId> prompt = s.tokens;
  prompt.insert(prompt.end(), more.begin(), more.end());
  if (prompt.empty()) return;
  const auto before = memory_.snapshot();
  const int64_t size = options_.page_size;
  const int64_t most = (std::ssize(prompt) - 1) / size - std::ssize(s.tokens) / size;
  std::vector<pool::GroupBits> parts(static_cast<size_t>(std::max<int64_t>(most, 0)));
  const auto found = pool_.find_parts(s.id, prompt, parts);
  expect_unchanged(before);
  const bool is_ready = std::ssize(s.tokens) % size == 0 && s.room == std::ssize(s.tokens);
  RC_ASSERT(found.has_value() == is_ready);
  if (!found) return;
  std::vector<pool::GroupBits> expected =
      options_.prefix_reuse ? parts_behind(s, prompt) : std::vector<pool::GroupBits>();
  RC_ASSERT(*found == static_cast<int32_t>(expected.size()));
  expected.resize(parts.size());
  RC_ASSERT(parts == expected);
}

/// Whoever fills a page writes all of it, at once.
void GroupModel::fill(const Sequence& s, int32_t length, const std::vector<pool::GroupBits>& fill) {
  Sequence whole = s;
  whole.tokens = s.load;
  const auto first = std::ssize(s.tokens) / options_.page_size;
  for (size_t i = 0; i < fill.size(); ++i) {
    for (uint32_t g = 0; g < num_groups(); ++g) {
      if ((fill[i] >> g & 1) == 0) continue;
      const bool state = groups_[g].rule == GroupRule::state;
      const int64_t begin = (first + static_cast<int64_t>(i)) * options_.page_size;
      const int64_t end = std::min<int64_t>(begin + options_.page_size, length);
      RC_ASSERT(!state || end == length);
      for (int64_t t = state ? end - 1 : begin; t < end; ++t)
        write(s.id, g, t, history(whole, t + 1, g));
    }
  }
}

void GroupModel::begin_load(size_t sequence, const std::vector<TokenId>& more, int32_t pages) {
  const Sequence& s = sequences_[sequence];
  std::vector<TokenId> prompt = s.tokens;
  prompt.insert(prompt.end(), more.begin(), more.end());
  if (prompt.empty()) return;
  const auto had = static_cast<int32_t>(s.tokens.size());
  const int32_t length = had / options_.page_size * options_.page_size + pages * options_.page_size;
  const bool is_length =
      pages > 0 && length < static_cast<int32_t>(prompt.size()) && length <= max_tokens();
  std::vector<pool::GroupBits> bits(static_cast<size_t>(std::max(pages, 0)));
  load(sequence, prompt, length, is_length, bits,
       [&] { return pool_.begin_load(s.id, prompt, length, bits); });
}

void GroupModel::begin_whole_load(size_t sequence, const std::vector<TokenId>& more) {
  const Sequence& s = sequences_[sequence];
  std::vector<TokenId> prompt = s.tokens;
  prompt.insert(prompt.end(), more.begin(), more.end());
  if (prompt.empty()) return;
  const auto had = static_cast<int32_t>(s.tokens.size());
  const auto length = static_cast<int32_t>(prompt.size());
  const int32_t size = options_.page_size;
  std::vector<pool::GroupBits> bits(static_cast<size_t>((length + size - 1) / size - had / size));
  load(sequence, prompt, length, length > had && length <= max_tokens(), bits,
       [&] { return pool_.begin_whole_load(s.id, prompt, bits); });
}

/// `begin` begins it: of `length` tokens of the prompt.
void GroupModel::load(size_t sequence, const std::vector<TokenId>& prompt, int32_t length,
                      bool is_length, const std::vector<pool::GroupBits>& bits, auto begin) {
  Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const int64_t had = std::ssize(s.tokens);
  const bool is_ready = had % options_.page_size == 0 && s.room == had && s.load.empty();
  std::vector<TokenId> longer = prompt;
  if (is_length) longer.resize(static_cast<size_t>(length));
  longer.push_back(0);  // a page that ends with a whole load is one that memory may have
  const std::vector<pool::GroupBits> there =
      is_ready && options_.prefix_reuse ? parts_behind(s, longer) : std::vector<pool::GroupBits>();
  const Status status = begin();
  if (!status.is_ok()) {
    RC_ASSERT(status.code() ==
              (is_ready && is_length ? Errc::out_of_pages : Errc::invalid_argument));
    return expect_unchanged(before);
  }
  RC_ASSERT(is_ready && is_length);
  for (size_t i = 0; i < bits.size(); ++i) {
    const pool::GroupBits has = i < there.size() ? there[i] : pool::GroupBits{0};
    RC_ASSERT((bits[i] & 1) == 1 - (has & 1));  // each leading page is there, or new
    RC_ASSERT((bits[i] & has) == 0);            // and nothing is new that memory has
  }
  s.load.assign(prompt.begin(), prompt.begin() + length);
  s.room = length;
  ++loads;
  fill(s, length, bits);
  check();
}

void GroupModel::shorten_load(size_t sequence, int32_t pages) {
  Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const auto had = static_cast<int32_t>(s.tokens.size());
  const int32_t length = had + pages * options_.page_size;
  std::vector<pool::GroupBits> bits(static_cast<size_t>(std::max(pages, 0)));
  const Status status = pool_.shorten_load(s.id, length, bits);
  if (!status.is_ok()) {
    const bool is_right = pages > 0 && length < static_cast<int32_t>(s.load.size());
    RC_ASSERT(status.code() == Errc::invalid_argument ||
              (is_right && status.code() == Errc::out_of_pages));
    return expect_unchanged(before);
  }
  ++shortened_loads;
  s.load.resize(static_cast<size_t>(length));
  s.room = length;
  fill(s, length, bits);
  check();
}

void GroupModel::commit_load(size_t sequence, Merge merge) {
  Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const auto begin = static_cast<int64_t>(s.tokens.size());
  const std::vector<TokenId> tokens(s.load.begin() + (s.load.empty() ? 0 : begin), s.load.end());
  const Status status = pool_.commit_load(s.id, tokens, merge);
  RC_ASSERT(status.is_ok() == !s.load.empty());
  if (!status.is_ok()) {
    RC_ASSERT(status.code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  ++committed_loads;
  s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  s.load.clear();
  name_pages(s, begin);
  check();
}

}  // namespace folio::test
