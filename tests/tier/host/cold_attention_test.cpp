// SPDX-License-Identifier: Apache-2.0
/// tests/tier/host/cold_attention_test.cpp: attention over pages of a host tier is that over the
/// pool's, and what is hot and what is cold are joined by `merge`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/merge.h"
#include "folio/core/buffer.h"
#include "tier/host/slab_cache.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = 16, q_heads = 4, kv_heads = 2, head_size = 64;
constexpr int64_t num_pages = 24;

struct Sequence {
  int32_t new_tokens = 1, context = 1;
  int32_t cold_pages = 0;  ///< leading pages that the slab has
};

/// Out and lse of one call, float32.
struct Outcome {
  std::vector<float> out, lse;
  [[nodiscard]] AnyTensor<3> tensor() {
    return dense_tensor(out.data(), DType::f32, {std::ssize(lse) / q_heads, q_heads, head_size});
  }
  bool operator==(const Outcome&) const = default;
};

/// Sequences over permuted pages of a cache, and the arrays of their batches.
class Step {
 public:
  Step(std::vector<Sequence> sequences, uint64_t seed) : sequences_(std::move(sequences)) {
    Rng rng(seed);
    std::vector<uint32_t> ids(num_pages);
    std::iota(ids.begin(), ids.end(), 0U);
    rng.shuffle(ids);
    offsets_ = {0};
    for (const Sequence& s : sequences_) {
      const int32_t pages = (s.context + page_size - 1) / page_size;
      rows_.emplace_back(ids.end() - pages, ids.end());
      ids.resize(ids.size() - static_cast<size_t>(pages));
      offsets_.push_back(offsets_.back() + s.new_tokens);
    }
    q_.resize(static_cast<size_t>(offsets_.back() * q_heads * head_size));
    for (float& x : q_) x = rng.uniform(-2.0f, 2.0f);
  }

  /// Pages of each sequence.
  using Rows = std::vector<std::vector<uint32_t>>;
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// The leading pages that are cold, or those behind.
  [[nodiscard]] Rows part(bool is_cold) const {
    Rows part;
    for (size_t s = 0; s < rows_.size(); ++s) {
      const auto border = rows_[s].begin() + sequences_[s].cold_pages;
      part.emplace_back(is_cold ? rows_[s].begin() : border, is_cold ? border : rows_[s].end());
    }
    return part;
  }

  /// Over keys [first, last) of each sequence, whose pages are `rows`.
  [[nodiscard]] Outcome attend(const Attention& attention, const KVPlanes& layer, const Rows& rows,
                               bool has_cold, bool has_hot, const float* sinks = nullptr) const {
    std::vector<int32_t> lengths, positions, first_keys;
    size_t columns = 1;
    for (const Sequence& s : sequences_) {
      const int32_t border = s.cold_pages * page_size;
      lengths.push_back(has_hot ? s.context - (has_cold ? 0 : border) : border);
      first_keys.push_back(has_cold ? 0 : border);
      positions.push_back(s.context - s.new_tokens);
    }
    for (const auto& row : rows) columns = std::max(columns, row.size());
    std::vector<uint32_t> table(rows.size() * columns, 0xffffffffU);
    for (size_t s = 0; s < rows.size(); ++s)
      std::ranges::copy(rows[s], table.begin() + static_cast<std::ptrdiff_t>(s * columns));
    const Batch batch{.size = static_cast<int32_t>(sequences_.size()),
                      .query_offsets = offsets_.data(),
                      .context_lengths = lengths.data(),
                      .table = {table.data(), static_cast<int64_t>(columns)},
                      .query_positions = positions.data(),
                      .key_positions = first_keys.data()};
    const Buffer memory = Buffer::allocate(attention.plan_bytes()).value();
    const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
    const AttentionPlan planned = plan(attention, batch, memory.span()).value();
    const int64_t tokens = offsets_.back();
    Outcome outcome;
    outcome.out.assign(static_cast<size_t>(tokens * q_heads * head_size),
                       std::numeric_limits<float>::quiet_NaN());
    outcome.lse.assign(static_cast<size_t>(tokens * q_heads), 0.0f);
    const AttentionArgs args{
        .q = dense_tensor(const_cast<float*>(q_.data()), DType::f32, {tokens, q_heads, head_size}),
        .out = outcome.tensor(),
        .key = layer.key,
        .value = layer.value,
        .lse = outcome.lse.data(),
        .sink_logits = sinks};
    folio::attend(attention, planned, args, workspace.span(), serial_executor()).or_throw();
    return outcome;
  }

 private:
  const std::vector<Sequence> sequences_;
  Rows rows_;
  std::vector<int32_t> offsets_;
  std::vector<float> q_;
};

struct CacheKind {
  DType dtype = DType::bf16;
  StorageOrder order = StorageOrder::token_major;

  [[nodiscard]] KVShape shape() const {
    return {.num_layers = 3,
            .num_heads = kv_heads,
            .head_size = head_size,
            .page_size = page_size,
            .dtype = dtype,
            .scale_dtype = dtype == DType::i8 ? DType::f32 : DType::invalid,
            .order = order};
  }
  [[nodiscard]] std::string text() const {
    return std::string(name(dtype)) +
           (order == StorageOrder::token_major ? ", token-major" : ", head-major");
  }
};
constexpr CacheKind kinds[] = {{DType::bf16, StorageOrder::token_major},
                               {DType::bf16, StorageOrder::head_major},
                               {DType::i8, StorageOrder::token_major},
                               {DType::i8, StorageOrder::head_major}};

AttentionProblem problem_of(const KVPlanes& layer, Mask mask = Mask::causal()) {
  return {.key = layer.key,
          .value = layer.value,
          .q_heads = q_heads,
          .q_dtype = DType::f32,
          .out_dtype = DType::f32,
          .mask = mask};
}
constexpr AttentionLimits limits{.batch = 4, .tokens = 64, .context = 512, .parallelism = 2};

/// The pages' places in the slab, held.
Step::Rows held(const SlabCache& cache, const Step::Rows& rows) {
  Step::Rows places;
  for (const auto& row : rows) places.push_back(cache.held(row));
  return places;
}

TEST(ColdAttention, has_the_bits_of_attention_over_the_pools_pages) {
  const Step step({{1, 150}, {5, 37}, {20, 130}, {1, 1}}, 5);
  for (const CacheKind& kind : kinds) {
    SlabCache cache(kind.shape(), num_pages, 11);
    const Step::Rows places = held(cache, step.rows());
    ASSERT_NE(places, step.rows());
    int kernels = 0;
    for (int32_t k = 0; k < Attention::kernel_count(); ++k) {
      const Attention::KernelName kernel = Attention::kernel_name(k);
      if (!kernel.runs_here) continue;
      const auto attention =
          Attention::create(problem_of(cache.planes[0]), limits, {}, kernel.name);
      if (!attention) continue;  // it serves no such cache
      ++kernels;
      for (size_t layer = 0; layer < cache.planes.size(); ++layer) {
        SCOPED_TRACE(kind.text() + ", " + std::string(kernel.name));
        const Outcome pools = step.attend(*attention, cache.planes[layer], step.rows(), true, true);
        const Outcome slabs = step.attend(*attention, cache.slab_planes[layer], places, true, true);
        EXPECT_EQ(slabs, pools) << "layer " << layer;
        EXPECT_TRUE(std::ranges::none_of(pools.out, [](float x) { return std::isnan(x); }));
        if (layer == 0) continue;
        EXPECT_NE(slabs.out, step.attend(*attention, cache.slab_planes[0], places, true, true).out);
      }
    }
    EXPECT_GT(kernels, 0) << kind.text();
  }
}

TEST(ColdAttention, needs_nothing_of_the_pool) {
  const Step step({{1, 150}, {5, 37}}, 6);
  for (const CacheKind& kind : kinds) {
    SlabCache cache(kind.shape(), num_pages, 12);
    const Step::Rows places = held(cache, step.rows());
    const Attention attention = Attention::create(problem_of(cache.planes[1]), limits).value();
    const Outcome before = step.attend(attention, cache.planes[1], step.rows(), true, true);
    cache.forget_pool();
    EXPECT_EQ(step.attend(attention, cache.slab_planes[1], places, true, true), before);
  }
}

/// The furthest that two outputs are apart.
float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return std::numeric_limits<float>::infinity();
    if (a[i] != b[i]) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

/// Of outputs and of lse, each of two results being as far from the exact one as problem.h says:
/// |v| <= 1, so o moves by 2^-8 for weights of bf16 and by 2^-12 for exps, lse by 2^-13; and with
/// them merge's float32.
constexpr float out_bound = 2.0f * (0x1p-8f + 0x1p-12f) + 0x1p-16f;
constexpr float lse_bound = 2.0f * 0x1p-13f + 0x1p-16f;

class HotAndCold : public ::testing::TestWithParam<CacheKind> {
 protected:
  /// Cold pages of the slab and hot ones of the pool, joined, are all pages of the pool.
  void expect_joined(const Step& step, Mask mask, const float* sinks = nullptr) {
    const SlabCache cache(GetParam().shape(), num_pages, 13);
    const Step::Rows places = held(cache, step.part(true));
    for (size_t l = 0; l < cache.planes.size(); ++l) {
      AttentionProblem problem = problem_of(cache.planes[l], mask);
      const Attention hot = Attention::create(problem, limits).value();
      problem.sink_logits = sinks != nullptr;
      const Attention with_sinks = Attention::create(problem, limits).value();
      const Outcome all = step.attend(with_sinks, cache.planes[l], step.rows(), true, true, sinks);
      Outcome cold_part = step.attend(with_sinks, cache.slab_planes[l], places, true, false, sinks);
      Outcome hot_part = step.attend(hot, cache.planes[l], step.part(false), false, true);
      Outcome joined = hot_part;
      const Partial parts[] = {{cold_part.tensor(), cold_part.lse.data()},
                               {hot_part.tensor(), hot_part.lse.data()}};
      merge(parts, joined.tensor(), joined.lse.data(), serial_executor()).or_throw();
      EXPECT_LE(distance(joined.out, all.out), out_bound) << "layer " << l;
      EXPECT_LE(distance(joined.lse, all.lse), lse_bound) << "layer " << l;
      EXPECT_GT(distance(hot_part.out, all.out), 8 * out_bound) << "the cold part counts";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, HotAndCold, ::testing::ValuesIn(kinds), [](const auto& kind) {
  return std::string(name(kind.param.dtype)) +
         (kind.param.order == StorageOrder::token_major ? "_token_major" : "_head_major");
});

TEST_P(HotAndCold, are_joined_wherever_the_border_is) {
  // one new token behind cold pages alone but for its own; a chunk; no cold page; all but one hot
  expect_joined(Step({{1, 97, 6}, {9, 100, 3}, {4, 30, 0}, {1, 81, 1}}, 21), Mask::causal());
}

TEST_P(HotAndCold, are_joined_under_masks_of_positions) {
  const Step step({{1, 97, 5}, {9, 100, 5}, {1, 60, 3}, {3, 40, 1}}, 22);
  expect_joined(step, Mask::sliding_window(40));  // across the border, behind it, before it
  expect_joined(step, Mask::full());
}

TEST_P(HotAndCold, count_a_sink_once) {
  const float sinks[q_heads] = {0.5f, -1.0f, 3.0f, 1.5f};
  expect_joined(Step({{1, 97, 4}, {9, 100, 3}, {4, 30, 0}}, 23), Mask::causal(), sinks);
}

}  // namespace
}  // namespace folio::test
