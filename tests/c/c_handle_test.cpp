// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_handle_test.cpp: other limits and other masks of an attention through the C interface.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c/c_case.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

std::vector<std::byte> bits_of(CCase& run, AttentionCase& c) {
  EXPECT_EQ(run.code, FOLIO_OK) << run.message.text;
  c.poison_output();
  EXPECT_EQ(run.attend(nullptr), FOLIO_OK) << run.message.text;
  return c.output_bits();
}

void expect_same(const folio_attention* made, const folio_attention* fresh) {
  EXPECT_STREQ(folio_get_kernel(made), folio_get_kernel(fresh));
  EXPECT_EQ(folio_get_plan_bytes(made), folio_get_plan_bytes(fresh));
  EXPECT_EQ(folio_get_workspace_bytes(made), folio_get_workspace_bytes(fresh));
}

CaseOptions parallel_options(Mask mask) {
  CaseOptions options;
  options.sequences = {{2, 40}, {3, 20}, {1, 3000}};
  options.parallelism = 3;
  options.mask = mask;
  return options;
}

TEST(CHandle, other_limits_give_what_a_new_handle_gives) {
  AttentionCase c(parallel_options(Mask::causal()));
  CCase fresh(c);
  const CProblem problem(c.problem());
  const folio_limits one = to_c(AttentionLimits{.parallelism = 1});
  folio_attention* small = nullptr;
  folio_attention* large = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_create_attention(&problem.problem, &one, FOLIO_CPU, 0, nullptr, &small, &message),
            FOLIO_OK)
      << message.text;
  const Handle first(small);
  ASSERT_EQ(folio_attention_with_limits(small, &fresh.limits, &large, &message), FOLIO_OK)
      << message.text;
  EXPECT_STREQ(message.text, "");
  CCase begotten(c, Handle(large));
  expect_same(large, fresh.attention.get());
  EXPECT_GT(folio_get_plan_bytes(large), folio_get_plan_bytes(small));
  EXPECT_EQ(bits_of(begotten, c), bits_of(fresh, c));
}

TEST(CHandle, another_mask_gives_what_a_new_handle_gives) {
  for (const Mask mask :
       {Mask::full(), Mask::sliding_window(20, 3), Mask::chunked(48), Mask{0, 0, 0, 0}}) {
    AttentionCase causal(parallel_options(Mask::causal())), c(parallel_options(mask));
    CCase of_causal(causal), fresh(c);
    const folio_mask wanted = to_c(mask);
    folio_attention* masked = nullptr;
    folio_message message = {};
    ASSERT_EQ(folio_attention_with_mask(of_causal.attention.get(), &wanted, &masked, &message),
              FOLIO_OK)
        << message.text;
    CCase begotten(c, Handle(masked));
    expect_same(masked, fresh.attention.get());
    expect_same(masked, of_causal.attention.get());
    const std::vector<std::byte> bits = bits_of(fresh, c);
    EXPECT_EQ(bits_of(begotten, c), bits);
    EXPECT_NE(bits_of(of_causal, causal), bits);
    c.set_precision(precision_of(kernel_of(folio_get_kernel(masked)), c.problem()));
    EXPECT_TRUE(matches_reference(c));
  }
}

TEST(CHandle, what_was_made_outlives_what_it_was_made_from) {
  AttentionCase c(parallel_options(Mask::full()));
  CCase fresh(c);
  const folio_mask full = to_c(Mask::full());
  folio_attention* masked = nullptr;
  folio_attention* both = nullptr;
  {
    AttentionCase causal(parallel_options(Mask::causal()));
    const CCase of_causal(causal);
    ASSERT_EQ(folio_attention_with_mask(of_causal.attention.get(), &full, &masked, nullptr),
              FOLIO_OK);
  }
  ASSERT_EQ(folio_attention_with_limits(masked, &fresh.limits, &both, nullptr), FOLIO_OK);
  folio_destroy_attention(masked);
  CCase begotten(c, Handle(both));
  EXPECT_EQ(bits_of(begotten, c), bits_of(fresh, c));
}

TEST(CHandle, a_plan_belongs_to_the_mask_that_it_was_made_with) {
  AttentionCase c(parallel_options(Mask::causal()));
  CCase run(c);
  const folio_mask full = to_c(Mask::full());
  folio_attention* masked = nullptr;
  ASSERT_EQ(folio_attention_with_mask(run.attention.get(), &full, &masked, nullptr), FOLIO_OK);
  run.attention.reset(masked);
  EXPECT_EQ(run.attend(nullptr), FOLIO_INVALID_ARGUMENT) << run.message.text;
}

TEST(CHandle, a_shorter_mask_of_an_older_caller_is_causal) {
  AttentionCase c(parallel_options(Mask::causal())), full(parallel_options(Mask::full()));
  CCase of_full(full);
  folio_mask older = {offsetof(folio_mask, left), 77, 77, 77, 77};
  folio_attention* masked = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_attention_with_mask(of_full.attention.get(), &older, &masked, &message), FOLIO_OK)
      << message.text;
  CCase begotten(c, Handle(masked)), fresh(c);
  EXPECT_EQ(bits_of(begotten, c), bits_of(fresh, c));
}

/// The call fails with these words and leaves null.
template <class Call>
void expect_refused(folio_code expected, const char* words, Call call) {
  auto* made = reinterpret_cast<folio_attention*>(alignof(std::max_align_t));
  folio_message message = {};
  EXPECT_EQ(call(&made, &message), expected) << words;
  EXPECT_EQ(made, nullptr) << words;
  EXPECT_NE(std::string(message.text).find(words), std::string::npos) << message.text;
}

TEST(CHandle, mistakes_are_named_and_leave_null) {
  AttentionCase c(CaseOptions{});
  const CCase t(c);
  const folio_attention* const good = t.attention.get();
  const auto limits = [&](folio_code code, const char* words, const folio_attention* of,
                          const folio_limits* l) {
    expect_refused(code, words, [&](folio_attention** made, folio_message* message) {
      return folio_attention_with_limits(of, l, made, message);
    });
  };
  const auto mask = [&](folio_code code, const char* words, const folio_attention* of,
                        const folio_mask* m) {
    expect_refused(code, words, [&](folio_attention** made, folio_message* message) {
      return folio_attention_with_mask(of, m, made, message);
    });
  };
  const folio_mask causal = to_c(Mask::causal());
  folio_limits bad_limits = t.limits;
  folio_mask bad_mask = causal;
  limits(FOLIO_INVALID_ARGUMENT, "folio_attention_with_limits: attention is null", nullptr,
         &t.limits);
  limits(FOLIO_INVALID_ARGUMENT, "folio_attention_with_limits: limits is null", good, nullptr);
  bad_limits.struct_size = 3;
  limits(FOLIO_INVALID_ARGUMENT, "limits->struct_size is 3", good, &bad_limits);
  bad_limits = t.limits;
  bad_limits.batch = 0;
  limits(FOLIO_INVALID_ARGUMENT, "limits.batch is 0, expected at least 1", good, &bad_limits);
  mask(FOLIO_INVALID_ARGUMENT, "folio_attention_with_mask: attention is null", nullptr, &causal);
  mask(FOLIO_INVALID_ARGUMENT, "folio_attention_with_mask: mask is null", good, nullptr);
  bad_mask.left = -7;
  mask(FOLIO_INVALID_ARGUMENT, "mask.left is -7", good, &bad_mask);
  bad_mask = causal;
  bad_mask.struct_size = 3;
  mask(FOLIO_INVALID_ARGUMENT, "mask->struct_size is 3", good, &bad_mask);
  struct NewerMask {
    folio_mask mask;
    int32_t wish;
  } newer{causal, 1};
  newer.mask.struct_size = sizeof newer;
  mask(FOLIO_UNSUPPORTED, "mask->struct_size is 24, 20 are known here", good, &newer.mask);
  EXPECT_EQ(folio_attention_with_limits(good, &t.limits, nullptr, nullptr), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_attention_with_mask(good, &causal, nullptr, nullptr), FOLIO_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace folio::test
