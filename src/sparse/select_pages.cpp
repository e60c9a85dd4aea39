// SPDX-License-Identifier: Apache-2.0
/// src/sparse/select_pages.cpp: some queries at a time: tasks score parts of their pages, and who
/// finishes the last of a query writes its lists.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "cache/check_tensor.h"
#include "core/carver.h"
#include "core/run_on.h"
#include "cpu/index/top.h"
#include "folio/sparse/pages.h"
#include "kernel/sequence.h"
#include "sparse/check_pages.h"
#include "sparse/page_lists.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t workers_max = 16384;  // as limits.parallelism
/// Fewer pages than that are no task of their own.
constexpr int64_t piece_pages_min = 64;

/// What sizes of memory are made of.
struct Sizes {
  int64_t q_heads = 0;
  int64_t head_size = 0;
  int64_t pages = 0;  ///< of the longest context
  int32_t k_pages = 0;
};

Sizes sizes_of(const PageArgs& args, int64_t context) {
  return {args.q.extent[1], args.summaries.rows.head_size,
          (context + args.page_size - 1) / args.page_size, args.k_pages};
}

struct Workspace {
  int64_t* next_task = nullptr;
  int32_t* finished = nullptr;  ///< [workers] tasks of a query
  float* scores = nullptr;      ///< [workers] queries of [q_heads, pages]
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = 0;  ///< of a worker
  int64_t bytes = 0;
};

PageScratch scratch_at(void* memory, const Sizes& sizes, int64_t* bytes = nullptr) {
  Carver carver(memory);
  const CheckedSize room = indexer::Top::room_for(sizes.k_pages);
  PageScratch s;
  s.prepared = carver.take<float>(pages::prepared_floats(sizes.head_size));
  s.joined = carver.take<float>(sizes.pages);
  s.left_out = carver.take<float>(sizes.pages);
  s.best = carver.take<int32_t>(sizes.k_pages);
  s.kept = carver.take<uint64_t>(room);
  s.spare = carver.take<uint64_t>(room);
  if (bytes != nullptr) *bytes = carver.bytes();
  return s;
}

Workspace workspace_at(void* memory, const Sizes& sizes, int32_t workers) {
  Carver carver(memory);
  const CheckedSize all = workers;
  Workspace w;
  w.next_task = carver.take<int64_t>(1);
  w.finished = carver.take<int32_t>(all);
  w.scores = carver.take<float>(all * sizes.q_heads * sizes.pages);
  scratch_at(nullptr, sizes, &w.scratch_bytes);
  w.scratch = carver.take<std::byte>(all * w.scratch_bytes);
  w.bytes = carver.bytes();
  return w;
}

/// The most that the memory holds; 0: not one.
int32_t workers_of(const MemorySpan& memory, const Sizes& sizes, int64_t wanted) {
  int32_t least = 0, most = static_cast<int32_t>(std::min<int64_t>(wanted, workers_max));
  while (least < most) {  // the largest that it holds lies in [least, most]
    const int32_t middle = most - (most - least) / 2;
    if (workspace_at(nullptr, sizes, middle).bytes <= memory.bytes) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

struct Call {
  const Batch& batch;
  const PageArgs& args;
  const pages::Kernel& kernel = pages::kernel();
  AttentionProblem seen_as = {};  ///< mask or intervals
  float scale = 0.0f;
  Sizes sizes = {};
  Workspace workspace = {};
  int64_t first_token = 0;  ///< of the queries that are under way
  int64_t tokens = 0;
  int64_t pieces = 1;  ///< of the pages of a query and KV head

  [[nodiscard]] int64_t heads() const { return args.summaries.rows.num_heads; }
  [[nodiscard]] int64_t tasks_of_query() const { return heads() * pieces; }
  [[nodiscard]] int64_t query_floats() const { return sizes.q_heads * sizes.pages; }
};

ScoredQuery query_of(const Call& call, int64_t number) {
  const Batch& batch = call.batch;
  const int64_t token = call.first_token + number;
  const int32_t* const offsets = batch.query_offsets;
  const auto b = static_cast<int32_t>(
      std::upper_bound(offsets, offsets + batch.size + 1, static_cast<int32_t>(token)) - offsets -
      1);
  const Sequence sequence = sequence_of(batch, b);
  const Visible seen =
      visible_of(call.seen_as, batch, sequence, static_cast<int32_t>(token - sequence.first_query));
  const uint32_t* const entries =
      batch.table.entries != nullptr ? batch.table.entries + batch.table.row_start(b) : nullptr;
  return {entries, SeenPages(seen, call.args.page_size),
          call.workspace.scores + number * call.query_floats(), call.sizes.pages, token};
}

/// Scores of the q heads of one KV head for pages number [begin, end).
void score_pages(const Call& call, const ScoredQuery& query, int64_t head, int64_t begin,
                 int64_t end, float* prepared) {
  const PagedKVView& rows = call.args.summaries.rows;
  const ConstTensor<3>& q = call.args.q;
  const int64_t group = call.sizes.q_heads / call.heads();
  const pages::Source source{
      static_cast<const std::byte*>(rows.data) + head * rows.head_stride_bytes,
      rows.dtype,
      call.args.summaries.kind,
      rows.head_size,
      rows.num_pages,
      rows.page_stride_bytes,
      rows.slot_stride_bytes};
  float* const scores =
      call.workspace.scores + (query.token - call.first_token) * call.query_floats();
  int32_t at_once = 0;
  for (int64_t h = head * group; h < (head + 1) * group; h += at_once) {
    const int64_t left = (head + 1) * group - h;
    at_once = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    for (int64_t r = 0; r < at_once; ++r)
      call.kernel.prepare(q.dtype, source.kind,
                          static_cast<const std::byte*>(q.data) + query.token * q.stride_bytes[0] +
                              (h + r) * q.stride_bytes[1],
                          call.scale, prepared + r * 2 * pages::padded(rows.head_size),
                          rows.head_size);
    for (int64_t i = begin; i < end;) {
      const int64_t stop = std::min(end, query.seen.run_end(i));
      call.kernel.score(source, prepared, at_once, query.entries + query.seen.page(i), stop - i,
                        scores + h * query.stride + i, query.stride);
      i = stop;
    }
  }
}

void do_task(const Call& call, int64_t task, const PageScratch& scratch) {
  const int64_t number = task / call.tasks_of_query(), part = task % call.tasks_of_query();
  const ScoredQuery query = query_of(call, number);
  const int64_t size = query.seen.size(), piece = part % call.pieces;
  score_pages(call, query, part / call.pieces, size * piece / call.pieces,
              size * (piece + 1) / call.pieces, scratch.prepared);
  std::atomic_ref<int32_t> finished(call.workspace.finished[number]);
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 != call.tasks_of_query()) return;
  for (int32_t list = 0; list < lists_of(call.args); ++list)
    write_page_list(call.kernel, call.args, query, list, scratch);
}

void work(void* arg, int64_t worker) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const Workspace& w = call.workspace;
  const PageScratch scratch = scratch_at(w.scratch + worker * w.scratch_bytes, call.sizes);
  const int64_t tasks = call.tokens * call.tasks_of_query();
  std::atomic_ref<int64_t> next(*w.next_task);
  for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < tasks;
       i = next.fetch_add(1, std::memory_order_relaxed))
    do_task(call, i, scratch);
}

int64_t longest_context(const Batch& batch) {
  int32_t longest = 0;
  for (int32_t b = 0; b < batch.size; ++b) longest = std::max(longest, batch.context_lengths[b]);
  return longest;
}

/// As many queries at a time as there is memory for, which is that of workers.
Status run(Call& call, int64_t tokens, int32_t workers, const Executor& executor) {
  for (; call.first_token < tokens; call.first_token += call.tokens) {
    call.tokens = std::min<int64_t>(workers, tokens - call.first_token);
    const int64_t wanted = 2 * workers / (call.tokens * call.heads());
    call.pieces =
        std::clamp<int64_t>(call.sizes.pages / piece_pages_min, 1, std::max<int64_t>(1, wanted));
    *call.workspace.next_task = 0;
    std::fill_n(call.workspace.finished, call.tokens, 0);
    const int64_t tasks = call.tokens * call.tasks_of_query();
    if (Status s = run_on("select_pages", executor, std::min<int64_t>(workers, tasks), work, &call);
        !s.is_ok())
      return s;
  }
  return {};
}

}  // namespace

int64_t select_pages_bytes(const PageArgs& args, int32_t context, int32_t parallelism) noexcept {
  if (context < 0 || parallelism < 1 || parallelism > workers_max) return 0;
  if (!check_page_sizes("select_pages_bytes", args).is_ok()) return 0;
  return workspace_at(nullptr, sizes_of(args, context), parallelism).bytes;
}

Status select_pages(const Batch& batch, const PageArgs& args, MemorySpan workspace,
                    const Executor& executor) noexcept {
  constexpr auto function = "select_pages";
  if (Status s = check_executor(function, executor); !s.is_ok()) return s;
  if (Status s = check_pages(function, batch, args); !s.is_ok()) return s;
  const int64_t tokens = batch.size > 0 ? batch.query_offsets[batch.size] : 0;
  if (tokens == 0) return {};
  const Sizes sizes = sizes_of(args, longest_context(batch));
  if (Status s =
          check_memory(function, "workspace", workspace, workspace_at(nullptr, sizes, 1).bytes);
      !s.is_ok())
    return s;
  const Result<int64_t> threads = concurrency_of(function, executor);
  if (!threads) return threads.error();
  const int32_t workers = workers_of(workspace, sizes, *threads);
  Call call{batch, args};
  call.seen_as.mask = args.mask;
  call.seen_as.intervals = args.intervals;
  const auto head_size = static_cast<float>(sizes.head_size);
  call.scale = args.scale != 0.0f ? args.scale : 1.0f / std::sqrt(head_size);
  call.sizes = sizes;
  call.workspace = workspace_at(workspace.data, sizes, workers);
  return run(call, tokens, workers, executor);
}

}  // namespace folio::inline v1
