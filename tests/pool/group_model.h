// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model.h: the arena of a hybrid pool, whose bytes are really written, copied and
/// read.
///
/// A cell of the arena stands for a byte. A token's cells in a group, or a state's, hold a number
/// for the whole history that they depend on, items too. After every call the model reads, through
/// each group's table, all that the group's rule lets the next query see, and what every unfinished
/// step could see when it began, and compares it with the histories. Pages of two groups that
/// cross, a page that is given away too early, a hit that one group cannot serve: all are wrong
/// numbers. How long a hit must be is known by searching all pages, and naive tables of items.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"
#include "pool/event_replay.h"
#include "pool/group_order.h"
#include "pool/naive_items.h"
#include "pool/naive_names.h"
#include "pool/naive_retention.h"
#include "pool/pool_memory.h"

namespace folio::test {

class GroupModel {
 public:
  /// `page_bytes` of a group: a multiple of the tokens of its page.
  explicit GroupModel(const PoolOptions& options);

  void admit(const std::vector<TokenId>& prompt, const std::vector<ContentSpan>& spans = {},
             const NaiveWish& wish = {});
  void reserve(size_t sequence, int32_t new_tokens);
  /// The same for all sequences.
  void reserve_all(int32_t new_tokens);
  void commit(size_t sequence, const std::vector<TokenId>& written, Merge merge = Merge::refused);
  void trim(size_t sequence, int32_t length);
  void fork(size_t sequence, int32_t length);
  void fork_children(size_t sequence, int32_t length, size_t count);
  /// Of all sequences, keeps one.
  void keep_path(size_t leaf);
  void preempt(size_t sequence);
  void resume(size_t sequence, const std::vector<TokenId>& prompt);
  void retain(std::vector<TokenId> prompt, const std::vector<ContentSpan>& spans,
              const std::vector<RetentionRange>& ranges);
  void advance_time(int64_t milliseconds);
  void clear();
  void release(size_t sequence);
  void take_copies();
  void begin_step(const std::vector<size_t>& sequences);
  /// A transfer is counted as a step of one page.
  void begin_io(size_t sequence, uint32_t group, int32_t entry);
  /// Of the sequence's tokens and `more`.
  void find_parts(size_t sequence, const std::vector<TokenId>& more);
  /// Of as many pages; `commit_load` ends it.
  void begin_load(size_t sequence, const std::vector<TokenId>& more, int32_t pages);
  /// Of all of them.
  void begin_whole_load(size_t sequence, const std::vector<TokenId>& more);
  void shorten_load(size_t sequence, int32_t pages);
  void commit_load(size_t sequence, Merge merge);
  void end_step(size_t step);
  /// Gives up everything and expects that nothing is used.
  void finish();

  [[nodiscard]] size_t num_sequences() const { return sequences_.size(); }
  [[nodiscard]] size_t num_steps() const { return steps_.size(); }
  [[nodiscard]] const std::vector<TokenId>& tokens(size_t s) const { return sequences_[s].tokens; }
  [[nodiscard]] const std::vector<ContentSpan>& spans(size_t s) const {
    return sequences_[s].items.spans;
  }
  [[nodiscard]] int32_t page_size() const { return options_.page_size; }
  [[nodiscard]] uint32_t max_spans() const { return options_.max_spans; }
  [[nodiscard]] bool keeps() const { return options_.max_retention_ms > 0; }
  [[nodiscard]] PagePool& pool() { return pool_; }

  int64_t refused_rooms = 0, refused_lengths = 0;
  int64_t partial_hits = 0, refused_partial_hits = 0;
  int64_t item_hits = 0, partial_item_hits = 0;  ///< of sequences with an item among the tokens
  int64_t transfers = 0;
  int64_t loads = 0, shortened_loads = 0, committed_loads = 0;
  int64_t gone_by_level = 0;  ///< pages, as GroupOrder counts

 private:
  struct Sequence {
    SequenceId id;
    std::vector<TokenId> tokens;
    std::vector<TokenId> load = {};  ///< all tokens that it will have
    int64_t room = 0;
    NaiveItems::Row items;
    NaiveWish wish;
  };
  struct Read {
    uint64_t value = 0;
    SequenceId state_of;  ///< of a state: whose own next commit may overwrite it
  };
  /// Whole pages, and what follows of another one.
  struct Hit {
    std::vector<int> contents;  ///< of the pages
    int32_t tokens = 0;
    int32_t partial = 0;
    uint32_t source = 0;
    bool is_sure = false;  ///< there are pages for the copies
  };
  /// Or a transfer.
  struct Step {
    StepTicket ticket;
    std::optional<IoPin> pin = {};
    std::map<size_t, Read> reads;  ///< cell -> what it held
  };

  [[nodiscard]] uint32_t num_groups() const { return pool_.num_groups(); }
  [[nodiscard]] static uint64_t history(const Sequence& s, int64_t count, uint32_t group);
  [[nodiscard]] uint32_t entry(SequenceId id, uint32_t group, int64_t page) const;
  /// Cells of token `position` of a sequence, or of its state.
  void for_cells(SequenceId id, uint32_t group, int64_t position, auto call) const;
  void write(SequenceId id, uint32_t group, int64_t position, uint64_t value);
  /// Each (position, group) that the query behind `s` may see.
  void for_visible(const Sequence& s, auto call) const;
  [[nodiscard]] bool awaits_copy(uint32_t group, uint32_t page) const;
  /// `in_pages`: hits may end inside a page.
  [[nodiscard]] Hit longest_hit(const std::vector<TokenId>& prompt,
                                const std::vector<ContentSpan>& spans, bool in_pages = true) const;
  void add_partial(const std::vector<TokenId>& prompt, int parent, uint32_t parent_page,
                   Hit& hit) const;
  [[nodiscard]] bool has_copies(const Hit& hit, std::vector<uint32_t> leading) const;
  void expect_found(const Hit& expected, int32_t found);
  void expect_order(const GroupOrder& order, int32_t found);
  /// The sequence has that much of the prompt.
  void start(Sequence& s, const std::vector<TokenId>& prompt, int32_t found);
  void add_child(Sequence child, int32_t length);
  /// `call` forks the sequence that it is handed, and gives the children.
  void fork_by(size_t sequence, int32_t length, auto call);

  [[nodiscard]] std::vector<pool::GroupBits> parts_behind(const Sequence& s,
                                                          const std::vector<TokenId>& prompt) const;
  void fill(const Sequence& s, int32_t length, const std::vector<pool::GroupBits>& fill);
  void load(size_t sequence, const std::vector<TokenId>& prompt, int32_t length, bool is_length,
            const std::vector<pool::GroupBits>& bits, auto begin);
  [[nodiscard]] int64_t max_tokens() const {
    return static_cast<int64_t>(options_.max_pages_per_sequence) * options_.page_size;
  }

  // Contents: a page's is the pool's number for it, an item's is the naive one.
  [[nodiscard]] int content(uint64_t number) const;
  [[nodiscard]] int beginning() const;  ///< before all pages, 0: none yet
  [[nodiscard]] int content_before(SequenceId id, int64_t position) const;
  /// The leading page that continues the content and is found.
  [[nodiscard]] uint32_t find_page(int parent, const TokenId* tokens) const;
  /// A page continues the pool's number `parent`, so that stands for this content.
  void expect_parent(uint64_t parent, int content);
  /// The sequence's pages from `begin` on that are full now.
  void name_pages(Sequence& s, int64_t begin);

  /// What sequences are about to give up in one call.
  struct GivenUp {
    std::map<uint32_t, uint32_t> references;      ///< leading page -> how often
    std::vector<std::pair<uint32_t, int>> tails;  ///< that may be kept, behind these contents
  };
  void give_up(Sequence& s, const NaiveWish& wish, GivenUp& all);
  void expect_tails(const GivenUp& all);
  [[nodiscard]] bool serves(const std::vector<uint32_t>& leading, uint32_t pages,
                            bool with_states) const;
  [[nodiscard]] int64_t room_behind(const Sequence& s, int32_t new_tokens) const;
  /// What all pages, and a copy in each group, would take is not there.
  void expect_too_few(const std::vector<int64_t>& ends);
  void expect_unchanged(const std::vector<std::byte>& before) const;
  void check_levels() const;
  /// With names and events if the pool has prefix reuse.
  [[nodiscard]] PoolOptions complete(PoolOptions options);
  void check_events();
  void check();

  PoolMemory memory_;
  NaiveNames names_;
  std::vector<PoolEvent> events_;  ///< told, not yet looked at
  EventReplay heard_;
  std::vector<GroupOptions> groups_;
  PoolOptions options_;
  PagePool pool_;
  std::vector<int64_t> page_bytes_;
  std::vector<int32_t> page_size_;
  std::vector<uint64_t> arena_;
  std::vector<Sequence> sequences_;
  std::vector<Step> steps_;
  NaiveItems items_;
  std::map<uint64_t, int> item_contents_;  ///< by the pool's numbers, of those that pages continue
  NaiveRetention retention_;
};

}  // namespace folio::test
