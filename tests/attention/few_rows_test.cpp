// SPDX-License-Identifier: Apache-2.0
/// tests/attention/few_rows_test.cpp: which steps leave a kernel that multiplies tiles for one that
/// reads rows where they lie, and that all of them are right.
#include <gtest/gtest.h>

#include <vector>

#include "attention/check.h"
#include "attention/internals.h"
#include "attention/kernel_list.h"
#include "support/attention_case.h"
#include "support/random.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr int32_t most = 4;

AttentionProblem problem_of(DType dtype, StorageOrder order = StorageOrder::token_major,
                            Reproducible reproducible = Reproducible::per_plan) {
  CaseOptions options;
  options.q_dtype = options.out_dtype = DType::bf16;
  options.key_dtype = options.value_dtype = dtype;
  options.key_order = options.value_order = order;
  options.reproducible = reproducible;
  if (dtype == DType::i8)
    options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
  return resolve(AttentionCase(options).problem()).value();
}

const MachineProfile& a_profile() {
  static const MachineProfile profile = [] {
    MachineProfile p;
    p.in_place.rows_token_major = 4;
    p.in_place.rows_head_major = 2;
    return p;
  }();
  return profile;
}

FewRows few_rows_of(const AttentionProblem& problem, const MachineProfile& profile = a_profile(),
                    Capabilities machine = needs_amx_bf16) {
  return select_few_rows(problem, machine, profile, *select(problem, machine, profile, {}).value());
}

class SelectFewRows : public ::testing::Test {
  void SetUp() override {
    if (find_kernel("attention_grouped_amx_bf16") == nullptr)
      GTEST_SKIP() << "this build has no kernel that multiplies tiles";
  }
};

TEST_F(SelectFewRows, rows_that_are_few_depend_on_the_order_of_pages) {
  const FewRows token_major = few_rows_of(problem_of(DType::bf16));
  ASSERT_NE(token_major.kernel, nullptr);
  EXPECT_TRUE(token_major.kernel->reads_in_place);
  EXPECT_NE(token_major.kernel->arithmetic, Arithmetic::amx);
  EXPECT_EQ(token_major.most, 4);
  EXPECT_EQ(few_rows_of(problem_of(DType::bf16, StorageOrder::head_major)).most, 2);
}

TEST_F(SelectFewRows, what_no_profile_has_measured_stays) {
  EXPECT_EQ(few_rows_of(problem_of(DType::bf16), {}).kernel, nullptr);
  EXPECT_EQ(few_rows_of(problem_of(DType::i8)).kernel, nullptr) << "8 bits are converted: tiles";
  EXPECT_EQ(few_rows_of(problem_of(DType::bf16), a_profile(), needs_avx512_bf16).kernel, nullptr)
      << "without tiles there is nothing to leave";
}

TEST_F(SelectFewRows, bits_that_are_promised_keep_one_kernel) {
  for (const Reproducible level : {Reproducible::per_sequence, Reproducible::per_query}) {
    const AttentionProblem problem = problem_of(DType::bf16, StorageOrder::token_major, level);
    EXPECT_EQ(few_rows_of(problem).kernel, nullptr);
  }
}

TEST_F(SelectFewRows, a_slow_unit_is_not_taken) {
  MachineProfile slow = a_profile();
  slow.bf16_dot_is_slow = true;
  EXPECT_EQ(few_rows_of(problem_of(DType::bf16), slow).kernel->arithmetic, Arithmetic::vector);
}

/// The portable kernel under another name, which asks for more memory.
const Kernel& plain() { return kernels().back(); }
const Kernel& another() {
  static const Kernel kernel = [] {
    Kernel k = plain();
    k.name = "another";
    k.geometry = [](const AttentionProblem& problem) noexcept {
      KernelGeometry geometry = plain().geometry(problem);
      geometry.scratch_bytes += 4096;
      return geometry;
    };
    return k;
  }();
  return kernel;
}

/// Sequences on the portable kernel, steps of few rows on another.
class FewRowsStep : public ::testing::Test {
 protected:
  void run(const std::vector<SequenceShape>& sequences, double shared, const Kernel& expected) {
    CaseOptions options;
    options.sequences = sequences;
    options.shared = shared;
    options.seed = test_seed();
    options.q_heads = 4;
    options.kv_heads = 2;
    options.parallelism = 3;
    AttentionCase c(options);
    Attention attention = Attention::create(c.problem(), c.limits(), {}, plain().name).value();
    const int64_t workspace_before = attention.workspace_bytes();
    EXPECT_EQ(attention.few_rows_kernel(), "");
    AttentionInternals::set_few_rows(attention, &another(), most);
    attention = attention.with_limits(c.limits()).value();
    EXPECT_EQ(attention.kernel(), plain().name);
    EXPECT_EQ(attention.few_rows_kernel(), "another");
    EXPECT_GT(attention.workspace_bytes(), workspace_before) << "it suffices for both";

    GuardedMemory plan_memory(attention.plan_bytes()), workspace(attention.workspace_bytes());
    const AttentionPlan planned =
        plan(attention, c.batch(), {plan_memory.data(), attention.plan_bytes()}).value();
    EXPECT_EQ(kernel_of(attention, planned), expected.name);
    c.set_precision(precision_of(plain(), attention.problem()));
    c.poison_output();
    attend(attention, planned, c.args(), {workspace.data(), attention.workspace_bytes()},
           serial_executor())
        .or_throw();
    EXPECT_TRUE(matches_reference(c)) << describe(options);

    const Attention alone = Attention::create(c.problem(), c.limits(), {}, plain().name).value();
    EXPECT_EQ(check(alone, planned, c.args()).is_ok(), &expected == &plain())
        << "a plan for a kernel that this Attention has not";
    EXPECT_EQ(kernel_of(alone, planned), &expected == &plain() ? plain().name : "");
  }
};

TEST_F(FewRowsStep, one_token_of_each_sequence_is_few) {
  run({{1, 77}, {1, 300}, {0, 9}, {1, 1}}, 0.0, another());
}
TEST_F(FewRowsStep, as_many_rows_as_are_few) { run({{2, 77}, {1, 130}}, 0.0, another()); }
TEST_F(FewRowsStep, one_sequence_of_more_rows_decides) { run({{1, 77}, {3, 130}}, 0.0, plain()); }
TEST_F(FewRowsStep, a_step_without_queries) { run({{0, 77}}, 0.0, another()); }
TEST_F(FewRowsStep, rows_that_share_keys_are_many) {
  run(std::vector<SequenceShape>(12, {1, 400}), 1.0, plain());
}

TEST(FewRows, a_group_larger_than_few_rows_has_no_such_steps) {
  CaseOptions options;
  options.q_heads = 10;
  options.kv_heads = 2;
  options.sequences = {{1, 77}};
  AttentionCase c(options);
  Attention attention = Attention::create(c.problem(), c.limits(), {}, plain().name).value();
  AttentionInternals::set_few_rows(attention, &another(), most);
  attention = attention.with_limits(c.limits()).value();
  GuardedMemory plan_memory(attention.plan_bytes());
  const AttentionPlan planned =
      plan(attention, c.batch(), {plan_memory.data(), attention.plan_bytes()}).value();
  EXPECT_EQ(kernel_of(attention, planned), plain().name);
  EXPECT_EQ(kernel_of(attention, {}), "");
  EXPECT_EQ(kernel_of({}, planned), "");
}

TEST(FewRows, a_mask_that_the_other_kernel_has_not_leaves_all_steps_to_the_first) {
  CaseOptions options;
  AttentionCase c(options);
  static const Kernel narrow = [] {
    Kernel k = another();
    k.refuse = [](const AttentionProblem& problem) noexcept -> const char* {
      return problem.mask == Mask::causal() ? nullptr : "mask: causal alone";
    };
    return k;
  }();
  Attention attention = Attention::create(c.problem(), c.limits(), {}, plain().name).value();
  AttentionInternals::set_few_rows(attention, &narrow, most);
  attention = attention.with_limits(c.limits()).value();
  EXPECT_EQ(attention.with_mask(Mask::causal()).value().few_rows_kernel(), "another");
  EXPECT_EQ(attention.with_mask(Mask::sliding_window(16)).value().few_rows_kernel(), "");
}

}  // namespace
}  // namespace folio::test
