// SPDX-License-Identifier: Apache-2.0
/// src/attention/schedule.h: how a batch is split into tasks: a pure function of lengths, masks,
/// equal beginnings of table rows (cascade.h) and a kernel's geometry.
///
/// A unit is up to `geometry.rows` rows of one sequence over all the keys they see: as many KV
/// heads together as fit, since pages in the order of tokens are read fastest whole; nearly equal
/// parts where a head has more rows than fit. Units are tasks, except that with parallelism P > 1
/// those which a worker would still be busy with when the others have run out of work are divided:
/// a unit is looked at if it costs more than 1 / 2P of what is left when it begins (tasks begin in
/// the order of falling cost), and more than 1 / 32P of the step. What is divided, first that which
/// costs nothing:
///
///     rows    many rows of a head, down to 128: keys are staged once per piece
///     spans   pieces of the keys share a Split: their spans' states are stored and folded in
///             ascending order by the last to finish
///     heads   which shortens the runs that are read, in whatever order pages hold tokens and heads
///     rows    down to the kernel's granule
///
/// Heads and rows stay whole where pieces of spans fall evenly to the workers.
///
/// Pieces are never smaller than a span, a head or a granule of rows, so that no bit depends on how
/// a unit was divided. Stored states are bounded by the limits alone: room for some 64 P spans of
/// 128 rows, at least one sequence of the longest context, and for
/// those of shared tasks.
#pragma once

#include <cstdint>

#include "attention/cascade.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

/// More than any machine runs at once. The divider multiplies a unit's cost (below 2^43: its rows
/// times 2^31 keys, padded, and the keys' own) by 32 and by this: the product fits an int64_t.
inline constexpr int32_t parallelism_max = 1 << 14;

/// As deep as prefixes of prefixes go in practice; plan memory has room for the choice among them.
inline constexpr int32_t shared_levels_max = 8;

/// A size that an int64_t cannot hold is the largest int64_t.
[[nodiscard]] ScheduleSize schedule_bounds(const AttentionProblem& problem,
                                           const AttentionLimits& limits,
                                           const KernelGeometry& geometry) noexcept;

/// Writes at most schedule_bounds() tasks, splits and shared queries, and stays within its bytes.
/// The batch is within the limits. Tasks are ordered by falling cost.
ScheduleSize make_schedule(const AttentionProblem& problem, const AttentionLimits& limits,
                           const Batch& batch, const KernelGeometry& geometry,
                           const ScheduleMemory& memory) noexcept;

}  // namespace folio::inline v1
