// SPDX-License-Identifier: Apache-2.0
/// pool/rows.h: sequences, their ids, and the rows of all groups that name their pages.
///
/// What holds a page is counted apart: references (table rows), copies (pending or taken), and
/// steps. While a sequence lives, the bits of its unfinished steps sit in its own record and its
/// references hold the pages; a page that it gives up inherits the bits (`PageRecord::steps`). So a
/// step costs O(sequences) to begin, however long they are, and to end what was given up meanwhile:
/// the bits of an ended step stay in the records of its sequences, and mean nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "folio/pool/page_pool.h"
#include "pool/lookup/namespaces.h"
#include "pool/pages.h"

namespace folio::inline v1::pool {

inline constexpr uint32_t no_sequence = 0xffffffffU;

struct SequenceRecord {
  uint32_t generation = 0;
  uint32_t next_free = no_sequence;
  int32_t length = 0;   ///< committed tokens
  int32_t room = 0;     ///< tokens that have pages: length plus what is reserved
  int32_t loading = 0;  ///< tokens that it will have when its load is committed; 0: it has none
  uint32_t pages = 0;   ///< entries of the row
  uint32_t space = no_namespace;
  /// steps that the sequence is in, a bit each, and some that have ended since: unfinished_steps
  /// tells them apart
  uint64_t steps = 0;
  uint64_t last_step = 0;  ///< ticket of the step that it joined last
  bool alive = false;
  /// trimmed inside its last page, which must not be written before reserve has looked at it
  bool trimmed = false;
  /// has reserved nothing since it was admitted or resumed: the watermark counts for it
  bool starting = false;
  bool listed = false;  ///< only within a call: among its arguments

  /// The length, or that of its load: the row has what a query behind so many tokens needs.
  [[nodiscard]] int32_t reach() const noexcept { return loading != 0 ? loading : length; }
};

struct Rows : Pages {
  explicit Rows(const PoolOptions& given) noexcept
      : Pages(given),
        max_tokens(std::min<int64_t>(int64_t{given.max_pages_per_sequence} * given.page_size,
                                     std::numeric_limits<int32_t>::max())) {
    row_stride = PageTable::padded_columns(given.max_pages_per_sequence);
  }

  // Sequences.
  [[nodiscard]] SequenceRecord* find(SequenceId id) const noexcept {
    if (id.index >= options.max_sequences) return nullptr;
    SequenceRecord& s = sequences[id.index];
    return s.alive && s.generation == id.generation ? &s : nullptr;
  }
  /// Whether a call may change the pool: not from within a function that the pool calls.
  [[nodiscard]] static bool is_open(const Rows* rows) noexcept {
    return rows != nullptr && !rows->calls_out;
  }
  /// The living sequence that a call is to change, or null: `refused` says why.
  [[nodiscard]] static SequenceRecord* find_open(const Rows* rows, SequenceId id) noexcept {
    return is_open(rows) ? rows->find(id) : nullptr;
  }
  [[nodiscard]] static Status refused(const Rows* rows, const char* call) noexcept;
  [[nodiscard]] static Status refused(const Rows* rows, const char* call, SequenceId id) noexcept;
  [[nodiscard]] Status check_ids(const char* call, std::span<const SequenceId> ids) const noexcept;
  /// invalid_argument for a stale id, or one that is listed twice: argument[i].
  [[nodiscard]] Status list_once(const char* call, const char* argument, size_t i,
                                 SequenceId id) noexcept;
  /// Errors: invalid_argument unless the sequence has so many tokens
  [[nodiscard]] Status check_length(const char* call, const SequenceRecord& s,
                                    int32_t length) const noexcept;
  [[nodiscard]] uint32_t index_of(const SequenceRecord& s) const noexcept {
    return static_cast<uint32_t>(&s - sequences);
  }
  [[nodiscard]] SequenceId id_of(const SequenceRecord& s) const noexcept {
    return {index_of(s), s.generation};
  }
  [[nodiscard]] SequenceRecord& open_sequence() noexcept;
  void close_record(SequenceRecord& s) noexcept;

  // Rows.
  [[nodiscard]] uint32_t* row(const SequenceRecord& s) const noexcept {
    return row_of(index_of(s));
  }
  [[nodiscard]] uint32_t pages_for(int64_t count) const noexcept {
    return static_cast<uint32_t>((count + options.page_size - 1) / options.page_size);
  }
  /// Where the sequence's row of a group ends.
  [[nodiscard]] uint32_t end_of_row(const LeadingGroup&, const SequenceRecord& s) const noexcept {
    return s.pages;
  }
  [[nodiscard]] uint32_t end_of_row(const Group& group, const SequenceRecord& s) const noexcept {
    return group.rows[index_of(s)].end;
  }
  /// Gives up the last pages until `keep` are left.
  void drop_pages(SequenceRecord& s, uint32_t keep) noexcept;
  /// The first entry, from the sequence's length to `end` tokens, whose page a transfer fills; else
  /// that of `end`.
  [[nodiscard]] uint32_t first_filling(const SequenceRecord& s, int32_t end) const noexcept {
    const uint32_t last = pages_for(end);
    if (io_pins.filling() == 0) return last;
    const uint32_t* const pages = row(s);
    auto p = static_cast<uint32_t>(s.length / options.page_size);
    while (p < last && !records[pages[p]].filling) ++p;
    return std::min(p, last);
  }
  [[nodiscard]] Status check_fill(const SequenceRecord& s, int32_t entry) const noexcept;

  // Rows of the groups behind the leading one: companion_rows.cpp. Nothing without them.
  void drop_group_pages(const SequenceRecord& s, Group& group, uint32_t first,
                        uint32_t last) noexcept;
  /// What the sequence's leading pages have becomes its own, too.
  void hold_group_hits(const SequenceRecord& s, bool states_of_tail) noexcept;
  /// After a commit: new full pages find their companions, windows move. With `merges`, companions
  /// that a leading page has already take the places of the row's.
  void advance_groups(const SequenceRecord& s, uint32_t first_full, bool merges) noexcept {
    for (Group& group : groups.companions()) advance(s, group, first_full, merges);
  }
  void move_window(const SequenceRecord& s, Group& group) noexcept;
  void release_groups(const SequenceRecord& s) noexcept {
    for (Group& group : groups.companions()) release(s, group);
  }
  [[nodiscard]] bool group_awaits_copy(const SequenceRecord& s) const noexcept {
    return std::ranges::any_of(groups.companions(),
                               [&](const Group& group) { return awaits_copy(s, group); });
  }
  /// Whether no step can have changed, or will change, the state after the sequence's last token.
  [[nodiscard]] bool has_final_state(const SequenceRecord& s, const Group& group) const noexcept {
    return s.length % group.page_size == 0 || (s.length == s.room && !s.trimmed);
  }

  /// Unfinished steps that the sequence is in, a bit each. A later step uses a slot of tickets
  /// again; so a bit counts only while the slot's ticket is none after the sequence's last one.
  [[nodiscard]] uint64_t unfinished_steps(const SequenceRecord& s) const noexcept;

  const int64_t max_tokens;  ///< of a sequence
  SequenceRecord* sequences = nullptr;
  uint32_t free_sequence = no_sequence;
  uint32_t num_alive = 0;
  uint64_t unfinished = 0;  ///< a bit for each unfinished step
  uint64_t tickets[PagePool::max_unfinished_steps] = {};
  uint64_t last_ticket = 0;

 private:
  void advance(const SequenceRecord& s, Group& group, uint32_t first_full, bool merges) noexcept;
  void release(const SequenceRecord& s, Group& group) noexcept;
  [[nodiscard]] bool awaits_copy(const SequenceRecord& s, const Group& group) const noexcept;
  /// As drop_group_pages, for pages that the window has passed.
  void leave_behind(const SequenceRecord& s, Group& group, uint32_t first, uint32_t last) noexcept;
  void give_companion(uint32_t leading, Group& group, uint32_t& page, bool merges) noexcept;
};

}  // namespace folio::inline v1::pool
