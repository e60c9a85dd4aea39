// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_case.cpp: memory and calls of one indexer's problem.
#include "sparse/index_case.h"

#include <algorithm>

#include "cpu/features.h"
#include "reference/elements.h"
#include "reference/visibility.h"
#include "sparse/kernel_list.h"

namespace folio::test {
namespace {

constexpr int64_t gap = 1;  // elements between rows of weights

/// A whole number from -3 to 3, the same for the same place.
double whole_of(int64_t a, int64_t b, int64_t c) {
  Rng rng(static_cast<uint64_t>((a * 1000003 + b) * 1000003 + c));
  rng.next();
  return static_cast<double>(rng.between(-3, 3));
}

CaseOptions latent(CaseOptions options) {
  options.value_in_key = true;
  options.v_head_size = options.key_turn.hadamard.block != 0 ? options.head_size : 8;
  if (folio::detail::is_block(options.key_dtype)) options.v_head_size = options.head_size;
  return options;
}

void set_whole_query(const ConstTensor<3>& q, int64_t row, int64_t head) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(q.data)) + row * q.stride_bytes[0] +
                   head * q.stride_bytes[1];
  for (int64_t d = 0; d < q.extent[2]; ++d)
    reference::store(at + d * q.stride_bytes[2], q.dtype, whole_of(row, head, d));
}

/// Of a key that lies in a page.
void set_whole_key(const PagedKVView& key, const reference::Slot& place, int64_t head) {
  auto* const at = static_cast<std::byte*>(key.data) + place.page * key.page_stride_bytes +
                   place.slot * key.slot_stride_bytes + head * key.head_stride_bytes;
  const int64_t element = bit_width(key.dtype) / 8;
  for (int64_t d = 0; d < key.head_size; ++d)
    reference::store(at + d * element, key.dtype,
                     whole_of(place.page * 64 + place.slot + 7, head, d));
}

}  // namespace

IndexCaseOptions random_index_options(Rng& rng) {
  IndexCaseOptions o;
  CaseOptions& a = o.attention;
  const int32_t heads[] = {1, 2, 3, 4, 5, 7, 8, 16, 24, 33, 64};
  const int32_t sizes[] = {8, 16, 24, 64, 80, 128, 192};
  const int32_t pages[] = {1, 3, 16, 64, 100, unbounded_page_size};
  const DType types[] = {DType::f32,     DType::bf16,    DType::f16,
                         DType::f8_e4m3, DType::f8_e5m2, DType::i8};
  const DType activations[] = {DType::f32, DType::bf16, DType::f16};
  a.q_heads = rng.pick(heads);
  a.kv_heads = rng.chance(0.15) ? a.q_heads : 1;
  a.head_size = rng.pick(sizes);
  a.page_size = rng.pick(pages);
  a.key_dtype = rng.pick(types);
  a.q_dtype = a.out_dtype = rng.pick(activations);
  const ScaleKind computed[] = {ScaleKind::token_and_head, ScaleKind::granule,
                                ScaleKind::behind_row, ScaleKind::head, ScaleKind::page};
  const ScaleKind calibrated[] = {ScaleKind::none, ScaleKind::none, ScaleKind::tensor,
                                  ScaleKind::calibrated_granule};
  // append computes scales of bytes alone
  a.key_scales.kind = bit_width(a.key_dtype) == 8 ? rng.pick(computed) : rng.pick(calibrated);
  a.key_scales.tensor_scale = rng.chance(0.2) && a.key_scales.kind != ScaleKind::none;
  if (rng.chance(0.15) && a.head_size % 16 == 0)
    a.key_turn.hadamard = {16, rng.chance(0.5) ? 5u : 0u};
  if (rng.chance(0.1)) a.key_turn.channel_scales = true;
  a.sequences.clear();
  for (int64_t i = rng.between(1, 4); i > 0; --i) {
    const int32_t context = rng.chance(0.1) ? 0 : rng.int_between(1, rng.chance(0.5) ? 70 : 700);
    a.sequences.push_back({rng.int_between(0, rng.chance(0.3) ? 20 : 3), context});
  }
  const Mask masks[] = {Mask::causal(), Mask::full(), Mask::sliding_window(50),
                        Mask::sliding_window(9, 4), Mask::chunked(64)};
  a.mask = rng.pick(masks);
  a.intervals = rng.chance(0.2);
  a.query_positions = rng.chance(0.2);
  a.key_positions = rng.chance(0.2);
  a.unassigned = rng.chance(0.3) ? 0.2 : 0.0;
  a.gap_bytes = rng.chance(0.3) ? 8 : 0;
  a.bf16_operands = rng.chance(0.5);
  const TableForm forms[] = {TableForm::dense, TableForm::csr, TableForm::rows_in_larger};
  a.table = rng.pick(forms);
  a.seed = rng.next();
  o.has_weights = rng.chance(0.85);
  o.weight_dtype = rng.pick(activations);
  o.relu = rng.chance(0.8);
  return o;
}

IndexCase::IndexCase(const IndexCaseOptions& options) : attention_(latent(options.attention)) {
  const AttentionProblem& p = attention_.problem();
  problem.key = p.key;
  problem.q_heads = p.q_heads;
  problem.q_dtype = p.q_dtype;
  problem.has_weights = options.has_weights;
  problem.weight_dtype = options.weight_dtype;
  problem.relu = options.relu;
  problem.mask = p.mask;
  problem.intervals = p.intervals;
  problem.scale = p.scale;
  problem.bf16_operands = p.bf16_operands;
  problem.q_is_turned = options.q_is_turned;
  const AttentionLimits limits = attention_.limits();
  limits_ = {limits.batch, limits.tokens, limits.context, options.top, 1};
  args.q = attention_.args().q;
  args.key = attention_.args().key;
  if (!options.has_weights) return;
  const int64_t element = bit_width(options.weight_dtype) / 8, stride = problem.q_heads + gap;
  weights_ = GuardedMemory(std::max<int64_t>(1, tokens() * stride - gap) * element, element);
  args.weights = {weights_.data(),
                  options.weight_dtype,
                  {tokens(), problem.q_heads},
                  {stride * element, element}};
  Rng rng(options.attention.seed + 77);
  for (int64_t i = 0; i < tokens() * stride - gap; ++i)
    reference::store(weights_.data() + i * element, options.weight_dtype,
                     static_cast<double>(rng.uniform(-1.0f, 2.0f)));
}

int32_t IndexCase::longest() const {
  int32_t longest = 0;
  for (int32_t b = 0; b < batch().size; ++b)
    longest = std::max(longest, batch().context_lengths[b]);
  return longest;
}

Index IndexCase::index(std::string_view kernel, int32_t parallelism) const {
  IndexLimits limits = limits_;
  limits.parallelism = parallelism;
  return Index::create(problem, limits, {}, kernel).value();
}

void IndexCase::make_whole() {
  problem.scale = 1.0f;
  for (int64_t row = 0; row < tokens(); ++row) {
    for (int64_t h = 0; h < problem.q_heads; ++h) {
      set_whole_query(args.q, row, h);
      if (problem.has_weights)
        reference::store(
            weights_.data() + row * args.weights.stride_bytes[0] + h * args.weights.stride_bytes[1],
            problem.weight_dtype, whole_of(row, h, 99));
    }
  }
  const AttentionProblem& p = attention_.problem();
  for (int64_t row = 0; row < tokens(); ++row) {
    const int32_t b = sequence_of(row);
    for (int32_t j = 0; j < context(row); ++j) {
      if (!reference::is_visible(p, batch(), b, row, j)) continue;
      const reference::Slot place = reference::slot_of(args.key, batch(), b, j);
      for (int64_t h = 0; h < problem.key.num_heads && place.page >= 0; ++h)
        set_whole_key(args.key, place, h);
    }
  }
  decoded_ = {};
}

std::vector<float> IndexCase::scores(const Index& index, const Executor& executor) const {
  const int64_t keys = longest();
  const GuardedMemory memory(std::max<int64_t>(1, tokens() * keys) * 4, 4),
      workspace(index.workspace_bytes(), 64);
  const Status status = score_index(index, batch(), args, 0,
                                    dense_tensor<2>(memory.data(), DType::f32, {tokens(), keys}),
                                    workspace.span(), executor);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return {memory.as<float>(), memory.as<float>() + tokens() * keys};
}

std::vector<int32_t> IndexCase::lists(const Index& index, int32_t k, ListEntries entries,
                                      const Executor& executor) const {
  const GuardedMemory memory(std::max<int64_t>(1, tokens() * k) * 4, 4),
      workspace(index.workspace_bytes(), 64);
  SelectArgs select;
  select.score = args;
  select.k = k;
  select.lists = memory.as<int32_t>();
  select.stride = k;
  select.entries = entries;
  const Status status = select_keys(index, batch(), select, workspace.span(), executor);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return {memory.as<int32_t>(), memory.as<int32_t>() + tokens() * k};
}

reference::IndexScores IndexCase::expected(int64_t row) {
  return reference::index_scores(problem, batch(), args, sequence_of(row), row, &decoded_);
}

std::vector<const IndexKernel*> index_kernels_for(const IndexCase& c) {
  std::vector<const IndexKernel*> kernels;
  for (const IndexKernel& kernel : index_kernels())
    if (refusal(kernel, c.problem, machine_capabilities()) == nullptr) kernels.push_back(&kernel);
  return kernels;
}

bool rounds_operands(const IndexKernel& kernel, const IndexProblem& problem) {
  if (kernel.operands == DType::f32) return false;
  const bool turns_q =
      !problem.q_is_turned && (problem.key.hadamard.block != 0 || problem.key.has_channel_scales);
  const DTypes exact = {DType::bf16, DType::i8, DType::f8_e4m3, DType::f8_e5m2};
  return turns_q || problem.q_dtype != DType::bf16 || !exact.has(problem.key.dtype);
}

}  // namespace folio::test
