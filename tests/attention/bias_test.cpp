// SPDX-License-Identifier: Apache-2.0
/// tests/attention/bias_test.cpp: a finite bias stays finite, as does whatever else is added to a
/// logit, and one of -inf hides a key as a mask does, on every kernel.
#include "support/bias_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/attention.h"
#include "reference/elements.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

constexpr float largest = std::numeric_limits<float>::max();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Bias, at_both_ends_of_float32_is_right_on_every_kernel) {
  for (const BiasCase& one : bias_cases()) {
    SCOPED_TRACE(one.name);
    expect_every_kernel_right(one.options, {Adapt::shapes, one.arrange});
  }
}

TEST(Terms, at_both_ends_of_float32_are_right_on_every_kernel) {
  for (const BiasCase& one : term_cases()) {
    SCOPED_TRACE(one.name);
    expect_every_kernel_right(one.options, {Adapt::shapes, one.arrange});
  }
}

TEST(Bias, of_minus_infinity_leaves_an_empty_query) {
  for (const bool has_sinks : {false, true}) {
    CaseOptions options;
    options.bias = BiasForm::shared;
    options.sink_logits = has_sinks;
    options.head_size = 16;
    const auto arrange = [](AttentionCase& c) {
      set_bias(c, [](int64_t, int64_t) { return -infinity; });
    };
    for_each_kernel_case(
        options, {Adapt::shapes, arrange}, [&](AttentionCase& c, const std::string& kernel) {
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          for (int64_t row = 0; row < c.tokens(); ++row)
            for (int32_t head = 0; head < c.options().q_heads; ++head) {
              EXPECT_EQ(c.output_lse(row, head), has_sinks ? c.sink_logits()[head] : -infinity);
              for (int64_t d = 0; d < c.options().v_head_size; ++d) {
                ASSERT_EQ(c.output(row, head, d), 0.0);
                ASSERT_FALSE(std::signbit(c.output(row, head, d)));
              }
            }
        });
  }
}

/// What a mask takes away and what a bias of -inf takes away are the same bits.
TEST(Bias, of_minus_infinity_is_a_mask) {
  CaseOptions options;
  options.bias = BiasForm::shared;
  options.head_size = 32;
  options.mask = Mask::full();
  options.shared = 0.0;
  options.sequences = {{1, 300}, {6, 200}, {40, 150}};
  const auto arrange = [](AttentionCase& c) {
    set_bias(c, [](int64_t, int64_t key) { return static_cast<float>(key % 3); });
  };
  for_each_kernel_case(options, {Adapt::shapes, arrange},
                       [&](AttentionCase& c, const std::string& kernel) {
                         AttentionCase masked(c.options());
                         arrange(masked);
                         masked.problem().mask = Mask::sliding_window(50, 3);
                         ASSERT_TRUE(run_case(masked, kernel).is_ok());
                         set_bias(c, [&](int64_t row, int64_t key) {
                           const int32_t b = c.sequence_of(row);
                           const int64_t position =
                               c.batch().context_lengths[b] - c.batch().query_offsets[b + 1] + row;
                           const bool is_seen = key <= position && (key > position - 50 || key < 3);
                           return is_seen ? static_cast<float>(key % 3) : -infinity;
                         });
                         ASSERT_TRUE(run_case(c, kernel).is_ok());
                         EXPECT_EQ(c.output_bits(), masked.output_bits());
                       });
}

/// The mean of one head's values of dimension `d` over the keys of the first sequence.
double mean_value(const AttentionCase& c, int64_t d) {
  const PagedKVView& view = c.options().value_in_key ? c.args().key : c.args().value;
  const int32_t context = c.batch().context_lengths[0];
  double sum = 0.0;
  for (int32_t key = 0; key < context; ++key) {
    const reference::Slot slot = reference::slot_of(view, c.batch(), 0, key);
    sum += reference::element(view, slot.page, slot.slot, 0, static_cast<int32_t>(d));
  }
  return sum / context;
}

/// A sum of terms beyond float32 is the largest float: it neither hides a key nor makes a NaN. Here
/// the bias takes every key there, so that all weigh the same.
TEST(Bias, that_joins_other_terms_saturates) {
  for (const float sign : {-1.0f, 1.0f}) {
    CaseOptions options;
    options.bias = BiasForm::shared;
    options.alibi = true;
    options.head_size = 16;
    options.q_heads = options.kv_heads = 1;
    options.sequences = {{1, 90}};
    const std::vector<float> slopes(256, -sign * 1e36f);
    const auto arrange = [&](AttentionCase& c) {
      c.args().alibi_slopes = slopes.data();
      set_bias(c, [&](int64_t, int64_t) { return sign * largest; });
    };
    for_each_kernel_case(
        options, {Adapt::shapes, arrange}, [&](AttentionCase& c, const std::string& kernel) {
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          const auto lse = static_cast<double>(c.output_lse(0, 0));
          EXPECT_NEAR(lse / static_cast<double>(largest), static_cast<double>(sign), 1e-6);
          for (int64_t d = 0; d < c.options().v_head_size; ++d)
            ASSERT_NEAR(c.output(0, 0, d), mean_value(c, d), 0.01);
        });
  }
}

}  // namespace
}  // namespace folio::test
