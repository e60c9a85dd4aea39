// SPDX-License-Identifier: Apache-2.0
/// folio/pool/events.h: what changes in the index of a pool, told to others: a router that sends
/// prompts where their beginnings are cached, a tier that keeps what a pool gives up.
///
/// A *content* is a page's tokens and everything before them; it is *stored* when the first page
/// that has it becomes findable, and *removed* with the last one. Between the two, pages may take
/// over from each other: no event tells of it. Contents have numbers that a pool never uses twice.
/// So the contents that can be found are, at any time, those of the stored events less those of
/// the removed ones: whoever replays all events has the index.
///
/// Of a hybrid model's groups the leading one has the contents. Events with another `group` tell
/// that a page of a content has got, or lost, its *companion*: the page that the group has of the
/// same tokens, or the state behind them. Where several pages have the content each may have one:
/// whoever follows counts, and the group has the content while any is left.
///
/// Events are numbered 1, 2, 3, ... They are handed to `PoolOptions::on_event` as they happen,
/// kept in a ring of the last `PoolOptions::event_capacity`, or both; with neither there are none.
/// A reader of the ring that has been overtaken is told so, and begins again with a snapshot
/// (`PagePool::snapshot`): the contents of that moment, and the number of the last event before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "folio/pool/name.h"

namespace folio::inline v1::pool {

enum class PoolEventKind : uint8_t {
  stored = 0,   ///< a content can be found from now on
  removed = 1,  ///< it can be found no more
  cleared = 2,  ///< nothing of what was stored can be found any more
};

struct PoolEvent {
  uint64_t number = 0;   ///< 1 is the first of a pool
  uint64_t content = 0;  ///< 0 when cleared
  /// stored, removed: the content of the page before. Of a sequence's first page, a number that
  /// stands for its salt and adapter; of a page in which items begin, one that stands for the page
  /// before and them: no content's. 0 of companions
  uint64_t parent = 0;
  uint64_t adapter = 0;  ///< stored: of the sequence; 0 of companions
  PageName name = {};    ///< where `has_name`; of companions NameFunction::companion's
  /// where `has_parent_name`; of companions the name of their leading page
  PageName parent_name = {};
  /// stored: of the page in its sequence; else, in snapshots and of companions, -1
  int32_t position = -1;
  int32_t num_tokens = 0;  ///< stored, removed: page_size
  uint32_t group = 0;      ///< of PoolOptions::groups; 0: the leading one
  PoolEventKind kind = PoolEventKind::stored;
  /// The pool has a name function, which gave this content a name. Names say the same in every
  /// pool; a pool may have stored one name twice (see docs/pool_events.md).
  bool has_name = false;
  bool has_parent_name = false;  ///< stored, not in snapshots, position > 0; companions: always
  bool in_snapshot = false;      ///< one of `PagePool::snapshot`: `number` is of the last event
  bool operator==(const PoolEvent&) const = default;
};
static_assert(std::is_trivially_copyable_v<PoolEvent> && sizeof(PoolEvent) % 8 == 0);

/// Is handed an event, by the thread and inside the call of the pool that cause it. `tokens` are
/// those of the page of a stored event ([page_size], until the function returns), empty otherwise.
/// The function may make const calls of the pool; others are refused as busy. It must not move or
/// destroy the pool, and should be short, for the scheduler waits for it.
struct EventFunction {
  void (*function)(void* context, const PoolEvent& event,
                   std::span<const TokenId> tokens) noexcept = nullptr;
  void* context = nullptr;
};

/// What reading the ring gave.
struct EventRead {
  size_t count = 0;   ///< events that were written, numbered without a gap
  uint64_t next = 1;  ///< the number to ask for next
  /// Events from the one that was asked for up to `next` - 1 are no longer in the ring: nothing was
  /// written, and only a snapshot tells what they said.
  bool lost = false;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::EventFunction;
using pool::EventRead;
using pool::PoolEvent;
using pool::PoolEventKind;
}  // namespace folio::inline v1
