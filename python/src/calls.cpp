// SPDX-License-Identifier: Apache-2.0
/// python/src/calls.cpp: reads arrays into AttentionArgs, AppendArgs and RotateArgs.
#include "calls.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "executor.h"
#include "select_pages.h"
#include "without_gil.h"

namespace folio::python {
namespace {

ConstTensor<3> rows_of(const Array& array, int64_t rows) {
  expect_ndim(array, 3, "[tokens, heads, dim]");
  if (array.extent[0] < rows)
    refuse_argument("{}: expected at least {} rows (the batch's new tokens), got {}", array.name,
                    rows, array.description());
  return tensor_of(array, rows);
}

/// Zeros in the rows of `array`, which was made here, that are not in `used`.
void clear_padding(const Array& array, const AnyTensor<3>& used) {
  const int64_t row = used.stride_bytes[0], padding = array.extent[0] - used.extent[0];
  if (padding > 0)
    std::memset(static_cast<std::byte*>(array.data) + used.extent[0] * row, 0,
                static_cast<size_t>(padding * row));
}

bool is_activation(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// The same array without its first dimension: that of index 0.
Array without_first(const Array& array) {
  Array rest = array;
  rest.ndim = array.ndim - 1;
  std::copy(array.extent + 1, array.extent + array.ndim, rest.extent);
  std::copy(array.stride + 1, array.stride + array.ndim, rest.stride);
  return rest;
}

/// [tokens] int64 in place where it is contiguous, otherwise as a copy.
struct Slots {
  Array array = {};
  std::vector<int64_t> copied = {};
  const int64_t* data = nullptr;
  int64_t count = 0;

  explicit Slots(nb::handle object) {
    if (object.is_none()) return;
    if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) {
      array = array_of(object, "slots");
      expect_ndim(array, 1, "[tokens]");
      count = array.extent[0];
      data = static_cast<const int64_t*>(array.data);
      if (array.type == nb::dtype<int64_t>() && (count <= 1 || array.stride[0] == 1)) return;
    }
    copied = int64_of(object, "slots");
    count = static_cast<int64_t>(copied.size());
    data = copied.data();
  }
};

}  // namespace

void RopeTable::expect_tokens(int64_t tokens) const {
  if (rope.positions != nullptr && static_cast<int64_t>(positions.size()) < tokens)
    refuse_argument("rope: positions has {} elements, expected one for each of {} tokens",
                    positions.size(), tokens);
}

AttendCall::AttendCall(const AttendArrays& arrays, const Kind& kind, const Pages& pages,
                       const BatchHolder& batch)
    : q_heads_(kind.q_heads()), q_(array_of(arrays.q, "q")) {
  const int64_t tokens = batch.tokens();
  args_.q = rows_of(q_, tokens);
  args_.key = pages.planes().key;
  args_.value = pages.planes().value;
  if (q_.extent[1] != q_heads_)
    refuse_argument("q: expected {} heads (the kind's q_heads), got {}", q_heads_,
                    q_.description());
  take_out(arrays, kind.v_head_size(pages.planes()), tokens);
  take_lse(arrays, tokens);
  take_sinks(arrays.sinks, tokens);
  args_.alibi_slopes = floats_of(arrays.alibi, "alibi", {q_heads_}, alibi_);
  take_bias(arrays.bias, batch);
  options_.q_dtype = args_.q.dtype;
  options_.out_dtype = args_.out.dtype;
  options_.alibi = args_.alibi_slopes != nullptr;
  options_.intervals = batch.batch().visible_begin != nullptr;
  options_.tree = batch.batch().tree != nullptr;
  options_.selection = batch.batch().selected != nullptr;
  options_.selection_per_head = batch.selected_heads() > 0;
  if (options_.selection_per_head && batch.selected_heads() != pages.planes().key.num_heads)
    refuse_argument("selected: lists of {} KV heads, expected {} (of the pages)",
                    batch.selected_heads(), pages.planes().key.num_heads);
  options_.alibi_positions = batch.batch().alibi_positions != nullptr;
}

void AttendCall::take_out(const AttendArrays& arrays, int32_t v_head_size, int64_t tokens) {
  if (!arrays.out.is_none()) {
    out_ = writable_array_of(arrays.out, "out");
    rows_of(out_, tokens);
    args_.out = writable_tensor_of(out_, tokens);
    out_result_ = nb::borrow(arrays.out);
    return;
  }
  out_result_ = empty_like(arrays.q, q_, {q_.extent[0], q_heads_, v_head_size}, q_.dtype);
  out_ = array_of(out_result_, "out");
  args_.out = writable_tensor_of(out_, tokens);
  clear_padding(out_, args_.out);
}

void AttendCall::take_lse(const AttendArrays& arrays, int64_t tokens) {
  bool is_wanted = false;
  if (arrays.lse.is_none() || (nb::try_cast(arrays.lse, is_wanted) && !is_wanted)) return;
  if (is_wanted) {
    lse_result_ = empty_like(arrays.q, q_, {q_.extent[0], q_heads_}, DType::f32);
    lse_ = array_of(lse_result_, "lse");
  } else {
    lse_ = writable_array_of(arrays.lse, "lse");
  }
  const bool is_dense = lse_.ndim == 2 && lse_.dtype == DType::f32 && lse_.extent[1] == q_heads_ &&
                        lse_.extent[0] >= tokens && (q_heads_ == 1 || lse_.stride[1] == 1) &&
                        (lse_.extent[0] <= 1 || lse_.stride[0] == q_heads_);
  if (!is_dense)
    refuse_argument("lse: expected contiguous f32[{}, {}], got {}", tokens, q_heads_,
                    lse_.description());
  args_.lse = static_cast<float*>(lse_.data);
  if (is_wanted && lse_.extent[0] > tokens)
    std::fill(args_.lse + tokens * q_heads_, args_.lse + lse_.extent[0] * q_heads_, 0.0f);
}

void AttendCall::take_bias(nb::handle bias, const BatchHolder& batch) {
  if (bias.is_none()) return;
  bias_ = array_of(bias, "bias");
  const bool is_per_sequence = bias_.ndim == 4;
  const Array rows = is_per_sequence ? without_first(bias_) : bias_;
  expect_ndim(rows, 3, "[q_heads or 1, tokens, keys], or with [batch or 1] before them");
  const int64_t tokens = is_per_sequence ? batch.max_new_tokens() : batch.tokens();
  if (!is_activation(bias_.dtype) || (rows.extent[0] != 1 && rows.extent[0] != q_heads_) ||
      rows.extent[1] < tokens || rows.extent[2] < batch.max_context())
    refuse_argument("bias: expected f32, bf16 or f16 [{}{} or 1, {}, {} or more], got {}",
                    is_per_sequence ? "batch, " : "", q_heads_, tokens, batch.max_context(),
                    bias_.description());
  args_.bias = tensor_of(rows);
  args_.bias.extent[1] = tokens;
  options_.bias = args_.bias.data != nullptr;
  if (!options_.bias) return;  // without elements
  options_.bias_dtype = bias_.dtype;
  options_.bias_per_sequence = is_per_sequence;
  if (!is_per_sequence || bias_.extent[0] == 1) return;
  if (bias_.extent[0] != batch.batch().size)
    refuse_argument("bias: expected {} sequences or 1 in the first dimension, got {}",
                    batch.batch().size, bias_.description());
  args_.bias_sequence_stride_bytes = bias_.stride[0] * bias_.item_bytes();
}

void AttendCall::take_sinks(nb::handle sinks, int64_t tokens) {
  if (sinks.is_none()) return;
  sinks_ = array_of(sinks, "sinks");
  const Array& a = sinks_;
  const bool is_per_query = a.ndim == 2;
  const int heads = a.ndim - 1;
  const bool fits =
      is_activation(a.dtype) && (a.ndim == 1 || a.ndim == 2) && a.extent[heads] == q_heads_ &&
      (q_heads_ == 1 || a.stride[heads] == 1) &&
      (!is_per_query || (a.extent[0] >= tokens && (a.extent[0] <= 1 || a.stride[0] >= q_heads_)));
  if (!fits)
    refuse_argument(
        "sinks: expected f32, bf16 or f16 [{}] or [{}, {}] with contiguous rows, got {}", q_heads_,
        tokens, q_heads_, a.description());
  args_.sink_logits = a.data;
  options_.sink_logits = a.data != nullptr;
  if (!options_.sink_logits) return;  // without elements
  options_.sink_dtype = a.dtype;
  options_.sink_per_query = is_per_query;
  if (is_per_query && a.extent[0] > 1) args_.sink_stride = a.stride[0];
}

void AttendCall::expect_forms(const AttentionProblem& problem) const {
  if (options_.sink_logits && problem.sink_logits &&
      (options_.sink_per_query != problem.sink_per_query ||
       options_.sink_dtype != problem.sink_dtype))
    refuse_argument("sinks: expected {}[{}q_heads] (the Attention was made for them), got {}",
                    problem.sink_dtype, problem.sink_per_query ? "tokens, " : "",
                    sinks_.description());
  if (options_.bias && problem.bias && options_.bias_per_sequence != problem.bias_per_sequence)
    refuse_argument("bias: expected {} dimensions (the Attention was made for them), got {}",
                    problem.bias_per_sequence ? 4 : 3, bias_.description());
}

nb::object AttendCall::result() const {
  if (!lse_result_.is_valid()) return out_result_;
  return nb::make_tuple(out_result_, lse_result_);
}

void append_rows(const BatchHolder* batch, const Pages& pages, const AppendArrays& arrays) {
  pages.expect_writable("append");
  const Array k = array_of(arrays.k, "k");
  const Slots slots(arrays.slots);
  if (batch == nullptr && arrays.slots.is_none())
    refuse_argument("append: expected a batch or slots");
  const int64_t rows = batch != nullptr ? batch->tokens() : slots.count;
  if (!arrays.slots.is_none() && slots.count < rows)
    refuse_argument("slots: expected one for each of {} tokens, got {}", rows, slots.count);
  const PagedKVView& key = pages.planes().key;
  if (arrays.slots.is_none()) batch->expect_room(key.page_size);
  AppendArgs args;
  args.k = rows_of(k, rows);
  Array v, norm, shift;
  if (!arrays.v.is_none()) {
    v = array_of(arrays.v, "v");
    args.v = rows_of(v, rows);
  }
  args.key = key;
  args.value = pages.planes().value;
  args.slots = slots.data;
  args.k_norm = floats_of(arrays.k_norm.weights, "k_norm", {key.head_size}, norm);
  args.k_norm_shift = floats_of(arrays.k_norm.shifts, "k_norm_shift", {key.head_size}, shift);
  args.norm_eps = arrays.k_norm.eps;
  if (arrays.rope != nullptr) {
    arrays.rope->expect_tokens(rows);
    args.rope = &arrays.rope->rope;
  }
  PageSummaries summaries;
  if (arrays.summaries != nullptr) {
    arrays.summaries->expect_writable("append");
    summaries = summaries_of(*arrays.summaries, pages);
    args.summaries = &summaries;
  }
  const Batch none;
  const Executor executor = current_executor();
  Status status;
  {
    const WithoutGil released;
    status = append(batch != nullptr ? batch->batch() : none, args, executor);
  }
  status.or_throw();
}

void rotate_rows(const BatchHolder* batch, const Array& q, const RopeTable* rope,
                 const RotateOptions& options, const AnyTensor<3>& out) {
  RotateArgs args;
  args.q = rows_of(q, out.extent[0]);
  args.out = out;
  const int64_t size = args.q.extent[2];
  Array norm, shift;
  args.q_norm = floats_of(options.q_norm.weights, "q_norm", {size}, norm);
  args.q_norm_shift = floats_of(options.q_norm.shifts, "q_norm_shift", {size}, shift);
  args.norm_eps = options.q_norm.eps;
  if (options.pages != nullptr) args.key = &options.pages->planes().key;
  if (rope != nullptr) {
    rope->expect_tokens(out.extent[0]);
    args.rope = &rope->rope;
  }
  const Batch none;
  const Executor executor = current_executor();
  Status status;
  {
    const WithoutGil released;
    status = rotate(batch != nullptr ? batch->batch() : none, args, executor);
  }
  status.or_throw();
}

nb::object rotate_q(const BatchHolder* batch, nb::handle q, const RopeTable* rope,
                    const RotateOptions& options, nb::handle out) {
  const Array rows = array_of(q, "q");
  const int64_t tokens = batch != nullptr && rows.ndim == 3 && rows.extent[0] >= batch->tokens()
                             ? batch->tokens()
                             : -1;
  expect_ndim(rows, 3, "[tokens, heads, dim]");
  nb::object result =
      out.is_none()
          ? empty_like(q, rows, {rows.extent[0], rows.extent[1], rows.extent[2]}, rows.dtype)
          : nb::borrow(out);
  const Array target = writable_array_of(result, "out");
  rows_of(target, tokens);
  if (tokens < 0 && target.extent[0] != rows.extent[0])
    refuse_argument("out: expected {} rows (those of q), got {}", rows.extent[0],
                    target.description());
  const AnyTensor<3> turned = writable_tensor_of(target, tokens);
  rotate_rows(batch, rows, rope, options, turned);
  if (out.is_none()) clear_padding(target, turned);
  return result;
}

}  // namespace folio::python
