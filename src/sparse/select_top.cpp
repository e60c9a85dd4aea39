// SPDX-License-Identifier: Apache-2.0
/// src/sparse/select_top.cpp: the greatest scores of rows that lie in memory: check, then one task
/// per row, or several where there are fewer rows than threads.
#include <algorithm>
#include <atomic>

#include "cache/check_tensor.h"
#include "core/carver.h"
#include "core/run_on.h"
#include "cpu/index/top.h"
#include "folio/sparse/select.h"
#include "sparse/check_lists.h"
#include "sparse/kernel_list.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t workers_max = 16384;  // as limits.parallelism
/// Fewer scores than that are no task of their own.
constexpr int64_t piece_scores_min = 16384;

struct Workspace {
  int64_t* next_task = nullptr;
  int32_t* finished = nullptr;     // [workers] pieces of a row
  int32_t* counts = nullptr;       // [workers] candidates of a piece
  uint64_t* candidates = nullptr;  // [workers][k]
  uint64_t* kept = nullptr;        // [workers][room]
  uint64_t* spare = nullptr;       // [workers][room]
  int64_t bytes = 0;
};

Workspace workspace_at(void* memory, int32_t k, int32_t workers) {
  Carver carver(memory);
  const CheckedSize all = workers, room = indexer::Top::room_for(k);
  Workspace w;
  w.next_task = carver.take<int64_t>(1);
  w.finished = carver.take<int32_t>(all);
  w.counts = carver.take<int32_t>(all);
  w.candidates = carver.take<uint64_t>(all * k);
  w.kept = carver.take<uint64_t>(all * room);
  w.spare = carver.take<uint64_t>(all * room);
  w.bytes = carver.bytes();
  return w;
}

/// The most that the memory holds; 0: not one.
int32_t workers_of(const MemorySpan& memory, int32_t k, int64_t wanted) {
  const auto holds = [&](int32_t workers) {
    return workspace_at(nullptr, k, workers).bytes <= memory.bytes;
  };
  int32_t least = 0, most = static_cast<int32_t>(std::min<int64_t>(wanted, workers_max));
  while (least < most) {  // the largest that it holds lies in [least, most]
    const int32_t middle = most - (most - least) / 2;
    if (holds(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

struct Call {
  TopArgs args = {};
  CollectScores* collect = nullptr;
  Workspace workspace = {};
  int64_t tasks = 0;
  int64_t pieces = 1;  // of a row; more than 1: every task has memory of its own

  [[nodiscard]] int64_t length(int64_t row) const {
    return args.lengths != nullptr ? args.lengths[row] : args.scores.extent[1];
  }
  [[nodiscard]] const float* scores(int64_t row) const {
    return reinterpret_cast<const float*>(static_cast<const std::byte*>(args.scores.data) +
                                          row * args.scores.stride_bytes[0]);
  }
  [[nodiscard]] uint64_t* spare(int64_t worker) const {
    return workspace.spare + worker * indexer::Top::room_for(args.k);
  }
  [[nodiscard]] indexer::Top empty_top(int64_t worker) const {
    return indexer::Top::empty(workspace.kept + worker * indexer::Top::room_for(args.k), args.k);
  }
};

void select_row(const Call& call, int64_t row, int64_t worker) {
  indexer::Top top = call.empty_top(worker);
  call.collect(call.scores(row), 0, call.length(row), top, call.spare(worker));
  indexer::write_list(top, call.spare(worker), call.args.indices + row * call.args.stride);
}

/// The one that finishes a row's last piece joins them all.
void select_piece(const Call& call, int64_t task, int64_t worker) {
  const int64_t row = task / call.pieces, piece = task % call.pieces;
  const int64_t length = call.length(row);
  const int64_t begin = length * piece / call.pieces, end = length * (piece + 1) / call.pieces;
  const Workspace& w = call.workspace;
  indexer::Top top = call.empty_top(worker);
  call.collect(call.scores(row) + begin, static_cast<int32_t>(begin), end - begin, top,
               call.spare(worker));
  indexer::compact(top, call.spare(worker));
  w.counts[task] = top.count;
  std::copy_n(top.kept, top.count, w.candidates + task * call.args.k);
  std::atomic_ref<int32_t> finished(w.finished[row]);
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 != call.pieces) return;

  top = call.empty_top(worker);
  for (int64_t t = row * call.pieces; t < (row + 1) * call.pieces; ++t)
    indexer::join(top, w.candidates + t * call.args.k, w.counts[t], call.spare(worker));
  indexer::write_list(top, call.spare(worker), call.args.indices + row * call.args.stride);
}

void work(void* arg, int64_t worker) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  std::atomic_ref<int64_t> next(*call.workspace.next_task);
  for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < call.tasks;
       i = next.fetch_add(1, std::memory_order_relaxed)) {
    if (call.pieces > 1) {
      select_piece(call, i, worker);
    } else {
      select_row(call, i, worker);
    }
  }
}

Status check(const TopArgs& args) {
  constexpr auto function = "select_top";
  if (Status s = check_k(function, args.k, top_max, "top_max"); !s.is_ok()) return s;
  const int64_t tokens = args.scores.extent[0], keys = args.scores.extent[1];
  if (tokens < 0 || tokens > INT32_MAX || keys < 0 || keys > INT32_MAX)
    return fail(Errc::invalid_argument,
                "{}: scores has shape [{}, {}], expected extents of 0 to 2^31 - 1", function,
                tokens, keys);
  if (Status s = check_matrix(function, "scores", args.scores, {{tokens, keys}, "scores"});
      !s.is_ok())
    return s;
  const Lists lists{"indices", args.indices, tokens, args.k, "stride", args.stride};
  if (Status s = check_lists(function, lists); !s.is_ok()) return s;
  for (int64_t t = 0; t < tokens && args.lengths != nullptr; ++t) {
    if (args.lengths[t] >= 0 && args.lengths[t] <= keys) continue;
    return fail(Errc::invalid_argument, "{}: lengths[{}] is {}, expected 0 to {} (keys of scores)",
                function, t, args.lengths[t], keys);
  }
  return {};
}

/// As many pieces as there are workers for, where rows are fewer.
int64_t pieces_of(const TopArgs& args, int32_t workers) {
  const int64_t tokens = args.scores.extent[0];
  const int64_t worth = args.scores.extent[1] / piece_scores_min;
  return std::max<int64_t>(1, std::min<int64_t>(workers / tokens, worth));
}

}  // namespace

int64_t select_top_bytes(int32_t k, int32_t parallelism) noexcept {
  if (k < 1 || k > top_max || parallelism < 1 || parallelism > workers_max) return 0;
  return workspace_at(nullptr, k, parallelism).bytes;
}

Status select_top(const TopArgs& args, MemorySpan workspace, const Executor& executor) noexcept {
  if (Status s = check_executor("select_top", executor); !s.is_ok()) return s;
  if (Status s = check(args); !s.is_ok()) return s;
  const int64_t tokens = args.scores.extent[0];
  if (tokens == 0) return {};
  if (Status s = check_memory("select_top", "workspace", workspace, select_top_bytes(args.k, 1));
      !s.is_ok())
    return s;
  const Result<int64_t> threads = concurrency_of("select_top", executor);
  if (!threads) return threads.error();
  const int32_t workers = workers_of(workspace, args.k, *threads);
  Call call;
  call.args = args;
  call.collect = index_kernel_of_machine().collect;
  call.workspace = workspace_at(workspace.data, args.k, workers);
  call.pieces = pieces_of(args, workers);
  call.tasks = tokens * call.pieces;
  *call.workspace.next_task = 0;
  std::fill_n(call.workspace.finished, workers, 0);
  return run_on("select_top", executor, std::min<int64_t>(workers, call.tasks), work, &call);
}

}  // namespace folio::inline v1
