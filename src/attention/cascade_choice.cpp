// SPDX-License-Identifier: Apache-2.0
/// src/attention/cascade_choice.cpp: what shared ranges save, and those that save most.
#include "attention/cascade_choice.h"

#include "attention/task_sizes.h"

namespace folio::inline v1 {
namespace {

// To write, read and fold a state takes as long as so many row-keys.
constexpr int64_t state_cost = 64;

/// What a range saves, if it is chosen.
int64_t gain_of(const SharedRange& range, const int32_t* order, const Batch& batch, int32_t group,
                const KernelGeometry& geometry) {
  int64_t alone = 0, rows = 0;
  for (int32_t i = 0; i < range.members; ++i) {
    const int32_t b = order[range.first_member + i];
    const int64_t own = int64_t{group} * (batch.query_offsets[b + 1] - batch.query_offsets[b]);
    alone += padded_rows(own, geometry) + geometry.key_cost;
    rows += own;
  }
  const int64_t shared = padded_rows(rows, geometry) +
                         ceil_div(rows / group, geometry.rows / group) * geometry.key_cost;
  const int64_t states = range.parent < 0 ? 2 : 1;
  return (range.key_end - range.key_begin) * (alone - shared) - rows * state_cost * states;
}

}  // namespace

ChoiceMemory take_choice_memory(Carver& carver, int64_t batch, int64_t levels) noexcept {
  ChoiceMemory memory;
  memory.nodes = carver.take<CascadeNode>(batch);
  memory.gains = carver.take<int64_t>(CheckedSize(batch) * (levels + 1));
  memory.places = carver.take<int32_t>(batch);
  memory.left = carver.take<int32_t>(batch);
  return memory;
}

std::span<CascadeNode> choose_ranges(std::span<const SharedRange> ranges, const int32_t* order,
                                     const Batch& batch, int32_t group,
                                     const KernelGeometry& geometry, int32_t levels,
                                     const ChoiceMemory& memory) noexcept {
  // behind[l]: the most that the ranges behind one save, of which no nest has more than l
  const int64_t stride = levels + 1;
  const auto behind = [&](size_t range) {
    return memory.gains + static_cast<int64_t>(range) * stride;
  };
  std::fill_n(memory.gains, static_cast<int64_t>(ranges.size()) * stride, 0);
  const auto chosen = [&](size_t range, int64_t gain, int64_t level) {
    return level > 0 && gain + behind(range)[level - 1] > behind(range)[level];
  };
  for (size_t i = ranges.size(); i-- > 0;) {
    if (ranges[i].parent < 0) continue;
    const int64_t gain = gain_of(ranges[i], order, batch, group, geometry);
    int64_t* const sum = behind(static_cast<size_t>(ranges[i].parent));
    for (int64_t l = 1; l <= levels; ++l)
      sum[l] += chosen(i, gain, l) ? gain + behind(i)[l - 1] : behind(i)[l];
  }
  size_t count = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const SharedRange& range = ranges[i];
    const bool is_first = range.parent < 0;
    memory.places[i] = is_first ? -1 : memory.places[range.parent];
    memory.left[i] = is_first ? levels : memory.left[range.parent];
    if (!chosen(i, gain_of(range, order, batch, group, geometry), memory.left[i])) continue;
    CascadeNode& node = memory.nodes[count];
    node = {.key_end = range.key_end,
            .parent = memory.places[i],
            .first_member = range.first_member,
            .members = range.members};
    if (node.parent >= 0) node.key_begin = memory.nodes[node.parent].key_end;
    memory.places[i] = static_cast<int32_t>(count++);
    --memory.left[i];
  }
  return {memory.nodes, count};
}

}  // namespace folio::inline v1
