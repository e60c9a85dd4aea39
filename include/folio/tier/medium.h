// SPDX-License-Identifier: Apache-2.0
/// folio/tier/medium.h: a place for pages of your own, by calls that block, and the tier that makes
/// a queue, threads, deadlines and figures of it.
///
/// Whoever has a place where bytes can lie under a name derives from `Medium` and hands it to
/// `make_queued_tier`, as folio's own disk, Redis, peer and host tiers do. What a medium must keep
/// is checked by folio/testing/medium_conformance.h; docs/extending.md has the way.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "folio/core/export.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// One page to load or to store. It stays where it is until `Medium::run` returns, and is not
/// touched by the medium after that.
struct Job {
  enum class Kind : uint8_t { load, store };
  Kind kind = Kind::load;
  PageName name;
  std::optional<PageName> parent = {};  ///< of the page that it continues, if it is known
  /// Where the page's bytes lie, one run behind another: 1 or more, of 1 .. 2^40 bytes each. They
  /// are the caller's, aligned to nothing. A store reads them, a load writes all of them, or some
  /// where it does not end as done; those of the loads that run at once share no byte.
  std::vector<Extent> extents;
  LoadOrder order = LoadOrder::pages;
  /// Leading extents that a load has filled: the medium says so with `release` once their bytes are
  /// in place, checked or not, and need not. It never goes down.
  std::atomic<uint32_t> landed = 0;
  /// How it ended, when `run` returns. Loads: done, missing, corrupt or failed; stores: done, full
  /// or failed.
  TierOutcome outcome = TierOutcome::failed;
};

/// Tells `TierOptions::on_change`, if there is one, of one name.
inline void tell(const TierObserver& observer, TierChange change, const PageName& name) noexcept {
  if (observer.function != nullptr) observer.function(observer.context, change, {&name, 1});
}

/// Where pages lie. Called by the tier: `run` by its threads, `TierOptions::threads` of them, all
/// else by whoever calls the tier, all at once, until it is destroyed, which the tier does when no
/// call is under way. A call that does not return holds up its thread, and the tier's end; pages
/// that wait end as late or cancelled all the same.
///
/// What a page contains is told by its name: names are never stored with other bytes, unless
/// `drop` was between. What was stored is found and loaded once the job has ended as done, and not
/// before all of it is there; a load that ends as done has filled its extents with exactly that.
///
/// Nothing that a medium says is trusted: numbers out of range are brought into it, outcomes that
/// a job cannot have become failed, and so do all jobs of a `run` that throws. `Tier::last_fault`
/// tells what was thrown.
class FOLIO_EXPORT Medium {
 public:
  Medium() = default;
  Medium(const Medium&) = delete;
  Medium& operator=(const Medium&) = delete;
  virtual ~Medium() = default;

  /// Whether it has the page, as far as it knows. Without I/O: engines ask while they schedule.
  [[nodiscard]] virtual bool has(const PageName& name) = 0;
  /// How many of these, from the first on, it has: 0 .. names.size(); without I/O.
  [[nodiscard]] virtual int32_t find(std::span<const PageName> names) {
    size_t found = 0;
    while (found < names.size() && has(names[found])) ++found;
    return static_cast<int32_t>(found);
  }
  /// Does all of these, 1 or more of one kind, and says of each how it ended. Extents and sizes may
  /// differ (groups); names may be there twice, or in another thread's call. A store of one that is
  /// there is done, and changes nothing; a load of another size ends as missing or corrupt.
  virtual void run(std::span<Job* const> jobs) = 0;
  /// It is not found any more when this returns, unless it is stored anew. Nothing for names that
  /// are not there. What a load reads meanwhile stays readable, or ends as missing.
  virtual void drop(const PageName& name) = 0;

  /// Hands over the names of all pages that it has, in one call, under the lock under which it
  /// tells `TierOptions::on_change`. False where it does not know them: nothing was handed over
  /// then.
  [[nodiscard]] virtual bool visit_names(const NameVisitor& visitor) {
    static_cast<void>(visitor);
    return false;
  }

  // The next three are asked once, when the tier is made.

  /// Jobs that are best done together: 1 .. most_in_batch.
  [[nodiscard]] virtual uint32_t batch() const { return 1; }
  /// Whether it fills extents in LoadOrder::extents. `run` is then given all pages of such a load,
  /// `most_in_order` at once, and no others beside them, whatever `batch` says.
  [[nodiscard]] virtual bool loads_in_order() const { return false; }
  /// Whether it takes extents in the memory of TierOptions::device itself. If not, it is given
  /// others in the host's memory, and all of this happens to those.
  [[nodiscard]] virtual bool reaches_device() const { return false; }
  static constexpr uint32_t most_in_order = 4096, most_in_batch = 8192;

  /// Sets `pages`, `bytes` and `dropped_pages`, each 0 or more; nothing else is looked at.
  virtual void count(TierFigures& figures) const = 0;
  /// The last thing that went wrong, in words; ok before the first one.
  [[nodiscard]] virtual Status last_fault() const = 0;
};

/// The tier over `medium`. Of the options it takes `max_queued_bytes`, `max_queued_pages`,
/// `threads`, `on_completion` and `device`; `max_bytes`, `fingerprint` and `on_change` are kept by
/// the medium, which has them from whoever makes it. Errors, the medium destroyed then:
/// invalid_argument for a medium that is null, or options out of range; out_of_memory; io where no
/// thread is to be had
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_queued_tier(
    std::unique_ptr<Medium> medium, const TierOptions& options) noexcept;

// ---- What a page says of itself where it is stored: for media that keep plain bytes

inline constexpr int64_t page_header_bytes = 128;

/// To be stored with the page: its name and size, the fingerprint, a version, and CRC32Cs of the
/// page and of the header itself. It is the same on every run, in the byte order of the machine.
/// `extents` are in the host's memory.
[[nodiscard]] FOLIO_EXPORT std::array<std::byte, page_header_bytes> make_page_header(
    const PageName& name, const Digest256& fingerprint, std::span<const Extent> extents) noexcept;
/// Null if the bytes at `extents`, in the host's memory, are those of the page that the header is
/// of, and that is this one; else what is wrong, in static words: the load ends as corrupt then.
/// A header of another size than page_header_bytes is wrong.
[[nodiscard]] FOLIO_EXPORT const char* fault_of_page(std::span<const std::byte> header,
                                                     const PageName& name,
                                                     const Digest256& fingerprint,
                                                     std::span<const Extent> extents) noexcept;

}  // namespace folio::inline v1::tier
