// SPDX-License-Identifier: Apache-2.0
/// folio/cache/copy.h: moves pages or single slots between planes, values and scales, across dtypes
/// where the planes differ.
///
/// Layer i of `from` goes to layer i of `to`, its K plane to the K plane, its V plane to the V
/// plane. `from` and `to` may be the same planes; planes that are not the same share no memory.
/// Every head, slot and page of a plane of `to` has a place of its own, also where bytes are only
/// moved and where `from` is the very same plane: parts of a plane are copied at once, and a place
/// that several share (stride 0 over several) would depend on which came last.
///
/// Bytes are moved as they are where both planes have the same dtype, equal tensor scales and
/// scales of the same form (dtype, granularity, which strides are 0; other strides are free) that
/// move along, or the very same scales. Otherwise values are converted: read as stored * scale *
/// tensor_scale in float32 (of block formats as core/dtype.h defines), and written as `append`
/// writes a row of float32 (attention/append.h: rounded to nearest even, saturating; calibrated
/// scales of the target read, others computed and written; blocks quantised). Scales
/// move along with a page if they have a page stride, with a slot if they have a slot stride; a
/// scale of more than what is copied stays as it is. (So does the rest of a page; a scale of a
/// whole page moves with however many slots.)
#pragma once

#include <cstdint>
#include <span>

#include "folio/cache/page_table.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Copy slot `from` to slot `to`: page * page_size + offset in each side's own page size, the row
/// number where pages are unbounded.
struct SlotCopy {
  int64_t from = 0;
  int64_t to = 0;
  bool operator==(const SlotCopy&) const = default;
};

/// Runs `copies` in order, as if one after the other: the first `tokens` slots of page `from` in
/// each plane of `from` to page `to` of the same plane of `to`.
///
/// Errors:  invalid_argument if the plane counts, heads, head sizes or page sizes differ, pages are
///          unbounded, a page id is not below num_pages, `tokens` is outside [0, page_size],
///          heads, slots or pages of `to` share a place, or planes that need a conversion have
///          scales that cannot be written (see `append`); unsupported for a
///          conversion with scales of a head_size above 4096. Nothing is written then; internal if
///          the executor throws or leaves out tasks: what `copies` name in `to` is undefined then
/// Effects: allocates nothing; planes run in parallel on `executor`, and parts of pages where there
/// are fewer planes than threads
FOLIO_EXPORT Status copy_pages(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                               std::span<const PageCopy> copies, const Executor& executor) noexcept;

/// Runs `copies` in order, as if one after the other: one slot of each plane of `from` to one slot
/// of the same plane of `to`. The planes of one side have one page size; that of `from` and that of
/// `to` may differ.
///
/// Errors:  invalid_argument if the plane counts, heads or head sizes differ, planes of one side
///          have different page sizes, a slot is negative or not below num_pages * page_size,
///          heads, slots or pages of `to` share a place, or planes that need a conversion have
///          scales that cannot be written (see `append`); unsupported for a
///          conversion with scales of a head_size above 4096. Nothing is written then; internal if
///          the executor throws or leaves out tasks: what `copies` name in `to` is undefined then
/// Effects: allocates nothing; planes run in parallel on `executor`, and heads where there are
/// fewer planes than threads
FOLIO_EXPORT Status copy_slots(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                               std::span<const SlotCopy> copies, const Executor& executor) noexcept;

/// As `copy_pages`, on `device`: the work is put on `stream` and nothing waits for it. All arrays
/// lie on the device, `copies` too, or in host memory that the driver has pinned: with one side
/// there, this swaps pages out and in.
///
/// What the arrays hold the host does not know. On the device an entry of `copies` does nothing
/// whose page is not below num_pages of every plane, or whose tokens are outside [0, page_size].
/// Planes of block formats are refused. Planes whose tensor scales lie in two places are moved or
/// converted as the numbers there say, and refused if they could not be converted. Each
/// thread runs the whole list for its bytes of a page: what makes a call fast is planes, not the
/// length of the list.
///
/// Errors: as copy_pages, of what the host knows; invalid_argument for arrays that the device does
///         not reach; unsupported on the CPU, which has no streams, and where folio is built
///         without that device; device: the driver's own. Nothing is written then, but for a
///         failure of the driver between the launches of many planes
/// Effects: allocates nothing (once kernels are loaded), waits for nothing, can be captured in a
///          graph; what is replayed reads the list anew
FOLIO_EXPORT Status copy_pages_async(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                                     std::span<const PageCopy> copies, Device device,
                                     Stream stream) noexcept;

/// As `copy_slots`, on `device`, and else as copy_pages_async: an entry does nothing whose slot is
/// negative or not below num_pages * page_size of every plane. With planes of a tensor's rows on
/// one side (unbounded pages) it gathers and scatters.
FOLIO_EXPORT Status copy_slots_async(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                                     std::span<const SlotCopy> copies, Device device,
                                     Stream stream) noexcept;

}  // namespace folio::inline v1
