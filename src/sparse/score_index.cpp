// SPDX-License-Identifier: Apache-2.0
/// src/sparse/score_index.cpp: scores of an indexer, written out: check, then the batch's tasks.
#include "cache/check_tensor.h"
#include "folio/sparse/index.h"
#include "sparse/check_index.h"
#include "sparse/check_lists.h"
#include "sparse/run_tasks.h"

namespace folio::inline v1 {
namespace {

struct Call {
  IndexRun run;
  ScoresTo to;

  void do_task(const IndexTask& task, int64_t worker) const {
    run.kernel.score(run.call, task, run.scratch(worker), to);
  }
};

Status check_written(const char* function, int32_t first_key, const AnyTensor<2>& scores,
                     int64_t tokens) {
  const int64_t keys = scores.extent[1];
  if (first_key < 0)
    return fail(Errc::invalid_argument, "{}: first_key is {}, expected at least 0", function,
                first_key);
  if (keys < 0 || keys > INT32_MAX - int64_t{first_key})
    return fail(Errc::invalid_argument,
                "{}: scores has {} keys behind first_key = {}, expected 0 to {}", function, keys,
                first_key, INT32_MAX - int64_t{first_key});
  if (Status s = check_matrix(function, "scores", scores, {{tokens, keys}, "the batch"});
      !s.is_ok())
    return s;
  const int64_t stride = scores.stride_bytes[0], row = keys * int64_t{sizeof(float)};
  if (tokens <= 1 || stride >= row || -stride >= row) return {};
  return fail(Errc::invalid_argument,
              "{}: scores.stride_bytes[0] is {}, expected at least {} in either direction (rows "
              "share no bytes)",
              function, stride, row);
}

}  // namespace

Status score_index(const Index& index, const Batch& batch, const ScoreArgs& args, int32_t first_key,
                   const AnyTensor<2>& scores, MemorySpan workspace,
                   const Executor& executor) noexcept {
  constexpr auto function = "score_index";
  if (Status s = check_executor(function, executor); !s.is_ok()) return s;
  if (Status s = check_made(function, index); !s.is_ok()) return s;
  if (Status s = check_batch(function, index, batch); !s.is_ok()) return s;
  if (Status s = check_scores(function, index, batch, args); !s.is_ok()) return s;
  if (Status s = check_written(function, first_key, scores, tokens_of(batch)); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, index.workspace_bytes());
      !s.is_ok())
    return s;
  if (tokens_of(batch) == 0 || scores.extent[1] == 0) return {};
  const KeyRange range{true, first_key, first_key + scores.extent[1]};
  const Call call{index_run(index, batch, args, range, workspace),
                  {static_cast<std::byte*>(scores.data), scores.stride_bytes[0], first_key}};
  return run_tasks(function, index, executor, call);
}

}  // namespace folio::inline v1
