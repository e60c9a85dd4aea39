// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/eviction.h: which cached page goes first.
///
/// A policy orders the pages that nobody holds and that can still be found; it knows nothing of
/// tokens, sequences and steps. Its queues are lists of PageLists: a page that is held again leaves
/// its queue without the policy's help. What a policy notes of a page is the record's `use`, which
/// begins as 0 with a content and stays with it while pages come and go. Every call is O(1), `take`
/// amortised: what it puts back was found since it was put there.
#pragma once

#include <cstdint>

#include "pool/pages/page_lists.h"

namespace folio::inline v1::pool {

class EvictionPolicy {
 public:
  /// Puts a page that nobody holds any more into a queue.
  virtual void add(uint32_t page) noexcept = 0;
  /// A page with this hash will soon be created or evicted: asks for what that will touch.
  virtual void prefetch(uint32_t) const noexcept {}
  /// The page has become full, of a content that no other page has.
  virtual void created(uint32_t) noexcept {}
  /// A prompt has found the page, which may be held or not.
  virtual void found(uint32_t page) noexcept = 0;
  /// A sequence of so many pages, which has the page, ends. The page has content, and is the
  /// findable one.
  virtual void given_up(uint32_t page, uint32_t sequence_pages) noexcept;
  /// The page that goes; it is still in its queue. Needs a cached page.
  [[nodiscard]] virtual uint32_t take() noexcept = 0;
  /// What is wrong with the queues, or null. For tests.
  [[nodiscard]] virtual const char* fault() const noexcept = 0;

  /// Whether `given_up` wants to be called.
  [[nodiscard]] bool notes_ends() const noexcept { return notes_ends_; }

  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

 protected:
  explicit EvictionPolicy(bool notes_ends = false) noexcept : notes_ends_(notes_ends) {}
  ~EvictionPolicy() = default;

 private:
  const bool notes_ends_;
};

/// Marks of the contents that were evicted last: a ring, chained by buckets. Old marks are
/// overwritten, and what led to them is recognised by its age.
class Ghosts {
 public:
  struct Ghost {
    uint32_t mark = 0;   ///< the content's hash
    uint32_t older = 0;  ///< place in the ring of the one before it in its bucket
  };

  [[nodiscard]] static int64_t num_buckets(uint32_t capacity) noexcept;
  void attach(Ghost* ring, uint32_t* buckets, uint32_t capacity) noexcept;
  void remember(uint32_t mark) noexcept;
  /// Asks for what `remember` will write and `remembers` begins with.
  void prefetch(uint32_t mark) const noexcept {
    __builtin_prefetch(&buckets_[mark & bucket_mask_]);
  }
  /// Whether it is among the last `capacity` that were remembered.
  [[nodiscard]] bool remembers(uint32_t mark) const noexcept;

 private:
  static constexpr uint32_t none = 0xffffffffU;
  [[nodiscard]] uint32_t age_of(uint32_t place) const noexcept {  // 1: the youngest
    return place < next_ ? next_ - place : next_ + capacity_ - place;
  }

  Ghost* ring_ = nullptr;
  uint32_t* buckets_ = nullptr;
  uint32_t bucket_mask_ = 0, capacity_ = 0, next_ = 0;
};

/// What policies work on.
struct PolicyMemory {
  PageRecord* records = nullptr;
  PageLists* lists = nullptr;
  uint32_t longest = 1;  ///< pages of the longest sequence
  Ghosts ghosts;         ///< of a policy whose row of `policies` has them
};

/// The page that was given up first. Pages of a sequence are given up tail first, so the end of a
/// prefix goes before its beginning.
class Lru final : public EvictionPolicy {
 public:
  void attach(const PolicyMemory& memory) noexcept { lists_ = memory.lists; }
  void add(uint32_t page) noexcept override { lists_->push_back(queue(0), page); }
  void prefetch(uint32_t) const noexcept override {}
  void created(uint32_t) noexcept override {}
  void found(uint32_t) noexcept override {}
  [[nodiscard]] uint32_t take() noexcept override { return lists_->front(queue(0)); }
  [[nodiscard]] const char* fault() const noexcept override;

 private:
  PageLists* lists_ = nullptr;
};

/// S3-FIFO: a small queue for what is new, a main queue for what was found while it was in the
/// small one, or is remembered. Of the main queue, a page goes round once for each time it was
/// found, three times at most.
///
/// Where the paper gives the small queue a tenth, it has half of the cached pages: the next turn of
/// a conversation comes late.
/// Source: Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, 2023
class S3Fifo final : public EvictionPolicy {
 public:
  void attach(const PolicyMemory& memory) noexcept {
    records_ = memory.records;
    lists_ = memory.lists;
    ghosts_ = memory.ghosts;
  }

  void add(uint32_t page) noexcept override;
  void prefetch(uint32_t hash) const noexcept override { ghosts_.prefetch(hash); }
  void created(uint32_t page) noexcept override;
  void found(uint32_t page) noexcept override;
  [[nodiscard]] uint32_t take() noexcept override;
  [[nodiscard]] const char* fault() const noexcept override;

 private:
  static constexpr PageList small = queue(0), main = queue(1);
  static constexpr uint8_t times = 3;    ///< bits of `use`: times found, at most 3
  static constexpr uint8_t is_main = 4;  ///< belongs to the main queue
  void to_main(uint32_t page) noexcept;

  PageRecord* records_ = nullptr;
  PageLists* lists_ = nullptr;
  Ghosts ghosts_;
};

/// Queues by key: the lowest key goes first, and of equals the page that came first. The key of the
/// last one to go is the *age*, and keys are given relative to it, so that old worth fades. All lie
/// within 64 of the lowest: each has a queue of its own, and a word says which may have pages.
class AgedQueues {
 public:
  static constexpr uint8_t most = num_queues - 2;

  void attach(PageLists* lists) noexcept { lists_ = lists; }
  /// `worth`: 0 .. most, above the age.
  void add(uint32_t page, uint8_t worth) noexcept;
  [[nodiscard]] uint32_t take() noexcept;
  [[nodiscard]] const char* fault() const noexcept;

 private:
  PageLists* lists_ = nullptr;
  uint64_t age_ = 0;
  uint64_t present_ = 0;  ///< a bit for each queue; none that has pages lacks it
};

/// LFU with dynamic ageing: a page is worth as much as its content was found (once more for being
/// new).
/// Source: Arlitt, Cherkasova, Dilley, Friedrich, Jin: Evaluating content management techniques for
/// Web proxy caches, 2000
class AgedLfu final : public EvictionPolicy {
 public:
  void attach(const PolicyMemory& memory) noexcept {
    records_ = memory.records;
    queues_.attach(memory.lists);
  }
  void add(uint32_t page) noexcept override { queues_.add(page, records_[page].use); }
  void found(uint32_t page) noexcept override;
  [[nodiscard]] uint32_t take() noexcept override { return queues_.take(); }
  [[nodiscard]] const char* fault() const noexcept override { return queues_.fault(); }

 private:
  PageRecord* records_ = nullptr;
  AgedQueues queues_;
};

}  // namespace folio::inline v1::pool
