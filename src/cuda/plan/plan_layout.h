// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/plan_layout.h: where everything lies in plan memory and workspace: a function of
/// problem, limits and kernels alone, so that both are bounded when a model is loaded.
///
/// plan memory   [DevicePlan][query_offsets][context_lengths][query_positions][key_positions]
///               [tile starts of both lists][of each list: block_tasks, tasks, tiles, units, their
///               first tasks][splits]
/// workspace     [arrivals][rows of partials][partials]
///
/// Arrays begin at multiples of 64 bytes. Tile starts, tiles, units and their first tasks are the
/// plan kernel's own.
///
/// Splits of the list of many rows follow those of few rows, at a fixed number. The lists' kernels
/// run one after the other, so that both number their partials from 0 in the same memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/checked.h"
#include "cuda/attention/live_tiles.h"
#include "cuda/plan/device_plan.h"
#include "folio/core/host_device.h"

namespace folio::cuda {

/// No unit's spans are shared by more tasks: one block reads all their partials, at some 60 bytes a
/// clock, and so many blocks already draw what memory gives.
inline constexpr int32_t tasks_of_split_max = 48;

/// Where partials are per span, room for so many rows of them per block, and for at least one unit
/// of the longest context; units beyond are not split.
inline constexpr int32_t stored_rows_of_block = 1024;

/// Rows of one sequence, of all its heads: what the plan kernel makes units of.
struct alignas(16) DeviceTile {
  int32_t sequence = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t reserved = 0;
  LiveTiles spans = {};
  /// cost of all units before the tile's first
  int64_t cost_before = 0;
  int64_t reserved_too = 0;
};

/// A tile's rows of one KV head.
struct alignas(16) DeviceUnit {
  int32_t first_task = 0;
  int32_t split = -1;
  int32_t first_partial = 0;
  int32_t first_block = 0;
};

/// One list: what it holds at the most, and byte offsets of its arrays.
struct ListLayout {
  int32_t blocks = 0;  ///< 0: the list is not used
  int32_t tiles = 0;
  int32_t units = 0;
  int32_t tasks = 0;
  int32_t splits = 0;
  int32_t partials = 0;
  int32_t first_split = 0;  ///< the number of its first split
  int64_t block_tasks_at = 0;
  int64_t tasks_at = 0;
  int64_t tiles_at = 0;
  int64_t units_at = 0;
  int64_t first_tasks_at = 0;
};

namespace detail {

template <class T>
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE T* array_at(void* base, int64_t at) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(base) + at);
}

}  // namespace detail

/// Bases are aligned to 64 bytes.
struct DevicePlanLayout {
  int64_t plan_bytes = 0;
  int64_t workspace_bytes = 0;
  /// Counts of tasks and partials fit an int32_t, sizes an address space; nothing else holds else.
  bool fits = true;
  int64_t query_offsets_at = 0;
  int64_t context_lengths_at = 0;
  int64_t query_positions_at = 0;
  int64_t key_positions_at = 0;
  int64_t tile_starts_at = 0;  ///< [2][batch + 1]
  int64_t splits_at = 0;
  int64_t partial_rows_at = 0;  ///< of the workspace, [partials][rows] MaxSum
  int64_t partials_at = 0;      ///< of the workspace, [partials][rows][v_head_size] float
  int32_t batch = 0;
  int32_t max_splits = 0;
  bool stores_spans = false;  ///< partials are per span: so that no bit depends on the cut
  DeviceGeometry geometries[2] = {};
  ListLayout lists[2] = {};  ///< of few rows, of many rows

  [[nodiscard]] int64_t max_tasks() const { return int64_t{lists[0].tasks} + lists[1].tasks; }

  FOLIO_HOST_DEVICE DevicePlan* plan(void* base) const {
    return detail::array_at<DevicePlan>(base, 0);
  }
  FOLIO_HOST_DEVICE int32_t* query_offsets(void* base) const {
    return detail::array_at<int32_t>(base, query_offsets_at);
  }
  FOLIO_HOST_DEVICE int32_t* context_lengths(void* base) const {
    return detail::array_at<int32_t>(base, context_lengths_at);
  }
  FOLIO_HOST_DEVICE int32_t* query_positions(void* base) const {
    return detail::array_at<int32_t>(base, query_positions_at);
  }
  FOLIO_HOST_DEVICE int32_t* key_positions(void* base) const {
    return detail::array_at<int32_t>(base, key_positions_at);
  }
  FOLIO_HOST_DEVICE int32_t* tile_starts(void* base, int list) const {
    return detail::array_at<int32_t>(base, tile_starts_at) + int64_t{list} * (batch + 1);
  }
  FOLIO_HOST_DEVICE TaskList tasks(void* base, int list) const {
    return {detail::array_at<int32_t>(base, lists[list].block_tasks_at),
            detail::array_at<DeviceTask>(base, lists[list].tasks_at)};
  }
  [[nodiscard]] TaskList few(void* base) const { return tasks(base, 0); }
  [[nodiscard]] TaskList many(void* base) const { return tasks(base, 1); }
  FOLIO_HOST_DEVICE DeviceSplit* splits(void* base) const {
    return detail::array_at<DeviceSplit>(base, splits_at);
  }
  FOLIO_HOST_DEVICE DeviceTile* tiles(void* base, int list) const {
    return detail::array_at<DeviceTile>(base, lists[list].tiles_at);
  }
  FOLIO_HOST_DEVICE int32_t* first_tasks(void* base, int list) const {
    return detail::array_at<int32_t>(base, lists[list].first_tasks_at);
  }
  FOLIO_HOST_DEVICE DeviceUnit* units(void* base, int list) const {
    return detail::array_at<DeviceUnit>(base, lists[list].units_at);
  }
  /// [max_splits], arrivals_ready before and after every call.
  [[nodiscard]] uint32_t* arrivals(void* workspace) const {
    return detail::array_at<uint32_t>(workspace, 0);
  }
  /// What calls of a layer have in common; the caller adds problem, args and list.
  [[nodiscard]] AttendCall call(void* base, void* workspace) const {
    AttendCall call;
    call.plan = plan(base);
    call.splits = splits(base);
    call.arrivals = arrivals(workspace);
    call.partial_rows = detail::array_at<MaxSum>(workspace, partial_rows_at);
    call.partials = detail::array_at<float>(workspace, partials_at);
    call.stores_spans = stores_spans;
    return call;
  }
};

namespace detail {

/// What a list of `blocks` blocks holds at the most; `too_much` once a count does not fit.
inline ListLayout list_bounds(const AttentionProblem& problem, const AttentionLimits& limits,
                              const DeviceGeometry& geometry, int32_t blocks, bool& too_much) {
  ListLayout list;
  if (blocks <= 0 || geometry.rows <= 0) return list;
  const auto count = [&too_much](const CheckedSize& size) {
    if (!size.is_at_most(INT32_MAX)) too_much = true;
    return static_cast<int32_t>(std::min<int64_t>(size.value(), INT32_MAX));
  };
  const int64_t heads = problem.key.num_heads, group = problem.q_heads / heads;
  const int64_t spans = (int64_t{limits.context} + geometry.span_keys - 1) / geometry.span_keys;
  list.blocks = blocks;
  list.tiles = count(CheckedSize(int64_t{limits.tokens} * group / geometry.rows) +
                     std::min(limits.batch, limits.tokens));
  list.units = count(CheckedSize(list.tiles) * heads);
  list.tasks = count(CheckedSize(list.units) + blocks);
  if (spans <= 1) return list;
  // every split unit holds an end of a block's work in it
  list.splits = std::min(list.units, blocks - 1);
  list.partials =
      problem.reproducible != Reproducible::per_plan
          ? count(std::min(CheckedSize(list.splits) * spans,
                           CheckedSize(std::max<int64_t>(
                               stored_rows_of_block * int64_t{blocks} / geometry.rows, spans))))
          : count(CheckedSize(2) * list.splits + blocks);
  return list;
}

}  // namespace detail

/// `few` and `many` are the geometries of the two lists' kernels, their grids `blocks_few` and
/// `blocks_many` blocks; 0 blocks: the list is not used. A sequence belongs to the list of few rows
/// if it has at most few.rows_at_most rows per KV head, or if there is no other.
[[nodiscard]] inline DevicePlanLayout device_plan_layout(const AttentionProblem& problem,
                                                         const AttentionLimits& limits,
                                                         const DeviceGeometry& few,
                                                         const DeviceGeometry& many,
                                                         int32_t blocks_few, int32_t blocks_many) {
  const DeviceGeometry* geometries[] = {&few, &many};
  const int32_t blocks[] = {blocks_few, blocks_many};
  DevicePlanLayout layout;
  layout.batch = limits.batch;
  bool too_much = false;
  CheckedSize plan, workspace;
  const auto take = [](CheckedSize& bytes, CheckedSize count, int64_t element) {
    const int64_t at = bytes.value();
    bytes += round_up(count * element, 64);
    return at;
  };
  const CheckedSize batch = limits.batch;
  take(plan, 1, sizeof(DevicePlan));
  layout.query_offsets_at = take(plan, batch + 1, 4);
  layout.context_lengths_at = take(plan, batch, 4);
  layout.query_positions_at = take(plan, batch, 4);
  layout.key_positions_at = take(plan, batch, 4);
  layout.tile_starts_at = take(plan, (batch + 1) * 2, 4);
  CheckedSize rows = 0;
  for (int i = 0; i < 2; ++i) {
    ListLayout list = detail::list_bounds(problem, limits, *geometries[i], blocks[i], too_much);
    list.first_split = layout.max_splits;
    layout.max_splits += list.splits;
    list.block_tasks_at = take(plan, CheckedSize(list.blocks) + 1, 4);
    list.tasks_at = take(plan, list.tasks, sizeof(DeviceTask));
    list.tiles_at = take(plan, list.tiles, sizeof(DeviceTile));
    list.units_at = take(plan, list.units, sizeof(DeviceUnit));
    list.first_tasks_at = take(plan, list.units, sizeof(int32_t));
    rows = std::max(rows, CheckedSize(list.partials) * geometries[i]->rows);
    layout.geometries[i] = *geometries[i];
    layout.lists[i] = list;
  }
  layout.splits_at = take(plan, layout.max_splits, sizeof(DeviceSplit));
  take(workspace, layout.max_splits, sizeof(uint32_t));
  layout.partial_rows_at = take(workspace, rows, sizeof(MaxSum));
  layout.partials_at = take(workspace, rows * problem.v_head_size, sizeof(float));
  layout.stores_spans = problem.reproducible != Reproducible::per_plan;
  layout.plan_bytes = plan.value();
  layout.workspace_bytes = workspace.value();
  layout.fits =
      !too_much && plan.is_at_most(memory_bytes_max) && workspace.is_at_most(memory_bytes_max);
  return layout;
}

}  // namespace folio::cuda
