// SPDX-License-Identifier: Apache-2.0
/// tests/attention/tree_test.cpp: speculative trees: which new tokens a query sees besides what its
/// mask says.
#include <gtest/gtest.h>

#include <vector>

#include "kernel/sequence.h"
#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/part.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// Steps of speculation: short and long trees (words of bits, tiles of keys), behind no prefix, a
/// short one and several spans.
std::vector<SequenceShape> speculative_steps() {
  return {{5, 5}, {17, 130}, {1, 77}, {100, 300}, {0, 9}, {64, 64}, {130, 190}, {9, 2200}};
}

CaseOptions tree_options(TreeForm tree, uint64_t seed) {
  CaseOptions options;
  options.seed = seed;
  options.tree = tree;
  options.sequences = speculative_steps();
  options.head_size = 16;
  options.key_dtype = options.value_dtype = DType::bf16;
  return options;
}

/// What the tree leaves of a tile, bit by bit.
uint64_t expected_bits(const AttentionProblem& problem, const Batch& batch, int64_t row,
                       int64_t first_key) {
  AttentionProblem everything = problem;
  everything.mask = Mask::full();
  everything.intervals = false;
  uint64_t bits = 0;
  for (int64_t i = 0; i < 64; ++i) {
    if (reference::is_visible(everything, batch, 0, row, first_key + i)) bits |= uint64_t{1} << i;
  }
  return bits;
}

TEST(Tree, bits_of_a_tile_equal_the_definition_wherever_the_new_tokens_begin) {
  Rng rng(test_seed());
  AttentionProblem problem;
  problem.tree = true;
  for (const int32_t new_tokens : {1, 2, 63, 64, 65, 128, 129, 200}) {
    for (int32_t context = 0; context < 330; ++context) {
      const int32_t offsets[] = {0, new_tokens};
      const int32_t words = (new_tokens + 63) / 64;
      std::vector<uint64_t> bits(static_cast<size_t>(new_tokens * words));
      for (uint64_t& word : bits) word = rng.next();
      Batch batch{1, offsets, &context};
      batch.tree = bits.data();
      batch.tree_words = words;
      const int32_t token = rng.int_between(0, new_tokens - 1);
      const Sequence sequence = sequence_of(batch, 0);
      for (int64_t first = 0; first < context; first += 64) {
        const uint64_t in_context = seen_in_tile(Visible{{}, {0, context}}, first);
        ASSERT_EQ(tree_in_tile(problem, batch, sequence, token, first) & in_context,
                  expected_bits(problem, batch, token, first))
            << new_tokens << " new tokens, context " << context << ", first key " << first;
      }
    }
  }
}

TEST(Tree, a_chain_is_causal_bit_for_bit) {
  for (const Mask& mask : {Mask::causal(), Mask::sliding_window(40, 3)}) {
    CaseOptions options = tree_options(TreeForm::chain, 3);
    options.mask = mask;
    options.parallelism = 3;
    for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
      ASSERT_TRUE(kernel_is_right(c, kernel));
      const std::vector<std::byte> bits = c.output_bits();
      const uint64_t* const tree = c.batch().tree;
      c.problem().tree = false;
      c.batch().tree = nullptr;
      ASSERT_EQ(run_case(c, kernel).message(), "");
      EXPECT_EQ(c.output_bits(), bits);
      c.problem().tree = true;
      c.batch().tree = tree;
    });
  }
}

TEST(Tree, random_trees_are_right_on_every_kernel) {
  Rng rng(test_seed());
  constexpr int32_t page_sizes[] = {1, 7, 16, 64, unbounded_page_size};
  constexpr int32_t groups[] = {1, 3, 5};
  for (int round = 0; round < 12; ++round) {
    CaseOptions options =
        tree_options(round % 3 == 2 ? TreeForm::bits : TreeForm::random, rng.next());
    options.page_size = rng.pick(page_sizes);
    options.q_heads = 2 * rng.pick(groups);
    options.parallelism = rng.int_between(1, 4);
    options.unassigned = round % 4 == 3 ? 0.2 : 0.0;
    options.sink_logits = round % 2 == 1;
    options.alibi = round % 5 == 4;
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Tree, a_tree_takes_away_from_any_mask_and_adds_nothing) {
  // A full mask lets random bits show later tokens too; a window hides ancestors.
  uint64_t seed = test_seed();
  for (const Mask& mask : {Mask::full(), Mask::sliding_window(7, 2), Mask::sliding_window(90),
                           Mask::chunked(48), Mask{10, 5, 0, 3}}) {
    for (const TreeForm tree : {TreeForm::random, TreeForm::bits}) {
      CaseOptions options = tree_options(tree, ++seed);
      options.mask = mask;
      options.key_positions = seed % 2 == 0;
      options.query_positions = seed % 3 == 0;
      expect_every_kernel_right(options);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Tree, intervals_and_trees_hold_together) {
  CaseOptions options = tree_options(TreeForm::bits, 5);
  options.intervals = true;
  expect_every_kernel_right(options);
}

TEST(Tree, more_new_tokens_than_context_begin_before_the_first_key) {
  CaseOptions options = tree_options(TreeForm::bits, 6);
  options.mask = Mask::full();
  options.sequences = {{30, 10}, {100, 64}, {5, 0}, {70, 69}};
  expect_every_kernel_right(options);
}

TEST(Tree, a_query_that_sees_no_new_token_and_has_no_prefix_is_empty) {
  CaseOptions options = tree_options(TreeForm::chain, 7);
  options.sequences = {{3, 3}, {2, 40}};
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    const std::vector<uint64_t> nothing(static_cast<size_t>(c.tokens() * c.batch().tree_words), 0);
    const uint64_t* const tree = c.batch().tree;
    c.batch().tree = nothing.data();
    c.forget_expected();
    EXPECT_TRUE(kernel_is_right(c, kernel));
    EXPECT_EQ(c.expected(0, 0).keys, 0);
    EXPECT_EQ(c.expected(4, 0).keys, 38);
    c.batch().tree = tree;
    c.forget_expected();
  });
}

/// New tokens that no query of their sequence sees.
int64_t unseen_nodes(const AttentionCase& c) {
  int64_t unseen = 0;
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const int32_t begin = c.batch().query_offsets[b], end = c.batch().query_offsets[b + 1];
    for (int64_t key = c.batch().context_lengths[b] - (end - begin);
         key < c.batch().context_lengths[b]; ++key) {
      bool is_seen = false;
      for (int64_t row = begin; row < end; ++row)
        is_seen = is_seen || reference::is_visible(c.problem(), c.batch(), b, row, key);
      unseen += is_seen ? 0 : 1;
    }
  }
  return unseen;
}

TEST(Tree, keys_of_nodes_that_nobody_sees_do_not_matter) {
  // They hold NaN, values and scales, between keys that are seen.
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    CaseOptions options = tree_options(TreeForm::random, 8);
    options.key_dtype = options.value_dtype = dtype;
    if (dtype == DType::i8)
      options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
    for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
      ASSERT_GT(unseen_nodes(c), 20) << "the case must have what it is about";
      EXPECT_TRUE(kernel_is_right(c, kernel));
    });
  }
}

TEST(Tree, a_sequence_alone_gives_the_bits_of_the_batch) {
  CaseOptions options = tree_options(TreeForm::random, 9);
  options.reproducible = Reproducible::per_sequence;
  options.parallelism = 4;
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    ASSERT_EQ(run_case(c, kernel).message(), "");
    const std::vector<std::byte> bits = c.output_bits();
    c.poison_output();
    for (int32_t b = 0; b < c.batch().size; ++b) {
      const Part part(
          c, queries_of(c, b, 0, c.options().sequences[static_cast<size_t>(b)].new_tokens));
      ASSERT_EQ(part.run(c.problem(), part.limits(), kernel).message(), "");
    }
    EXPECT_EQ(c.output_bits(), bits);
  });
}

TEST(Tree, what_is_missing_too_small_or_unasked_for_is_an_error) {
  AttentionCase c(tree_options(TreeForm::random, 10));
  const auto message_of = [&](const Batch& batch) {
    const Attention attention = Attention::create(c.problem(), c.limits()).value();
    const GuardedMemory memory(attention.plan_bytes(), 64);
    return std::string(plan(attention, batch, memory.span()).error().message());
  };
  EXPECT_EQ(message_of(c.batch()), "");
  Batch batch = c.batch();
  batch.tree = nullptr;
  EXPECT_EQ(message_of(batch),
            "plan: batch.tree is null, expected an array (the problem asks for it)");
  batch = c.batch();
  batch.tree_words = 2;
  EXPECT_EQ(message_of(batch),
            "plan: batch.tree_words is 2, expected at least 3 (sequence 6 has 130 new tokens)");
  batch.tree_words = -1;
  EXPECT_EQ(message_of(batch),
            "plan: batch.tree_words is -1, expected at least 1 (sequence 0 has 5 new tokens)");
  const int32_t no_tokens[] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
  batch = c.batch();
  batch.query_offsets = no_tokens;
  batch.tree = nullptr;
  EXPECT_EQ(message_of(batch), "") << "no query, no bits";
  c.problem().tree = false;
  EXPECT_EQ(message_of(c.batch()),
            "plan: batch.tree is given, expected null (the problem was created without it)");
}

}  // namespace
}  // namespace folio::test
