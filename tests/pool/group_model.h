// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model.h: the arena of a hybrid pool, whose bytes are really written, copied and
/// read.
///
/// A cell of the arena stands for a byte. A token's cells in a group, or a state's, hold a number
/// for the whole history that they depend on. After every call the model reads, through each
/// group's table, all that the group's rule lets the next query see, and what every unfinished
/// step could see when it began, and compares it with the histories. Pages of two groups that
/// cross, a page that is given away too early, a hit that one group cannot serve: all are wrong
/// numbers.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "folio/pool/page_pool.h"
#include "pool/pool_memory.h"

namespace folio::test {

class GroupModel {
 public:
  /// `page_bytes` of a group: a multiple of the tokens of its page.
  explicit GroupModel(const PoolOptions& options);

  void admit(const std::vector<TokenId>& prompt);
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
  void retain(std::vector<TokenId> prompt, int32_t level, int64_t milliseconds);
  void advance_time(int64_t milliseconds);
  void clear();
  void release(size_t sequence);
  void take_copies();
  void begin_step(const std::vector<size_t>& sequences);
  void end_step(size_t step);
  /// Gives up everything and expects that nothing is used.
  void finish();

  [[nodiscard]] size_t num_sequences() const { return sequences_.size(); }
  [[nodiscard]] size_t num_steps() const { return steps_.size(); }
  [[nodiscard]] const std::vector<TokenId>& tokens(size_t s) const { return sequences_[s].tokens; }
  [[nodiscard]] PagePool& pool() { return pool_; }

  int64_t refused_rooms = 0, refused_lengths = 0;
  int64_t partial_hits = 0, refused_partial_hits = 0;

 private:
  struct Sequence {
    SequenceId id;
    std::vector<TokenId> tokens;
    int64_t room = 0;
  };
  struct Read {
    uint64_t value = 0;
    SequenceId state_of;  ///< of a state: whose own next commit may overwrite it
  };
  /// Whole pages, and what follows of another one.
  struct Hit {
    int32_t tokens = 0;
    int32_t partial = 0;
    uint32_t source = 0;
    bool is_sure = false;  ///< there are pages for the copies
  };
  struct Step {
    StepTicket ticket;
    std::map<size_t, Read> reads;  ///< cell -> what it held
  };

  [[nodiscard]] uint32_t num_groups() const { return pool_.num_groups(); }
  [[nodiscard]] static uint64_t history(const std::vector<TokenId>& tokens, int64_t count,
                                        uint32_t group);
  [[nodiscard]] uint32_t entry(SequenceId id, uint32_t group, int64_t page) const;
  /// Cells of token `position` of a sequence, or of its state.
  void for_cells(SequenceId id, uint32_t group, int64_t position, auto call) const;
  /// Each (position, group) that the query behind `s` may see.
  void for_visible(const Sequence& s, auto call) const;
  [[nodiscard]] bool awaits_copy(uint32_t group, uint32_t page) const;
  /// `in_pages`: hits may end inside a page.
  [[nodiscard]] Hit longest_hit(const std::vector<TokenId>& prompt, bool in_pages = true) const;
  void add_partial(const std::vector<TokenId>& prompt, uint64_t parent, uint32_t parent_page,
                   Hit& hit) const;
  [[nodiscard]] bool has_copies(const Hit& hit, std::vector<uint32_t> leading) const;
  void expect_found(const Hit& expected, int32_t found);
  [[nodiscard]] bool serves(const std::vector<uint32_t>& leading, uint32_t pages,
                            bool with_states) const;
  [[nodiscard]] int64_t room_behind(const Sequence& s, int32_t new_tokens) const;
  /// What all pages, and a copy in each group, would take is not there.
  void expect_too_few(const std::vector<int64_t>& ends);
  void expect_unchanged(const std::vector<std::byte>& before) const;
  void check() const;

  PoolMemory memory_;
  std::vector<GroupOptions> groups_;
  PoolOptions options_;
  PagePool pool_;
  std::vector<int64_t> page_bytes_;
  std::vector<int32_t> page_size_;
  std::vector<uint64_t> arena_;
  std::vector<Sequence> sequences_;
  std::vector<Step> steps_;
  int64_t now_ms_ = 0;
};

}  // namespace folio::test
