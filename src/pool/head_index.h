// SPDX-License-Identifier: Apache-2.0
/// pool/head_index.h: finds the page that begins with given tokens behind a known prefix: what a
/// hit that ends inside a page is copied from.
///
/// The *head* of a page is its first few tokens, the same number for all pages. A page is found by
/// (content of the page before it, its head), both compared exactly. Of the pages with one key only
/// the one that came last is in a bucket and answers; the others stand behind it in a list, and the
/// next of them answers when it goes. So equal heads, however many, cost nothing to look up or to
/// take out, and hashes, seeded as PrefixIndex's, keep different ones apart.
#pragma once

#include <cstdint>

#include "pool/page_extras.h"
#include "pool/page_lists.h"
#include "pool/prefix_index.h"

namespace folio::inline v1::pool {

class HeadIndex {
 public:
  /// Between pages of one key. Of a page that is not here, none.
  struct Link {
    uint32_t older = no_page, younger = no_page;
  };

  /// A power of two, at least num_pages.
  [[nodiscard]] static int64_t num_buckets(uint32_t num_pages) noexcept;

  /// `hashes` gives the hashes; head_tokens in [1, page_size).
  void attach(PageRecord* records, const TokenId* tokens, uint32_t* buckets, PerPage<Link> links,
              uint32_t num_pages, int32_t page_size, int32_t head_tokens,
              const PrefixIndex* hashes) noexcept;
  /// Attached: the other calls need it.
  [[nodiscard]] bool is_on() const noexcept { return buckets_ != nullptr; }

  [[nodiscard]] uint32_t hash(uint64_t parent, const TokenId* tokens) const noexcept {
    return hashes_->head_hash(parent, tokens, head_tokens_);
  }
  /// The page behind `parent` that begins with the head of `tokens` and was added last, or no_page.
  [[nodiscard]] uint32_t find(uint64_t parent, const TokenId* tokens) const noexcept;
  /// Of a page that knows its parent and its tokens.
  [[nodiscard]] uint32_t hash_of(uint32_t page) const noexcept {
    return hash(records_[page].parent, tokens_of(page));
  }
  /// Asks for what `remove` of a page, whose hash this is, will touch: its bucket, later, when that
  /// has come, the first page in it, and then the second one.
  void prefetch(uint32_t hash) const noexcept {
    __builtin_prefetch(&buckets_[hash & bucket_mask_], 1);
  }
  void prefetch_first(uint32_t page, uint32_t hash) const noexcept {
    const uint32_t first = buckets_[hash & bucket_mask_];
    if (first != no_page && first != page) __builtin_prefetch(&records_[first], 1);
  }
  void prefetch_second(uint32_t page, uint32_t hash) const noexcept {
    const uint32_t first = buckets_[hash & bucket_mask_];
    if (first == no_page || first == page || records_[first].head_next == no_page) return;
    __builtin_prefetch(&records_[records_[first].head_next], 1);
  }
  /// The page knows its parent and its tokens, whose hash this is.
  void add(uint32_t page, uint32_t hash) noexcept;
  /// The same for a page whose parent no page here has: nothing needs to be compared.
  void add_alone(uint32_t page, uint32_t hash) noexcept;
  void remove(uint32_t page) noexcept;
  /// `heir` has the same parent and tokens as `page`, and takes its place.
  void replace(uint32_t page, uint32_t heir) noexcept;

  /// Whether other pages have the page's key, as its links say.
  [[nodiscard]] bool is_linked(uint32_t page) const noexcept {
    return links_[page].older != no_page || links_[page].younger != no_page;
  }
  /// Whether the page can come to answer. O(pages with its key): for tests.
  [[nodiscard]] bool holds(uint32_t page) const noexcept;
  /// Keys in the bucket of a hash: what `find`, `add` and `remove` compare, at most. For tests.
  [[nodiscard]] uint32_t chain_length(uint64_t hash) const noexcept;
  /// The same of the fullest bucket.
  [[nodiscard]] uint32_t longest_chain() const noexcept;

 private:
  [[nodiscard]] const TokenId* tokens_of(uint32_t page) const noexcept {
    return tokens_ + int64_t{page} * page_size_;
  }
  [[nodiscard]] uint32_t* bucket_of(uint64_t parent, const TokenId* tokens) const noexcept {
    return &buckets_[hash(parent, tokens) & bucket_mask_];
  }
  /// What leads to a page that is in a bucket.
  [[nodiscard]] uint32_t* place_of(uint32_t page) const noexcept;
  [[nodiscard]] bool has_key(uint32_t page, uint64_t parent, const TokenId* tokens) const noexcept;

  PageRecord* records_ = nullptr;
  const TokenId* tokens_ = nullptr;
  uint32_t* buckets_ = nullptr;
  PerPage<Link> links_;
  const PrefixIndex* hashes_ = nullptr;
  uint64_t bucket_mask_ = 0;
  int32_t page_size_ = 0, head_tokens_ = 0;
};

}  // namespace folio::inline v1::pool
