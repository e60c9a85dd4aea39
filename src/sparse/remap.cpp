// SPDX-License-Identifier: Apache-2.0
/// src/sparse/remap.cpp: lists of keys become lists of slots: check every entry, then one task per
/// range of sequences' queries.
#include <algorithm>

#include "attention/row_ranges.h"
#include "core/run_on.h"
#include "folio/sparse/select.h"
#include "sparse/check_lists.h"
#include "sparse/slots.h"

namespace folio::inline v1 {
namespace {

struct Call {
  const Batch& batch;
  const RemapArgs& args;
  RowRanges ranges = {};
};

/// The sequence that query row `row` belongs to.
int32_t sequence_of_row(const Batch& batch, int64_t row) {
  const int32_t* const offsets = batch.query_offsets;
  return static_cast<int32_t>(std::upper_bound(offsets, offsets + batch.size + 1, row) - offsets -
                              1);
}

void remap_range(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const RemapArgs& args = call.args;
  const int64_t end = call.ranges.end(task);
  int64_t row = call.ranges.begin(task);
  for (int32_t b = sequence_of_row(call.batch, row); row < end; ++b) {
    Slots slots(call.batch.table, b, args.page_size, args.num_pages);
    for (; row < std::min<int64_t>(end, call.batch.query_offsets[b + 1]); ++row) {
      const int32_t* const from = args.indices + row * args.stride;
      int32_t* const to = args.slots + row * args.slots_stride;
      for (int32_t i = 0; i < args.count; ++i) to[i] = slots.of(from[i]);
    }
  }
}

Status check_indices(const Batch& batch, const RemapArgs& args) {
  for (int32_t b = 0; b < batch.size; ++b) {
    const int32_t context = batch.context_lengths[b];
    for (int64_t row = batch.query_offsets[b]; row < batch.query_offsets[b + 1]; ++row) {
      const int32_t* const list = args.indices + row * args.stride;
      for (int32_t i = 0; i < args.count; ++i) {
        if (list[i] >= -1 && list[i] < context) continue;
        return fail(Errc::invalid_argument,
                    "remap: indices[{}][{}] is {}, expected -1 (none) or a key below {} "
                    "(batch.context_lengths[{}])",
                    row, i, list[i], context, b);
      }
    }
  }
  return {};
}

Status check(const Batch& batch, const RemapArgs& args) {
  constexpr auto function = "remap";
  if (Status s = check_sequences(function, batch, INT32_MAX, "int32"); !s.is_ok()) return s;
  if (Status s = check_slots(function, args.page_size, args.num_pages); !s.is_ok()) return s;
  if (args.count < 0)
    return fail(Errc::invalid_argument, "{}: count is {}, expected at least 0", function,
                args.count);
  const int64_t tokens = batch.size > 0 ? batch.query_offsets[batch.size] : 0;
  const Lists lists[] = {
      {"indices", args.indices, tokens, args.count, "stride", args.stride},
      {"slots", args.slots, tokens, args.count, "slots_stride", args.slots_stride}};
  for (const Lists& list : lists) {
    if (Status s = check_lists(function, list); !s.is_ok()) return s;
  }
  return check_indices(batch, args);
}

}  // namespace

Status remap(const Batch& batch, const RemapArgs& args, const Executor& executor) noexcept {
  if (Status s = check_executor("remap", executor); !s.is_ok()) return s;
  if (Status s = check(batch, args); !s.is_ok()) return s;
  const int64_t tokens = batch.size > 0 ? batch.query_offsets[batch.size] : 0;
  if (tokens == 0 || args.count == 0) return {};
  const Result<int64_t> threads = concurrency_of("remap", executor);
  if (!threads) return threads.error();
  Call call{batch, args, row_ranges(tokens, int64_t{args.count} * 16, *threads)};
  return run_on("remap", executor, call.ranges.tasks, remap_range, &call);
}

}  // namespace folio::inline v1
