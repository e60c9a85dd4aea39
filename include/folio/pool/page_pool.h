// SPDX-License-Identifier: Apache-2.0
/// folio/pool/page_pool.h: owns the page ids of a paged KV cache: who holds which page, and which
/// page already has which tokens.
///
/// The pool has ids and tables only, no K/V memory. A page is *free*, *used* (held by a sequence,
/// an unfinished step or a copy) or *cached*: held by nobody, but full, findable by its tokens, and
/// evictable. Sequences, steps and copies hold pages independently; a page becomes free or cached
/// when the last hold ends. Pages are released tail first, and unless `eviction` says otherwise the
/// least recently released cached page is evicted first, so that the end of a prefix goes before
/// its beginning.
///
///   admit -> [ reserve -> take_copies, copy_pages -> begin_step -> append, attend -> end_step ->
///   commit ]* -> release
///
/// A prefix hit compares tokens, salt and adapter, page by page; hashes only speed it up, and begin
/// with a seed that each pool draws for itself, so that no prompts or salts prepared elsewhere meet
/// in one place of the index. Position i of a sequence lies in slot i % page_size of page
/// entries[row_start + i / page_size] of the table.
///
/// Errors:        a call that fails changes nothing (`name` keeps the names that it got before).
///                Null memory of some size and a stale id are invalid_argument; an id never means
///                another sequence of its pool, but ids of another pool are known as such only
///                where no sequence has them here. Calls that are not const are busy from within
///                a function of the options (`name`, `on_event`), and `take_copies` gives none.
/// Memory:        one block from `allocate`, taken by `create`, given back by the destructor; no
///                other call allocates, but for the message of a failure and the scratch of
///                check_invariants.
/// Cost:          O(1) per page, per copy and per sequence of begin_step; release and eviction
///                (amortised) included. end_step looks at no sequence, but at all pages that
///                unfinished steps hold for sequences that gave them up.
/// Thread safety: one thread, the scheduler's, calls what is not const; const calls may run beside
///                one another, but not beside it. A PoolReader (folio/pool/reader.h) may be used by
///                any number of other threads at any time, as long as the pool's memory lives;
///                no call of the pool waits for them. A moved-from pool answers like one without
///                sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "folio/cache/page_table.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/events.h"
#include "folio/pool/explanation.h"
#include "folio/pool/groups.h"
#include "folio/pool/histograms.h"
#include "folio/pool/name.h"
#include "folio/pool/retention.h"

namespace folio::inline v1::pool {

/// A step that has begun and not ended.
struct StepTicket {
  uint64_t value = 0;
  bool operator==(const StepTicket&) const = default;
};

/// A page that a transfer reads or writes, from `begin_io` to `end_io`. The default is never one.
struct IoPin {
  uint32_t index = 0;
  uint32_t generation = 0;
  bool operator==(const IoPin&) const = default;
};

/// What a transfer does with a page.
enum class IoAccess : uint8_t {
  reads = 0,
  /// writes the K/V of tokens that are still to be committed: until it ends, nobody commits them
  fills = 1,
};

/// Groups by number: bit 0 is the leading group's.
using GroupBits = uint8_t;

/// Leading page `position` of a prompt, or its companion in another group.
struct PromptPage {
  int32_t position = 0;
  uint32_t group = 0;
};

/// What the groups have of a leading page's tokens.
struct PageParts {
  GroupBits present = 0;  ///< the page; a state: after the last of them
  GroupBits held = 0;     ///< of these, those in the sequence's rows
  GroupBits likely = 0;   ///< of these, what a likely hit of the sequence needs (docs/hybrid.md)
};

/// Is asked when a cached page is about to be taken for new content: a pin, of `begin_io` or
/// `begin_companion_io`, of a page of the same group that nothing else holds and that has nothing
/// in it. That page is taken instead, and from then on the pin holds the evicted one, which is
/// found no more and keeps its bytes until `end_io`. Any other pin, or none: the page goes. `name`
/// is that of the page, or of the leading page whose companion it is; not asked for pages without
/// one, that a window has left, or whose content another page has, too. Called within a call of the
/// pool, as NameFunction.
struct EvictionFunction {
  IoPin (*function)(void* context, uint32_t group, uint32_t page,
                    const PageName& name) noexcept = nullptr;
  void* context = nullptr;
  /// Is told, instead, of a page that goes with its whole slab to another group: no other page can
  /// take its place. Its bytes are there until this returns.
  void (*leaving)(void* context, uint32_t group, uint32_t page,
                  const PageName& name) noexcept = nullptr;
};

/// Which cached page is evicted first.
enum class Eviction : uint8_t {
  lru = 0,  ///< the one that was released first
  /// new pages go soon, those that were found again stay: for loads in which most is never used
  /// again
  s3_fifo = 1,
  lfu = 2,  ///< the one that was found least often, older finds counting less
  /// as lfu, but pages of long sequences count as found more often, up to 14 times for those near
  /// max_pages_per_sequence: for loads in which time to compute is what counts and long prefixes
  /// come back
  cost = 3,
};

/// By number; every policy has one.
inline constexpr std::string_view eviction_names[] = {"lru", "s3_fifo", "lfu", "cost"};

/// What `commit` may do where a page that becomes full has content that is findable already.
enum class Merge : uint8_t {
  refused = 0,  ///< both pages stay, and either can answer
  /// the findable page takes the place of the sequence's own, unless an unfinished step holds the
  /// sequence: rows that a step may read do not change
  allowed = 1,
};

/// What `trim` does with items that begin behind the cut (SequenceOptions::spans).
enum class CutItems : uint8_t {
  removed = 0,  ///< what is committed there then is text
  kept = 1,     ///< they are still to come: for who cuts what is computed again
};

struct PoolOptions {
  uint32_t num_pages = 0;               ///< 1 .. 2^31 - 1
  int32_t page_size = 16;               ///< tokens of a page, >= 1
  uint32_t max_sequences = 256;         ///< alive at once; each has one table row
  uint32_t max_pages_per_sequence = 0;  ///< columns of the table before padding; 0: num_pages
  /// (salt, adapter) pairs without a live sequence whose pages stay findable; older ones are
  /// forgotten
  uint32_t max_namespaces = 256;
  bool prefix_reuse = true;  ///< false: nothing is cached or found
  /// Both or neither. `allocate` returns null on failure, else `bytes` at a multiple of `align` (a
  /// power of two, at most 64).
  void* (*allocate)(void* context, size_t bytes, size_t align) = nullptr;
  void (*deallocate)(void* context, void* memory, size_t bytes) = nullptr;
  void* context = nullptr;
  /// of the index's hashes, which no answer depends on; 0: drawn from the system's randomness.
  /// Another value makes the order of work repeatable, and is to be kept from those who send
  /// prompts.
  uint64_t hash_seed = 0;
  Eviction eviction = Eviction::lru;
  /// gives full pages names, when `PagePool::name` asks: 32 bytes more a page. Needs prefix_reuse.
  NameFunction name = {};
  /// of a hybrid model, the leading one first, at most 8; copied. None: all layers have equal
  /// pages, and the pool knows nothing of bytes.
  std::span<const GroupOptions> groups = {};
  /// shared by the groups, in whole slabs. With groups `num_pages` is 0, as the arena says how many
  /// leading pages there are; unless these have 0 bytes.
  int64_t arena_bytes = 0;
  /// The longest time for which a sequence may ask to have its pages kept (folio/pool/retention.h),
  /// 12 bytes more a page; needs prefix_reuse. 0: none may ask. Deadlines are met to a tick of
  /// max_retention_ms / 16,515,071, rounded up to milliseconds: never early, late by
  /// less than that.
  int64_t max_retention_ms = 0;
  /// pages that a sequence's first `reserve` since admit or resume leaves available, unless no
  /// other sequence holds a page: they keep those that run from being preempted at once.
  /// 0 .. num_pages
  uint32_t watermark_pages = 0;
  /// tokens, >= 0, for which every `reserve` makes room beyond what it is asked for, as far as a
  /// sequence may grow: slots for drafts
  int32_t lookahead_tokens = 0;
  /// Events of the index (folio/pool/events.h), in a ring of so many, 0 .. 2^31 - 1: 48 bytes
  /// each, with names 120. Needs prefix_reuse, as `on_event`.
  uint32_t event_capacity = 0;
  EventFunction on_event = {};  ///< is handed each event as it happens
  /// PoolReader may be used (folio/pool/reader.h): statistics are published after each call.
  bool readers = false;
  bool histograms = false;  ///< PagePool::histograms: 12 bytes more a page
  /// a hit may end inside a page if at least so many of that page's tokens match: they are copied
  /// (14 .. 16 bytes more a page), and the cut last page of a sequence that is released or
  /// preempted stays cached. In [0, page_size), 0: never. Needs prefix_reuse.
  int32_t min_partial_tokens = 0;
  /// items of another kind that a prompt may have (SequenceOptions::spans): less than 400
  /// bytes each for every sequence. Pages behind as many items of ended sequences stay findable.
  /// 0: none. Needs prefix_reuse.
  uint32_t max_spans = 0;
  uint32_t max_io_pins = 0;  ///< pages that transfers hold at once (`begin_io`), 16 bytes each
};

/// Pages are shared only between sequences with equal salt and equal adapter.
struct SequenceOptions {
  std::string_view salt = {};  ///< at most PagePool::max_salt_bytes; copied
  uint64_t adapter = 0;
  /// how long to keep its pages when it is released; at most max_retention_ranges. Copied
  std::span<const RetentionRange> retention = {};
  DecodeRetention decode_retention = {};
  /// Items of another kind (folio/pool/name.h) that tokens of the prompt stand for, offsets in the
  /// prompt, ascending, none overlapping another; at most PoolOptions::max_spans. Copied. They
  /// belong to what is compared: pages in and behind an item are found by prompts with an equal
  /// one at the same place. `fork`, and `trim` unless it is told otherwise, take away those that
  /// begin behind the cut; `preempt` keeps them all.
  std::span<const ContentSpan> spans = {};
};

struct Admission {
  SequenceId id;
  /// tokens whose K/V the cache has: the sequence's first length; fewer than the prompt. Whole
  /// pages, unless min_partial_tokens > 0: then the last ones may be those of a copy to take
  int32_t cached_tokens = 0;
};

struct PoolStats {
  /// full pages of admitted prompts, without the page that would make a hit as long as the prompt
  int64_t lookup_pages = 0;
  int64_t hit_pages = 0;  ///< of these, found
  int64_t hit_tokens = 0;
  int64_t evicted_pages = 0;    ///< cached pages that were taken for new content
  int64_t used_pages = 0;       ///< now; used + cached + free = num_pages
  int64_t peak_used_pages = 0;  ///< most at the end of a call
  int64_t cached_pages = 0;     ///< now
  int64_t free_pages = 0;       ///< now
  int64_t sequences = 0;        ///< alive now
  int64_t unfinished_steps = 0;
  int64_t pinned_pages = 0;  ///< now, of the cached ones: those that are not evicted
  // `hit_tokens` by kind
  int64_t hit_tokens_cached = 0;   ///< of full pages that nobody held
  int64_t hit_tokens_used = 0;     ///< of full pages that others hold, too
  int64_t hit_tokens_partial = 0;  ///< of pages that agree for their first tokens only
  bool operator==(const PoolStats&) const = default;
};

class FOLIO_EXPORT PagePool {
 public:
  static constexpr int max_unfinished_steps = 64;
  static constexpr size_t max_salt_bytes = 128;

  /// Errors: invalid_argument naming the option, and io where a seed is to be drawn and the system
  /// has no randomness, both before anything is allocated; out_of_memory
  [[nodiscard]] static Result<PagePool> create(const PoolOptions& options) noexcept;
  /// Bytes that `create` will ask of `allocate`. Errors: invalid_argument, as `create`
  [[nodiscard]] static Result<int64_t> required_bytes(const PoolOptions& options) noexcept;

  PagePool(PagePool&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  PagePool& operator=(PagePool&& other) noexcept;
  ~PagePool();

  /// Tokens that `admit` would find now. Changes nothing, statistics included (for routing). 0
  /// where admit would refuse. With groups, tokens of a cut page may be left out where few slabs
  /// are left for the copies.
  [[nodiscard]] int32_t peek(std::span<const TokenId> prompt,
                             const SequenceOptions& options = {}) const noexcept;

  /// Opens a sequence that holds the longest cached prefix of `prompt` in whole pages, always at
  /// least one token short of it. With min_partial_tokens, the prefix goes on into the page that
  /// begins like the rest of the prompt and was added last, if enough of it matches and a page is
  /// available for the copy, in each group; no other page is taken. A group of states has the state
  /// of a cut page's last token only, and of what was released or preempted without room behind it.
  /// The prompt may be longer than what the
  /// sequence will hold. Errors: invalid_argument for an empty prompt, a salt that is too long
  /// or spans that are not as said; out_of_pages when max_sequences are alive
  [[nodiscard]] Result<Admission> admit(std::span<const TokenId> prompt,
                                        const SequenceOptions& options = {}) noexcept;

  /// Makes room for `new_tokens` tokens behind the length (not behind earlier room): all of it or
  /// nothing. A last page that was cut by `trim` and that others can still see is replaced, with a
  /// copy to take; of groups, all that they need together. Errors: invalid_argument beyond
  /// max_pages_per_sequence; out_of_pages
  [[nodiscard]] Status reserve(SequenceId id, int32_t new_tokens) noexcept;
  /// The same for several sequences: all of it or nothing. Errors: those of the one sequence,
  /// naming the first request that cannot be met behind those before it; invalid_argument for a
  /// sequence that is named twice
  [[nodiscard]] Status reserve(std::span<const ReserveRequest> requests) noexcept;
  /// What `reserve(id, new_tokens)` would need, and who has the pages. O(1), and O(1) per page that
  /// unfinished steps hold for sequences that gave them up. Errors: invalid_argument, as reserve
  [[nodiscard]] Result<PoolExplanation> explain(SequenceId id, int32_t new_tokens) const noexcept;

  /// Says that the K/V of the next tokens are in the cache; pages that become full become findable.
  /// Where equal content is findable already, `merge` says what becomes of the two pages. Errors:
  /// invalid_argument beyond the reserved room, or while a copy into the sequence's last page has
  /// not been taken, or for another number than Merge has; busy while a transfer fills one of the
  /// pages
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written,
                              Merge merge = Merge::refused) noexcept;

  /// Cuts the sequence to `length` <= its length and gives up all reserved room. Errors:
  /// invalid_argument also where a group has given up, and not cached, what that length needs, or
  /// for another number than CutItems has
  [[nodiscard]] Status trim(SequenceId id, int32_t length,
                            CutItems items = CutItems::removed) noexcept;

  /// A new sequence with the first `length` tokens of `id`. Full pages are shared; a cut page
  /// becomes a copy to take. Errors: invalid_argument as `trim`;
  /// out_of_pages without a page for the cut one, or a sequence
  [[nodiscard]] Result<SequenceId> fork(SequenceId id, int32_t length) noexcept;

  /// As many new sequences with the first `length` tokens of `id` as `children` has places: all of
  /// them or none. A cut page is shared until somebody writes into it: all who share it but the
  /// last then get copies to take. Where that cannot be (`id` has room reserved in it, it waits
  /// for a copy, or the pool has groups), each child gets its copy at once. Errors: as fork
  [[nodiscard]] Status fork(SequenceId id, int32_t length, std::span<SequenceId> children) noexcept;

  /// Of a tree of drafts, sequences that fork has made of tree[0], keeps one path: tree[0] gets the
  /// tokens, room, items and pages of tree[leaf], and all others are released; how long its pages
  /// are kept is what was said of tree[0]. Room in pages that a transfer fills for another sequence
  /// than tree[0] is given up: what comes is not for it. Errors: invalid_argument
  /// for a leaf that is not of the tree, a stale id or one that is listed twice, or sequences of
  /// different salts or adapters
  [[nodiscard]] Status keep_path(std::span<const SequenceId> tree, size_t leaf) noexcept;

  /// Gives up all pages, tail first, and keeps the id and its row: the sequence has no tokens until
  /// `resume`. What is full stays findable, and a cut last page as after `release`.
  [[nodiscard]] Status preempt(SequenceId id) noexcept;
  /// Gives a sequence without pages the longest cached prefix of `tokens`, as `admit` does, with a
  /// page for a copy where the hit ends inside one. Errors: invalid_argument as admit, and for a
  /// sequence that has pages
  [[nodiscard]] Result<Admission> resume(SequenceId id, std::span<const TokenId> tokens) noexcept;

  /// Gives up all pages, tail first. The id is stale from now on. Its full pages are kept as it was
  /// said when it was admitted; what `trim` gave up is not. With min_partial_tokens, a cut last
  /// page that no other sequence holds stays cached if it has so many tokens and no page answers
  /// for them all.
  [[nodiscard]] Status release(SequenceId id) noexcept;

  /// Makes all cached pages free, pinned ones too: nothing is found any more, and one event tells
  /// of it. O(num_pages). Errors: busy while pages are used
  [[nodiscard]] Status clear() noexcept;

  /// Changes how long the cached prefix of `prompt` in whole pages is kept, as if a sequence that
  /// asked for `options.retention` gave it up now, and whatever was asked for before: lower, too.
  /// Pages that no range says anything about, nor about what continues them, stay as they are; so
  /// the level `retention_level::normal` for all tokens ends pins. Pages that sequences hold are
  /// changed as well; what those ask for comes on top when they are released. Returns the tokens
  /// that were found. O(pages of the prompt). Errors: invalid_argument as admit's, and without
  /// PoolOptions::max_retention_ms
  [[nodiscard]] Result<int32_t> retain(std::span<const TokenId> prompt,
                                       const SequenceOptions& options) noexcept;
  /// Says what time it is, in milliseconds of a clock that does not go back; an engine does once a
  /// step. The first call sets the clock. Pages whose deadline has come lose their level, those
  /// whose deadline came first first. O(1) per page in all, not per millisecond. Errors:
  /// invalid_argument for a negative time, or one before the last
  [[nodiscard]] Status advance_time(int64_t now_ms) noexcept;

  /// Copies caused by admits, forks and trims since the last call; each writes a page of its own,
  /// which no other reads, so that they may run in any order, or at once, before the next append.
  /// The span stays until the next call.
  /// Pages that they read or write are held until the end of the next step that begins; without
  /// one, until the next call of take_copies, which says that they have run.
  /// Each group has its own; of a state the whole page is copied. No copies of a group that the
  /// pool has not.
  [[nodiscard]] std::span<const PageCopy> take_copies(uint32_t group = 0) noexcept;

  /// Holds the pages of these sequences, reserved ones included, and those of the copies taken
  /// last, until `end_step`, whatever becomes of the sequences. Pages are held, rows are not: trim
  /// and release change a row at once. Errors: invalid_argument for a stale id; busy with
  /// max_unfinished_steps; nothing is held then
  [[nodiscard]] Result<StepTicket> begin_step(std::span<const SequenceId> ids) noexcept;
  /// Errors: invalid_argument for a ticket that is not of an unfinished step
  [[nodiscard]] Status end_step(StepTicket ticket) noexcept;

  /// Holds page `entry` of the sequence's row for a transfer that reads or writes it, until
  /// `end_io`, whatever becomes of the sequence: nobody else gets the page, and what trim opens
  /// again is not written in place. What the sequence writes behind its length is not held back;
  /// with IoAccess::fills, `commit` is. Each pin counts; a page may have several, one of which
  /// fills. Errors: invalid_argument for an entry without a page, for a page that waits for a copy,
  /// or for a group that the pool has not; to fill, for a full page, one of a load that memory has,
  /// a group other than 0, or another number than IoAccess has; busy with
  /// PoolOptions::max_io_pins, or a page that is being filled
  [[nodiscard]] Result<IoPin> begin_io(SequenceId id, int32_t entry, uint32_t group = 0,
                                       IoAccess access = IoAccess::reads) noexcept;
  /// The transfer is over, or has been given up and touches the page no more. Errors:
  /// invalid_argument for a pin that has ended, or is none of this pool's
  [[nodiscard]] Status end_io(IoPin pin) noexcept;
  /// Errors: as end_io
  [[nodiscard]] Result<uint32_t> page_of(IoPin pin) const noexcept;
  /// `function` is asked from now on; none: nobody is. Errors: busy where another one is asked
  [[nodiscard]] Status watch_evictions(const EvictionFunction& function) noexcept;

  /// Page `position` of the sequence, which is full, and its companions, in rows or cached. Errors:
  /// invalid_argument unless 0 <= position < length / page_size
  [[nodiscard]] Result<PageParts> parts(SequenceId id, int32_t position) const noexcept;
  /// As `begin_io`, to read the companion of the sequence's page `position`, be it in a row or
  /// cached. Errors: invalid_argument for a position as `parts`, for group 0 or one that the pool
  /// has not, or without a companion there; busy with max_io_pins
  [[nodiscard]] Result<IoPin> begin_companion_io(SequenceId id, int32_t position,
                                                 uint32_t group) noexcept;

  /// As `begin_io`, to read what memory has of a prompt that the sequence's tokens begin, in rows
  /// or cached, also where no hit ends: pins[i] is that of pages[i], or none, `IoPin{}`, where
  /// memory has not the page, or a leading page before it, or with max_io_pins. Returns how many
  /// there are. Errors: invalid_argument for a sequence or null memory as find_parts, for another
  /// number of pins than of pages, or for a page that does not end before the prompt does or a
  /// group that the pool has not
  [[nodiscard]] Result<int32_t> begin_prompt_io(SequenceId id, std::span<const TokenId> prompt,
                                                std::span<const PromptPage> pages,
                                                std::span<IoPin> pins) noexcept;

  // A load: pages that lie elsewhere come into a row that has the room of a hit. Between begin_load
  // and commit_load the sequence has its old length; of each group its row has what a hit of
  // `length` tokens needs, and no more; `commit` is busy; `trim`, `preempt` and `release` give the
  // room up, the first two where the groups still have, in rows or cached, what the old length
  // needs (fork the sequence first to be sure). `reserve` gives room behind.

  /// What memory has behind the sequence's tokens: parts[i] of leading page length / page_size + i
  /// of the prompt, bit 0 its leading page, the others its companions; 0 from the first page on
  /// that the leading group lacks. Returns how many it has. Errors: invalid_argument for a sequence
  /// that has room, or part of a page, for more parts than whole pages that end before the prompt
  /// does, or null memory of some size
  [[nodiscard]] Result<int32_t> find_parts(SequenceId id, std::span<const TokenId> prompt,
                                           std::span<GroupBits> parts) noexcept;
  /// Others are likely to go on in another way behind the first `tokens` tokens of the sequence: of
  /// its windows, chunks and states, what a hit of so many needs will be ordinary, and `likely` in
  /// `parts`. `admit` and `resume` expect one where leading pages in memory end to match; this is
  /// for those that lie elsewhere. Changes nothing where a longer one is expected. Errors:
  /// invalid_argument for a number of tokens below 0
  [[nodiscard]] Status expect_branch(SequenceId id, int32_t tokens) noexcept;
  /// Room for the prompt's first `length` tokens, as a hit of that length has it: pages that memory
  /// has are held, all others are new. fill[i] becomes the groups whose page is new at leading page
  /// length(id) / page_size + i (a state's page stands at the last of these): they are to be
  /// filled. Errors, nothing changed: invalid_argument for a sequence that has room, part of a page
  /// or a load, unless length is a multiple of page_size, more than the sequence's and less than
  /// the prompt's, or for another number of `fill` than pages; out_of_pages
  [[nodiscard]] Status begin_load(SequenceId id, std::span<const TokenId> prompt, int32_t length,
                                  std::span<GroupBits> fill) noexcept;
  /// As begin_load, of the whole prompt, for whom no token is left to compute: the load may end
  /// within a page, and `fill` has an element for that, too; a state is that after the last token.
  /// Errors: as begin_load, but for the length: invalid_argument unless the prompt has more tokens
  /// than the sequence, and no more than a sequence may have
  [[nodiscard]] Status begin_whole_load(SequenceId id, std::span<const TokenId> prompt,
                                        std::span<GroupBits> fill) noexcept;
  /// A shorter load: `fill`, from the old length on, becomes what is to be filled beside what was
  /// new before and is still needed. Gives up room that was reserved behind. Errors, nothing
  /// changed: invalid_argument without a load, unless length is a multiple of page_size, more than
  /// the sequence's and less than the load's, or for another number of `fill` than pages, or where
  /// a group has given up what it had before; out_of_pages
  [[nodiscard]] Status shorten_load(SequenceId id, int32_t length,
                                    std::span<GroupBits> fill) noexcept;
  /// All that was new is filled, and no transfer fills it any more: `tokens`, those of the load,
  /// become the sequence's, as by `commit`. Errors: invalid_argument without a load, for another
  /// number of tokens, or another `merge` than there are; busy while a page is being filled
  [[nodiscard]] Status commit_load(SequenceId id, std::span<const TokenId> tokens,
                                   Merge merge = Merge::refused) noexcept;

  /// The name of the sequence's page `position`, which is full: of its tokens and all before them,
  /// of salt and adapter. Computed once for a content, as long as some page has it; calls the
  /// function for the pages before that have no name yet, first to last. With `group` other than 0
  /// that of the page's companion there, whether there is one or not. Errors: invalid_argument
  /// unless 0 <= position < length / page_size, for a group that the pool has not, or without a
  /// function; the function's own, and the page stays without a name
  [[nodiscard]] Result<PageName> name(SequenceId id, int32_t position, uint32_t group = 0) noexcept;
  /// The names that pages position, position + 1, ... of the sequence will have once `tokens` are
  /// committed in them: by what the sequence has before them, its salt, its adapter and its items,
  /// as they are now. names[i] becomes that of page position + i; names[0 .. known - 1] are those
  /// that an earlier call gave for the same tokens, and are not computed again.
  /// Errors: invalid_argument unless 0 <= position <= length / page_size, names.size() * page_size
  /// tokens are given, at least known names, and the last page ends before position 2^31; without a
  /// function; the function's own
  [[nodiscard]] Status names_of(SequenceId id, int32_t position, std::span<const TokenId> tokens,
                                std::span<PageName> names, size_t known = 0) noexcept;

  /// names[i] becomes that of the companion that the page of leading[i] has in `group`. Errors:
  /// invalid_argument for a group other than 1 .. num_groups() - 1, another number of names than
  /// of leading pages, null memory of some size, or without NameFunction::companion; the
  /// function's own
  [[nodiscard]] Status companion_names(uint32_t group, std::span<const PageName> leading,
                                       std::span<PageName> names) noexcept;

  /// Copies events `next`, `next` + 1, ... from the ring, as many as there are and `events` holds;
  /// 0 is taken for 1. Errors: invalid_argument without event_capacity
  [[nodiscard]] Result<EventRead> read_events(uint64_t next,
                                              std::span<PoolEvent> events) const noexcept;
  /// Calls `visit` with a stored event for each content that can be found, parents not always
  /// first, then for each companion, and returns the number of the last event before: whoever goes
  /// on there has the index. O(pages). Errors: invalid_argument without a function, or events
  [[nodiscard]] Result<uint64_t> snapshot(const EventFunction& visit) const noexcept;

  /// Tokens whose K/V are in the cache.
  [[nodiscard]] Result<int32_t> length(SequenceId id) const noexcept;
  /// Of its load, from begin_load to its end; 0 without one.
  [[nodiscard]] Result<int32_t> load_length(SequenceId id) const noexcept;
  /// First entry of the sequence's row in `table(group).entries`; the same for the sequence's life.
  [[nodiscard]] Result<int64_t> row_start(SequenceId id, uint32_t group = 0) const noexcept;
  /// rows[i] becomes the row_start of ids[i]: a Batch's table.row_starts. Errors: invalid_argument
  /// for a stale id, or another number of rows than of ids; nothing is written then
  [[nodiscard]] Status batch_rows(std::span<const SequenceId> ids, std::span<int64_t> rows,
                                  uint32_t group = 0) const noexcept;
  /// All rows: base and stride never change; 32-byte aligned; `PageTable::padded_columns` wide;
  /// unassigned entries are the group's num_pages, those behind a window too. Position i lies in
  /// slot i % p of page entries[row_start + i / p], p the group's page_size. A group that the pool
  /// has not gives an empty table.
  [[nodiscard]] PageTable table(uint32_t group = 0) const noexcept;

  /// Sizes and pages of a group. Errors: invalid_argument for one that the pool has not
  [[nodiscard]] Result<GroupFigures> group(uint32_t group) const noexcept;
  /// As PoolOptions::groups has it; of a pool without groups, a full one of 0 bytes. Errors: as
  /// `group`
  [[nodiscard]] Result<GroupOptions> group_options(uint32_t group) const noexcept;
  [[nodiscard]] uint32_t num_groups() const noexcept;  ///< 1 without PoolOptions::groups

  [[nodiscard]] uint32_t num_pages() const noexcept;  ///< leading ones
  [[nodiscard]] int32_t page_size() const noexcept;
  [[nodiscard]] NameFunction name_function() const noexcept;  ///< PoolOptions::name
  [[nodiscard]] uint32_t max_io_pins() const noexcept;        ///< PoolOptions::max_io_pins
  [[nodiscard]] PoolStats stats() const noexcept;
  /// Counts since `create`. Errors: invalid_argument without PoolOptions::histograms
  [[nodiscard]] Result<PoolHistograms> histograms() const noexcept;

  /// For tests: internal, naming the first broken invariant. O(pages + table); its scratch comes
  /// from `allocate`.
  [[nodiscard]] Status check_invariants() const noexcept;

 private:
  friend class PoolReader;
  friend struct PoolInspection;  // for tests: src/pool/inspection.h
  struct FOLIO_LOCAL State;
  explicit PagePool(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::Admission;
using pool::CutItems;
using pool::Eviction;
using pool::IoAccess;
using pool::IoPin;
using pool::Merge;
using pool::PagePool;
using pool::PoolOptions;
using pool::PoolStats;
using pool::SequenceOptions;
using pool::StepTicket;
}  // namespace folio::inline v1
