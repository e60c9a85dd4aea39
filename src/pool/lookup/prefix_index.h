// SPDX-License-Identifier: Apache-2.0
/// pool/lookup/prefix_index.h: finds the page that continues a known prefix with given tokens.
///
/// Every full page gets a *content*: a number that stands for its tokens and everything before them
/// and is never used twice. A page is found by (content of the page before it, its tokens), both
/// compared exactly, so that by induction a hit is the same prefix whatever the hash does; a page
/// left over from an evicted parent can no longer be reached, not even by accident.
///
/// Pages with equal content are *twins*: they share the number and form a ring, and one of them is
/// findable. When the findable one leaves, a twin takes its place and the continuations stay
/// reachable; so does the eviction policy's note, which only the findable one's is sure to be up to
/// date, and the content's page name (folio/pool/name.h) and its level, which the findable one
/// alone has.
///
/// Hashes are XXH3 with a seed: of a page, the hash of the page before it and the pool's own seed;
/// 32 bits are kept, since no answer depends on them.
/// Whoever does not know the seed cannot choose tokens, or salts, whose hashes share a bucket. XXH3
/// is no cryptographic function; but its values never leave the pool.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/pool/page_pool.h"
#include "pool/outside/event_log.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

class Retention;

class PrefixIndex {
 public:
  /// A power of two, at least 2 * num_pages: most buckets have at most one page, and a wrong one
  /// costs a cache miss.
  [[nodiscard]] static int64_t num_buckets(uint32_t num_pages) noexcept;

  /// `seed`: known to this pool alone.
  void attach(PageRecord* records, const TokenId* tokens, uint32_t* buckets, uint32_t num_pages,
              int32_t page_size, uint64_t seed) noexcept;
  /// [num_pages], of pages that are `named`; without it, none is.
  void attach_names(PageName* names) noexcept { names_ = names; }

  /// Is told of each content that leaves the index. Null: nobody is.
  void attach_events(EventLog* events) noexcept { events_ = events; }
  /// Of what is kept (PageRecord::level); without it, nothing is.
  void attach_retention(Retention* retention) noexcept { retention_ = retention; }

  [[nodiscard]] uint64_t new_content() noexcept { return ++last_content_; }
  [[nodiscard]] uint64_t last_content() const noexcept { return last_content_; }

  /// Hash of the chain that continues `parent_hash` with one page of tokens.
  [[nodiscard]] uint32_t hash(uint32_t parent_hash, const TokenId* tokens) const noexcept;
  /// Hash of a namespace: where its chains begin.
  [[nodiscard]] uint32_t hash(std::string_view salt, uint64_t adapter) const noexcept;
  /// Hash of the first `count` tokens of a page behind the content `parent`.
  [[nodiscard]] uint32_t head_hash(uint64_t parent, const TokenId* tokens,
                                   int32_t count) const noexcept;

  /// The findable page that continues `parent` with `tokens`, or no_page. `hash` is of the chain.
  [[nodiscard]] uint32_t find(uint64_t parent, uint32_t hash,
                              const TokenId* tokens) const noexcept {
    return *place_of(parent, hash, tokens);
  }

  /// The content of a page that continues `parent`, known by the hash of its chain instead of its
  /// tokens; 0 without one. Any thread, while another changes the index: never misses a content
  /// that is there all the time, and ends after a bounded number of steps (see shared_chain.h).
  [[nodiscard]] uint64_t observe_content(uint64_t parent, uint32_t hash) const noexcept;

  /// Asks for the bucket that `find` and `add` will look into.
  void prefetch(uint32_t hash) const noexcept {
    __builtin_prefetch(&buckets_[hash & bucket_mask_]);
  }
  /// Asks for the page that `find` will most likely compare, when its bucket has come. In a pool
  /// that the caches hold this would only cost.
  void prefetch_page(uint32_t hash) const noexcept {
    if (fits_caches()) return;
    const uint32_t page = buckets_[hash & bucket_mask_];
    if (page == no_page) return;
    __builtin_prefetch(&records_[page]);
    __builtin_prefetch(tokens_ + int64_t{page} * page_size_);
  }
  /// Asks for the first page of a bucket that has come: `add` will compare it, `remove` pass it.
  void prefetch_chain(uint32_t hash) const noexcept {
    if (fits_caches()) return;
    const uint32_t page = buckets_[hash & bucket_mask_];
    if (page != no_page) __builtin_prefetch(&records_[page], 1);
  }
  /// Asks for the second page of a bucket whose first one has come.
  void prefetch_second(uint32_t hash) const noexcept {
    if (fits_caches()) return;
    const uint32_t page = buckets_[hash & bucket_mask_];
    if (page != no_page && records_[page].bucket_next != no_page)
      __builtin_prefetch(&records_[records_[page].bucket_next], 1);
  }
  /// At most 2^15 pages: 2 MiB of records.
  [[nodiscard]] bool fits_caches() const noexcept { return fits_caches_; }
  /// How many pages to prefetch for at once: enough to hide a cache miss, few enough to waste
  /// little where a prefix ends.
  static constexpr uint32_t ahead = 8;

  /// Gives `page` its content, which has just become full and knows its hash, and makes it
  /// findable, or the twin of a findable page: then returns that one, else no_page.
  uint32_t add(uint32_t page, uint64_t parent) noexcept;

  /// Takes the content away. Of the twins of a findable page, if there are any, `twin_next` answers
  /// from now on.
  void remove(uint32_t page) noexcept;

  /// Of the pages that have the content of `page`, the findable one.
  [[nodiscard]] uint32_t findable_twin(uint32_t page) const noexcept;
  /// Of a findable page.
  void set_name(uint32_t page, const PageName& name) noexcept {
    names_[page] = name;
    records_[page].named = true;
  }
  [[nodiscard]] const PageName* name_of(uint32_t page) const noexcept {
    return records_[page].named ? &names_[page] : nullptr;
  }

  [[nodiscard]] bool has_twin(uint32_t page) const noexcept {
    return records_[page].twin_next != page;
  }

  /// Pages in the bucket of a hash: what `find`, `add` and `remove` look at, at most. For tests.
  [[nodiscard]] uint32_t chain_length(uint64_t hash) const noexcept;
  /// The same of the fullest bucket.
  [[nodiscard]] uint32_t longest_chain() const noexcept;

 private:
  static constexpr int most_attempts = 1000;
  [[nodiscard]] uint64_t observe_once(uint64_t parent, uint32_t hash) const noexcept;
  void hand_over(uint32_t page, uint32_t heir) noexcept;
  /// What leads to the page: its bucket, or the page before it in its bucket. Where there is no
  /// such page, the end of the bucket.
  [[nodiscard]] uint32_t* place_of(uint64_t parent, uint32_t hash,
                                   const TokenId* tokens) const noexcept;
  void link(uint32_t page, uint32_t* place) noexcept;
  void unlink(uint32_t page) noexcept;

  PageRecord* records_ = nullptr;
  const TokenId* tokens_ = nullptr;
  uint32_t* buckets_ = nullptr;
  PageName* names_ = nullptr;
  EventLog* events_ = nullptr;
  Retention* retention_ = nullptr;
  uint64_t bucket_mask_ = 0;
  bool fits_caches_ = false;
  uint64_t seed_ = 0;
  int32_t page_size_ = 0;
  uint64_t last_content_ = 0;
  uint64_t taken_over_ = 0;  ///< times that a twin took over
};

}  // namespace folio::inline v1::pool
