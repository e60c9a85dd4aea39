// SPDX-License-Identifier: Apache-2.0
/// tests/attention/select_test.cpp: which kernel serves a problem: the list's order, missing
/// instructions, names, FOLIO_FORCE_KERNEL.
///
/// The variable is read once per process, so each test about it runs in a process of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "cpu/features.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

constexpr Capabilities machines[] = {needs_cpu, needs_x86_64_v3, needs_x86_64_v4, needs_avx512_bf16,
                                     needs_amx_bf16};

AttentionProblem some_problem() { return resolve(AttentionCase(CaseOptions{}).problem()).value(); }

TEST(Select, names_are_unique_and_every_kernel_is_complete) {
  std::set<std::string_view> names;
  for (const Kernel& kernel : kernels()) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
    const bool runs_here =
        kernel.geometry != nullptr && kernel.run != nullptr && kernel.finish != nullptr;
    EXPECT_TRUE(kernel.refuse != nullptr && runs_here != (kernel.device != nullptr)) << kernel.name;
  }
  EXPECT_FALSE(names.empty());
}

TEST(Select, the_best_kernel_that_the_machine_can_run_is_taken) {
  const AttentionProblem problem = some_problem();
  for (const Capabilities machine : machines) {
    const Result<const Kernel*> selected = select(problem, machine, profile_of({}), {});
    ASSERT_TRUE(selected.has_value());
    const auto first = std::find_if(kernels().begin(), kernels().end(), [&](const Kernel& kernel) {
      return refusal(kernel, problem, machine) == nullptr;
    });
    EXPECT_EQ((*selected)->name, first->name) << machine.word();
    EXPECT_TRUE(machine.has_all((*selected)->needs)) << machine.word();
    EXPECT_FALSE((*selected)->needs.has(Capability::avx512_bf16)) << "f32 has no narrower products";
  }
}

TEST(Select, a_unit_that_the_machine_is_slow_at_is_taken_only_if_nothing_else_accepts) {
  AttentionCase c([] {
    CaseOptions options;
    options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
    return options;
  }());
  const AttentionProblem problem = resolve(c.problem()).value();
  MachineProfile slow, fast;
  slow.bf16_dot_is_slow = true;
  EXPECT_NE(select(problem, needs_avx512_bf16, slow, {}).value()->arithmetic, Arithmetic::bf16_dot);
  for (const Kernel& kernel : kernels()) {
    if (kernel.arithmetic != Arithmetic::bf16_dot ||
        refusal(kernel, problem, needs_avx512_bf16) != nullptr)
      continue;
    EXPECT_EQ(select(problem, needs_avx512_bf16, fast, {}).value()->arithmetic,
              Arithmetic::bf16_dot);
    EXPECT_EQ(select(problem, needs_avx512_bf16, slow, kernel.name).value()->name, kernel.name)
        << "the caller's name decides";
  }
}

TEST(Select, a_kernel_whose_instructions_are_missing_refuses_with_the_reason) {
  const AttentionProblem problem = some_problem();
  for (const Kernel& kernel : kernels()) {
    for (int i = 0; i < num_capabilities; ++i) {
      const auto capability = static_cast<Capability>(i);
      if (!kernel.needs.has(capability)) continue;
      const Capabilities whole = kernel.device != nullptr ? needs_tensor_maps : needs_amx_bf16;
      const Capabilities machine = whole.without(capability);
      ASSERT_NE(refusal(kernel, problem, machine), nullptr);
      const Result<const Kernel*> selected =
          select(problem, machine, machine_profile(), kernel.name);
      ASSERT_FALSE(selected.has_value());
      EXPECT_EQ(selected.error().code(), Errc::unsupported);
      EXPECT_NE(selected.error().message().find(name(capability)), std::string_view::npos)
          << selected.error().message();
    }
  }
}

TEST(Select, a_level_that_is_not_promised_is_refused) {
  AttentionProblem problem = some_problem();
  problem.reproducible = Reproducible::per_query;
  Kernel kernel = kernels().back();
  EXPECT_EQ(refusal(kernel, problem, needs_cpu), nullptr);
  kernel.promises = Reproducible::per_sequence;
  ASSERT_NE(refusal(kernel, problem, needs_cpu), nullptr);
  EXPECT_NE(std::strstr(refusal(kernel, problem, needs_cpu), "reproducible"), nullptr);
}

TEST(Select, the_callers_name_decides) {
  for_each_kernel_case({}, [](AttentionCase& c, const std::string& kernel) {
    EXPECT_EQ(Attention::create(c.problem(), c.limits(), {}, kernel).value().kernel(), kernel);
  });
}

/// Runs in a child process that has asked for nothing yet: exit status 0 if `create` answers as
/// expected.
void check_forced(const char* value, const char* argument, std::string_view expected_kernel,
                  Errc expected_error) {
  setenv("FOLIO_FORCE_KERNEL", value, 1);
  AttentionCase c(CaseOptions{});
  const Result<Attention> attention = Attention::create(c.problem(), c.limits(), {}, argument);
  const bool right = expected_error == Errc::ok
                         ? attention.has_value() && attention->kernel() == expected_kernel
                         : !attention.has_value() && attention.error().code() == expected_error &&
                               attention.error().message().find(value) != std::string_view::npos;
  std::_Exit(right ? 0 : 1);
}

constexpr const char* plainest = "attention_paged_any_x86_64";

TEST(ForcedKernelDeathTest, the_variable_chooses_by_name) {
  EXPECT_EXIT(check_forced(plainest, "", plainest, Errc::ok), ::testing::ExitedWithCode(0), "");
}

TEST(ForcedKernelDeathTest, an_unknown_name_is_an_error_that_shows_it) {
  EXPECT_EXIT(check_forced("no_such_kernel", "", "", Errc::invalid_argument),
              ::testing::ExitedWithCode(0), "");
}

TEST(ForcedKernelDeathTest, the_callers_argument_wins) {
  EXPECT_EXIT(check_forced("no_such_kernel", plainest, plainest, Errc::ok),
              ::testing::ExitedWithCode(0), "");
}

TEST(ForcedKernelDeathTest, an_empty_value_is_none) {
  const std::string best(
      select(some_problem(), machine_capabilities(), machine_profile(), {}).value()->name);
  EXPECT_EXIT(check_forced("", "", best, Errc::ok), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace folio::test
