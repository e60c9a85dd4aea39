// SPDX-License-Identifier: Apache-2.0
/// pool/groups/groups.h: the pages of the groups behind the leading one, and the rows they stand
/// in.
///
/// A page of such a group is the *companion* of the leading page that has the same tokens, from
/// when that is full: found with it, gone with it. It is used while rows, copies or steps hold it,
/// cached while nobody does and it has a leading page, and free otherwise; the oldest cached one
/// goes first, and may go alone. A page of states is the companion of the leading page whose last
/// token its state is of. A cached companion waits at the level of its leading page.
///
/// A cached page is *behind* where a window has left it, or later tokens a state, and no hit is
/// likely to need it: such pages go before all others but those below the normal level, and to
/// their slab they are free, as these are. A page's life is that of every group's: page_life.h.
///
/// A row has pages from `begin` to `end`, and those of the sinks; what lies between is given up.
/// All is O(1) per page.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "folio/cache/page_table.h"
#include "folio/pool/events.h"
#include "folio/pool/groups.h"
#include "folio/pool/page_pool.h"
#include "pool/groups/slabs.h"
#include "pool/pages/page_life.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

/// What a cached page is to its slab that waits in this list.
constexpr PageUse use_in(PageList list) noexcept {
  return list == behind_queue ? PageUse::free : use_at_level(level_of(list));
}

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

/// Is told when a leading page gets a companion or loses it; not of one that changes over to
/// another page of the same content.
struct CompanionWatcher {
  void (*function)(void* context, PoolEventKind kind, uint32_t group,
                   uint32_t leading) noexcept = nullptr;
  void* context = nullptr;
};

/// The table of a group: a row for each sequence.
struct GroupTable {
  uint32_t* table = nullptr;
  int64_t row_stride = 0;  ///< entries
  uint32_t num_pages = 0;  ///< of the group: what an entry without a page is

  [[nodiscard]] uint32_t* row_of(uint32_t sequence) const noexcept {
    return table + sequence * row_stride;
  }
};

/// A group behind the leading one.
struct Group : GroupTable, PageLife<Group, GroupPage> {
  static constexpr bool has_content = false;

  /// All groups': where the companions of leading pages are, and at which level these wait.
  struct Shared {
    Slabs* slabs = nullptr;
    const PageRecord* leading = nullptr;
    uint32_t* companions = nullptr;  ///< [leading pages, stride]
    uint32_t stride = 0;
    const CompanionWatcher* watcher = nullptr;
  };

  // Memory.
  void lay_out(const PoolOptions& pool, uint32_t own_number, const SlabLayout& layout) noexcept;
  void carve(Carver& carver, const PoolOptions& pool) noexcept;
  void start(const PoolOptions& pool, const Shared& with) noexcept;

  // Rows.
  /// Pages of `tokens` tokens, and the first of them that a query behind them needs.
  [[nodiscard]] uint32_t pages_for(int64_t tokens) const noexcept {
    return static_cast<uint32_t>((tokens + page_size - 1) / page_size);
  }
  [[nodiscard]] uint32_t first_needed(int64_t tokens) const noexcept;
  /// The row that has these, and no room.
  [[nodiscard]] GroupRow row_for(int64_t tokens) const noexcept;
  /// Calls `visit` with the entries of such a row that have pages, ascending.
  template <class Visit>
  void visit_entries(GroupRow row, Visit visit) const noexcept {
    for (uint32_t p = 0; p < std::min(sink_pages, row.begin); ++p) visit(p);
    for (uint32_t p = row.begin; p < row.end; ++p) visit(p);
  }
  /// Whether one of these hits needs entry `p` of its row.
  [[nodiscard]] bool is_likely(const LikelyHits& hits, uint32_t p) const noexcept;
  /// Of a page that `length` cuts: a state is copied whole.
  [[nodiscard]] int32_t copied_tokens(int32_t length) const noexcept {
    return is_state() ? page_size : length % page_size;
  }
  [[nodiscard]] bool is_state() const noexcept { return options.rule == GroupRule::state; }

  // Companions.
  [[nodiscard]] uint32_t companion(uint32_t leading) const noexcept {
    return shared.companions[int64_t{leading} * shared.stride + number - 1];
  }
  /// `page` becomes the companion; another one loses its place.
  void attach(uint32_t leading, uint32_t page) noexcept;
  void detach(uint32_t page) noexcept;
  /// The companion, which may be cached, comes to where its leading page waits now.
  void follow(uint32_t page) noexcept;
  void hand_over(uint32_t leading, uint32_t heir) noexcept;

  // A page's life: PageLife.
  void add_row(uint32_t page) noexcept { ++records[page].holds; }
  [[nodiscard]] bool drop_row(uint32_t page) noexcept { return --records[page].holds == 0; }
  void note_used(uint32_t page) noexcept;
  void rest(uint32_t page) noexcept;
  void lose(uint32_t page) noexcept { detach(page); }

  // Which page goes.
  /// Of the cached pages that are not behind, the one that goes first, or no_page.
  [[nodiscard]] uint32_t oldest_cached() noexcept;
  /// The cached page that goes before all slabs with other cached ones, or no_page. `in_own`: an
  /// empty slab has the group's pages.
  [[nodiscard]] uint32_t first_to_go(bool in_own) noexcept;
  /// Of the group's pages that are not used the least goes first.
  [[nodiscard]] int place_of(uint32_t page) const noexcept;

  [[nodiscard]] GroupFigures figures() const noexcept;

  GroupOptions options;
  uint32_t number = 0;
  int32_t page_size = 0;  ///< tokens
  uint32_t sink_pages = 0;
  GroupRow* rows = nullptr;  ///< [max_sequences]
  Shared shared;

 private:
  [[nodiscard]] uint32_t& place(uint32_t leading) noexcept {
    return shared.companions[int64_t{leading} * shared.stride + number - 1];
  }
  /// Whether a hit behind any of the tokens `from` .. `to` needs entry `p` of the row.
  [[nodiscard]] bool serves(uint32_t p, int64_t from, int64_t to) const noexcept;
  [[nodiscard]] PageList cached_list(const GroupPage& page) const noexcept;
  void tell(PoolEventKind kind, uint32_t leading) const noexcept {
    if (shared.watcher->function != nullptr) [[unlikely]]
      shared.watcher->function(shared.watcher->context, kind, number, leading);
  }
  ListHead* level_heads_ = nullptr;  ///< [num_levels - 1], with max_retention_ms
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
  /// With the leading one.
  [[nodiscard]] uint32_t count() const noexcept { return behind_ + 1; }
  /// Those behind the leading one.
  [[nodiscard]] std::span<Group> companions() noexcept { return {groups_, behind_}; }
  [[nodiscard]] std::span<const Group> companions() const noexcept { return {groups_, behind_}; }
  /// One of these, by its number.
  [[nodiscard]] Group& operator[](uint32_t group) noexcept { return groups_[group - 1]; }
  [[nodiscard]] const Group& operator[](uint32_t group) const noexcept {
    return groups_[group - 1];
  }

  [[nodiscard]] uint32_t companion(uint32_t leading, uint32_t group) const noexcept {
    return (*this)[group].companion(leading);
  }
  /// The leading page is nobody's content any more. `heir_of(leading)`, unless no_page, has the
  /// same content and takes what it lacks.
  template <class HeirOf>
  void forget(uint32_t leading, HeirOf heir_of) noexcept {
    if (behind_ == 0) [[likely]]
      return;
    hand_over(leading, heir_of(leading));
  }
  void forget(uint32_t leading) noexcept { hand_over(leading, no_page); }
  /// Whether the leading page, or its tail of `tokens` tokens, has what a copy of these needs.
  [[nodiscard]] bool serve_partial(uint32_t leading, int32_t tokens, int32_t fill) const noexcept;
  /// The leading page, which may be cached, has come to another level: its companions follow.
  void follow(uint32_t leading) noexcept;

  // Where hits are likely; nothing in a pool of one kind of pages.
  void expect(uint32_t sequence, const LikelyHits& hits) noexcept {
    if (likely_ != nullptr) likely_[sequence] = hits;
  }
  void expect_found(uint32_t sequence, int32_t tokens) noexcept {
    if (likely_ != nullptr) likely_[sequence].found = tokens;
  }
  void expect_branch(uint32_t sequence, int32_t tokens) noexcept {
    if (likely_ != nullptr)
      likely_[sequence].diverged = std::max(likely_[sequence].diverged, tokens);
  }
  void expect_as(uint32_t from, uint32_t to) noexcept {
    if (likely_ != nullptr) likely_[to] = likely_[from];
  }
  void swap_expected(uint32_t a, uint32_t b) noexcept {
    if (likely_ != nullptr) std::swap(likely_[a], likely_[b]);
  }
  /// Of a pool with groups.
  [[nodiscard]] const LikelyHits& expected(uint32_t sequence) const noexcept {
    return likely_[sequence];
  }

  /// The call under way will take so many pages of each group.
  void claim(const uint32_t (&pages)[max_groups]) noexcept {
    for (uint32_t g = 0; g < count(); ++g) needs[g] = pages[g];
  }

  CompanionWatcher watcher;  ///< function null: nobody
  Slabs slabs;
  /// pages that the call under way will still take
  uint32_t needs[max_groups] = {};

 private:
  void hand_over(uint32_t leading, uint32_t heir) noexcept {
    for (Group& group : companions()) group.hand_over(leading, heir);
  }

  uint32_t count_ = 0;   ///< as the options have them
  uint32_t behind_ = 0;  ///< the leading one
  Group groups_[max_groups - 1];
  SlabLayout layout_;
  const PageRecord* records_ = nullptr;
  uint32_t* companions_ = nullptr;  ///< [leading pages, behind_]
  LikelyHits* likely_ = nullptr;    ///< [max_sequences]
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
