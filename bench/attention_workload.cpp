// SPDX-License-Identifier: Apache-2.0
/// bench/attention_workload.cpp: inputs of the attention benches.
#include "attention_workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "reference/attention.h"

namespace folio::bench {
namespace {

constexpr uint64_t seed = 20240607;

KVShape kv_shape(const WorkloadShape& s) {
  return {.num_layers = 1,
          .num_heads = s.kv_heads,
          .head_size = s.head_size,
          .page_size = s.page_size,
          .dtype = s.dtype,
          .order = s.order};
}

Attention create(const AttentionProblem& problem, const WorkloadShape& s, const std::string& kernel, int threads) {
  const AttentionLimits limits{
      .batch = s.sequences, .tokens = s.sequences * s.new_tokens, .context = s.context, .parallelism = threads};
  return Attention::create(problem, limits, {}, kernel).value();
}

}  // namespace

Workload::Workload(const WorkloadShape& shape, const std::string& kernel, int threads)
    : shape_(shape),
      threads_(threads),
      pages_per_sequence_((shape.context + shape.page_size - 1) / shape.page_size),
      page_bytes_(folio::page_bytes(kv_shape(shape)).value()),
      memory_(page_bytes_ * pages_per_sequence_ * shape.sequences),
      pages_(static_cast<size_t>(pages_per_sequence_) * static_cast<size_t>(shape.sequences)),
      planes_(make_planes(kv_shape(shape), static_cast<int64_t>(pages_.size()), {memory_.data(), memory_.bytes()}).value()[0]),
      attention_(create(problem(), shape, kernel, threads)),
      plan_memory_(attention_.plan_bytes()),
      workspace_(attention_.workspace_bytes()) {
  fill();
  batch_.size = shape.sequences;
  batch_.query_offsets = offsets_.data();
  batch_.context_lengths = contexts_.data();
  batch_.table = {pages_.data(), pages_per_sequence_, nullptr};
  plan_ = plan(attention_, batch_, {plan_memory_.data(), plan_memory_.bytes()}).value();
}

void Workload::fill() {
  std::mt19937_64 random(seed);
  std::iota(pages_.begin(), pages_.end(), 0u);
  std::shuffle(pages_.begin(), pages_.end(), random);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  // A prime number of distinct values, repeated: filling gigabytes must not take longer than measuring.
  std::vector<std::byte> values(4099 * 4);
  const int element = bit_width(shape_.dtype) / 8;
  for (size_t i = 0; i < 4099; ++i) {
    const float x = uniform(random);
    visit_dtype(shape_.dtype, [&]<class T>(type_tag<T>) {
      if constexpr (Element<T>) {
        const T stored = from_float<T>(x);
        std::copy_n(reinterpret_cast<const std::byte*>(&stored), sizeof(T), values.begin() + static_cast<int64_t>(i * sizeof(T)));
      }
    });
  }
  const int64_t pattern = int64_t{4099} * element;
  for (int64_t at = 0; at < memory_.bytes(); at += pattern)
    std::copy_n(values.begin(), std::min(pattern, memory_.bytes() - at), memory_.data() + at);
  const int64_t tokens = static_cast<int64_t>(shape_.sequences) * shape_.new_tokens;
  q_.resize(static_cast<size_t>(tokens * shape_.q_heads * shape_.head_size));
  out_.resize(q_.size());
  for (float& x : q_) x = uniform(random);
  contexts_.assign(static_cast<size_t>(shape_.sequences), shape_.context);
  for (int32_t b = 0; b <= shape_.sequences; ++b) offsets_.push_back(b * shape_.new_tokens);
}

AttentionProblem Workload::problem() const {
  AttentionProblem p;
  p.key = planes_.key;
  p.value = planes_.value;
  p.q_heads = shape_.q_heads;
  p.q_dtype = p.out_dtype = DType::f32;
  p.mask = shape_.mask;
  p.reproducible = Reproducible::per_query;
  return p;
}

AttentionArgs Workload::args() const {
  const int64_t tokens = static_cast<int64_t>(shape_.sequences) * shape_.new_tokens;
  AttentionArgs a;
  a.q = dense_tensor<3>(q_.data(), DType::f32, {tokens, shape_.q_heads, shape_.head_size});
  a.out = dense_tensor<3>(out_.data(), DType::f32, {tokens, shape_.q_heads, shape_.head_size});
  a.key = planes_.key;
  a.value = planes_.value;
  return a;
}

void Workload::run() {
  attend(attention_, plan_, args(), {workspace_.data(), workspace_.bytes()}, default_executor(threads_)).or_throw();
}

std::string Workload::check() const {
  for (const int32_t b : {0, shape_.sequences - 1}) {
    const int64_t row = static_cast<int64_t>(b + 1) * shape_.new_tokens - 1;
    const int32_t head = shape_.q_heads - 1;
    const auto expected = reference::attend_query(attention_.problem(), batch_, args(), b, row, head);
    const float* got = out_.data() + (row * shape_.q_heads + head) * shape_.head_size;
    for (int32_t d = 0; d < shape_.head_size; ++d)
      if (!(std::abs(expected.out[static_cast<size_t>(d)] - got[d]) < 1e-5))
        return "row " + std::to_string(row) + " differs from the reference by more than 1e-5";
  }
  return {};
}

double Workload::bytes() const { return static_cast<double>(page_bytes_) * static_cast<double>(pages_.size()); }

double Workload::flops() const {
  double pairs = 0.0;
  for (int32_t t = 0; t < shape_.new_tokens; ++t) {
    const Visible v = visible_keys(shape_.mask, shape_.context - shape_.new_tokens + t, 0, shape_.context);
    pairs += static_cast<double>(v.sinks + v.keys.end - v.keys.begin);
  }
  return 4.0 * pairs * shape_.sequences * shape_.q_heads * shape_.head_size;
}

}  // namespace folio::bench
