// SPDX-License-Identifier: Apache-2.0
/// pool/groups.h: the pages of the groups behind the leading one, and the rows they stand in.
///
/// A page of such a group is the *companion* of the leading page that has the same tokens, from
/// when that is full: found with it, gone with it. It is used while rows, copies or steps hold it,
/// cached while nobody does and it has a leading page, and free otherwise; the oldest cached one
/// goes first, and may go alone. A page of states is the companion of the leading page whose last
/// token its state is of. A cached companion waits at the level of its leading page.
///
/// A cached page is *behind* where a window has left it, or later tokens a state, and no hit is
/// likely to need it: such pages go before all others but those below the normal level, and to
/// their slab they are free, as these are.
///
/// A row has pages from `begin` to `end`, and those of the sinks; what lies between is given up.
/// All is O(1) per page.
#pragma once

#include <algorithm>
#include <cstdint>

#include "folio/cache/page_table.h"
#include "folio/pool/groups.h"
#include "folio/pool/page_pool.h"
#include "pool/copies.h"
#include "pool/level_set.h"
#include "pool/links.h"
#include "pool/slabs.h"

namespace folio::inline v1::pool {

enum class GroupList : uint8_t { free, leaving, cached, behind, none };
inline constexpr int num_group_lists = 4;

constexpr bool is_cached(GroupList list) noexcept {
  return list == GroupList::cached || list == GroupList::behind;
}
/// What a page that waits there is to its slab.
constexpr PageUse use_of_cached(GroupList list, uint8_t level) noexcept {
  return list == GroupList::cached ? use_at_level(level) : PageUse::free;
}

/// Where a page waits that is cached at the normal level.
enum class Keeping : uint8_t { ordinary, behind };

/// Of a group behind the leading one; as PageRecord, with one count for rows and copies.
struct GroupPage {
  uint64_t steps = 0;
  uint32_t previous = no_page, next = no_page;  ///< in `list`
  uint32_t holds = 0;                           ///< rows, and copies pending or taken
  uint32_t leading = no_page;                   ///< whose companion it is
  uint32_t pending_copy = no_page;              ///< the one that it awaits
  GroupList list = GroupList::none;
  uint8_t level = policy_level;         ///< while `cached`
  Keeping keeping = Keeping::ordinary;  ///< as who gave it up last said
};
static_assert(sizeof(GroupPage) == 32);

/// The pages of one sequence in one group: [0, sinks) and [begin, end) of its row, as far as below
/// `end`.
struct GroupRow {
  uint32_t begin = 0, end = 0;
};

/// Tokens of a sequence behind which others are likely to go on in another way: what it found
/// itself, where its leading pages ended when it was admitted, and about where its prompt ends.
struct LikelyHits {
  int32_t found = 0, diverged = 0, prompt = 0;
};
/// So far in front of a prompt's end may a hit end: the next turn has its last tokens in another
/// way, or is found in blocks.
inline constexpr int32_t prompt_slack_tokens = 512;

struct Group {
  GroupOptions options;
  int32_t page_size = 0;  ///< tokens
  uint32_t num_pages = 0;
  uint32_t sink_pages = 0;
  int64_t row_stride = 0;  ///< entries
  uint32_t* table = nullptr;
  GroupPage* pages = nullptr;
  GroupRow* rows = nullptr;  ///< [max_sequences]
  Copies copies;
  ListEnds ends[num_group_lists];  ///< by GroupList; of `cached` those at policy_level
  ListEnds* levels = nullptr;      ///< [num_levels], of the others; with max_retention_ms
  LevelSet present;                ///< of these
  uint32_t counts[num_group_lists] = {};
  uint32_t pinned = 0;  ///< of the cached ones
  int64_t evicted = 0, peak_used = 0;
};

class Groups {
 public:
  /// `options` are checked and have their defaults.
  void lay_out(const PoolOptions& options) noexcept;
  void carve(Carver& carver, const PoolOptions& options) noexcept;
  /// `records`: of the leading pages.
  void start(const PoolOptions& options, const PageRecord* records) noexcept;

  /// Whether there is a group behind the leading one, or slabs.
  [[nodiscard]] bool active() const noexcept { return count_ != 0; }
  /// With the leading one; 0 in a pool of one kind of pages.
  [[nodiscard]] uint32_t count() const noexcept { return count_; }
  [[nodiscard]] Group& operator[](uint32_t group) noexcept { return groups_[group]; }
  [[nodiscard]] const Group& operator[](uint32_t group) const noexcept { return groups_[group]; }
  [[nodiscard]] uint32_t* row(uint32_t group, uint32_t sequence) const noexcept {
    return groups_[group].table + sequence * groups_[group].row_stride;
  }

  /// Pages of `tokens` tokens, and the first of them that a query behind them needs.
  [[nodiscard]] uint32_t pages_for(uint32_t group, int64_t tokens) const noexcept;
  [[nodiscard]] uint32_t first_needed(uint32_t group, int64_t tokens) const noexcept;
  /// The row that has these, and no room.
  [[nodiscard]] GroupRow row_for(uint32_t group, int64_t tokens) const noexcept;
  /// Calls `visit` with the entries of such a row that have pages, ascending.
  template <class Visit>
  void visit_entries(uint32_t group, GroupRow row, Visit visit) const noexcept {
    for (uint32_t p = 0; p < std::min(groups_[group].sink_pages, row.begin); ++p) visit(p);
    for (uint32_t p = row.begin; p < row.end; ++p) visit(p);
  }
  /// Whether a likely hit of the sequence needs entry `p` of its row.
  [[nodiscard]] bool is_likely(uint32_t group, uint32_t sequence, uint32_t p) const noexcept;
  /// Of a page that `length` cuts: a state is copied whole.
  [[nodiscard]] int32_t copied_tokens(uint32_t group, int32_t length) const noexcept {
    const int32_t size = groups_[group].page_size;
    return is_state(group) ? size : length % size;
  }
  [[nodiscard]] bool is_state(uint32_t group) const noexcept {
    return groups_[group].options.rule == GroupRule::state;
  }

  [[nodiscard]] uint32_t companion(uint32_t leading, uint32_t group) const noexcept {
    return companions_[int64_t{leading} * (count_ - 1) + group - 1];
  }
  /// `page` becomes the companion; another one loses its place.
  void attach(uint32_t leading, uint32_t group, uint32_t page) noexcept;
  void detach(uint32_t group, uint32_t page) noexcept;
  /// The leading page is nobody's content any more. `heir`, unless no_page, has the same content
  /// and takes what it lacks.
  void forget(uint32_t leading, uint32_t heir) noexcept;
  /// Whether the leading page, or its tail of `tokens` tokens, has what a copy of these needs.
  [[nodiscard]] bool serve_partial(uint32_t leading, int32_t tokens, int32_t fill) const noexcept;
  /// The leading page, which may be cached, has come to another level: its companions follow.
  void follow(uint32_t leading) noexcept;

  void hold(uint32_t group, uint32_t page) noexcept;
  /// One hold less; `steps` hold it from now on.
  void drop(uint32_t group, uint32_t page, uint64_t steps,
            Keeping keeping = Keeping::ordinary) noexcept;
  void hold_for_steps(uint32_t group, uint32_t page, uint64_t steps) noexcept;
  void end_step(uint64_t bit) noexcept;
  /// A page that was chosen becomes the caller's: whatever it was is gone.
  void take(uint32_t group, uint32_t page) noexcept;
  /// A page whose slab is given away, or that is asked for alone.
  void evict(uint32_t group, uint32_t page) noexcept;
  /// A pending copy of the first `tokens` tokens into `to`.
  void copy(uint32_t group, uint32_t from, uint32_t to, int32_t tokens) noexcept;
  [[nodiscard]] std::span<const PageCopy> take_copies(uint32_t group) noexcept;
  void hold_copies_for(uint64_t bit) noexcept;

  void push(uint32_t group, GroupList list, uint32_t page) noexcept;
  void unlink(uint32_t group, uint32_t page) noexcept;
  [[nodiscard]] uint32_t front(uint32_t group, GroupList list) const noexcept {
    return groups_[group].ends[static_cast<size_t>(list)].front;
  }
  /// Of the cached pages that are not behind, the one that goes first, or no_page.
  [[nodiscard]] uint32_t oldest_cached(uint32_t group) noexcept;
  /// The cached page that goes before all slabs with other cached ones, or no_page.
  [[nodiscard]] uint32_t first_to_go(uint32_t group) noexcept;

  [[nodiscard]] GroupFigures figures(uint32_t group) const noexcept;

  Slabs slabs;
  /// pages that the call under way will still take
  uint32_t needs[max_groups] = {};
  LikelyHits* likely = nullptr;  ///< [max_sequences]

 private:
  [[nodiscard]] uint32_t& place(uint32_t leading, uint32_t group) noexcept {
    return companions_[int64_t{leading} * (count_ - 1) + group - 1];
  }
  /// Whether a hit behind any of the tokens `from` .. `to` needs entry `p` of the row.
  [[nodiscard]] bool serves(uint32_t group, uint32_t p, int64_t from, int64_t to) const noexcept;
  void settle(uint32_t group, uint32_t page) noexcept;
  void note_used(uint32_t group, uint32_t page) noexcept;
  void push_cached(uint32_t group, uint32_t page) noexcept;
  /// Of the cached pages that wait at a level below `end`, the one that goes first, or no_page.
  [[nodiscard]] uint32_t front_below(uint32_t group, uint8_t end) noexcept;
  [[nodiscard]] GroupList cached_list(const GroupPage& page) const noexcept;
  [[nodiscard]] static ListEnds& ends_of(Group& group, const GroupPage& page) noexcept;
  void cancel_copy_into(uint32_t group, uint32_t page) noexcept;

  uint32_t count_ = 0;
  Group groups_[max_groups];
  SlabLayout layout_;
  const PageRecord* records_ = nullptr;
  uint32_t* companions_ = nullptr;  ///< [leading pages, count - 1]
};

/// The longest prefix that all groups can serve, and that without their states: one pass over the
/// leading pages that were found, with the length of the present run per group.
class JointHit {
 public:
  struct Reach {
    uint32_t pages = 0;
    uint32_t last = no_page;  ///< of these, in the leading group
    uint32_t next = no_page;  ///< the leading page behind these, if it was found, too
  };
  explicit JointHit(const Groups& groups, int32_t page_size) noexcept
      : groups_(groups), page_size_(page_size) {}
  void add(uint32_t leading) noexcept;
  [[nodiscard]] const Reach& all() const noexcept { return all_; }
  [[nodiscard]] const Reach& without_states() const noexcept { return without_states_; }

 private:
  const Groups& groups_;
  int32_t page_size_;
  uint32_t seen_ = 0;
  Reach all_, without_states_;
  uint32_t run_[max_groups] = {};    ///< pages with a companion, up to the last one seen
  uint32_t sinks_[max_groups] = {};  ///< the same from the first one
};

}  // namespace folio::inline v1::pool
