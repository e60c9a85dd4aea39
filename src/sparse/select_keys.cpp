// SPDX-License-Identifier: Apache-2.0
/// src/sparse/select_keys.cpp: the best keys of each query in one pass over the pages: check, then
/// the batch's tasks, each of which keeps candidates; the last of a split joins them.
#include <algorithm>
#include <atomic>

#include "cache/check_tensor.h"
#include "cpu/index/top.h"
#include "folio/sparse/select.h"
#include "sparse/check_index.h"
#include "sparse/check_lists.h"
#include "sparse/run_tasks.h"
#include "sparse/slots.h"

namespace folio::inline v1 {
namespace {

/// The planes whose slots are listed.
struct ListedPages {
  PageTable table = {};
  int32_t page_size = 0;
  int64_t num_pages = 0;
};

ListedPages pages_of(const Batch& batch, const SelectArgs& args) {
  if (args.page_size != 0) return {args.table, args.page_size, args.num_pages};
  return {batch.table, args.score.key.page_size, args.score.key.num_pages};
}

struct Call {
  IndexRun run;
  const SelectArgs& args;
  ListedPages pages;
  int32_t top;  // limits.top

  void do_task(const IndexTask& task, int64_t worker) const {
    const int32_t queries = task.token_end - task.token_begin;
    indexer::Top* const tops = empty_tops(queries, worker);
    run.kernel.select(run.call, task, run.scratch(worker), tops, spare(worker));
    if (task.split < 0) return write(task, tops, worker);
    store(task, tops, worker);
    IndexSplit& split = run.workspace.splits[task.split];
    std::atomic_ref<int32_t> finished(split.finished);
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 != split.pieces) return;
    join_pieces(split, queries, worker);
    write(task, tops, worker);
  }

 private:
  [[nodiscard]] int64_t room() const { return indexer::Top::room_for(top); }
  [[nodiscard]] uint64_t* spare(int64_t worker) const {
    return run.workspace.spare + worker * room();
  }
  [[nodiscard]] indexer::Top* empty_tops(int32_t queries, int64_t worker) const {
    indexer::Top* const tops = run.workspace.tops + worker * run.geometry.queries;
    uint64_t* const kept = run.workspace.kept + worker * run.geometry.queries * room();
    for (int32_t t = 0; t < queries; ++t) tops[t] = indexer::Top::empty(kept + t * room(), args.k);
    return tops;
  }
  /// Of query t of a piece.
  [[nodiscard]] int64_t place(int32_t piece, int32_t t) const {
    return int64_t{piece} * run.geometry.queries + t;
  }

  void store(const IndexTask& task, indexer::Top* tops, int64_t worker) const {
    for (int32_t t = 0; t < task.token_end - task.token_begin; ++t) {
      indexer::compact(tops[t], spare(worker));
      const int64_t at = place(task.piece, t);
      run.workspace.counts[at] = tops[t].count;
      std::copy_n(tops[t].kept, tops[t].count, run.workspace.candidates + at * top);
    }
  }
  /// Into the worker's own tops, in the order of keys.
  void join_pieces(const IndexSplit& split, int32_t queries, int64_t worker) const {
    indexer::Top* const tops = empty_tops(queries, worker);
    for (int32_t t = 0; t < queries; ++t) {
      for (int32_t p = 0; p < split.pieces; ++p) {
        const int64_t at = place(split.first_piece + p, t);
        indexer::join(tops[t], run.workspace.candidates + at * top, run.workspace.counts[at],
                      spare(worker));
      }
    }
  }
  void write(const IndexTask& task, indexer::Top* tops, int64_t worker) const {
    const int64_t first_row = run.call.batch->query_offsets[task.sequence];
    for (int32_t t = task.token_begin; t < task.token_end; ++t) {
      int32_t* const list = args.lists + (first_row + t) * args.stride;
      indexer::write_list(tops[t - task.token_begin], spare(worker), list);
      if (args.entries == ListEntries::keys) continue;
      Slots slots(pages.table, task.sequence, pages.page_size, pages.num_pages);
      for (int32_t i = 0; i < args.k; ++i) list[i] = slots.of(list[i]);
    }
  }
};

Status check_pages(const char* function, const Batch& batch, const SelectArgs& args) {
  if (args.entries > ListEntries::keys)
    return fail(Errc::invalid_argument, "{}: entries is {}, expected a value of ListEntries",
                function, static_cast<int>(args.entries));
  if (args.entries == ListEntries::keys) return {};
  const ListedPages pages = pages_of(batch, args);
  if (Status s = check_slots(function, pages.page_size, pages.num_pages); !s.is_ok()) return s;
  if (args.page_size == 0) return {};
  Batch listed = batch;
  listed.table = args.table;
  return check_sequences(function, listed, INT32_MAX, "int32");
}

Status check(const char* function, const Index& index, const Batch& batch, const SelectArgs& args) {
  if (Status s = check_batch(function, index, batch); !s.is_ok()) return s;
  if (Status s = check_scores(function, index, batch, args.score); !s.is_ok()) return s;
  if (Status s = check_k(function, args.k, index.limits().top, "limits.top"); !s.is_ok()) return s;
  const Lists lists{"lists", args.lists, tokens_of(batch), args.k, "stride", args.stride};
  if (Status s = check_lists(function, lists); !s.is_ok()) return s;
  return check_pages(function, batch, args);
}

}  // namespace

Status select_keys(const Index& index, const Batch& batch, const SelectArgs& args,
                   MemorySpan workspace, const Executor& executor) noexcept {
  constexpr auto function = "select_keys";
  if (Status s = check_executor(function, executor); !s.is_ok()) return s;
  if (Status s = check_made(function, index); !s.is_ok()) return s;
  if (Status s = check(function, index, batch, args); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, index.workspace_bytes());
      !s.is_ok())
    return s;
  if (tokens_of(batch) == 0) return {};
  const Call call{index_run(index, batch, args.score, {}, workspace), args, pages_of(batch, args),
                  index.limits().top};
  return run_tasks(function, index, executor, call);
}

}  // namespace folio::inline v1
