// SPDX-License-Identifier: Apache-2.0
/// folio/tier/event_index.h: what an engine has, as its events tell it: names, and where they are.
///
/// Reads batches as vLLM, SGLang and EventPublisher encode them, of either format and with either
/// form of names. An event that cannot be read is refused and the others are taken; one of a kind
/// that is unknown is passed over. What comes from the network is bounded in depth, size and
/// number.
///
/// An engine may hold a name several times, in blocks of its own each: a stored event is one copy
/// of each of its names in its group and medium, and a removed event takes one. A hybrid model has
/// *groups* of layers (folio/pool/groups.h), each of which has a name or not.
///
/// Thread safety: externally synchronised. An index that was moved from refuses batches as
/// invalid_argument, and has nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/groups.h"
#include "folio/pool/name.h"

namespace folio::inline v1::tier {

/// A group of an engine's layers: what a hit needs of its blocks.
struct IndexedGroup {
  int32_t group = 0;                 ///< `group_idx`, 0 .. EventIndex::max_groups - 1
  GroupRule rule = GroupRule::full;  ///< where `has_rule`; else it does not restrict a hit
  bool has_rule = false;
  int32_t window = 0;      ///< tokens, >= 1; rule `window` only
  int32_t chunk = 0;       ///< tokens, >= 1; rule `chunked` only: no event tells it
  int32_t block_size = 0;  ///< tokens of its blocks; 0: not told
};

struct EventIndexOptions {
  int64_t max_names = int64_t{1} << 22;  ///< of all groups; what is told beyond is not taken, >= 1
  int32_t max_media = 16;                ///< likewise, 1 .. 32
  /// Tokens of a name that `find` is asked for, >= 0; 0: those of the smallest block told of
  int32_t block_size = 0;
  /// False for engines that tell again of what they have, copy or not (vLLM's requests whose
  /// kv_cache_report_mode is full): a name is then there once
  bool counts_copies = true;
  /// Rules that events do not tell: they count instead of those that are told. Each group at most
  /// once, with its rule; they are copied.
  std::span<const IndexedGroup> groups = {};
};

/// A name as a group has it.
struct IndexedName {
  PageName name;         ///< of the last 64 bits alone: these stand at the end, behind zeros
  PageName parent = {};  ///< where `has_parent`
  uint32_t media = 0;    ///< bit i: it is in `EventIndex::medium(i)`
  int32_t group = 0;
  bool has_parent = false;
};

struct EventIndexFigures {
  int64_t batches = 0, events = 0;  ///< taken
  int64_t malformed_batches = 0;    ///< refused whole: no msgpack, or not of a batch's shape
  int64_t refused_events = 0;       ///< of a known kind, with fields that cannot be
  int64_t ignored_events = 0;       ///< of an unknown kind
  int64_t untaken_names = 0;        ///< beyond max_names or max_media
  /// Stored, taken, and with blocks left out: not so many names as blocks of its tokens. Nobody
  /// knows which they are, so these names have no parent.
  int64_t sparse_events = 0;
  int64_t unknown_kinds = 0;  ///< stored events of a group whose kind is none of vLLM's
  int64_t names = 0;          ///< now, in each group
  /// Copies that came and that went, those that were cleared included; the difference is there now
  int64_t stored_copies = 0, removed_copies = 0;
  bool operator==(const EventIndexFigures&) const = default;
};

class FOLIO_EXPORT EventIndex {
 public:
  static constexpr int32_t max_groups = 64;

  /// Errors: invalid_argument; out_of_memory; unsupported in a build without ZeroMQ or
  /// nlohmann-json
  [[nodiscard]] static Result<EventIndex> create(const EventIndexOptions& options = {}) noexcept;
  EventIndex(EventIndex&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  EventIndex& operator=(EventIndex&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~EventIndex();

  /// A batch's payload. Errors: invalid_argument for one that is malformed, nothing is taken then;
  /// out_of_memory, some of it may be taken
  [[nodiscard]] Status apply(std::span<const std::byte> payload) noexcept;
  void clear() noexcept;

  /// How many of these, the names of a prompt from its first block on, the engine need not compute:
  /// the longest length at which every group that was told of since the last clear has what its
  /// rule asks for, in some medium. Without groups: how many, from the first on, are somewhere.
  /// Give no name of a block that has the prompt's last token: engines compute that anew.
  ///
  /// * `full` needs all blocks, `window` those of the last `window` - 1 tokens, one at least,
  ///   `chunked` those from the chunk's beginning on, `state` the last one. A length ends at the
  ///   end of a block in every group.
  /// * A group without a rule does not count, nor one whose block is no multiple of a name's
  ///   tokens: the answer is an upper bound then. Where none has a rule, the first one is full.
  ///
  /// Names of the last 64 bits count for all names that end so. O(names log size)
  [[nodiscard]] int32_t find(std::span<const PageName> names) const noexcept;
  /// ... are in `medium`.
  [[nodiscard]] int32_t find(std::span<const PageName> names,
                             std::string_view medium) const noexcept;

  /// Those that were told of, in the order in which they were; "GPU" where an event has none.
  [[nodiscard]] int32_t num_media() const noexcept;
  [[nodiscard]] std::string_view medium(int32_t i) const noexcept;
  /// Those that were told of since the last clear, in ascending order, as `find` counts them; one
  /// of nothing for i out of range.
  [[nodiscard]] int32_t num_groups() const noexcept;
  [[nodiscard]] IndexedGroup group(int32_t i) const noexcept;
  /// All names, in ascending order, group by group. The function calls no index.
  void visit(void (*function)(void* context, const IndexedName& name) noexcept,
             void* context) const noexcept;
  [[nodiscard]] EventIndexFigures figures() const noexcept;

 private:
  friend class EventSubscriber;  // has one of nothing when it was moved from
  struct FOLIO_LOCAL State;
  explicit EventIndex(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::EventIndex;
using tier::EventIndexFigures;
using tier::EventIndexOptions;
using tier::IndexedName;
}  // namespace folio::inline v1
