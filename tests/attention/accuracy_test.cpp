// SPDX-License-Identifier: Apache-2.0
/// tests/attention/accuracy_test.cpp: float32 accumulation whose error does not grow with length; logits of any finite size.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/attention_case.h"
#include "support/run_case.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

/// `context` keys that are all the same page over and over.
CaseOptions equal_keys(int32_t context) {
  CaseOptions options;
  options.q_heads = options.kv_heads = 1;
  options.head_size = 8;
  options.page_size = context;
  options.sequences = {{1, context}};
  return options;
}

TEST(Accuracy, a_million_equal_keys_cost_no_more_than_a_few) {
  constexpr int32_t page_size = 64;
  for_each_kernel([&](const std::string& kernel) {
    for (const int32_t pages : {1, 16, 512, 16384}) {  // 2^6, 2^10, 2^15, 2^20 keys
      AttentionCase c(equal_keys(page_size));
      const PagedKVView view = c.args().key;
      for (int64_t slot = 1; slot < page_size; ++slot) {  // all slots hold what slot 0 holds
        for (const PagedKVView* plane : {&c.args().key, &c.args().value}) {
          auto* page = static_cast<std::byte*>(plane->data) + c.table_entries()[0] * plane->page_stride_bytes;
          std::memcpy(page + slot * plane->slot_stride_bytes, page, 8 * sizeof(float));
        }
      }
      const std::vector<uint32_t> table(static_cast<size_t>(pages), c.table_entries()[0]);
      const int32_t context = pages * page_size;
      c.batch().context_lengths = &context;
      c.batch().table.entries = table.data();
      ASSERT_EQ(run_case(c, kernel).message(), "");
      EXPECT_TRUE(matches_reference(c)) << context << " keys";
      // Beyond the bound of tolerance.h: no more than what one chain of spans costs, whatever the length.
      const auto v = static_cast<double>(*reinterpret_cast<const float*>(static_cast<const std::byte*>(c.args().value.data) +
                                                                         c.table_entries()[0] * view.page_stride_bytes));
      EXPECT_NEAR(c.output(0, 0, 0), v, std::fabs(v) * longest_chain * f32_roundoff) << context << " keys";
      EXPECT_NEAR(static_cast<double>(c.output_lse(0, 0)), c.expected(0, 0).lse, longest_chain * f32_roundoff)
          << context << " keys";
    }
  });
}

TEST(Accuracy, logits_of_a_hundred_thousand_are_right) {
  for (const float size : {1e2f, 1e4f, 1e5f}) {
    for (const bool sinks : {false, true}) {
      CaseOptions options;
      options.head_size = 16;
      options.q_amplitude = size;
      options.scale = 1.0f;
      options.sink_logits = sinks;
      options.bias = BiasForm::per_head;
      AttentionCase c(options);
      for_each_kernel([&](const std::string& kernel) { EXPECT_TRUE(kernel_is_right(c, kernel)); });
    }
  }
}

TEST(Accuracy, one_visible_key_far_below_zero_has_all_the_weight) {
  // Masked must mean -inf: a large finite number would outweigh a visible key of -1e5.
  for (const float logit : {-1e5f, -3e38f, 1e5f}) {
    CaseOptions options;
    options.head_size = 8;
    options.q_heads = options.kv_heads = 1;
    options.mask = Mask::sliding_window(1);
    options.bias = BiasForm::shared;
    options.sequences = {{1, 100}, {3, 3}};
    AttentionCase c(options);
    for (int64_t row = 0; row < c.tokens(); ++row) {
      const int64_t key = row == 0 ? 99 : row - 1;
      std::memcpy(static_cast<std::byte*>(c.args().bias.data) + row * c.args().bias.stride_bytes[1] + key * 4, &logit, 4);
    }
    for_each_kernel([&](const std::string& kernel) {
      EXPECT_TRUE(kernel_is_right(c, kernel));
      EXPECT_NEAR(static_cast<double>(c.output_lse(0, 0)), static_cast<double>(logit),
                  std::fabs(static_cast<double>(logit)) * 1e-6 + 10.0);
    });
  }
}

TEST(Accuracy, a_sink_that_outweighs_everything_leaves_nothing) {
  CaseOptions options;
  options.head_size = 8;
  options.sink_logits = true;
  AttentionCase c(options);
  std::vector<float> sinks(4, 1e5f);
  c.args().sink_logits = sinks.data();
  for_each_kernel([&](const std::string& kernel) {
    EXPECT_TRUE(kernel_is_right(c, kernel));
    EXPECT_EQ(c.output(0, 0, 0), 0.0);
    EXPECT_EQ(c.output_lse(0, 0), 1e5f);
  });
}

TEST(Accuracy, a_bias_of_minus_infinity_hides_a_key) {
  CaseOptions options;
  options.head_size = 8;
  options.q_heads = options.kv_heads = 1;
  options.bias = BiasForm::shared;
  options.sequences = {{1, 100}, {1, 1}};
  AttentionCase c(options);
  const float hidden = -std::numeric_limits<float>::infinity();
  for (int64_t key = 0; key < 100; key += 3) std::memcpy(static_cast<std::byte*>(c.args().bias.data) + key * 4, &hidden, 4);
  // The only key of the second sequence: nothing is left.
  std::memcpy(static_cast<std::byte*>(c.args().bias.data) + c.args().bias.stride_bytes[1], &hidden, 4);
  for_each_kernel([&](const std::string& kernel) {
    EXPECT_TRUE(kernel_is_right(c, kernel));
    EXPECT_EQ(c.output_lse(1, 0), hidden);
    EXPECT_EQ(c.output(1, 0, 3), 0.0);
  });
}

TEST(Accuracy, ascending_and_descending_logits) {
  // Ascending: every key raises the running maximum. Descending: the first one decides.
  for (const float slope : {0.01f, -0.01f, 3.0f, -3.0f}) {
    CaseOptions options;
    options.head_size = 16;
    options.q_heads = options.kv_heads = 1;
    options.bias = BiasForm::shared;
    options.sequences = {{1, 3000}};
    AttentionCase c(options);
    for (int64_t key = 0; key < 3000; ++key) {
      const float bias = slope * static_cast<float>(key);
      std::memcpy(static_cast<std::byte*>(c.args().bias.data) + key * 4, &bias, 4);
    }
    for_each_kernel([&](const std::string& kernel) { EXPECT_TRUE(kernel_is_right(c, kernel)) << slope; });
  }
}

}  // namespace
}  // namespace folio::test
