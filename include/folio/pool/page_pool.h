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
///                where no sequence has them here.
/// Memory:        one block from `allocate`, taken by `create`, given back by the destructor; no
///                other call allocates, but for the message of a failure and the scratch of
///                check_invariants.
/// Cost:          O(1) per page, per copy and per sequence of begin_step; release and eviction
///                (amortised) included. end_step looks at no sequence, but at all pages that
///                unfinished steps hold for sequences that gave them up.
/// Thread safety: externally synchronised; const calls may run beside one another. A moved-from
///                pool answers like one without sequences.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "folio/cache/page_table.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/groups.h"
#include "folio/pool/name.h"

namespace folio::inline v1 {

/// A sequence of one pool. The generation makes the id of a released sequence an error instead of
/// its successor; the default value is never a live sequence.
struct SequenceId {
  uint32_t index = 0;
  uint32_t generation = 0;
  auto operator<=>(const SequenceId&) const = default;
};

/// A step that has begun and not ended.
struct StepTicket {
  uint64_t value = 0;
  bool operator==(const StepTicket&) const = default;
};

/// Which cached page is evicted first.
enum class Eviction : uint8_t {
  lru = 0,  ///< the one that was released first
  /// new pages go soon, those that were found again stay: for loads in which most is never used
  /// again
  s3_fifo = 1,
  lfu = 2,  ///< the one that was found least often, older finds counting less
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
};

/// Pages are shared only between sequences with equal salt and equal adapter.
struct SequenceOptions {
  std::string_view salt = {};  ///< at most PagePool::max_salt_bytes; copied
  uint64_t adapter = 0;
};

struct Admission {
  SequenceId id;
  /// tokens whose K/V the cache has: the sequence's first length; whole pages, fewer than the
  /// prompt
  int32_t cached_tokens = 0;
};

struct PoolStats {
  /// full pages of admitted prompts, without the page that would make a hit as long as the prompt
  int64_t lookup_pages = 0;
  int64_t hit_pages = 0;  ///< of these, found
  int64_t hit_tokens = 0;
  int64_t evicted_pages = 0;  ///< cached pages that were taken for new content
  int64_t used_pages = 0;     ///< now; used + cached + free = num_pages
  int64_t peak_used_pages = 0;
  int64_t cached_pages = 0;  ///< now
  int64_t free_pages = 0;    ///< now
  int64_t sequences = 0;     ///< alive now
  int64_t unfinished_steps = 0;
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
  /// where admit would refuse.
  [[nodiscard]] int32_t peek(std::span<const TokenId> prompt,
                             const SequenceOptions& options = {}) const noexcept;

  /// Opens a sequence that holds the longest cached prefix of `prompt` in whole pages, always at
  /// least one token short of it. Takes no page; the prompt may be longer than what the sequence
  /// will hold. Errors: invalid_argument for an empty prompt or a salt that is too long;
  /// out_of_pages when max_sequences are alive
  [[nodiscard]] Result<Admission> admit(std::span<const TokenId> prompt,
                                        const SequenceOptions& options = {}) noexcept;

  /// Makes room for `new_tokens` tokens behind the length (not behind earlier room): all of it or
  /// nothing. A last page that was cut by `trim` and that others can still see is replaced, with a
  /// copy to take; of groups, all that they need together. Errors: invalid_argument beyond
  /// max_pages_per_sequence; out_of_pages
  [[nodiscard]] Status reserve(SequenceId id, int32_t new_tokens) noexcept;

  /// Says that the K/V of the next tokens are in the cache; pages that become full become findable.
  /// Where equal content is findable already, both pages stay, and either can answer.
  /// Errors: invalid_argument beyond the reserved room, or while a copy into the sequence's last
  /// page has not been taken
  [[nodiscard]] Status commit(SequenceId id, std::span<const TokenId> written) noexcept;

  /// Cuts the sequence to `length` <= its length and gives up all reserved room. Errors:
  /// invalid_argument also where a group has given up, and not cached, what that length needs
  [[nodiscard]] Status trim(SequenceId id, int32_t length) noexcept;

  /// A new sequence with the first `length` tokens of `id`. Full pages are shared; a cut page
  /// becomes a copy to take. Errors: invalid_argument as `trim`;
  /// out_of_pages without a page for the cut one, or a sequence
  [[nodiscard]] Result<SequenceId> fork(SequenceId id, int32_t length) noexcept;

  /// Gives up all pages, tail first. The id is stale from now on.
  [[nodiscard]] Status release(SequenceId id) noexcept;

  /// Copies caused by forks and trims since the last call; none reads what another writes, so that
  /// they run in any order, before the next append. The span stays until the next call. Pages that
  /// they read or write are held until the end of the next step that begins; without one, until the
  /// next call of take_copies, which says that they have run.
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

  /// The name of the sequence's page `position`, which is full: of its tokens and all before them,
  /// of salt and adapter. Computed once for a content, as long as some page has it; calls the
  /// function for the pages before that have no name yet, first to last. Errors: invalid_argument
  /// unless 0 <= position < length / page_size, or without a function; the function's own, and the
  /// page stays without a name
  [[nodiscard]] Result<PageName> name(SequenceId id, int32_t position) noexcept;

  /// Tokens whose K/V are in the cache.
  [[nodiscard]] Result<int32_t> length(SequenceId id) const noexcept;
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
  [[nodiscard]] uint32_t num_groups() const noexcept;  ///< 1 without PoolOptions::groups

  [[nodiscard]] uint32_t num_pages() const noexcept;  ///< leading ones
  [[nodiscard]] int32_t page_size() const noexcept;
  [[nodiscard]] PoolStats stats() const noexcept;

  /// For tests: internal, naming the first broken invariant. O(pages + table); its scratch comes
  /// from `allocate`.
  [[nodiscard]] Status check_invariants() const noexcept;

 private:
  friend struct PoolInspection;  // for tests: src/pool/inspection.h
  struct FOLIO_LOCAL State;
  explicit PagePool(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1
