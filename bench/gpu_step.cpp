// SPDX-License-Identifier: Apache-2.0
/// bench/gpu_step.cpp: memory, views and calls of a step on a CUDA device.
#include "gpu_step.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "folio/core/element.h"

namespace folio::bench {
namespace {

void must(const Status& status) {
  if (status.code() == Errc::unsupported) throw Unsupported(std::string(status.message()));
  if (!status.is_ok()) throw std::runtime_error(std::string(status.message()));
}

int64_t bytes_of(int64_t elements, DType dtype) { return elements * bit_width(dtype) / 8; }

/// Finite numbers of both signs between 1/2 and 2, different everywhere.
test::CudaMemory random_memory(const test::CudaDevice& device, int64_t bytes, DType dtype,
                               uint64_t seed) {
  constexpr int64_t distinct = int64_t{8} << 20;
  const bool is_byte = bit_width(dtype) == 8;
  std::vector<uint64_t> words(static_cast<size_t>(std::min(bytes, distinct) + 7) / 8);
  std::mt19937_64 random(seed);
  for (uint64_t& word : words)
    word = is_byte ? (random() & 0x8787878787878787u) | 0x3030303030303030u
                   : (random() & 0x80ff80ff80ff80ffu) | 0x3f003f003f003f00u;
  test::CudaMemory memory(device, bytes);
  memory.upload(words.data(), std::min(bytes, distinct));
  if (bytes > distinct) memory.repeat(distinct);
  return memory;
}

template <class T>
test::CudaMemory memory_of(const test::CudaDevice& device, const std::vector<T>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  test::CudaMemory memory(device, bytes);
  memory.upload(values.data(), bytes);
  return memory;
}

}  // namespace

GpuStep::GpuStep(const test::CudaDevice& device, const GpuStepShape& shape)
    : device_(device),
      shape_(shape),
      num_pages_(int64_t{shape.sequences} *
                 ((shape.context + shape.page_size - 1) / shape.page_size)) {
  const int64_t slots = num_pages_ * shape_.page_size * shape_.kv_heads;
  keys_ = random_memory(device_, bytes_of(slots * shape_.head_size, shape_.dtype), shape_.dtype, 1);
  if (shape_.v_head_size == shape_.head_size)
    values_ =
        random_memory(device_, bytes_of(slots * shape_.head_size, shape_.dtype), shape_.dtype, 2);
  make_table();
  make_attention();
  make_append();
}

PagedKVView GpuStep::plane(void* data, DType dtype, int32_t head_size) const {
  const int64_t row = bytes_of(head_size, dtype);
  PagedKVView v;
  v.data = data;
  v.dtype = dtype;
  v.num_heads = shape_.kv_heads;
  v.head_size = head_size;
  v.page_size = shape_.page_size;
  v.num_pages = num_pages_;
  v.head_stride_bytes = row;
  v.slot_stride_bytes = shape_.kv_heads * row;
  v.page_stride_bytes = shape_.page_size * shape_.kv_heads * row;
  return v;
}

void GpuStep::make_table() {
  std::vector<uint32_t> pages(static_cast<size_t>(num_pages_));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<uint32_t>(i);
  std::shuffle(pages.begin(), pages.end(), std::mt19937_64(3));
  const int64_t columns = num_pages_ / shape_.sequences;
  const int64_t stride = PageTable::padded_columns(columns);
  std::vector<uint32_t> entries(static_cast<size_t>(shape_.sequences * stride),
                                static_cast<uint32_t>(num_pages_));
  std::vector<int32_t> offsets, contexts(static_cast<size_t>(shape_.sequences), shape_.context);
  for (int64_t b = 0; b < shape_.sequences; ++b)
    std::copy_n(pages.begin() + b * columns, columns, entries.begin() + b * stride);
  for (int32_t b = 0; b <= shape_.sequences; ++b) offsets.push_back(b * shape_.new_tokens);
  table_ = memory_of(device_, entries);
  offsets_ = memory_of(device_, offsets);
  contexts_ = memory_of(device_, contexts);
  batch_.size = shape_.sequences;
  batch_.query_offsets = reinterpret_cast<const int32_t*>(offsets_.data());
  batch_.context_lengths = reinterpret_cast<const int32_t*>(contexts_.data());
  batch_.table.entries = reinterpret_cast<const uint32_t*>(table_.data());
  batch_.table.row_stride = stride;
}

void GpuStep::make_attention() {
  const int64_t tokens = int64_t{shape_.sequences} * shape_.new_tokens;
  AttentionProblem problem;
  problem.q_heads = shape_.q_heads;
  problem.key = args_.key = plane(keys_.data(), shape_.dtype, shape_.head_size);
  problem.v_head_size = shape_.v_head_size;
  problem.value_in_key = shape_.v_head_size != shape_.head_size;
  if (!problem.value_in_key)
    problem.value = args_.value = plane(values_.data(), shape_.dtype, shape_.head_size);
  AttentionLimits limits;
  limits.batch = shape_.sequences;
  limits.tokens = static_cast<int32_t>(tokens);
  limits.context = shape_.context;
  const Result<Attention> attention = Attention::create(problem, limits, device_.device());
  if (!attention) must(attention.error());
  attention_ = *attention;
  q_ = random_memory(device_, tokens * shape_.q_heads * shape_.head_size * 2, DType::bf16, 4);
  out_ = test::CudaMemory(device_, tokens * shape_.q_heads * shape_.v_head_size * 2);
  args_.q = dense_tensor<3>(q_.data(), DType::bf16, {tokens, shape_.q_heads, shape_.head_size});
  args_.out =
      dense_tensor<3>(out_.data(), DType::bf16, {tokens, shape_.q_heads, shape_.v_head_size});
  plan_memory_ = test::CudaMemory(device_, attention_.plan_bytes());
  workspace_ = test::CudaMemory(device_, attention_.workspace_bytes());
  must(prepare_async(attention_, workspace_.span(), Stream()));
  put(GpuStepPart::plan, Stream());
  device_.synchronise();
}

void GpuStep::make_append() {
  const int64_t tokens = int64_t{shape_.sequences} * shape_.new_tokens;
  const int64_t elements = int64_t{shape_.kv_heads} * shape_.head_size;
  rows_ = random_memory(device_, 2 * tokens * elements * 2, DType::bf16, 5);
  append_args_.k = dense_tensor<3>(static_cast<void*>(rows_.data()), DType::bf16,
                                   {tokens, shape_.kv_heads, shape_.head_size});
  append_args_.key = args_.key;
  if (args_.value.data == nullptr) return;
  append_args_.v = dense_tensor<3>(static_cast<void*>(rows_.data() + tokens * elements * 2),
                                   DType::bf16, {tokens, shape_.kv_heads, shape_.head_size});
  append_args_.value = args_.value;
}

void GpuStep::put(GpuStepPart part, Stream stream) {
  if (part == GpuStepPart::append)
    return must(append_async(batch_, append_args_, device_.device(), stream));
  if (part != GpuStepPart::attend) {
    const Result<AttentionPlan> plan = plan_async(attention_, batch_, plan_memory_.span(), stream);
    if (!plan) must(plan.error());
    plan_ = *plan;
  }
  if (part != GpuStepPart::plan)
    must(attend_async(attention_, plan_, args_, workspace_.span(), stream));
}

void GpuStep::check_output(GpuStepPart part) const {
  if (part != GpuStepPart::attend && part != GpuStepPart::step) return;
  std::vector<uint16_t> out(static_cast<size_t>(out_.bytes() / 2));
  out_.download(out.data(), out_.bytes());
  bool has_number = false;
  for (const uint16_t bits : out) {
    const float x = to_float(bf16{bits});
    if (!std::isfinite(x)) throw std::runtime_error("the output has numbers that are not finite");
    has_number = has_number || x != 0.0f;
  }
  if (!has_number) throw std::runtime_error("the output is zero");
}

int64_t GpuStep::bytes(GpuStepPart part) const {
  const int64_t tokens = int64_t{shape_.sequences} * shape_.new_tokens;
  const int64_t planes = args_.value.data == nullptr ? 1 : 2;
  const int64_t row = int64_t{shape_.kv_heads} * shape_.head_size;
  switch (part) {
    case GpuStepPart::plan: return 0;
    case GpuStepPart::append:
      return tokens * planes * (bytes_of(row, DType::bf16) + bytes_of(row, shape_.dtype));
    default:
      return int64_t{shape_.sequences} * shape_.context * planes * bytes_of(row, shape_.dtype);
  }
}

double GpuStep::flops() const {
  const double keys = shape_.context - (shape_.new_tokens - 1) / 2.0;  // causal, on average
  return 2.0 * keys * shape_.sequences * shape_.new_tokens * shape_.q_heads *
         (shape_.head_size + shape_.v_head_size);
}

}  // namespace folio::bench
