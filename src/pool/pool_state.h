// SPDX-License-Identifier: Apache-2.0
/// pool/pool_state.h: everything a pool remembers, in one block of memory, and the transitions of a
/// page.
///
/// What holds a page is counted apart: references (table rows), copies (pending or taken), and
/// steps. While a sequence lives, the bits of its unfinished steps sit in its own record and its
/// references hold the pages; a page that it gives up inherits the bits (`PageRecord::steps`). So a
/// step costs O(sequences) to begin, however long they are, and to end what was given up meanwhile:
/// the bits of an ended step stay in the records of its sequences, and mean nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/carver.h"
#include "folio/pool/page_pool.h"
#include "pool/copies.h"
#include "pool/cost_eviction.h"
#include "pool/event_log.h"
#include "pool/eviction.h"
#include "pool/groups.h"
#include "pool/head_index.h"
#include "pool/io_pins.h"
#include "pool/item_spans.h"
#include "pool/namespaces.h"
#include "pool/page_ages.h"
#include "pool/page_extras.h"
#include "pool/page_lists.h"
#include "pool/prefix_index.h"
#include "pool/retention.h"

namespace folio::inline v1 {
namespace pool {

inline constexpr uint32_t no_sequence = 0xffffffffU;

struct SequenceRecord {
  uint32_t generation = 0;
  uint32_t next_free = no_sequence;
  int32_t length = 0;  ///< committed tokens
  int32_t room = 0;    ///< tokens that have pages: length plus what is reserved
  uint32_t pages = 0;  ///< entries of the row
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
};

/// What reserve must do before the sequence writes into its last page.
enum class TailWrite : uint8_t { in_place, forget_content, copy };

}  // namespace pool

struct PagePool::State {
  /// A reader that copies statistics is overtaken by the calls of a whole round at the earliest.
  using StatsRing = pool::SharedRing<PoolStats>;
  static constexpr uint32_t num_stats = 16;

  /// `given`: checked, defaults filled in.
  explicit State(const PoolOptions& given) noexcept
      : options(without_groups(given)),
        row_stride(PageTable::padded_columns(given.max_pages_per_sequence)),
        max_tokens(std::min<int64_t>(int64_t{given.max_pages_per_sequence} * given.page_size,
                                     std::numeric_limits<int32_t>::max())) {
    groups.lay_out(given);
    place_extras();
  }

  const PoolOptions options;
  const int64_t row_stride;  ///< entries
  const int64_t max_tokens;  ///< of a sequence
  int64_t bytes = 0;         ///< of the block of memory

  uint32_t* table = nullptr;
  pool::PageRecord* records = nullptr;
  TokenId* tokens = nullptr;  ///< [num_pages, page_size]
  uint32_t* buckets = nullptr;
  pool::SequenceRecord* sequences = nullptr;
  pool::Copies page_copies;                   ///< of the leading group
  bool calls_out = false;                     ///< a function of the caller's runs, within a call
  pool::Ghosts::Ghost* ghost_ring = nullptr;  ///< with Eviction::s3_fifo
  uint32_t* ghost_buckets = nullptr;
  pool::Retention::Memory retained;
  PageName* names = nullptr;  ///< [num_pages] with PoolOptions::name
  pool::EventLog::Memory event_memory;
  StatsRing::Slot* stats_slots = nullptr;  ///< with PoolOptions::readers
  uint32_t* head_buckets = nullptr;        ///< with min_partial_tokens
  pool::Namespace* spaces = nullptr;
  uint32_t* space_buckets = nullptr;
  pool::ItemSpans::Memory spans_memory;      ///< with max_spans
  pool::IoPins::Place* io_places = nullptr;  ///< with max_io_pins

  pool::PageExtras extras;
  struct Places {  ///< of those options that are on
    pool::PageExtras::Place heads = 0, wheel = 0, ages = 0;
  };
  Places places;
  pool::PageLists lists;
  pool::Lru lru;
  pool::S3Fifo s3_fifo;
  pool::AgedLfu aged_lfu;
  pool::AgedCost aged_cost;
  pool::EvictionPolicy* eviction = &lru;
  pool::Retention* retention = nullptr;  ///< with PoolOptions::max_retention_ms
  pool::PrefixIndex index;
  pool::HeadIndex heads;
  pool::Namespaces namespaces;
  pool::ItemSpans items;
  pool::IoPins io_pins;
  pool::Groups groups;  ///< inactive in a pool of one kind of pages
  pool::EventLog events;
  StatsRing shared_stats;
  pool::PageAges ages;
  uint32_t free_sequence = pool::no_sequence;
  uint64_t unfinished = 0;  ///< a bit for each unfinished step
  uint64_t tickets[max_unfinished_steps] = {};
  uint64_t last_ticket = 0;
  uint32_t pages_of_sequences = 0;  ///< pages with references
  PoolStats counters;               ///< the fields that only grow, and `sequences`

  uint32_t coming[pool::distance_ahead] = {};  ///< pages that will be evicted soon: advice
  uint32_t num_coming = 0;
  // Statistics.
  [[nodiscard]] PoolStats stats() const noexcept;
  [[nodiscard]] Result<PoolHistograms> histograms() const noexcept;
  /// At the end of a call that has changed something.
  void end_call() noexcept {
    counters.peak_used_pages =
        std::max(counters.peak_used_pages, int64_t{options.num_pages} - available());
    if (stats_slots != nullptr) [[unlikely]]
      shared_stats.push(stats());
  }

  /// Pages that a prompt begins with.
  struct Match {
    uint32_t pages = 0;
    uint32_t last = pool::no_page;  ///< of these; findable
    /// what the next page continues; 0 if nothing can be found behind it
    uint64_t content = 0;
    /// the hit goes on in a tail, which has the states that the last of these pages lacks
    bool states_of_tail = false;
    uint32_t leading = 0;  ///< pages that match in the leading group
  };
  /// Tokens that it goes on with inside a page.
  struct PartialMatch {
    uint32_t page = pool::no_page;
    int32_t tokens = 0;
  };

  [[nodiscard]] static PoolOptions without_groups(PoolOptions o) noexcept {
    o.groups = {};  // the caller's memory: `groups` has copied what it says
    return o;
  }

  // Memory.
  void carve(Carver& carver) noexcept;  ///< places, or only measures, the arrays
  void start() noexcept;                ///< fills them
  void start_policy() noexcept;
  void place_extras() noexcept;
  void carve_retention(Carver& carver) noexcept;
  void start_retention() noexcept;
  [[nodiscard]] int64_t num_spaces() const noexcept {
    return int64_t{options.max_sequences} + options.max_namespaces;
  }

  // Sequences.
  [[nodiscard]] pool::SequenceRecord* find(SequenceId id) const noexcept;
  /// Whether a call may change the pool: not from within a function that the pool calls.
  [[nodiscard]] static bool is_open(const State* state) noexcept {
    return state != nullptr && !state->calls_out;
  }
  /// The living sequence that a call is to change, or null: `refused` says why.
  [[nodiscard]] static pool::SequenceRecord* find_open(const State* state, SequenceId id) noexcept {
    return is_open(state) ? state->find(id) : nullptr;
  }
  [[nodiscard]] static Status refused(const State* state, const char* call) noexcept;
  [[nodiscard]] static Status refused(const State* state, const char* call, SequenceId id) noexcept;
  [[nodiscard]] Status check_ids(const char* call, std::span<const SequenceId> ids) const noexcept;
  [[nodiscard]] uint32_t index_of(const pool::SequenceRecord& s) const noexcept {
    return static_cast<uint32_t>(&s - sequences);
  }
  [[nodiscard]] SequenceId id_of(const pool::SequenceRecord& s) const noexcept {
    return {index_of(s), s.generation};
  }
  [[nodiscard]] uint32_t* row(const pool::SequenceRecord& s) const noexcept {
    return table + index_of(s) * row_stride;
  }
  [[nodiscard]] pool::SequenceRecord& open_sequence() noexcept;
  /// Findable pages of the longest prefix of `prompt`, at most `limit`; written to `found` unless
  /// null.
  /// `without_states`, if not null, becomes the longest one that all other groups can serve; so far
  /// `found` is written.
  [[nodiscard]] Match match(uint32_t space, const TokenId* prompt,
                            std::span<const ContentSpan> spans, uint32_t limit, uint32_t* found,
                            Match* without_states = nullptr) const noexcept;
  /// The same for a prompt that will be admitted: where a tail goes on behind pages that lack
  /// states and there are pages for its copies, these pages count.
  [[nodiscard]] Match match_prompt(uint32_t space, std::span<const TokenId> prompt,
                                   std::span<const ContentSpan> spans,
                                   uint32_t* found) const noexcept;
  /// The same whatever other groups have of these pages, which `joint` is told if it is not null.
  [[nodiscard]] Match match_leading(uint32_t space, const TokenId* prompt,
                                    std::span<const ContentSpan> spans, uint32_t limit,
                                    uint32_t* found, pool::JointHit* joint) const noexcept;
  /// The same from one item to the next, `before` being what the first page continues.
  [[nodiscard]] Match match_run(pool::Before before, const TokenId* prompt, uint32_t limit,
                                uint32_t* found, pool::JointHit* joint) const noexcept;
  [[nodiscard]] pool::Before beginning(uint32_t space) const noexcept {
    return {namespaces[space].content, namespaces[space].hash};
  }
  /// What comes before the page's tokens, without items that begin there.
  [[nodiscard]] pool::Before before_page(const pool::SequenceRecord& s,
                                         uint32_t position) const noexcept {
    if (position == 0) return beginning(s.space);
    const pool::PageRecord& last = records[row(s)[position - 1]];
    return {last.content, last.hash};
  }
  /// The same with these items, which become open: those of earlier pages are.
  [[nodiscard]] pool::Before enter_page(const pool::SequenceRecord& s, uint32_t position) noexcept {
    const pool::Before before = before_page(s, position);
    return items.is_on() ? items.open(before, position, index_of(s)) : before;
  }
  [[nodiscard]] uint32_t lookup_limit(size_t prompt_tokens) const noexcept;
  [[nodiscard]] pool::TailWrite tail_write(const pool::SequenceRecord& s,
                                           uint32_t fresh) const noexcept;
  /// The longest cached prefix of `prompt` becomes the sequence's, which has nothing. Returns its
  /// tokens.
  [[nodiscard]] int32_t hold_prefix(pool::SequenceRecord& s,
                                    std::span<const TokenId> prompt) noexcept;
  /// Whether a copy into the page has not been taken.
  [[nodiscard]] bool awaits_copy(uint32_t group, uint32_t page) const noexcept {
    return group == 0 ? records[page].awaits_copy
                      : groups[group].pages[page].pending_copy != pool::no_page;
  }
  [[nodiscard]] Status check_fill(const pool::SequenceRecord& s, int32_t entry,
                                  uint32_t group) const noexcept;
  /// The first entry, from the sequence's length to `end` tokens, whose page a transfer fills; else
  /// that of `end`.
  [[nodiscard]] uint32_t first_filling(const pool::SequenceRecord& s, int32_t end) const noexcept;
  /// Whether all copies of the page read only slots before `cut`, and no transfer has it.
  [[nodiscard]] bool copies_end_before(uint32_t page, int32_t cut) const noexcept;

  /// Errors: invalid_argument unless the sequence has so many tokens
  [[nodiscard]] Status check_length(const char* call, const pool::SequenceRecord& s,
                                    int32_t length) const noexcept;

  // Room: src/pool/room.cpp.
  [[nodiscard]] Status check_room(const char* call, const pool::SequenceRecord& s,
                                  int32_t new_tokens) const noexcept;
  /// Where the sequence's room ends after a reserve.
  [[nodiscard]] int64_t room_for(const pool::SequenceRecord& s, int32_t new_tokens) const noexcept {
    return std::min(max_tokens, int64_t{s.length} + new_tokens + options.lookahead_tokens);
  }
  /// What becomes of the tail if pages are scarce.
  [[nodiscard]] pool::TailWrite least_tail(const pool::SequenceRecord& s) const noexcept;
  /// Pages that a reserve up to `end` takes at least; it forgets content rather than fail.
  [[nodiscard]] uint32_t least_pages(const pool::SequenceRecord& s, int64_t end) const noexcept;
  /// Pages that a reserve of at least `least` must leave available; `before`: taken by other
  /// requests of its batch.
  [[nodiscard]] uint32_t held_back(const pool::SequenceRecord& s, uint32_t least,
                                   int64_t before) const noexcept;
  /// `least`: pages that this and the later requests of its batch take at least.
  void make_room(pool::SequenceRecord& s, int64_t end, uint32_t least) noexcept;
  [[nodiscard]] Status check_requests(std::span<const ReserveRequest> requests,
                                      int64_t* least) noexcept;
  /// invalid_argument for a stale id, or one that is listed twice: argument[i].
  [[nodiscard]] Status list_once(const char* call, const char* argument, size_t i,
                                 SequenceId id) noexcept;
  void share_prefix(const pool::SequenceRecord& parent, pool::SequenceRecord& child,
                    int32_t length) noexcept;
  /// Each gets what the other has: tokens, room, pages and the steps that hold them.
  void swap_pages(pool::SequenceRecord& a, pool::SequenceRecord& b) noexcept;
  void close_sequence(pool::SequenceRecord& s) noexcept;
  /// To `length` tokens, without room behind them. Its items stay.
  void cut(pool::SequenceRecord& s, int32_t length) noexcept;

  /// Pages first .. last - 1 of the row have become full.
  void name_full_pages(const pool::SequenceRecord& s, uint32_t first, uint32_t last,
                       bool merges) noexcept;
  /// The same for pages in which no item begins, but in the first.
  void name_run(const pool::SequenceRecord& s, uint32_t first, uint32_t last, bool merges,
                pool::Before before) noexcept;
  /// `twin`, which is findable, takes the place of a page of the row.
  void merge(uint32_t& page, uint32_t twin) noexcept;
  /// The position behind the last one before `end` whose page has a name, 0 without one.
  [[nodiscard]] int32_t end_of_named(const pool::SequenceRecord& s, int32_t end) const noexcept;
  /// The name of a full page of the sequence; those before it get theirs, too.
  [[nodiscard]] Result<PageName> name_of(const pool::SequenceRecord& s, int32_t position) noexcept;
  /// Of the sequence's page `position` with these tokens, behind the page of that name.
  [[nodiscard]] Status give_name(const pool::SequenceRecord& s, int32_t position,
                                 const PageName* parent, std::span<const TokenId> full_page,
                                 PageName& name) noexcept;
  /// The content of the sequence's page `position` can be found from now on.
  void tell_stored(const pool::SequenceRecord& s, uint32_t position) noexcept;
  [[nodiscard]] Status check_events(const char* call,
                                    std::span<const PoolEvent> into) const noexcept;
  /// Unfinished steps that the sequence is in, a bit each. A later step uses a slot of tickets
  /// again; so a bit counts only while the slot's ticket is none after the sequence's last one.
  [[nodiscard]] uint64_t unfinished_steps(const pool::SequenceRecord& s) const noexcept;
  /// Tells retention and the policy of a sequence that is about to give up all its pages. Nothing
  /// where neither asks.
  void note_end(const pool::SequenceRecord& s) noexcept {
    if (retention != nullptr) keep_pages(s);
    if (eviction == &aged_cost) note_cost(s);
  }
  /// Asks to keep them as the sequence said.
  void keep_pages(const pool::SequenceRecord& s) noexcept;
  void note_cost(const pool::SequenceRecord& s) noexcept;
  /// Gives up all pages, as the sequence asked to have them kept.
  void give_up(pool::SequenceRecord& s) noexcept;
  /// Gives up the last pages until `keep` are left.
  void drop_pages(pool::SequenceRecord& s, uint32_t keep) noexcept;

  // Hits that end inside a page.
  /// What `prompt` goes on with behind the pages that match.
  [[nodiscard]] PartialMatch match_partial(const Match& match,
                                           std::span<const TokenId> prompt) const noexcept;
  [[nodiscard]] int32_t peek_partial(uint32_t space, const Match& match,
                                     std::span<const TokenId> prompt,
                                     std::span<const ContentSpan> spans) const noexcept;
  /// Gives a sequence, which holds the pages that match, a page for the tokens behind them.
  void admit_partial(pool::SequenceRecord& s, const Match& match,
                     std::span<const TokenId> prompt) noexcept;
  /// Of pages first .. last - 1 of the row, those whose content is younger than `known` come to
  /// answer for their heads.
  void add_heads(const pool::SequenceRecord& s, uint32_t first, uint32_t last,
                 uint64_t known) noexcept;
  /// The findable page that the sequence's page `position` continues, unless it begins the
  /// sequence.
  [[nodiscard]] uint32_t parent_page(const pool::SequenceRecord& s,
                                     uint32_t position) const noexcept {
    return position == 0 ? pool::no_page : index.findable_twin(row(s)[position - 1]);
  }
  /// Makes the cut last page of a sequence that is about to give up all its pages one that is kept.
  void keep_tail(const pool::SequenceRecord& s) noexcept;
  void give_up_tail(uint32_t page) noexcept;
  /// Whether its first `count` tokens, as many as match, can be copied in all groups.
  [[nodiscard]] bool answers_partial(uint32_t page, int32_t count) const noexcept {
    return !groups.active() || groups.serve_partial(page, count, fill_of(page));
  }
  /// Tokens of a page that HeadIndex has.
  [[nodiscard]] int32_t fill_of(uint32_t page) const noexcept {
    return records[page].is_tail ? static_cast<int32_t>(records[page].fill) : options.page_size;
  }
  [[nodiscard]] Status check_head(uint32_t page) const noexcept;

  // Pages.
  [[nodiscard]] TokenId* tokens_of(uint32_t page) const noexcept {
    return tokens + int64_t{page} * options.page_size;
  }
  [[nodiscard]] uint32_t pages_for(int64_t count) const noexcept {
    return static_cast<uint32_t>((count + options.page_size - 1) / options.page_size);
  }
  [[nodiscard]] uint32_t available() const noexcept {
    if (groups.active() && groups.slabs.has(0))
      return options.num_pages - groups.slabs.count(0, pool::PageUse::used);
    return lists.count(pool::PageList::free) + lists.count_evictable();
  }
  /// Calls of the default policy are not virtual: they are on the way of every page.
  template <class Call>
  decltype(auto) with_policy(Call call) noexcept {
    return eviction == &lru ? call(lru) : call(*eviction);
  }
  /// Takes what is findable of the page away: its content, or its being a tail.
  void forget(uint32_t page) noexcept;
  /// needs an available one; evicts if none is free
  [[nodiscard]] uint32_t take_page() noexcept;
  void prefetch_behind(const pool::PageRecord& record) noexcept;
  void hold(uint32_t page) noexcept;  ///< one reference more
  /// one reference less; `steps` hold it from now on
  void drop(uint32_t page, uint64_t steps) noexcept;
  void hold_for_steps(uint32_t page, uint64_t steps) noexcept;  ///< outlives the references
  /// to cached or free, if nothing holds it
  void settle(uint32_t page) noexcept;
  /// A new page with the first `kept` tokens of `from`, the copy pending.
  [[nodiscard]] uint32_t copy_page(uint32_t from, int32_t kept) noexcept;
  [[nodiscard]] Status no_pages(const char* call, int64_t needed,
                                uint32_t held_back = 0) const noexcept;
  void cancel_copy_into(uint32_t page) noexcept;
  void unhold_copy(uint32_t page) noexcept;
  /// Another page with the content of `page`, the findable one if it is not that; no_page without.
  [[nodiscard]] uint32_t heir_of(uint32_t page) const noexcept {
    if (!index.has_twin(page)) return pool::no_page;
    return records[page].findable ? records[page].twin_next : index.findable_twin(page);
  }
  void evict(uint32_t page) noexcept;  ///< a cached page is nobody's content any more
  /// What `page` has become, told to its slab.
  void note_slab(uint32_t page, pool::PageUse use) noexcept {
    if (groups.active()) groups.slabs.set(0, page, use);
  }

  // Groups of a hybrid model: group_pages.cpp.
  /// A free or cached page of the group, none if its pages are in no slab and none is free. Counts
  /// as one of `groups.needs`.
  [[nodiscard]] uint32_t choose_page(uint32_t group) noexcept;
  [[nodiscard]] uint32_t oldest_cached(uint32_t group) noexcept;
  [[nodiscard]] uint32_t page_of_bound_slab(uint32_t group) const noexcept;
  void claim_slab(uint32_t slab, uint32_t group) noexcept;
  [[nodiscard]] uint32_t take_group_page(uint32_t group) noexcept;
  [[nodiscard]] bool copies_group_tail(const pool::SequenceRecord& s, uint32_t group,
                                       pool::TailWrite tail) const noexcept;
  using GroupNeeds = uint32_t[pool::max_groups];
  /// Adds the pages that a reserve up to `end` takes of each group.
  void add_group_needs(const pool::SequenceRecord& s, int64_t end, pool::TailWrite tail,
                       GroupNeeds& needs) const noexcept;
  /// Whether they can be had together, and `held_back` leading ones stay available.
  [[nodiscard]] bool can_give(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  /// The first one that cannot have its pages if those before it have theirs; max_groups: all can.
  [[nodiscard]] uint32_t short_group(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  [[nodiscard]] Status no_group_room(const GroupNeeds& needs, uint32_t held_back) const noexcept;
  /// What becomes of the tail of a sequence whose least needs are in `groups.needs`; a copy that
  /// keeps findable content is added to them where the pages are there.
  [[nodiscard]] pool::TailWrite claim_tail(const pool::SequenceRecord& s, int64_t end) noexcept;
  void reserve_groups(const pool::SequenceRecord& s, int64_t end, pool::TailWrite tail) noexcept;
  void hold_group_hits(const pool::SequenceRecord& s, bool states_of_tail) noexcept;
  /// After a commit: new full pages find their companions, windows move. With `merges`, companions
  /// that a leading page has already take the places of the row's.
  void advance_groups(const pool::SequenceRecord& s, uint32_t first_full, bool merges) noexcept;
  void give_companion(uint32_t leading, uint32_t group, uint32_t& page, bool merges) noexcept;
  void move_window(const pool::SequenceRecord& s, uint32_t group) noexcept;
  /// Whether no step can have changed, or will change, the state after the sequence's last token.
  [[nodiscard]] bool has_final_state(const pool::SequenceRecord& s, uint32_t group) const noexcept {
    return s.length % groups[group].page_size == 0 || (s.length == s.room && !s.trimmed);
  }
  /// Whether the page, which has tokens, is cached, so that holding it again may bind its slab.
  [[nodiscard]] bool is_idle(uint32_t group, uint32_t page) const noexcept {
    return groups.slabs.use_of(group, page) != pool::PageUse::used;
  }

  // Hits that end inside a page, in groups: group_partial_hits.cpp.
  /// Whether there are pages for copies from `page` and its companions: the `needs`. Holding the
  /// rest of the hit binds at most `revived` slabs.
  [[nodiscard]] bool can_copy_groups(uint32_t page, uint64_t revived,
                                     GroupNeeds& needs) const noexcept;
  /// Of the leading page and its companions, those that are cached: as many slabs are bound at most
  /// when they are held.
  [[nodiscard]] uint64_t idle_pages(uint32_t leading) const noexcept;
  /// The first `count` tokens of the companions of `leading` become the sequence's, behind its
  /// whole pages.
  void copy_companions(const pool::SequenceRecord& s, uint32_t leading, int32_t count) noexcept;
  /// The last pages of a sequence that ends become companions of its tail.
  void keep_group_tail(const pool::SequenceRecord& s, uint32_t tail) noexcept;
  void drop_group_pages(const pool::SequenceRecord& s, uint32_t group, uint32_t first,
                        uint32_t last) noexcept;
  /// The same for pages that the window has passed.
  void leave_behind(const pool::SequenceRecord& s, uint32_t group, uint32_t first,
                    uint32_t last) noexcept;
  [[nodiscard]] uint32_t group_page_at(const pool::SequenceRecord& s, uint32_t group, uint32_t p,
                                       int32_t length) const noexcept;
  /// A group that has given up what a shorter sequence needs, or 0.
  [[nodiscard]] uint32_t group_that_cannot(const pool::SequenceRecord& s,
                                           int32_t length) const noexcept;
  void cut_groups(const pool::SequenceRecord& s, int32_t length) noexcept;
  [[nodiscard]] bool shares_group_page(const pool::SequenceRecord& parent, uint32_t group,
                                       uint32_t p, int32_t length) const noexcept;
  [[nodiscard]] Status claim_fork(const pool::SequenceRecord& parent, int32_t length,
                                  uint32_t children) noexcept;
  void fork_groups(const pool::SequenceRecord& parent, const pool::SequenceRecord& child,
                   int32_t length) noexcept;
  void swap_groups(const pool::SequenceRecord& a, const pool::SequenceRecord& b) noexcept;
  void release_groups(const pool::SequenceRecord& s) noexcept;
  [[nodiscard]] bool group_awaits_copy(const pool::SequenceRecord& s) const noexcept;

  // Invariants. Each counts into arrays by page what the next ones compare.
  [[nodiscard]] Status check_sequences(uint32_t* references) const noexcept;
  [[nodiscard]] Status check_row(const pool::SequenceRecord& s,
                                 uint32_t* references) const noexcept;
  [[nodiscard]] Status check_steps_and_copies(uint32_t* copies) const noexcept;
  [[nodiscard]] Status check_pages(const uint32_t* references,
                                   const uint32_t* copies) const noexcept;
  [[nodiscard]] Status check_content(uint32_t page) const noexcept;
  [[nodiscard]] Status check_lists() const noexcept;
  [[nodiscard]] Status check_groups() const noexcept;
  [[nodiscard]] Status check_group(uint32_t group, uint32_t* holds) const noexcept;
  /// Counts the list's pages, too.
  [[nodiscard]] Status check_group_list(uint32_t group, const pool::ListEnds& ends,
                                        uint32_t* count) const noexcept;
  [[nodiscard]] Status check_group_row(const pool::SequenceRecord& s, uint32_t group,
                                       uint32_t* holds) const noexcept;
};

}  // namespace folio::inline v1
