// SPDX-License-Identifier: Apache-2.0
/// python/src/over.cpp: attention over cached pages and over new rows that are not stored yet: two
/// attends, a merge, then the append.
#include <algorithm>

#include "executor.h"
#include "folio/attention/merge.h"
#include "step.h"
#include "without_gil.h"

namespace folio::python {
namespace {

/// The step's batch without its new keys, and the new keys alone, both at their true positions.
struct Halves {
  std::vector<int32_t> old_lengths, new_lengths, positions;
  std::vector<uint32_t> first_rows;
  Batch cached, fresh;

  explicit Halves(const BatchHolder& whole) {
    const Batch& b = whole.batch();
    for (int32_t i = 0; i < b.size; ++i) {
      const int32_t count = b.query_offsets[i + 1] - b.query_offsets[i];
      const int32_t before = b.context_lengths[i] - count;
      if (before < 0)
        refuse_argument("over: context_lengths[{}] is {}, expected at least the {} new tokens", i,
                        b.context_lengths[i], count);
      const int32_t first = (b.key_positions != nullptr ? b.key_positions[i] : 0) + before;
      old_lengths.push_back(before);
      new_lengths.push_back(count);
      positions.push_back(first);
      first_rows.push_back(static_cast<uint32_t>(b.query_offsets[i]));
    }
    cached = fresh = b;
    cached.context_lengths = old_lengths.data();
    fresh.context_lengths = new_lengths.data();
    fresh.key_positions = positions.data();
    fresh.table = {first_rows.data(), 1, nullptr};
    if (b.query_positions == nullptr)
      cached.query_positions = fresh.query_positions = positions.data();
  }
};

/// One half's output and lse in float32.
struct Part {
  AnyTensor<3> out;
  float* lse;
  Scratch memory;

  Part(int64_t tokens, int64_t heads, int64_t dim) : memory(tokens * heads * (dim + 1) * 4) {
    out = dense_tensor<3>(memory.data(), DType::f32, {tokens, heads, dim});
    lse = reinterpret_cast<float*>(memory.data()) + tokens * heads * dim;
  }
  [[nodiscard]] Partial partial() const { return {out, lse}; }
};

void attend_half(Kind& kind, const Pages& pages, const Batch& batch, AttentionArgs args,
                 CallOptions call, Part& part) {
  call.out_dtype = DType::f32;
  args.key = pages.planes().key;
  args.value = pages.planes().value;
  args.out = part.out;
  args.lse = part.lse;
  const Executor executor = current_executor();
  const int32_t* lengths = batch.context_lengths;
  const AttentionLimits limits{
      batch.size, batch.query_offsets[batch.size],
      std::max(1, batch.size > 0 ? *std::max_element(lengths, lengths + batch.size) : 1),
      executor.concurrency(executor.context)};
  const Attention attention = kind.attention(pages, call, limits);
  const Scratch memory(attention.plan_bytes()), workspace(attention.workspace_bytes());
  const AttentionPlan made = take(plan(attention, batch, memory.span()));
  const WithoutGil released;
  attend(attention, made, args, workspace.span(), executor).or_throw();
}

/// New rows as planes without pages.
Pages ragged_rows(const ConstTensor<3>& k, const ConstTensor<3>& v) {
  const auto plane = [](const ConstTensor<3>& t) -> PagedKVView {
    if (t.data == nullptr) return {};
    return {const_cast<void*>(t.data),
            t.dtype,
            static_cast<int32_t>(t.extent[1]),
            static_cast<int32_t>(t.extent[2]),
            unbounded_page_size,
            t.extent[0],
            t.stride_bytes[0],
            t.stride_bytes[0],
            t.stride_bytes[1],
            {}};
  };
  return {KVPlanes{plane(k), plane(v)}, nullptr, false};
}

}  // namespace

nb::object attend_over(Step& step, nb::handle kind_object, const Pages& pages,
                       const AttendArrays& arrays, nb::handle k, nb::handle v) {
  auto& kind = nb::cast<Kind&>(kind_object);
  if (step.batch().tree != nullptr)
    throw Error(fail(Errc::unsupported, "over: a tree is not served"));
  if (step.batch().selected != nullptr || step.batch().alibi_positions != nullptr)
    throw Error(fail(Errc::unsupported, "over: {} of single keys are not served",
                     step.batch().selected != nullptr ? "lists (selected)" : "alibi_positions"));
  if (kind.options().q_is_turned)
    throw Error(fail(Errc::unsupported, "over: q_is_turned is not served: k is not turned yet"));
  pages.expect_writable("over");
  step.expect_room(pages.planes().key.page_size);
  const AttendCall call(arrays, kind, pages, step);
  const Array key_rows = array_of(k, "k");
  const Array value_rows = v.is_none() ? Array{} : array_of(v, "v");
  const ConstTensor<3> key = tensor_of(key_rows, step.tokens());
  const ConstTensor<3> value =
      v.is_none() ? ConstTensor<3>{} : tensor_of(value_rows, step.tokens());
  if (key.extent[0] < step.tokens())
    refuse_argument("k: expected at least {} rows (the batch's new tokens), got {}", step.tokens(),
                    key_rows.description());
  const Halves halves(step);
  const ConstTensor<3> out = call.args().out;
  Part cached(out.extent[0], out.extent[1], kind.v_head_size(pages.planes()));
  Part fresh(out.extent[0], out.extent[1], kind.v_head_size(pages.planes()));
  attend_half(kind, pages, halves.cached, call.args(), call.options(), cached);
  // A sink logit enters the denominator once.
  AttentionArgs args = call.args();
  CallOptions options = call.options();
  args.sink_logits = nullptr;
  args.sink_stride = 0;
  options.sink_logits = options.sink_per_query = false;
  options.sink_dtype = DType::f32;
  attend_half(kind, ragged_rows(key, value), halves.fresh, args, options, fresh);
  const Partial parts[] = {cached.partial(), fresh.partial()};
  const Executor executor = current_executor();
  {
    const WithoutGil released;
    merge(parts, call.args().out, call.args().lse, executor).or_throw();
  }
  append_rows(&step, pages, {k, v, nb::none()});
  return call.result();
}

}  // namespace folio::python
