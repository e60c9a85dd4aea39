// SPDX-License-Identifier: Apache-2.0
/// folio/tier/host_pages.h: a host tier whose pages are attended where they lie.
///
/// All its pages have one size and lie at one stride in one reservation of address space, the *host
/// slab*: page i of it is at `data + i * page_stride_bytes`. `planes_in` makes of a pool's planes
/// those of the slab, for `attend`: a sequence's cold keys are read there, its hot ones in the
/// pool, and `merge` (folio/attention/merge.h) joins the two. Nothing is copied.
///
/// What is to be read is held first. A page that is held has its bytes and its place until it is
/// given back: it is not dropped to make room (a store ends as full where all that might go is
/// held), and where it is dropped by name it is not found any more, but stays. Held pages are read
/// without a lock, by any thread.
///
/// Memory: the slab takes none before a page is stored, and gives back what lies in no page in
/// pieces of 2 MiB (huge pages, where the system grants them), but for a few. Limits of the process
/// or the system make stores end as full. It is private memory: a child of `fork` sees pages as
/// they were, and has no tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// Where pages lie, until their tier is destroyed.
struct HostSlab {
  std::byte* data = nullptr;  ///< 64-byte aligned; only pages that are held may be read
  int64_t page_bytes = 0;
  int64_t page_stride_bytes = 0;  ///< a multiple of 64
  int64_t pages = 0;              ///< at most 2^31 - 1
};

/// A tier of `make_host_tier` below. Threads: as Tier.
class FOLIO_EXPORT HostTier : public Tier {
 public:
  [[nodiscard]] virtual HostSlab slab() const noexcept = 0;
  /// Holds pages where they lie: pages[i] becomes the place of names[i] in the slab, or -1 where it
  /// is not there, has not page_bytes bytes, or is corrupt. Its checksum is looked at when it is
  /// first held, in the caller's thread, and not again; a page that is found corrupt stays so.
  /// Names may be there twice, pages be held by others: each hold is given back once. Errors,
  /// nothing held then: invalid_argument for other than one page for each name, or null memory;
  /// out_of_memory
  [[nodiscard]] virtual Status hold(std::span<const PageName> names,
                                    std::span<int32_t> pages) noexcept = 0;
  /// Places that nobody holds are skipped, as is -1. Whoever gives back a hold of another's takes
  /// the page from under him.
  virtual void give_back(std::span<const int32_t> pages) noexcept = 0;
};

/// As make_host_tier of folio/tier/host_tier.h, with memory for as many pages of `page_bytes`, each
/// with its header, as `max_bytes` has room for; so many bytes of address space are reserved now. A
/// smaller page takes as much, and cannot be held; a store of a larger one ends as full. Errors:
/// invalid_argument for options or a size out of range, less memory than for a page, and a device;
/// out_of_memory, of address space, too; io where no thread is to be had
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<HostTier>> make_host_tier(
    const TierOptions& options, int64_t page_bytes) noexcept;

/// The runs of bytes of a page of a pool, in the order of its payload, as a CacheManager stores it:
/// those of layer 0, then of layer 1, and so on (docs/tiers.md, *The bytes*). For whoever stores
/// himself what `planes_in` is to find. Errors: invalid_argument for no planes, planes that
/// page_extents refuses, whose pages share bytes or have unlike runs, and a page that they have
/// not; out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::vector<Extent>> payload_extents(
    std::span<const KVPlanes> planes, uint32_t page) noexcept;

/// `planes` of a pool, all layers that its pages are stored with, as they lie in the slab's pages:
/// with places of `HostTier::hold` for page ids, of which -1 is unassigned. Slots, heads and what
/// lies in no page (scales that pages share, of a tensor, of channels) are as they were. To be
/// read: what is written there is corrupt. Errors: invalid_argument for a slab that is none, planes
/// that payload_extents refuses, pages of another size than the slab's, planes of which a page's
/// elements, scales or zero points lie in several runs (gaps between rows), pages of unbounded size
/// (a page of those is a row), and places in the slab that are not aligned to their elements;
/// out_of_memory
[[nodiscard]] FOLIO_EXPORT Result<std::vector<KVPlanes>> planes_in(
    const HostSlab& slab, std::span<const KVPlanes> planes) noexcept;

}  // namespace folio::inline v1::tier
