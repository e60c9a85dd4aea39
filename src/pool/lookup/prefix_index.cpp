// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/prefix_index.cpp: hash buckets chained through the page records. The one file that
/// knows xxHash.
#include "pool/lookup/prefix_index.h"

#include <bit>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's name
#include <xxhash.h>

#include "pool/eviction/retention.h"
#include "pool/outside/shared_chain.h"
#include "pool/outside/shared_word.h"
#include "pool/pages/links.h"

namespace folio::inline v1::pool {
namespace {

// The test build narrows the hash until collisions are certain: answers must stay exact.
#ifndef FOLIO_POOL_HASH_BITS
#define FOLIO_POOL_HASH_BITS 32
#endif
constexpr uint32_t hash_mask = ~uint32_t{0} >> (32 - FOLIO_POOL_HASH_BITS);

// The same build asks for everything ahead of time, whatever the caches hold.
#ifndef FOLIO_POOL_CACHED_PAGES
#define FOLIO_POOL_CACHED_PAGES (1 << 15)
#endif

uint32_t kept(uint64_t hash) { return static_cast<uint32_t>(hash) & hash_mask; }

size_t bytes_of(int32_t tokens) { return static_cast<size_t>(tokens) * sizeof(TokenId); }

}  // namespace

int64_t PrefixIndex::num_buckets(uint32_t num_pages) noexcept {
  return 2 * static_cast<int64_t>(std::bit_ceil(uint64_t{num_pages}));
}

void PrefixIndex::attach(PageRecord* records, const TokenId* tokens, uint32_t* buckets,
                         uint32_t num_pages, int32_t page_size, uint64_t seed) noexcept {
  records_ = records;
  tokens_ = tokens;
  buckets_ = buckets;
  page_size_ = page_size;
  seed_ = seed;
  const int64_t count = num_buckets(num_pages);
  bucket_mask_ = static_cast<uint64_t>(count) - 1;
  fits_caches_ = num_pages <= FOLIO_POOL_CACHED_PAGES;
  for (int64_t i = 0; i < count; ++i) buckets_[i] = no_page;
}

uint32_t PrefixIndex::hash(uint32_t parent_hash, const TokenId* tokens) const noexcept {
  return kept(XXH3_64bits_withSeed(tokens, bytes_of(page_size_), parent_hash ^ seed_));
}

uint32_t PrefixIndex::hash(std::string_view salt, uint64_t adapter) const noexcept {
  return kept(XXH3_64bits_withSeed(salt.data(), salt.size(), adapter ^ seed_));
}

uint32_t PrefixIndex::head_hash(uint64_t parent, const TokenId* tokens,
                                int32_t count) const noexcept {
  return kept(XXH3_64bits_withSeed(tokens, bytes_of(count), parent ^ seed_));
}

uint32_t* PrefixIndex::place_of(uint64_t parent, uint32_t hash,
                                const TokenId* tokens) const noexcept {
  uint32_t* place = &buckets_[hash & bucket_mask_];
  for (; *place != no_page; place = &records_[*place].bucket_next) {
    const PageRecord& record = records_[*place];
    if (record.hash == hash && record.parent == parent &&
        std::memcmp(tokens_ + int64_t{*place} * page_size_, tokens, bytes_of(page_size_)) == 0) {
      break;
    }
  }
  return place;
}

uint32_t PrefixIndex::findable_twin(uint32_t page) const noexcept {
  const PageRecord& record = records_[page];
  if (record.findable) return page;
  return find(record.parent, record.hash, tokens_ + int64_t{page} * page_size_);
}

uint32_t PrefixIndex::add(uint32_t page, uint64_t parent) noexcept {
  const TokenId* tokens = tokens_ + int64_t{page} * page_size_;
  PageRecord& record = records_[page];
  publish(record.parent, parent);
  uint32_t* const place = place_of(parent, record.hash, tokens);
  const uint32_t twin = *place;
  if (twin == no_page) {
    publish(record.content, new_content());
    record.use = 0;
    record.spoken_for = false;
    record.twin_previous = record.twin_next = page;
    link(page, place);  // behind older pages, which go sooner
    return no_page;
  }
  PageRecord& other = records_[twin];
  publish(record.content, other.content);
  record.use = other.use;
  record.twin_previous = twin;
  record.twin_next = other.twin_next;
  records_[other.twin_next].twin_previous = page;
  other.twin_next = page;
  return twin;
}

void PrefixIndex::remove(uint32_t page) noexcept {
  PageRecord& record = records_[page];
  const uint32_t heir = record.twin_next;
  const uint64_t content = record.content;
  const PageName* const name = name_of(page);
  if (record.findable) {
    if (heir != page) hand_over(page, heir);  // first: readers never miss the content
    unlink(page);
    if (record.level != policy_level) retention_->forget(page);
    record.named = false;
  }
  records_[record.twin_previous].twin_next = record.twin_next;
  records_[record.twin_next].twin_previous = record.twin_previous;
  record.twin_previous = record.twin_next = no_page;
  publish(record.content, 0);
  if (events_ != nullptr && heir == page) events_->removed(record, content, name, page_size_);
}

void PrefixIndex::hand_over(uint32_t page, uint32_t heir) noexcept {
  records_[heir].use = records_[page].use;
  if (retention_ != nullptr) retention_->hand_over(page, heir);
  if (records_[page].named) set_name(heir, names_[page]);
  link(heir, &buckets_[records_[heir].hash & bucket_mask_]);
  publish(taken_over_, taken_over_ + 1);
}

void PrefixIndex::link(uint32_t page, uint32_t* place) noexcept {
  PageRecord& record = records_[page];
  record.findable = true;
  publish(record.bucket_next, *place);
  publish(*place, page);
}

void PrefixIndex::unlink(uint32_t page) noexcept {
  PageRecord& record = records_[page];
  uint32_t* at = &buckets_[record.hash & bucket_mask_];
  while (*at != page) at = &records_[*at].bucket_next;
  publish(*at, record.bucket_next);
  record.findable = false;
}

uint64_t PrefixIndex::observe_once(uint64_t parent, uint32_t hash) const noexcept {
  const SharedChain<PageRecord> chain{.entries = records_,
                                      .mark = &PageRecord::content,
                                      .end = no_page,
                                      .steps = 2 * bucket_mask_ + 1000};
  return chain.find(buckets_[hash & bucket_mask_], [&](const PageRecord& record) {
    return observe(record.hash) == hash && observe(record.parent) == parent;
  });
}

uint64_t PrefixIndex::observe_content(uint64_t parent, uint32_t hash) const noexcept {
  // A twin that takes over is linked in front, where a walk has been already. It is counted after
  // that and before the other page leaves: whoever misses one for the other sees the count move.
  for (int attempt = 0;; ++attempt) {
    const uint64_t taken_over = observe(taken_over_);
    const uint64_t content = observe_once(parent, hash);
    if (content != 0 || observe(taken_over_) == taken_over || attempt == most_attempts)
      return content;
  }
}

uint32_t PrefixIndex::chain_length(uint64_t hash) const noexcept {
  return pool::chain_length(records_, &PageRecord::bucket_next, buckets_[hash & bucket_mask_]);
}

uint32_t PrefixIndex::longest_chain() const noexcept {
  return pool::longest_chain(records_, &PageRecord::bucket_next, {buckets_, bucket_mask_ + 1});
}

}  // namespace folio::inline v1::pool
