// SPDX-License-Identifier: Apache-2.0
/// folio/tier/event_index.h: what an engine has, as its events tell it: names, and where they are.
///
/// Reads batches as vLLM and EventPublisher encode them, of either format and with either form of
/// names. An event that cannot be read is refused and the others are taken; one of a kind that is
/// unknown is passed over. What comes from the network is bounded in depth, size and number.
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
#include "folio/pool/name.h"

namespace folio::inline v1::tier {

struct EventIndexOptions {
  int64_t max_names = int64_t{1} << 22;  ///< what is told beyond that is not taken, >= 1
  int32_t max_media = 16;                ///< likewise, 1 .. 32
};

struct IndexedName {
  PageName name;         ///< of the last 64 bits alone: these stand at the end, behind zeros
  PageName parent = {};  ///< where `has_parent`
  uint32_t media = 0;    ///< bit i: it is in `EventIndex::medium(i)`
  bool has_parent = false;
};

struct EventIndexFigures {
  int64_t batches = 0, events = 0;  ///< taken
  int64_t malformed_batches = 0;    ///< refused whole: no msgpack, or not of a batch's shape
  int64_t refused_events = 0;       ///< of a known kind, with fields that cannot be
  int64_t ignored_events = 0;       ///< of an unknown kind
  int64_t untaken_names = 0;        ///< beyond max_names or max_media
  int64_t names = 0;                ///< now
  bool operator==(const EventIndexFigures&) const = default;
};

class FOLIO_EXPORT EventIndex {
 public:
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

  /// How many of these, from the first on, are somewhere. Names of the last 64 bits count for all
  /// names that end so. O(names log size)
  [[nodiscard]] int32_t find(std::span<const PageName> names) const noexcept;
  /// ... are in `medium`.
  [[nodiscard]] int32_t find(std::span<const PageName> names,
                             std::string_view medium) const noexcept;

  /// Those that were told of, in the order in which they were; "GPU" where an event has none.
  [[nodiscard]] int32_t num_media() const noexcept;
  [[nodiscard]] std::string_view medium(int32_t i) const noexcept;
  /// All names, in ascending order. The function calls no index.
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
