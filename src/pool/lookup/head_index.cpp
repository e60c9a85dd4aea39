// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/head_index.cpp: first children, and hash buckets of other pages that answer, chained
/// through the page records.
#include "pool/lookup/head_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "pool/pages/links.h"

namespace folio::inline v1::pool {

int64_t HeadIndex::num_buckets(uint32_t num_pages) noexcept {
  return static_cast<int64_t>(std::bit_ceil(uint64_t{num_pages} / 2 + num_pages % 2));
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
  for (uint32_t page = 0; page < num_pages; ++page) links[page] = {};
}

bool HeadIndex::has_key(uint32_t page, uint64_t parent, const TokenId* tokens) const noexcept {
  return records_[page].parent == parent &&
         std::memcmp(tokens_of(page), tokens,
                     static_cast<size_t>(head_tokens_) * sizeof(TokenId)) == 0;
}

uint32_t* HeadIndex::place_of(uint64_t parent, const TokenId* tokens) const noexcept {
  uint32_t* at = &buckets_[hash(parent, tokens) & bucket_mask_];
  while (*at != no_page && !has_key(*at, parent, tokens)) at = &records_[*at].head_next;
  return at;
}

uint32_t HeadIndex::first_child(uint64_t parent, uint32_t parent_page) const noexcept {
  if (parent_page == no_page || records_[parent_page].content != parent) return no_page;
  const uint32_t page = links_[parent_page].child;
  const bool is_here =
      page != no_page && records_[page].first_child && records_[page].parent == parent;
  return is_here ? page : no_page;
}

uint32_t HeadIndex::find(uint64_t parent, uint32_t parent_page,
                         const TokenId* tokens) const noexcept {
  if (const uint32_t page = *place_of(parent, tokens); page != no_page) return page;
  const uint32_t page = first_child(parent, parent_page);
  return page != no_page && has_key(page, parent, tokens) ? page : no_page;
}

void HeadIndex::add(uint32_t page, uint32_t parent_page) noexcept {
  PageRecord& record = records_[page];
  links_[page] = {};
  if (parent_page != no_page && records_[parent_page].content == record.parent &&
      links_[parent_page].child == no_page) {
    links_[parent_page].child = page;
    links_[page].parent_page = parent_page;
    record.first_child = true;
    return;
  }
  uint32_t* const at = place_of(page);
  const uint32_t older = *at;
  record.head_next = older == no_page ? no_page : records_[older].head_next;
  *at = page;
  if (older == no_page) return;
  links_[page].older = older;
  links_[older].younger = page;
}

void HeadIndex::remove(uint32_t page) noexcept {
  PageRecord& record = records_[page];
  if (record.first_child) {
    record.first_child = false;  // the page before it may be gone, or sees it
    return;
  }
  const uint32_t older = links_[page].older, younger = links_[page].younger;
  if (older != no_page) links_[older].younger = younger;
  if (younger != no_page) {
    links_[younger].older = older;
    return;
  }
  uint32_t* const at = place_of(page);
  if (older != no_page) records_[older].head_next = record.head_next;
  *at = older != no_page ? older : record.head_next;
}

void HeadIndex::replace(uint32_t page, uint32_t heir) noexcept {
  const uint32_t child = first_child(records_[page].content, page);
  if (child != no_page) links_[child].parent_page = heir;
  const Link& link = links_[heir] = links_[page];
  if (records_[page].first_child) {
    records_[page].first_child = false;
    records_[heir].first_child = true;
    uint32_t& known = links_[link.parent_page].child;
    if (known == page) known = heir;
    return;
  }
  if (link.older != no_page) links_[link.older].younger = heir;
  if (link.younger != no_page) {
    links_[link.younger].older = heir;
    return;
  }
  *place_of(page) = heir;
  records_[heir].head_next = records_[page].head_next;
}

bool HeadIndex::holds(uint32_t page) const noexcept {
  if (records_[page].first_child) {
    const uint32_t parent_page = links_[page].parent_page;
    return records_[parent_page].content != records_[page].parent ||
           links_[parent_page].child == page;
  }
  uint32_t at = *place_of(page), younger = no_page;
  for (; at != no_page && links_[at].younger == younger; at = links_[at].older) {
    if (at == page) return true;
    younger = at;
  }
  return false;
}

uint32_t HeadIndex::chain_length(uint64_t hash) const noexcept {
  return pool::chain_length(records_, &PageRecord::head_next, buckets_[hash & bucket_mask_]);
}

uint32_t HeadIndex::longest_chain() const noexcept {
  return pool::longest_chain(records_, &PageRecord::head_next, {buckets_, bucket_mask_ + 1});
}

}  // namespace folio::inline v1::pool
