// SPDX-License-Identifier: Apache-2.0
/// cli/replay/layer_runner.cpp: memory of steps, append and attend.
#include "replay/layer_runner.h"

#include <utility>

#include "folio/attention/append.h"
#include "folio/attention/visible_keys.h"
#include "folio/cache/copy.h"
#include "load/synthetic.h"
#include "parts/parallel.h"
#include "replay/verify.h"

namespace folio::cli {
namespace {

/// The test build that must fail --verify leaves out one append.
constexpr bool skips_append([[maybe_unused]] int64_t step, [[maybe_unused]] int32_t layer) {
#ifdef FOLIO_MUTANT_SKIP_APPEND
  return step == 1 && layer == 0;
#else
  return false;
#endif
}

// Values of a token in one of the activations.
int64_t q_width(const ModelShape& m) { return int64_t{m.q_heads} * m.head_size; }
int64_t k_width(const ModelShape& m) { return int64_t{m.kv_heads} * m.head_size; }
int64_t v_width(const ModelShape& m) { return m.is_mla ? 0 : int64_t{m.kv_heads} * m.v_head_size; }
int64_t out_width(const ModelShape& m) { return int64_t{m.q_heads} * m.v_head_size; }
constexpr int64_t float_bytes = sizeof(float);

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

}  // namespace

Result<LayerRunner> LayerRunner::create(const LayerRunnerOptions& options,
                                        const Executor& executor) {
  const auto geometry = make_planes(options.shape, options.pages, {});
  if (!geometry) return geometry.error();
  AttentionProblem problem = problem_of(options.model, geometry->front());
  problem.mask = options.mask;
  const auto attention = Attention::create(problem, options.limits);
  if (!attention) return attention.error();
  return LayerRunner(options, executor, *attention);
}

int64_t LayerRunner::block_bytes() const { return options_.pages * *page_bytes(options_.shape); }
int64_t LayerRunner::scale_bytes() const {
  return options_.pages * *scale_page_bytes(options_.shape);
}

double LayerRunner::required_bytes() const {
  const ModelShape& m = options_.model;
  const int64_t token = (q_width(m) + k_width(m) + v_width(m) + out_width(m)) * float_bytes;
  return static_cast<double>(options_.limits.tokens) * static_cast<double>(token) +
         static_cast<double>(attention_.plan_bytes()) +
         static_cast<double>(attention_.workspace_bytes());
}

Status LayerRunner::allocate(MemorySpan blocks, MemorySpan scales) {
  const ModelShape& m = options_.model;
  const int64_t tokens = options_.limits.tokens;
  const std::pair<Buffer*, int64_t> wanted[] = {
      {&q_, tokens * q_width(m) * float_bytes}, {&k_, tokens * k_width(m) * float_bytes},
      {&v_, tokens * v_width(m) * float_bytes}, {&out_, tokens * out_width(m) * float_bytes},
      {&plan_, attention_.plan_bytes()},        {&workspace_, attention_.workspace_bytes()}};
  for (const auto& [buffer, bytes] : wanted) {
    Result<Buffer> memory = Buffer::allocate(bytes);
    if (!memory) return fail(Errc::out_of_memory, "replay: no memory for {} bytes", bytes);
    *buffer = std::move(*memory);
  }
  auto planes = make_planes(options_.shape, options_.pages, blocks, scales);
  if (!planes) return planes.error();
  planes_ = std::move(*planes);
  return {};
}

Status LayerRunner::run(const Step& step, const Batch& batch, std::span<const PageCopy> copies,
                        Verifier* verifier) {
  if (!copies.empty()) {
    const Timed timed(totals_.copy_seconds);
    if (Status s = copy_pages(planes_, planes_, copies, executor_); !s.is_ok()) return s;
  }
  Result<AttentionPlan> plan = [&] {
    const Timed timed(totals_.plan_seconds);
    return folio::plan(attention_, batch, plan_.span());
  }();
  if (!plan) return plan.error();
  for (int32_t layer = 0; layer < options_.model.layers; ++layer) {
    const int32_t of_model = options_.first_layer + layer;
    invent(step, of_model);
    if (!skips_append(step.number, of_model)) {
      if (Status s = append_layer(step, batch, layer); !s.is_ok()) return s;
    }
    if (Status s = attend_layer(*plan, step.tokens(), layer); !s.is_ok()) return s;
    if (verifier != nullptr) verifier->capture(step, of_model, floats(out_));
  }
  count(step);
  return {};
}

// q, k and v of the step's tokens, as a model would hand them over.
void LayerRunner::invent(const Step& step, int32_t layer) {
  const Timed timed(totals_.generate_seconds);
  const ModelShape& m = options_.model;
  const auto fill = [&](const RowName& token, Role role, int32_t heads, int32_t head_size,
                        float* rows) {
    RowName name = token;
    name.role = role;
    for (name.head = 0; name.head < heads; ++name.head) {
      fill_row(name, {rows + int64_t{name.head} * head_size, static_cast<size_t>(head_size)});
    }
  };
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const StepEntry& entry = step.entries[i];
    const int64_t row = step.query_offsets[i];
    parallel_for(executor_, entry.new_tokens, [&, row](int64_t t) {
      const int64_t position = entry.sequence->done + t;
      const RowName name{.token = entry.sequence->tokens[static_cast<size_t>(position)],
                         .position = position,
                         .layer = layer};
      fill(name, Role::query, m.q_heads, m.head_size, floats(q_) + (row + t) * q_width(m));
      fill(name, Role::key, m.kv_heads, m.head_size, floats(k_) + (row + t) * k_width(m));
      if (!m.is_mla)
        fill(name, Role::value, m.kv_heads, m.v_head_size, floats(v_) + (row + t) * v_width(m));
    });
  }
}

Status LayerRunner::append_layer(const Step& step, const Batch& batch, int32_t layer) {
  const Timed timed(totals_.append_seconds);
  const ModelShape& m = options_.model;
  const KVPlanes& planes = planes_[static_cast<size_t>(layer)];
  AppendArgs args;
  args.k = dense_tensor<3>(floats(k_), DType::f32, {step.tokens(), m.kv_heads, m.head_size});
  if (!m.is_mla)
    args.v = dense_tensor<3>(floats(v_), DType::f32, {step.tokens(), m.kv_heads, m.v_head_size});
  args.key = planes.key;
  args.value = planes.value;
  return append(batch, args, executor_);
}

Status LayerRunner::attend_layer(const AttentionPlan& plan, int64_t tokens, int32_t layer) {
  const Timed timed(totals_.attend_seconds);
  const ModelShape& m = options_.model;
  const KVPlanes& planes = planes_[static_cast<size_t>(layer)];
  AttentionArgs args;
  args.q = dense_tensor<3>(floats(q_), DType::f32, {tokens, m.q_heads, m.head_size});
  args.out = dense_tensor<3>(floats(out_), DType::f32, {tokens, m.q_heads, m.v_head_size});
  args.key = planes.key;
  args.value = planes.value;
  return attend(attention_, plan, args, workspace_.span(), executor_);
}

void LayerRunner::count(const Step& step) {
  const ModelShape& m = options_.model;
  const double token_bytes =  // of all layers
      static_cast<double>(*page_bytes(options_.shape) + *scale_page_bytes(options_.shape)) /
      options_.shape.page_size;
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const int64_t context = step.context_lengths[i];
    const int64_t done = context - step.entries[i].new_tokens;
    int64_t visible = 0;
    for (int64_t position = done; position < context; ++position) {
      const Interval keys = visible_keys(options_.mask, position, 0, context).keys;
      visible += keys.end - keys.begin;
    }
    const int64_t first = visible_keys(options_.mask, done, 0, context).keys.begin;
    totals_.attended_bytes += static_cast<double>(context - first) * token_bytes;
    totals_.attended_flops +=
        static_cast<double>(visible) * m.q_heads * 2.0 * (m.head_size + m.v_head_size) * m.layers;
  }
}

void LayerTotals::add(const LayerTotals& more) {
  generate_seconds += more.generate_seconds;
  plan_seconds += more.plan_seconds;
  copy_seconds += more.copy_seconds;
  append_seconds += more.append_seconds;
  attend_seconds += more.attend_seconds;
  attended_bytes += more.attended_bytes;
  attended_flops += more.attended_flops;
}

}  // namespace folio::cli
