// SPDX-License-Identifier: Apache-2.0
/// folio/tier/tier.h: what a place for pages beyond a pool's memory does: it keeps whole pages by
/// name.
///
/// A page is known to a tier by its name (folio/pool/name.h) and moved by its byte runs
/// (folio/cache/page_extents.h). Nothing blocks: `load`, `store` and `drop` put work into a queue
/// or refuse it at once, and each page of it ends exactly once, as `poll` tells. What is stored can
/// be found when all of it is there, and not before; what is loaded is exact, or the page ends with
/// the reason why it is not. A tier that is slow, full, damaged or gone makes misses.
///
/// Threads: any thread may call anything. The caller's memory, that of the extents' bytes, must
/// stay until its page has ended, cancelled or not: hold it (PagePool::begin_io).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "folio/cache/page_extents.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/name.h"
#include "folio/tier/device_copies.h"

namespace folio::inline v1::tier {

/// A page that goes to a tier or comes from there: the runs of its bytes, in an order that both
/// ways share. Runs and parent are copied when they are handed over, the bytes are not.
struct TierPage {
  PageName name;
  std::span<const Extent> extents;
  /// Name of the page before it in its prefix; null: it is the first, or not known. A tier may use
  /// it to give up the end of a prefix before its beginning.
  const PageName* parent = nullptr;
};

/// A call whose pages have not all ended.
struct TierTicket {
  uint64_t value = 0;
  bool operator==(const TierTicket&) const = default;
};

/// How a page ended.
enum class TierOutcome : uint8_t {
  done = 0,
  missing = 1,    ///< loads: the tier has no such page, or has given it up meanwhile
  corrupt = 2,    ///< loads: what is there is not what was stored, or of another model or version
  full = 3,       ///< stores: there is no room, and none is to be made
  late = 4,       ///< its deadline has passed
  cancelled = 5,  ///< before its bytes were touched, or after: they are not to be used
  failed = 6,     ///< the medium failed; `Tier::last_fault` says how
};
inline constexpr int num_tier_outcomes = 7;
FOLIO_EXPORT const char* name(TierOutcome outcome) noexcept;

/// In which order a load's bytes come.
enum class LoadOrder : uint8_t {
  pages = 0,  ///< page after page
  /// The first extent of all pages, then the second of all, and so on, where the medium can:
  /// layers, if extents are in the order of layers. `Tier::landed` tells how far it is.
  extents = 1,
};

struct TierCompletion {
  TierTicket ticket;
  uint32_t page = 0;  ///< index among those of the call
  TierOutcome outcome = TierOutcome::done;
};

/// What happens to a name in a tier.
enum class TierChange : uint8_t {
  stored = 0,   ///< it can be found from now on
  removed = 1,  ///< it can be found no more
};

/// Is told what a tier has and has no more, name by name in the order in which it happens, by the
/// thread that makes it so and under a lock of the tier: it notes that, and calls no tier.
struct TierObserver {
  void (*function)(void* context, TierChange change,
                   std::span<const PageName> names) noexcept = nullptr;
  void* context = nullptr;
};

/// Is handed names, until it returns.
struct NameVisitor {
  void (*function)(void* context, std::span<const PageName> names) noexcept = nullptr;
  void* context = nullptr;
};

struct TierOptions {
  /// Bytes of pages that have not ended, at most; a call beyond that is refused as busy
  int64_t max_queued_bytes = int64_t{1} << 30;
  uint32_t max_queued_pages = 1 << 16;
  uint32_t threads = 2;  ///< that do the work, >= 1
  /// Of what lies in the tier, headers included; the pages used longest ago go
  int64_t max_bytes = 0;
  /// stands for model and geometry, and for how bytes of rows are read: element types, scales and
  /// their zero points, rotation (block and signs), and the values of what lies in no page: tensor
  /// scales, channel scales, scales that pages share. A tier sees bytes alone: pages that were
  /// stored with another one are corrupt
  Digest256 fingerprint = {};
  /// Is called when completions wait, by a thread of the tier: it may note that, and no more.
  void (*on_completion)(void* context) noexcept = nullptr;
  void* context = nullptr;
  /// Also of what is there when the tier is made.
  TierObserver on_change = {};
  /// In whose memory the extents of all pages lie; null: in the host's.
  std::shared_ptr<DeviceCopies> device = nullptr;
};

/// Since the tier was made. Bytes are of pages, without headers.
struct TierFigures {
  int64_t stored_pages = 0, loaded_pages = 0;
  int64_t stored_bytes = 0, loaded_bytes = 0;
  int64_t load_outcomes[num_tier_outcomes] = {}, store_outcomes[num_tier_outcomes] = {};
  int64_t refused_calls = 0;     ///< as busy
  int64_t dropped_pages = 0;     ///< to make room, or asked for
  int64_t pages = 0, bytes = 0;  ///< that are there now; headers included
  int64_t queued_pages = 0, queued_bytes = 0;
  bool operator==(const TierFigures&) const = default;
};

class FOLIO_EXPORT Tier {
 public:
  Tier() = default;
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;
  virtual ~Tier() = default;

  /// How many of these, from the first on, are there now: advice, for a page may go before it is
  /// loaded.
  [[nodiscard]] virtual int32_t find(std::span<const PageName> names) noexcept = 0;

  /// there[i] becomes 1 where names[i] is there now, and 0 where not: as `find` of each alone. For
  /// those who can use pages that lie apart; nothing unless there are as many of both.
  virtual void find_each(std::span<const PageName> names, std::span<uint8_t> there) noexcept;

  /// `deadline_ms` from now on, 0: none. Errors, nothing queued then: invalid_argument for no
  /// pages, a page without bytes, a run that is null or has no bytes, or two pages of one load that
  /// share bytes, or an order that LoadOrder has not; busy where the queue has no room; io for a
  /// tier that has closed
  [[nodiscard]] virtual Result<TierTicket> load(std::span<const TierPage> pages,
                                                int64_t deadline_ms,
                                                LoadOrder order = LoadOrder::pages) noexcept = 0;
  /// How many leading extents of every page of a load are in the caller's memory, so that work on
  /// them may begin; pages that have fewer in all do not hold it back. Checksums are looked at
  /// when the last one is there: work that began early is void, and to be done again, unless all
  /// pages end as done. Advice: it may be less than what is there. 0 for a store, once a page of
  /// the load has ended otherwise, and when all have ended (completions tell then).
  [[nodiscard]] virtual uint32_t landed(TierTicket ticket) const noexcept = 0;
  /// A name that is there already is done at once: names say what pages contain.
  [[nodiscard]] virtual Result<TierTicket> store(std::span<const TierPage> pages) noexcept = 0;
  /// Nothing for names that are not there. Errors: invalid_argument for names that are null
  [[nodiscard]] virtual Status drop(std::span<const PageName> names) noexcept = 0;
  /// Hands over, in one call, the names of all pages that `on_change` was told are there, or would
  /// have been; under the lock under which it is told, so that no change comes between: what is
  /// called notes them, and calls no tier. O(pages), in the caller's thread. Errors, nothing handed
  /// over then: invalid_argument for a function that is null; out_of_memory; unsupported for a tier
  /// that does not know its names (a peer's)
  [[nodiscard]] virtual Status visit_names(NameVisitor visitor) noexcept;
  /// Pages of the call that have not begun end as cancelled; those that have, too, when nothing
  /// touches their bytes any more. Nothing for a ticket whose pages have all ended.
  virtual void cancel(TierTicket ticket) noexcept = 0;

  /// Copies completions in the order in which pages ended; returns how many there were and
  /// `completions` has places for.
  [[nodiscard]] virtual size_t poll(std::span<TierCompletion> completions) noexcept = 0;

  [[nodiscard]] virtual TierFigures figures() const noexcept = 0;
  /// Of the medium; ok before the first one.
  [[nodiscard]] virtual Status last_fault() const noexcept = 0;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::LoadOrder;
using tier::name;
using tier::num_tier_outcomes;
using tier::Tier;
using tier::TierChange;
using tier::TierCompletion;
using tier::TierFigures;
using tier::TierObserver;
using tier::TierOptions;
using tier::TierOutcome;
using tier::TierPage;
using tier::TierTicket;
}  // namespace folio::inline v1
