// SPDX-License-Identifier: Apache-2.0
/// src/attention/rotate.cpp: check, then one task per range of tokens.
#include "folio/attention/rotate.h"

#include "attention/check_append.h"
#include "attention/positions.h"
#include "attention/row_conversions.h"
#include "attention/row_ranges.h"
#include "cache/check_tensor.h"
#include "core/run_on.h"

namespace folio::inline v1 {
namespace {

struct Call {
  const Batch* batch = nullptr;
  const RotateArgs* args = nullptr;
  const rows::Kernel* kernel = nullptr;
  rows::Conversion rows = {};
  RowRanges ranges = {};
};

void rotate_range(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const int64_t begin = call.ranges.begin(task), end = call.ranges.end(task);
  TableRows table(*call.batch, call.args->rope, begin);
  TokenRowBatch token_rows(&call.rows, 1, *call.kernel);
  for (int64_t t = begin; t < end; ++t) {
    const rows::TokenRow token_row{token_of(call.args->q, t), token_of(call.args->out, t),
                                   table.row_of(t), nullptr, nullptr};
    token_rows.add(&token_row);
  }
  token_rows.flush();
}

}  // namespace

Status rotate(const Batch& batch, const RotateArgs& args, const Executor& executor) noexcept {
  if (Status s = check_executor("rotate", executor); !s.is_ok()) return s;
  if (Status s = check_rotate("rotate", batch, args, Memory::cpu); !s.is_ok()) return s;
  const int64_t tokens = args.q.extent[0];
  if (tokens == 0) return {};
  const Result<int64_t> threads = concurrency_of("rotate", executor);
  if (!threads) return threads.error();
  Call call{&batch, &args, &rows::kernel(), {}, {}};
  const int64_t token_elements = args.q.extent[1] * args.q.extent[2];
  call.rows = conversion_of(format_of(args.q), format_of(args.out),
                            static_cast<int32_t>(args.q.extent[1]), args.q.extent[2], false);
  transform(call.rows, args.rope, {args.q_norm, args.q_norm_shift, args.norm_eps});
  if (args.key != nullptr) turn_for(call.rows, *args.key);
  const int64_t bytes = tokens * token_elements * bit_width(args.out.dtype) / 8;
  call.rows.streams = !is_same(args.q, args.out) &&
                      should_stream(call.rows, args.out.data, args.out.stride_bytes[0], bytes);
  pack_heads(call.rows);
  call.ranges = row_ranges(tokens, token_elements * 4, *threads);
  return run_on("rotate", executor, call.ranges.tasks, rotate_range, &call);
}

}  // namespace folio::inline v1
