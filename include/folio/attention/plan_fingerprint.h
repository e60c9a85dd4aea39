// SPDX-License-Identifier: Apache-2.0
/// folio/attention/plan_fingerprint.h: whether the plan of one batch serves another.
#pragma once

#include <cstdint>

#include "folio/attention/plan.h"

namespace folio::inline v1 {

/// 128 bits of XXH3. Of this process and this build alone: not to be stored.
struct PlanFingerprint {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const PlanFingerprint&) const = default;
};

/// A plan borrows arrays of its batch: the table, intervals, tree, selected, alibi_positions.
enum class BorrowedArrays : uint8_t {
  /// their addresses count as well as what they hold: the plan serves the batch as it is
  in_place = 0,
  /// what they hold counts alone: the plan serves as long as the arrays of the batch that it was
  /// made of are there and hold what they held
  by_content = 1,
};

/// Of all that `plan` would read of (attention, batch), and all that attention then reads through
/// the plan: the kernels, limits and problem; offsets, lengths, positions, intervals, tree words,
/// positions of ALiBi; table entries of the pages that hold a key which a mask or interval shows.
/// Entries of other pages and, of alibi_positions, what lies behind a context count for nothing.
/// `selected` is not read: its address and stride count always, as each attend reads the lists.
///
/// Equal fingerprints: a plan made for the one serves the other (BorrowedArrays says when), with
/// the same bits. It is a hash: inputs that differ share one with a probability of 2^-128, unless
/// somebody who can choose them looks for it.
///
/// Errors:  invalid_argument as `plan`, in its words, for an empty Attention and whatever is wrong
///          with the batch; unsupported for an Attention of a device
/// Effects: allocates nothing, takes no lock; reads what it counts, once
[[nodiscard]] FOLIO_EXPORT Result<PlanFingerprint> plan_fingerprint(
    const Attention& attention, const Batch& batch,
    BorrowedArrays arrays = BorrowedArrays::in_place) noexcept;

}  // namespace folio::inline v1
