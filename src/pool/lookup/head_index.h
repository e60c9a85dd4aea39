// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/head_index.h: finds the page that begins with given tokens behind a known prefix:
/// what a hit that ends inside a page is copied from.
///
/// The *head* of a page is its first few tokens, the same number for all pages. A page is found by
/// (content of the page before it, its head), both compared exactly.
///
/// Most pages are the only ones that continue another. So the first that continues a page stands in
/// no bucket: the page before it knows it, and neither coming nor going costs a hash.
/// Later ones are in buckets, as are those that continue a namespace or an item. Of the pages with
/// one key only the one that came last is in a bucket and answers; the others stand behind it in a
/// list, and the next of them answers when it goes, the first child last. So equal heads, however
/// many, cost nothing to look up or to take out, and hashes, seeded as PrefixIndex's, keep
/// different ones apart.
#pragma once

#include <cstdint>

#include "pool/lookup/prefix_index.h"
#include "pool/pages/page_extras.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

class HeadIndex {
 public:
  /// What is kept of each page here, and of those pages that others continue.
  struct Link {
    union {
      uint32_t older = no_page;  ///< of one key with it, and in no bucket
      uint32_t parent_page;      ///< of a first child
    };
    uint32_t younger = no_page;
    /// the first page that continued this one, whatever has become of it since
    uint32_t child = no_page;
  };

  /// A power of two, at least half of num_pages.
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
  /// The page behind the content `parent` that begins with the head of `tokens` and was added last,
  /// or no_page. `parent_page`: the findable one of that content, no_page where it is no page's.
  [[nodiscard]] uint32_t find(uint64_t parent, uint32_t parent_page,
                              const TokenId* tokens) const noexcept;
  /// The page has got its tokens and its parent, `parent_page` as of `find`.
  void add(uint32_t page, uint32_t parent_page) noexcept;
  void remove(uint32_t page) noexcept;
  /// `heir` has the same content as `page`, which is findable, and takes its place.
  void replace(uint32_t page, uint32_t heir) noexcept;

  /// Whether the page can come to answer, or nothing can be found behind its parent any more.
  /// O(pages with its key): for tests.
  [[nodiscard]] bool holds(uint32_t page) const noexcept;
  /// Keys in the bucket of a hash: what `find`, `add` and `remove` compare, at most. For tests.
  [[nodiscard]] uint32_t chain_length(uint64_t hash) const noexcept;
  /// The same of the fullest bucket.
  [[nodiscard]] uint32_t longest_chain() const noexcept;

 private:
  [[nodiscard]] const TokenId* tokens_of(uint32_t page) const noexcept {
    return tokens_ + int64_t{page} * page_size_;
  }
  /// What leads to the page of this key that is in a bucket, or the bucket's end.
  [[nodiscard]] uint32_t* place_of(uint64_t parent, const TokenId* tokens) const noexcept;
  [[nodiscard]] uint32_t* place_of(uint32_t page) const noexcept {
    return place_of(records_[page].parent, tokens_of(page));
  }
  [[nodiscard]] bool has_key(uint32_t page, uint64_t parent, const TokenId* tokens) const noexcept;
  /// The first page that continued `parent`, if it is here.
  [[nodiscard]] uint32_t first_child(uint64_t parent, uint32_t parent_page) const noexcept;

  PageRecord* records_ = nullptr;
  const TokenId* tokens_ = nullptr;
  uint32_t* buckets_ = nullptr;
  PerPage<Link> links_;
  const PrefixIndex* hashes_ = nullptr;
  uint64_t bucket_mask_ = 0;
  int32_t page_size_ = 0, head_tokens_ = 0;
};

}  // namespace folio::inline v1::pool
