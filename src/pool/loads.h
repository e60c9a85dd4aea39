// SPDX-License-Identifier: Apache-2.0
/// pool/loads.h: rows that have the room of a hit before its pages are there.
///
/// A load's row has, in each group, the entries of a hit of its length: pages that memory has, and
/// new ones to be filled; a load of a whole prompt may end within a page, of which memory has
/// nothing. What the sequence's old length needs in other groups is given up, and
/// found again as companions of its leading pages where a load is given up.
#pragma once

#include <cstdint>
#include <span>

#include "pool/branches.h"

namespace folio::inline v1::pool {

struct Loads : Branches {
  using Branches::Branches;

  /// A prompt that has tokens; of the sequence whole pages, no room, and no load.
  [[nodiscard]] Status check_loadable(const char* call, const SequenceRecord& s,
                                      std::span<const TokenId> prompt) const noexcept;
  /// Leading pages of the prompt behind the sequence's own, `limit` of its row at most, become
  /// entries that hold nothing; returns how many were found.
  [[nodiscard]] uint32_t find_behind(const SequenceRecord& s, std::span<const TokenId> prompt,
                                     uint32_t limit) noexcept;
  /// The entries from the last page on hold nothing: they become sentinels again.
  void forget_found(const SequenceRecord& s, uint32_t found) noexcept;
  /// What the groups have beside the leading page, which has content.
  [[nodiscard]] GroupBits parts_of(uint32_t leading) const noexcept;
  /// Of the sequence's full page `position`.
  [[nodiscard]] uint32_t companion_at(const SequenceRecord& s, uint32_t position,
                                      uint32_t group) const noexcept;
  [[nodiscard]] PageParts parts_at(const SequenceRecord& s, uint32_t position) const noexcept;

  /// Pages that a load of `length` tokens takes, its leading ones being in the row as far as memory
  /// has them, as sentinels where not. `revived`: cached ones that it would hold.
  struct Needs {
    GroupNeeds pages = {};
    Revived revived = {};
    uint32_t revived_leading = 0;
  };
  /// Errors: invalid_argument where a group has given up what lies before the sequence's length
  [[nodiscard]] Status count_needs(const char* call, const SequenceRecord& s, int32_t length,
                                   Needs& needs) noexcept;
  [[nodiscard]] Status check_needs(const char* call, const SequenceRecord& s,
                                   const Needs& needs) const noexcept;
  /// Takes them: the row is that of a load of `length` tokens.
  void open_load(SequenceRecord& s, int32_t length, const Needs& needs,
                 std::span<GroupBits> fill) noexcept;
  void commit_load(SequenceRecord& s, std::span<const TokenId> written, bool merges) noexcept;

 private:
  [[nodiscard]] static Status cannot_load(const char* call, const SequenceRecord& s, int32_t length,
                                          uint32_t group) noexcept;
  [[nodiscard]] static uint32_t leading_of(const Group& group, uint32_t entry, int32_t length,
                                           int32_t page_size) noexcept {
    return group.is_state() ? static_cast<uint32_t>((length - 1) / page_size) : entry;
  }
  /// The entry that has the companion of leading page `position`.
  [[nodiscard]] static uint32_t entry_of(const Group& group, uint32_t position,
                                         int32_t page_size) noexcept {
    const int64_t last = (int64_t{position} + 1) * page_size - 1;
    return group.is_state() ? static_cast<uint32_t>(last / group.page_size) : position;
  }
  /// The page for an entry of the load's row: the row's own, or memory's, or no_page.
  [[nodiscard]] uint32_t page_there(const SequenceRecord& s, const Group& group, uint32_t entry,
                                    int32_t length) const noexcept;
  /// The row's own page serves a load of another length.
  [[nodiscard]] bool keeps_entry(const SequenceRecord& s, const Group& group,
                                 uint32_t entry) const noexcept {
    return !group.is_state() && group.row_of(index_of(s))[entry] != group.num_pages;
  }
  /// visit(group, page) of cached pages that the load would hold.
  template <class Visit>
  void visit_revived(const SequenceRecord& s, int32_t length, Visit visit) const noexcept;
  void hold_there(const SequenceRecord& s, Group& group, int32_t length) noexcept;
  void take_missing(const SequenceRecord& s, Group& group, int32_t length,
                    std::span<GroupBits> fill) noexcept;
};

}  // namespace folio::inline v1::pool
