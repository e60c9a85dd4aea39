// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_scores_test.cpp: score_index against the definition in double, within the
/// error that folio/sparse/index.h states.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "sparse/index_case.h"
#include "support/executors.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

/// Every score, and -inf wherever a key is not visible.
void expect_scores(IndexCase& c, const IndexKernel& kernel, int32_t parallelism,
                   const Executor& executor) {
  SCOPED_TRACE(kernel.name);
  const Index index = c.index(kernel.name, parallelism);
  EXPECT_EQ(index.kernel(), kernel.name);
  const bool is_rounded = rounds_operands(kernel, c.problem);
  const std::vector<float> scores = c.scores(index, executor);
  const auto keys = static_cast<size_t>(c.longest());
  for (int64_t row = 0; row < c.tokens(); ++row) {
    const reference::IndexScores expected = c.expected(row);
    for (size_t j = 0; j < keys; ++j) {
      const float score = scores[static_cast<size_t>(row) * keys + j];
      if (j >= expected.score.size() || std::isinf(expected.score[j])) {
        ASSERT_EQ(score, hidden) << "row " << row << ", key " << j;
      } else {
        ASSERT_NEAR(static_cast<double>(score), expected.score[j],
                    expected.error[j] + (is_rounded ? expected.rounding[j] : 0.0))
            << "row " << row << ", key " << j;
      }
    }
  }
}

std::string describe(const IndexCaseOptions& o) {
  return test::describe(o.attention) + (o.has_weights ? "" : ", no weights") +
         (o.relu ? "" : ", no relu");
}

TEST(IndexScores, are_those_of_the_definition_for_random_problems) {
  Rng rng(test_seed());
  int visible = 0, all = 0;
  for (int round = 0; round < 120; ++round) {
    const IndexCaseOptions options = random_index_options(rng);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(options));
    IndexCase c(options);
    for (const IndexKernel* kernel : index_kernels_for(c)) {
      ShufflingExecutor threads(3, rng.next());
      expect_scores(c, *kernel, rng.int_between(1, 4), threads.executor());
      if (HasFatalFailure()) return;
    }
    for (int64_t row = 0; row < c.tokens(); ++row) {
      for (const double s : c.expected(row).score) visible += std::isinf(s) ? 0 : 1;
      all += c.context(row);
    }
  }
  EXPECT_GT(visible, all / 4);
  EXPECT_LT(visible, all);
}

/// What DeepSeek V3.2 has: 64 heads of 128 over keys of f8_e4m3 with a scale each, rotated, or
/// bf16.
TEST(IndexScores, are_right_for_64_heads_of_128) {
  for (const DType type : {DType::bf16, DType::f8_e4m3}) {
    for (const bool is_rotated : {false, true}) {
      IndexCaseOptions o;
      o.attention.q_heads = 64;
      o.attention.kv_heads = 1;
      o.attention.head_size = 128;
      o.attention.page_size = 64;
      o.attention.key_dtype = type;
      o.attention.q_dtype = DType::bf16;
      o.weight_dtype = DType::bf16;
      if (type == DType::f8_e4m3) {
        o.attention.key_scales.kind = ScaleKind::token_and_head;
        if (is_rotated) o.attention.key_turn.hadamard = {128, 0};
      }
      o.attention.sequences = {{1, 500}, {9, 130}};
      IndexCase c(o);
      for (const IndexKernel* kernel : index_kernels_for(c))
        expect_scores(c, *kernel, 2, default_executor(2));
    }
  }
}

/// Bits are free of cuts, threads and what else is in the batch.
TEST(IndexScores, have_the_same_bits_however_work_is_cut) {
  Rng rng(test_seed());
  for (int round = 0; round < 15; ++round) {
    IndexCaseOptions options = random_index_options(rng);
    options.attention.sequences = {{rng.int_between(1, 40), rng.int_between(3000, 9000)}};
    options.attention.q_heads = options.attention.kv_heads = 1;
    SCOPED_TRACE(describe(options));
    IndexCase c(options);
    for (const IndexKernel* kernel : index_kernels_for(c)) {
      const std::vector<float> alone = c.scores(c.index(kernel->name, 1), serial_executor());
      ShufflingExecutor threads(4, rng.next());
      for (const int32_t parallelism : {2, 7, 64}) {
        const std::vector<float> cut =
            c.scores(c.index(kernel->name, parallelism), threads.executor());
        ASSERT_EQ(std::memcmp(cut.data(), alone.data(), alone.size() * sizeof(float)), 0);
      }
    }
  }
}

/// Any range of keys gives the scores that all keys give, and writes nothing beside them.
TEST(IndexScores, of_a_range_are_those_of_all) {
  Rng rng(test_seed());
  for (int round = 0; round < 40; ++round) {
    IndexCaseOptions options = random_index_options(rng);
    SCOPED_TRACE(describe(options));
    const IndexCase c(options);
    const Index index = c.index({}, 3);
    const int64_t all_keys = c.longest();
    const std::vector<float> all = c.scores(index, serial_executor());
    const int32_t first = rng.int_between(0, all_keys + 70);
    const int64_t keys = rng.between(0, 300), stride = keys + rng.between(0, 5);
    const GuardedMemory memory(std::max<int64_t>(1, (c.tokens() - 1) * stride + keys) * 4, 4),
        workspace(index.workspace_bytes(), 64);
    const Status status =
        score_index(index, c.batch(), c.args, first,
                    {memory.data(), DType::f32, {c.tokens(), keys}, {stride * 4, 4}},
                    workspace.span(), default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (int64_t row = 0; row < c.tokens(); ++row) {
      for (int64_t j = 0; j < stride && (j < keys || row + 1 < c.tokens()); ++j) {
        const float* const at = memory.as<float>() + row * stride + j;
        if (j >= keys) {
          ASSERT_EQ(*reinterpret_cast<const uint32_t*>(at), 0xffffffffu) << "the gap is written";
        } else if (first + j >= all_keys) {
          ASSERT_EQ(*at, hidden);
        } else {
          ASSERT_EQ(*at, all[static_cast<size_t>(row * all_keys + first + j)]);
        }
      }
    }
  }
}

/// Lengths around the edges of tiles, pages and spans.
TEST(IndexScores, are_right_at_every_edge_of_length) {
  for (const int32_t page_size : {1, 16, 63, 64, 65, 128}) {
    for (const int32_t context : {1, 2, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4097}) {
      IndexCaseOptions o;
      o.attention.q_heads = 2;
      o.attention.kv_heads = 1;
      o.attention.head_size = 8;
      o.attention.page_size = page_size;
      o.attention.bf16_operands = true;
      o.attention.sequences = {{std::min(context, 3), context}};
      IndexCase c(o);
      for (const IndexKernel* kernel : index_kernels_for(c))
        expect_scores(c, *kernel, 3, serial_executor());
    }
  }
}

/// A NaN in a query, a weight or a key that is seen spoils the scores that it is part of, no other.
TEST(IndexScores, carry_nan_where_it_belongs) {
  IndexCaseOptions o;
  o.attention.q_heads = 8;
  o.attention.kv_heads = 1;
  o.attention.sequences = {{4, 100}};
  o.attention.bf16_operands = true;
  for (const IndexKernel* kernel : index_kernels_for(IndexCase(o))) {
    IndexCase c(o);
    const Index index = c.index(kernel->name);
    const std::vector<float> clean = c.scores(index, serial_executor());
    const float nan = std::numeric_limits<float>::quiet_NaN();
    auto* const weights = static_cast<float*>(const_cast<void*>(c.args.weights.data));
    weights[c.args.weights.stride_bytes[0] / 4 + 3] = nan;  // of query 1
    const reference::Slot place = reference::slot_of(c.args.key, c.batch(), 0, 70);
    auto* const key = reinterpret_cast<float*>(static_cast<std::byte*>(c.args.key.data) +
                                               place.page * c.args.key.page_stride_bytes +
                                               place.slot * c.args.key.slot_stride_bytes);
    key[5] = nan;
    const std::vector<float> scores = c.scores(index, serial_executor());
    for (size_t t = 0; t < 4; ++t) {
      for (size_t j = 0; j < 100; ++j) {
        const float score = scores[t * 100 + j], before = clean[t * 100 + j];
        if ((t == 1 || j == 70) && before != hidden) {
          EXPECT_TRUE(std::isnan(score)) << kernel->name << ", query " << t << ", key " << j;
        } else {
          EXPECT_EQ(score, before) << kernel->name << ", query " << t << ", key " << j;
        }
      }
    }
  }
}

/// q that comes turned as K is gives the scores of q that is turned here.
TEST(IndexScores, take_queries_that_are_turned_already) {
  IndexCaseOptions o;
  o.attention.q_heads = 3;
  o.attention.kv_heads = 1;
  o.attention.key_dtype = DType::f8_e4m3;
  o.attention.key_scales.kind = ScaleKind::token_and_head;
  o.attention.key_turn.hadamard = {32, 9};
  o.q_is_turned = true;
  o.attention.bf16_operands = true;
  IndexCase c(o);
  for (const IndexKernel* kernel : index_kernels_for(c))
    expect_scores(c, *kernel, 1, serial_executor());
}

}  // namespace
}  // namespace folio::test
