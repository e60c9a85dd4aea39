// SPDX-License-Identifier: Apache-2.0
/// pool/room.h: room for tokens to come, in all groups together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "pool/lookup.h"

namespace folio::inline v1::pool {

/// What reserve must do before the sequence writes into its last page.
enum class TailWrite : uint8_t { in_place, forget_content, copy };

struct Room : Lookup {
  using Lookup::Lookup;

  [[nodiscard]] Status check_room(const char* call, const SequenceRecord& s,
                                  int32_t new_tokens) const noexcept {
    if (new_tokens >= 0 && int64_t{s.length} + new_tokens <= max_tokens) return {};
    return too_many(call, s, new_tokens);
  }
  /// Where the sequence's room ends after a reserve.
  [[nodiscard]] int64_t room_for(const SequenceRecord& s, int32_t new_tokens) const noexcept {
    return std::min(max_tokens, int64_t{s.length} + new_tokens + options.lookahead_tokens);
  }
  /// Adds the pages that a reserve up to `end` takes at least of each group; it forgets content
  /// rather than fail.
  void add_needs(const SequenceRecord& s, int64_t end, GroupNeeds& needs) const noexcept {
    add_needs(s, end, least_tail(s), needs);
  }
  /// Pages that a reserve of at least `least` must leave available; `before`: taken by other
  /// requests of its batch.
  [[nodiscard]] uint32_t held_back(const SequenceRecord& s, uint32_t least,
                                   int64_t before) const noexcept;
  /// Whether they can be had together, and `held_back` leading ones stay available.
  [[nodiscard]] bool can_give(const GroupNeeds& needs, uint32_t held_back) const noexcept {
    return uint64_t{needs[number]} + held_back <= available() &&
           (groups.companions().empty() || can_give_all(needs, held_back));
  }
  /// The first group that cannot have its pages if those before it have theirs, else max_groups.
  [[nodiscard]] uint32_t short_group(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  [[nodiscard]] Status no_room(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  [[nodiscard]] Status no_pages(const char* call, int64_t needed,
                                uint32_t held_back = 0) const noexcept;
  [[nodiscard]] Status check_requests(std::span<const ReserveRequest> requests,
                                      int64_t* least) noexcept;
  /// `least`: leading pages that this and the later requests of its batch take at least; what they
  /// take of each group is in `groups.needs`.
  void make_room(SequenceRecord& s, int64_t end, uint32_t least) noexcept;

 private:
  [[nodiscard]] bool can_give_all(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  [[nodiscard]] Status too_many(const char* call, const SequenceRecord& s,
                                int32_t new_tokens) const noexcept;
  [[nodiscard]] TailWrite tail_write(const SequenceRecord& s, uint32_t fresh) const noexcept {
    return s.trimmed ? trimmed_tail_write(s, fresh) : TailWrite::in_place;
  }
  [[nodiscard]] TailWrite trimmed_tail_write(const SequenceRecord& s,
                                             uint32_t fresh) const noexcept;
  /// What becomes of the tail if pages are scarce.
  [[nodiscard]] TailWrite least_tail(const SequenceRecord& s) const noexcept {
    return tail_write(s, std::numeric_limits<uint32_t>::max());
  }
  /// What becomes of the tail of a sequence whose least needs are in `groups.needs`; a copy that
  /// keeps findable content is added to them where the pages are there.
  [[nodiscard]] TailWrite claim_tail(const SequenceRecord& s, int64_t end, uint32_t least) noexcept;
  /// Whether all copies of the page read only slots before `cut`, and no transfer has it.
  [[nodiscard]] bool copies_end_before(uint32_t page, int32_t cut) const noexcept;
  void add_needs(const SequenceRecord& s, int64_t end, TailWrite tail,
                 GroupNeeds& needs) const noexcept {
    if (end <= s.room) return;
    needs[number] += pages_for(end) - s.pages + (tail == TailWrite::copy ? 1 : 0);
    if (!groups.companions().empty()) add_needs_of_companions(s, end, tail, needs);
  }
  void add_needs_of_companions(const SequenceRecord& s, int64_t end, TailWrite tail,
                               GroupNeeds& needs) const noexcept;
  [[nodiscard]] bool copies_group_tail(const SequenceRecord& s, const Group& group,
                                       TailWrite tail) const noexcept;
  void reserve(const SequenceRecord& s, Group& group, int64_t end, TailWrite tail) noexcept;
};

}  // namespace folio::inline v1::pool
