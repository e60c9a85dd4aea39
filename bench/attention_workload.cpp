// SPDX-License-Identifier: Apache-2.0
/// bench/attention_workload.cpp: inputs of the attention benches, and
/// their check against the reference.
#include "attention_workload.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "attention/kernel_list.h"
#include "attention_memory.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "support/tolerance.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr float q_amplitude = 3.0f;  // logits with a deviation of about 1
constexpr int64_t reference_keys_max = 16384;

}  // namespace

Workload::Workload(const WorkloadShape& shape, const std::string& kernel, int threads)
    : shape_(shape),
      v_head_size_(shape.v_head_size == 0 ? shape.head_size : shape.v_head_size),
      activation_(shape.dtype == DType::f32 ? DType::f32 : DType::bf16),
      threads_(threads),
      batches_(1),
      watch_(std::make_unique<Watch>()) {
  page_bytes_ = page_bytes_of_both();
  if (shape_.cold)
    batches_ = std::max<int64_t>(
        1, static_cast<int64_t>(std::ceil(4.0 * static_cast<double>(cache_bytes()) / bytes())));
  make_planes();
  const int32_t longest = std::max(shape_.context, shape_.first_context);
  const AttentionLimits limits{.batch = shape_.sequences,
                               .tokens = shape_.sequences * shape_.new_tokens,
                               .context = longest,
                               .parallelism = threads};
  attention_ = Attention::create(problem(), limits, {}, kernel).value();
  workspace_.emplace(attention_.workspace_bytes());
  make_steps();
}

int32_t Workload::context_of(int32_t sequence) const {
  return sequence == 0 && shape_.first_context > 0 ? shape_.first_context : shape_.context;
}

int64_t Workload::shared_pages(int64_t row) const {
  return row % shape_.sequences == 0 ? 0 : shape_.shared / shape_.page_size;
}

int64_t Workload::pages_of_batch() const {
  int64_t pages = 0;
  for (int32_t b = 0; b < shape_.sequences; ++b)
    pages += (context_of(b) + shape_.page_size - 1) / shape_.page_size - shared_pages(b);
  return pages;
}

void Workload::make_steps() {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> ids(static_cast<size_t>(pages_of_batch() * batches_));
  std::iota(ids.begin(), ids.end(), 0u);
  std::shuffle(ids.begin(), ids.end(), random);
  table_stride_ =
      (std::max(shape_.context, shape_.first_context) + shape_.page_size - 1) / shape_.page_size;
  pages_.assign(static_cast<size_t>(batches_ * shape_.sequences * table_stride_), ~0u);
  size_t used = 0;
  for (int64_t row = 0; row < batches_ * shape_.sequences; ++row) {
    const int32_t context = context_of(static_cast<int32_t>(row % shape_.sequences));
    const int64_t first_row = row / shape_.sequences * shape_.sequences;
    for (int64_t p = 0; p * shape_.page_size < context; ++p)
      pages_[static_cast<size_t>(row * table_stride_ + p)] =
          p < shared_pages(row) ? pages_[static_cast<size_t>(first_row * table_stride_ + p)]
                                : ids[used++];
  }

  make_lists();
  for (int32_t b = 0; b <= shape_.sequences; ++b) offsets_.push_back(b * shape_.new_tokens);
  for (int32_t b = 0; b < shape_.sequences; ++b) contexts_.push_back(context_of(b));
  const int64_t rows = static_cast<int64_t>(shape_.sequences) * shape_.new_tokens * shape_.q_heads;
  q_.resize(static_cast<size_t>(rows * shape_.head_size * element_bytes(activation_)));
  out_.resize(static_cast<size_t>(rows * v_head_size_ * element_bytes(activation_)));
  // not the numbers of K: a row of K that is a multiple of a row of q would outweigh all others
  repeat(random_elements(activation_, -q_amplitude, q_amplitude, seed + 1), q_.data(),
         static_cast<int64_t>(q_.size()));
  for (int64_t i = 0; i < batches_; ++i) {
    Step step;
    step.batch.size = shape_.sequences;
    step.batch.query_offsets = offsets_.data();
    step.batch.context_lengths = contexts_.data();
    step.batch.table = {pages_.data() + i * shape_.sequences * table_stride_, table_stride_,
                        nullptr};
    if (shape_.selected > 0) {
      step.batch.selected =
          lists_.data() + i * shape_.sequences * shape_.new_tokens * shape_.selected;
      step.batch.selected_stride = shape_.selected;
    }
    step.memory = std::make_unique<HugeMemory>(attention_.plan_bytes());
    step.plan = plan(attention_, step.batch, {step.memory->data(), step.memory->bytes()}).value();
    steps_.push_back(std::move(step));
  }
}

void Workload::make_lists() {
  if (shape_.selected == 0) return;
  std::mt19937_64 random(seed);
  for (int64_t row = 0; row < batches_ * shape_.sequences; ++row) {
    std::vector<int32_t> slots;
    for (int32_t key = 0; key < context_of(static_cast<int32_t>(row % shape_.sequences)); ++key) {
      const uint32_t page =
          pages_[static_cast<size_t>(row * table_stride_ + key / shape_.page_size)];
      slots.push_back(static_cast<int32_t>(page) * shape_.page_size + key % shape_.page_size);
    }
    for (int32_t t = 0; t < shape_.new_tokens; ++t) {
      std::shuffle(slots.begin(), slots.end(), random);
      lists_.insert(lists_.end(), slots.begin(), slots.begin() + shape_.selected);
    }
  }
}

AttentionProblem Workload::problem() const {
  AttentionProblem p;
  p.key = planes_.key;
  p.value = planes_.value;
  p.value_in_key = shape_.value_in_key;
  p.v_head_size = v_head_size_;
  p.q_heads = shape_.q_heads;
  p.q_dtype = p.out_dtype = activation_;
  p.bf16_operands = shape_.bf16_operands;
  p.int8_operands = shape_.int8_operands;
  p.selection = shape_.selected > 0;
  p.mask = shape_.mask;
  return p;
}

AttentionArgs Workload::inputs() const {
  const int64_t tokens = static_cast<int64_t>(shape_.sequences) * shape_.new_tokens;
  AttentionArgs a;
  a.q = dense_tensor<3>(q_.data(), activation_, {tokens, shape_.q_heads, shape_.head_size});
  a.key = planes_.key;
  a.value = planes_.value;
  return a;
}

Executor Workload::executor() const {
  watch_->inner = default_executor(threads_);
  const auto concurrency = [](void* context) {
    const Executor& inner = static_cast<Watch*>(context)->inner;
    return inner.concurrency(inner.context);
  };
  const auto parallel_for = [](void* context, int64_t n, void (*task)(void*, int64_t) noexcept,
                               void* arg) {
    Watch& watch = *static_cast<Watch*>(context);
    watch.task = task;
    watch.arg = arg;
    watch.seconds.assign(static_cast<size_t>(n), 0.0);
    const auto begin = Clock::now();
    watch.inner.parallel_for(
        watch.inner.context, n,
        [](void* self, int64_t i) noexcept {
          Watch& w = *static_cast<Watch*>(self);
          const auto start = Clock::now();
          w.task(w.arg, i);
          w.seconds[static_cast<size_t>(i)] =
              std::chrono::duration<double>(Clock::now() - start).count();
        },
        &watch);
    watch.wall = std::chrono::duration<double>(Clock::now() - begin).count();
  };
  return {watch_.get(), concurrency, parallel_for};
}

void Workload::run() {
  Step& step = steps_[next_++ % steps_.size()];
  AttentionArgs args = inputs();
  args.out =
      dense_tensor<3>(out_.data(), activation_, {args.q.extent[0], shape_.q_heads, v_head_size_});
  // The constructor made it. NOLINTNEXTLINE(bugprone-unchecked-optional-access)
  attend(attention_, step.plan, args, {workspace_->data(), workspace_->bytes()}, executor())
      .or_throw();
}

double Workload::busy() const {
  return std::accumulate(watch_->seconds.begin(), watch_->seconds.end(), 0.0);
}

std::string Workload::kernel() const { return std::string(kernel_of(attention_, steps_[0].plan)); }

std::string Workload::check() const {
  const Step& step = steps_[(next_ + steps_.size() - 1) % steps_.size()];
  const auto& list = kernels();
  const auto entry = std::find_if(list.begin(), list.end(),
                                  [name = kernel()](const Kernel& k) { return k.name == name; });
  const DType coarsest = entry->weights != DType::f32 ? entry->weights : activation_;
  const bool is_rounded = block_elements(shape_.dtype) > 1 || shape_.bf16_operands ||
                          shape_.scales == ScaleForm::granule_of_32;
  const DType operands = is_rounded ? coarsest : DType::f32;
  const test::AccuracyDemand demand =
      test::accuracy_demand(test::Precision{coarsest, operands, operands});
  test::RelativeRms error;
  int64_t keys = 0;
  for (const int32_t b : {shape_.sequences - 1, 0}) {
    for (const int32_t head : {shape_.q_heads - 1, 0}) {
      if (keys > 0 && keys + context_of(b) > reference_keys_max) continue;
      keys += context_of(b);
      const int64_t row = static_cast<int64_t>(b + 1) * shape_.new_tokens - 1;
      const auto expected =
          reference::attend_query(attention_.problem(), step.batch, inputs(), b, row, head);
      const int64_t first = (row * shape_.q_heads + head) * v_head_size_;
      for (int32_t d = 0; d < v_head_size_; ++d)
        error.add(
            reference::load(out_.data() + (first + d) * element_bytes(activation_), activation_),
            expected.out[static_cast<size_t>(d)]);
    }
  }
  if (error.value() <= demand.relative_rms) return {};
  return "differs from the reference by " + std::to_string(error.value()) +
         " (relative RMS), more than " + std::to_string(demand.relative_rms);
}

}  // namespace folio::bench
