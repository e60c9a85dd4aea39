// SPDX-License-Identifier: Apache-2.0
/// pool/branches.h: sequences that go back, fork, change places and end, in all groups.
#pragma once

#include <cstdint>

#include "pool/room.h"

namespace folio::inline v1::pool {

struct Branches : Room {
  using Room::Room;

  /// invalid_argument where a group has given up, and not cached, what a shorter sequence needs.
  [[nodiscard]] Status check_going_back(const char* call, const SequenceRecord& s,
                                        int32_t length) const noexcept;
  /// To `length` tokens, without room behind them. Its items stay.
  void cut(SequenceRecord& s, int32_t length) noexcept;

  /// Whether so many children find pages for their copies of what `length` cuts, which are the
  /// needs of the call from now on. `shares`: the leading page is not copied.
  [[nodiscard]] Status claim_fork(const SequenceRecord& parent, int32_t length, size_t children,
                                  bool shares) noexcept;
  /// A new sequence with the parent's first `length` tokens, whose needs are claimed. `shares`: it
  /// looks at a cut leading page before it writes.
  [[nodiscard]] SequenceId make_child(const SequenceRecord& parent, int32_t length,
                                      bool shares) noexcept;
  /// Each gets what the other has: tokens, room, pages and the steps that hold them.
  void swap_pages(SequenceRecord& a, SequenceRecord& b) noexcept;
  void close_sequence(SequenceRecord& s) noexcept;

 private:
  void share_prefix(const SequenceRecord& parent, SequenceRecord& child, int32_t length) noexcept;
  // In groups: group_branches.cpp.
  /// The page that serves position `p` of a shorter sequence: the row's, or else the companion.
  [[nodiscard]] uint32_t group_page_at(const SequenceRecord& s, const Group& group, uint32_t p,
                                       int32_t length) const noexcept;
  [[nodiscard]] bool can_go_back(const SequenceRecord& s, const Group& group,
                                 int32_t length) const noexcept;
  void cut_groups(const SequenceRecord& s, int32_t length) noexcept;
  [[nodiscard]] bool shares_group_page(const SequenceRecord& parent, const Group& group, uint32_t p,
                                       int32_t length) const noexcept;
  void fork_groups(const SequenceRecord& parent, const SequenceRecord& child,
                   int32_t length) noexcept;
  void swap_groups(const SequenceRecord& a, const SequenceRecord& b) noexcept;
};

}  // namespace folio::inline v1::pool
