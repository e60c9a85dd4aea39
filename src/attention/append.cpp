// SPDX-License-Identifier: Apache-2.0
/// src/attention/append.cpp: check, then write: every token is a task's own, and no byte is touched
/// before the last check has passed.
#include "folio/attention/append.h"

#include <algorithm>

#include "attention/check_append.h"
#include "attention/positions.h"
#include "attention/row_conversions.h"
#include "attention/row_ranges.h"
#include "attention/summaries.h"
#include "cache/check_view.h"
#include "core/run_on.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1 {
namespace {

/// One plane and its source.
struct Plane {
  ConstTensor<3> source = {};
  PagedKVView view = {};
};

/// K, and V if there is one, resolved once per call.
struct Call {
  const Batch* batch = nullptr;
  const int64_t* slots = nullptr;
  const Rope* rope = nullptr;
  const PageSummaries* summaries = nullptr;
  const rows::Kernel* kernel = nullptr;
  int num_planes = 0;
  Plane planes[2] = {};
  rows::Conversion rows[2] = {};
  RowRanges ranges = {};
};

rows::TokenRow token_row_of(const Plane& plane, int64_t token, int64_t page, int64_t slot,
                            const float* cos_sin) {
  return {token_of(plane.source, token), detail::row_of(plane.view, page, slot, 0), cos_sin,
          nullptr, scales_of(plane.view, page, slot)};
}

void write_to_slots(const Call& call, int64_t begin, int64_t end) {
  const int64_t page_size = slots_per_page(call.planes[0].view);
  TableRows table(*call.batch, call.rope, begin);
  TokenRowBatch batch(call.rows, call.num_planes, *call.kernel);
  for (int64_t token = begin; token < end; ++token) {
    const int64_t slot = call.slots[token];
    if (slot < 0) continue;
    rows::TokenRow token_rows[2];
    for (int i = 0; i < call.num_planes; ++i)
      token_rows[i] = token_row_of(call.planes[i], token, slot / page_size, slot % page_size,
                                   i == 0 ? table.row_of(token) : nullptr);
    batch.add(token_rows);
  }
  batch.flush();
}

/// Tokens [token, stop) of a sequence, as far as they lie at one stride in all planes; returns how
/// many.
int64_t write_run(const Call& call, TokenRowBatch& batch, TableRows& table, const uint32_t* row,
                  int64_t shift, int64_t token, int64_t stop) {
  detail::PageRun runs[2];
  int64_t count = stop - token;
  for (int i = 0; i < call.num_planes; ++i) {
    runs[i] = detail::run_of(call.planes[i].view, row, token + shift, stop + shift);
    count = std::min(count, runs[i].rows);
  }
  for (int64_t t = 0; t < count; ++t) {
    rows::TokenRow token_rows[2];
    for (int i = 0; i < call.num_planes; ++i) {
      if (runs[i].data == nullptr) continue;
      token_rows[i] = token_row_of(call.planes[i], token + t, runs[i].page, runs[i].slot + t,
                                   i == 0 ? table.row_of(token + t) : nullptr);
    }
    batch.add(token_rows);
  }
  return count;
}

void write_to_sequences(const Call& call, int64_t begin, int64_t end) {
  const Batch& step = *call.batch;
  const int32_t* offsets = step.query_offsets;
  int64_t b = std::upper_bound(offsets, offsets + step.size + 1, begin) - offsets - 1;
  TableRows table(step, call.rope, begin);
  TokenRowBatch batch(call.rows, call.num_planes, *call.kernel);
  for (int64_t token = begin; token < end; ++b) {
    const int64_t stop = std::min<int64_t>(end, offsets[b + 1]);
    const uint32_t* row = step.table.entries + step.table.row_start(b);
    // from token to row index
    const int64_t shift = int64_t{step.context_lengths[b]} - offsets[b + 1];
    while (token < stop) token += write_run(call, batch, table, row, shift, token, stop);
  }
  batch.flush();
}

void write_tokens(const Call& call, int64_t begin, int64_t end) {
  if (call.slots != nullptr) {
    write_to_slots(call, begin, end);
  } else {
    write_to_sequences(call, begin, end);
  }
}

/// Slots of one page that follow each other.
struct PageSlots {
  int64_t page = 0;
  int64_t first = 0;
  int64_t count = 0;
};

/// visit(PageSlots) of tokens [begin, end), in their order; as far as slots follow each other.
template <class Visit>
void for_each_run_of_slots(const Call& call, int64_t begin, int64_t end, Visit visit) {
  const int64_t page_size = call.planes[0].view.page_size;
  for (int64_t token = begin, next = 0; token < end; token = next) {
    const int64_t first = call.slots[token], page = first / page_size;
    next = token + 1;
    if (first < 0) continue;
    const int64_t stop = std::min(end, token + (page + 1) * page_size - first);
    while (next < stop && call.slots[next] == first + next - token) ++next;
    visit(PageSlots{page, first - page * page_size, next - token});
  }
}

template <class Visit>
void for_each_run(const Call& call, int64_t begin, int64_t end, Visit visit) {
  if (call.slots != nullptr) return for_each_run_of_slots(call, begin, end, visit);
  const Batch& step = *call.batch;
  const int32_t* offsets = step.query_offsets;
  int64_t b = std::upper_bound(offsets, offsets + step.size + 1, begin) - offsets - 1;
  for (int64_t token = begin; token < end; ++b) {
    const int64_t stop = std::min<int64_t>(end, offsets[b + 1]);
    const uint32_t* row = step.table.entries + step.table.row_start(b);
    const int64_t shift = int64_t{step.context_lengths[b]} - offsets[b + 1];
    while (token < stop) {
      const auto run = detail::run_of(call.planes[0].view, row, token + shift, stop + shift);
      if (run.data != nullptr) visit(PageSlots{run.page, run.slot, run.rows});
      token += run.rows;
    }
  }
}

/// Before anything is written: a page may begin with a token behind others of it.
void begin_pages(const Call& call) {
  SummaryMaker maker(call.planes[0].view, *call.summaries);
  for_each_run(call, 0, call.ranges.rows, [&](const PageSlots& run) {
    if (run.first == 0) maker.begin(run.page);
  });
}

/// All tokens, each part summarised while it lies in the caches.
void write_and_summarise(const Call& call) {
  constexpr int64_t at_once = 32;
  SummaryMaker maker(call.planes[0].view, *call.summaries);
  for (int64_t begin = 0; begin < call.ranges.rows; begin += at_once) {
    const int64_t end = std::min(begin + at_once, call.ranges.rows);
    write_tokens(call, begin, end);
    for_each_run(call, begin, end,
                 [&](const PageSlots& run) { maker.add(run.page, run.first, run.count); });
  }
}

void write_range(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  if (call.summaries != nullptr && call.ranges.tasks == 1) return write_and_summarise(call);
  write_tokens(call, call.ranges.begin(task), call.ranges.end(task));
}

/// The pages of task `task` alone, so that no two tasks have one page.
void summarise_pages(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  SummaryMaker maker(call.planes[0].view, *call.summaries);
  for_each_run(call, 0, call.ranges.rows, [&](const PageSlots& run) {
    if (run.page % call.ranges.tasks == task) maker.add(run.page, run.first, run.count);
  });
}

void add_plane(Call& call, const ConstTensor<3>& source, const PagedKVView& view) {
  call.planes[call.num_planes] = {source, view};
  call.rows[call.num_planes++] = conversion_of(format_of(source), format_of(view), view.num_heads,
                                               view.head_size, computes_scales(view));
}

Call call_of(const Batch& batch, const AppendArgs& args, int64_t threads) {
  Call call;
  call.batch = &batch;
  call.slots = args.slots;
  call.rope = args.rope;
  call.summaries = args.summaries;
  call.kernel = &rows::kernel();
  add_plane(call, args.k, args.key);
  transform(call.rows[0], args.rope, {args.k_norm, args.k_norm_shift, args.norm_eps});
  if (args.v.data != nullptr) add_plane(call, args.v, args.value);
  int64_t elements = 0, bytes = 0;  // of a token
  for (int i = 0; i < call.num_planes; ++i) {
    const PagedKVView& view = call.planes[i].view;
    elements += int64_t{view.num_heads} * view.head_size;
    bytes += int64_t{view.num_heads} * row_bytes(view.dtype, view.head_size);
  }
  for (int i = 0; i < call.num_planes; ++i) {
    const PagedKVView& view = call.planes[i].view;
    call.rows[i].streams =
        should_stream(call.rows[i], view.data, view.slot_stride_bytes, bytes * args.k.extent[0]);
    pack_heads(call.rows[i]);
  }
  call.ranges = row_ranges(args.k.extent[0], elements * int64_t{sizeof(float)}, threads);
  return call;
}

}  // namespace

Status append(const Batch& batch, const AppendArgs& args, const Executor& executor) noexcept {
  if (Status s = check_executor("append", executor); !s.is_ok()) return s;
  if (Status s = check_append("append", batch, args, Memory::cpu); !s.is_ok()) return s;
  if (args.k.extent[0] == 0) return {};
  const Result<int64_t> threads = concurrency_of("append", executor);
  if (!threads) return threads.error();
  Call call = call_of(batch, args, *threads);
  if (call.summaries != nullptr) begin_pages(call);
  Status written = run_on("append", executor, call.ranges.tasks, write_range, &call);
  if (!written.is_ok() || call.summaries == nullptr || call.ranges.tasks == 1) return written;
  return run_on("append", executor, call.ranges.tasks, summarise_pages, &call);
}

}  // namespace folio::inline v1
