// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model.h: a naive page pool that watches a real one.
///
/// The model knows by linear search what the pool knows by index and list: who holds a page, what
/// it contains, which page must go next. It also keeps the K/V memory that the pool does not have:
/// each slot stores a number for the whole history that its token depends on, writes and copies
/// really happen, pages that change hands are poisoned. After every call the model compares what
/// the pool says with what it expects, all slots of all sequences and of all unfinished steps with
/// their histories, and checks the invariants.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"
#include "pool/event_replay.h"
#include "pool/naive_eviction.h"
#include "pool/naive_items.h"
#include "pool/naive_names.h"
#include "pool/naive_retention.h"
#include "pool/pool_memory.h"

namespace folio::test {

class PoolModel {
 public:
  struct Space {
    std::string salt;
    uint64_t adapter = 0;
    bool operator==(const Space&) const = default;
  };

  /// With names if the pool has prefix reuse, and with a function for events if it has a ring: the
  /// functions are the model's own.
  explicit PoolModel(const PoolOptions& options);

  void admit(const std::vector<TokenId>& prompt, const Space& space, const NaiveWish& wish = {},
             const std::vector<ContentSpan>& spans = {});
  void reserve(size_t sequence, int32_t new_tokens);
  /// (sequence, new tokens)
  void reserve(const std::vector<std::pair<size_t, int32_t>>& requests);
  void explain(size_t sequence, int32_t new_tokens);
  void fork(size_t sequence, int32_t length, size_t children);
  /// tree[0] keeps what tree[leaf] has
  void keep_path(const std::vector<size_t>& tree, size_t leaf);
  void preempt(size_t sequence);
  void resume(size_t sequence, const std::vector<TokenId>& tokens);
  void commit(size_t sequence, const std::vector<TokenId>& written, Merge merge = Merge::refused);
  void clear();
  void trim(size_t sequence, int32_t length, CutItems items = CutItems::removed);
  void fork(size_t sequence, int32_t length);
  void release(size_t sequence);
  void take_copies();
  void begin_step(const std::vector<size_t>& sequences);
  void end_step(size_t step);
  void begin_io(size_t sequence, int32_t entry);
  void end_io(size_t transfer);
  /// The function's call number `fail_at`, of those that this one makes, fails.
  void name(size_t sequence, int32_t position, int fail_at);
  void retain(const std::vector<TokenId>& prompt, const Space& space,
              const std::vector<RetentionRange>& ranges,
              const std::vector<ContentSpan>& spans = {});
  void advance_time(int64_t now_ms);
  void use_stale_ids(int32_t tokens);

  [[nodiscard]] size_t num_sequences() const { return sequences_.size(); }
  [[nodiscard]] size_t num_steps() const { return steps_.size(); }
  [[nodiscard]] size_t num_transfers() const { return transfers_.size(); }
  [[nodiscard]] int64_t held_pages() const;
  [[nodiscard]] const std::vector<TokenId>& tokens(size_t sequence) const {
    return sequences_[sequence].tokens;
  }
  [[nodiscard]] const std::vector<ContentSpan>& spans(size_t sequence) const {
    return sequences_[sequence].items.spans;
  }
  /// Hits of pages that are found only with an item.
  [[nodiscard]] int64_t item_hits() const { return item_hits_; }
  [[nodiscard]] bool keeps() const { return options_.max_retention_ms > 0; }
  [[nodiscard]] int64_t now_ms() const { return retention_.now(); }
  [[nodiscard]] int32_t page_size() const { return static_cast<int32_t>(page_size_); }
  [[nodiscard]] uint32_t max_spans() const { return options_.max_spans; }
  [[nodiscard]] const PoolStats& stats() const { return stats_; }

 private:
  struct Page {
    int references = 0, copies = 0;
    int transfers = 0;
    std::vector<uint64_t> steps;  ///< tickets of steps that hold it although a sequence gave it up
    int content = 0;              ///< index in contents_, 0: none
    int64_t given_up = 0;         ///< when it was last given up: the order of `end_step`
    std::vector<uint64_t> kv;     ///< [page_size] history of each slot's token, 0: poison
  };
  struct Sequence {
    SequenceId id;
    int64_t row_start = 0;
    Space space;
    int space_content = 0;
    std::vector<TokenId> tokens;
    NaiveItems::Row items;
    int64_t room = 0;
    std::vector<uint32_t> row;
    std::vector<uint64_t> steps;
    bool trimmed = false, starting = true;
    NaiveWish wish;
  };
  struct Step {
    StepTicket ticket;
    std::map<std::pair<uint32_t, size_t>, uint64_t> reads;  ///< (page, slot) -> history
    std::vector<uint32_t> pages;
    bool runs_copies = false;
  };
  struct Transfer {
    IoPin pin;
    uint32_t page = 0;
    std::vector<uint64_t> reads;  ///< of its first slots: all that were written
  };
  struct Content {
    int parent = 0;
    std::vector<TokenId> tokens;
  };
  struct KnownSpace {
    Space space;
    int content = 0, users = 0;
    int64_t idle_since = 0;
  };

  // The K/V memory.
  [[nodiscard]] uint64_t history(const Sequence& s, size_t position) const;
  void run_copies();
  [[nodiscard]] bool incomplete(uint32_t page) const;

  // Pages.
  [[nodiscard]] bool held(uint32_t page) const;
  [[nodiscard]] bool has_twin(uint32_t page) const;
  [[nodiscard]] int64_t available() const;
  [[nodiscard]] bool is_cached(uint32_t page) const {
    return !held(page) && pages_[page].content != 0;
  }
  [[nodiscard]] int level(uint32_t page) const { return retention_.level(pages_[page].content); }
  uint32_t victim();
  void wait(uint32_t page);
  void wait_again(const std::vector<int>& contents);
  void take(uint32_t page);
  void drop(uint32_t page, const std::vector<uint64_t>& steps);
  void hold_for_step(uint32_t page, uint64_t ticket);
  void settle(uint32_t page);
  void expect_copy(uint32_t from, uint32_t to, int32_t tokens);
  void unhold_copy(uint32_t page);

  // Contents.
  [[nodiscard]] int find_content(int parent, const std::vector<TokenId>& tokens) const;
  /// Of a prompt that is found up to `spare` tokens before its end.
  [[nodiscard]] std::vector<int> match(const std::vector<TokenId>& prompt, const Space& space,
                                       const std::vector<ContentSpan>& spans,
                                       int64_t spare = 1) const;
  /// The content that a prompt goes on with behind `chain`, and how many of its tokens match.
  [[nodiscard]] std::pair<int, int64_t> match_partial(const std::vector<int>& chain,
                                                      const std::vector<TokenId>& prompt,
                                                      const Space& space,
                                                      const std::vector<ContentSpan>& spans) const;
  /// The content behind `parent` with these first tokens that came last, or 0.
  [[nodiscard]] int find_head(int parent, const TokenId* tokens) const;
  /// Of the pages with a content, the one that the pool answers with.
  [[nodiscard]] uint32_t copied_page(int content) const;
  void keep_tail(Sequence& s);

  // Namespaces and items.
  int open_space(const Space& space);
  void close_space(const Space& space);
  /// The content before the tokens of a page, whose items the sequence opens.
  int enter_page(Sequence& s, size_t position);

  // Room.
  struct Tail {
    bool copy = false, forget = false;
  };
  /// `rest`: pages that must stay available for others.
  [[nodiscard]] Tail tail(const Sequence& s, int64_t rest) const;
  [[nodiscard]] bool fits(const Sequence& s, int32_t new_tokens) const;
  [[nodiscard]] int64_t room_for(const Sequence& s, int32_t new_tokens) const;
  [[nodiscard]] int64_t least_pages(const Sequence& s, int32_t new_tokens) const;
  [[nodiscard]] int64_t held_back(const Sequence& s, int64_t least, int64_t before) const;
  void make_room(Sequence& s, int32_t new_tokens, int64_t least);
  /// `partial`: the content that the tokens behind full pages come from.
  void hold_prefix(Sequence& s, const std::vector<TokenId>& tokens, const Admission& given,
                   int partial);
  /// Whether a copy into the last page has not been taken.
  [[nodiscard]] bool incomplete_for_others(const Sequence& s) const;
  void add_child(Sequence child, size_t pages);

  void drop_pages(Sequence& s, size_t keep);
  void give_up(Sequence& s);  ///< all its pages, as it asked to have them kept
  [[nodiscard]] std::vector<uint32_t> pool_row(const Sequence& s, size_t pages) const;
  void expect_unchanged(const Status& status, Errc code,
                        const std::vector<std::byte>& before) const;
  void check();
  void check_events();
  static void count(PoolHistogram& histogram, int64_t value);
  [[nodiscard]] PoolOptions complete(PoolOptions options);

  [[nodiscard]] size_t pages_for(int64_t tokens) const {
    return static_cast<size_t>((tokens + page_size_ - 1) / page_size_);
  }

  PoolMemory memory_;
  NaiveNames names_;
  std::set<int> named_;  ///< contents, gone ones too: none comes back
  PoolOptions options_;
  int64_t page_size_;
  PagePool pool_;
  PageTable table_;
  std::vector<Page> pages_;
  std::vector<Sequence> sequences_;
  std::vector<SequenceId> stale_;
  std::vector<Step> steps_;
  std::vector<Transfer> transfers_;
  std::vector<PageCopy> pending_, taken_;
  size_t copies_run_ = 0;  ///< of taken_, from its end
  bool taken_hold_pages_ = false;
  std::vector<Content> contents_{1};
  std::vector<KnownSpace> spaces_;
  NaiveItems items_;
  int64_t item_hits_ = 0;
  NaiveEviction eviction_;
  NaiveRetention retention_;
  PoolStats stats_;
  int64_t clock_ = 0;
  struct Times {
    int64_t stored = 0, used = 0;
  };
  std::vector<Times> times_;  ///< of each page, in pages taken
  int64_t taken_pages_ = 0;
  PoolHistograms histograms_;
  EventReplay ring_, heard_;       ///< what the ring tells, and what the function was told
  std::vector<PoolEvent> events_;  ///< that the function was told since the last look
};

}  // namespace folio::test
