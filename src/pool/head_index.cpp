// SPDX-License-Identifier: Apache-2.0
/// pool/head_index.cpp: hash buckets of the pages that answer, chained through the page records.
#include "pool/head_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace folio::inline v1::pool {

int64_t HeadIndex::num_buckets(uint32_t num_pages) noexcept {
  return static_cast<int64_t>(std::bit_ceil(uint64_t{num_pages}));
}

void HeadIndex::attach(PageRecord* records, const TokenId* tokens, uint32_t* buckets,
                       PerPage<Link> links, uint32_t num_pages, int32_t page_size,
                       int32_t head_tokens, const PrefixIndex* hashes) noexcept {
  records_ = records;
  tokens_ = tokens;
  buckets_ = buckets;
  links_ = links;
  hashes_ = hashes;
  page_size_ = page_size;
  head_tokens_ = head_tokens;
  bucket_mask_ = static_cast<uint64_t>(num_buckets(num_pages)) - 1;
  std::fill_n(buckets, num_buckets(num_pages), no_page);
  for (uint32_t page = 0; page < num_pages; ++page) links[page] = Link();
}

bool HeadIndex::has_key(uint32_t page, uint64_t parent, const TokenId* tokens) const noexcept {
  return records_[page].parent == parent &&
         std::memcmp(tokens_of(page), tokens,
                     static_cast<size_t>(head_tokens_) * sizeof(TokenId)) == 0;
}

uint32_t HeadIndex::find(uint64_t parent, const TokenId* tokens) const noexcept {
  uint32_t page = *bucket_of(parent, tokens);
  while (page != no_page && !has_key(page, parent, tokens)) page = records_[page].head_next;
  return page;
}

void HeadIndex::add_alone(uint32_t page, uint32_t hash) noexcept {
  records_[page].head_next = std::exchange(buckets_[hash & bucket_mask_], page);
}

void HeadIndex::add(uint32_t page, uint32_t hash) noexcept {
  PageRecord& record = records_[page];
  uint32_t* at = &buckets_[hash & bucket_mask_];
  while (*at != no_page && !has_key(*at, record.parent, tokens_of(page)))
    at = &records_[*at].head_next;
  const uint32_t older = *at;
  if (older == no_page) return add_alone(page, hash);
  links_[page].older = older;
  links_[older].younger = page;
  record.head_next = records_[older].head_next;
  *at = page;
}

void HeadIndex::remove(uint32_t page) noexcept {
  const auto [older, younger] = links_[page];
  if (is_linked(page)) links_[page] = {};  // else the line stays clean
  if (older != no_page) links_[older].younger = younger;
  if (younger != no_page) {
    links_[younger].older = older;
    return;
  }
  uint32_t* const at = place_of(page);
  const uint32_t next = records_[page].head_next;
  if (older != no_page) records_[older].head_next = next;
  *at = older != no_page ? older : next;
}

void HeadIndex::replace(uint32_t page, uint32_t heir) noexcept {
  const auto [older, younger] = links_[heir] = std::exchange(links_[page], Link());
  if (older != no_page) links_[older].younger = heir;
  if (younger != no_page) {
    links_[younger].older = heir;
    return;
  }
  *place_of(page) = heir;
  records_[heir].head_next = records_[page].head_next;
}

uint32_t* HeadIndex::place_of(uint32_t page) const noexcept {
  uint32_t* at = bucket_of(records_[page].parent, tokens_of(page));
  while (*at != page) at = &records_[*at].head_next;
  return at;
}

bool HeadIndex::holds(uint32_t page) const noexcept {
  uint32_t at = find(records_[page].parent, tokens_of(page)), younger = no_page;
  for (; at != no_page && links_[at].younger == younger; at = links_[at].older) {
    if (at == page) return true;
    younger = at;
  }
  return false;
}

uint32_t HeadIndex::chain_length(uint64_t hash) const noexcept {
  uint32_t length = 0;
  for (uint32_t page = buckets_[hash & bucket_mask_]; page != no_page;
       page = records_[page].head_next)
    ++length;
  return length;
}

uint32_t HeadIndex::longest_chain() const noexcept {
  uint32_t longest = 0;
  for (uint64_t bucket = 0; bucket <= bucket_mask_; ++bucket)
    longest = std::max(longest, chain_length(bucket));
  return longest;
}

}  // namespace folio::inline v1::pool
