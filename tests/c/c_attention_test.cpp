// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_attention_test.cpp: attention through the C interface: the same bits, the same errors,
/// structs of other ages.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "attention/attend_error_rows.h"
#include "c/c_case.h"
#include "support/executors.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

std::vector<std::byte> bits_through_cpp(AttentionCase& c) {
  EXPECT_TRUE(run_case(c, {}).is_ok());
  return c.output_bits();
}

CaseOptions parallel_options() {
  CaseOptions options = full_options();
  options.sequences = {{2, 40}, {3, 20}, {1, 5000}};
  options.parallelism = 4;
  return options;
}

TEST(CAttention, gives_the_bits_of_the_cpp_interface) {
  AttentionCase c(parallel_options());
  const std::vector<std::byte> expected = bits_through_cpp(c);
  CCase through_c(c);
  ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
  EXPECT_STREQ(folio_get_kernel(through_c.attention.get()),
               std::string(prepare_case(c, {}, c.limits())->attention.kernel()).c_str());

  auto own_threads = c_struct<folio_executor>();
  ASSERT_EQ(folio_get_default_executor(2, &own_threads, nullptr), FOLIO_OK);
  auto thread_pool = c_struct<folio_executor>();
  ASSERT_EQ(folio_get_thread_pool_executor(2, &thread_pool, nullptr), FOLIO_OK);
  const Executor serial = serial_executor();
  const folio_executor callers = to_c(serial);
  for (const folio_executor* executor : std::initializer_list<const folio_executor*>{
           nullptr, &callers, &own_threads, &thread_pool}) {
    c.poison_output();
    ASSERT_EQ(through_c.attend(executor), FOLIO_OK) << through_c.message.text;
    EXPECT_EQ(c.output_bits(), expected);
    EXPECT_STREQ(through_c.message.text, "");
  }
}

TEST(CAttention, forms_of_terms_and_lists_of_keys_give_the_bits_of_the_cpp_interface) {
  CaseOptions forms;
  forms.sink_logits = forms.sink_per_query = forms.alibi = forms.alibi_positions = true;
  forms.bias = BiasForm::per_head;
  forms.bias_per_sequence = true;
  forms.sink_dtype = forms.bias_dtype = DType::f16;
  CaseOptions lists;
  lists.selected = 70;
  for (const CaseOptions& options : {forms, lists}) {
    AttentionCase c(options);
    const std::vector<std::byte> expected = bits_through_cpp(c);
    CCase through_c(c);
    ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
    c.poison_output();
    ASSERT_EQ(through_c.attend(nullptr), FOLIO_OK) << through_c.message.text;
    EXPECT_EQ(c.output_bits(), expected);
  }
}

TEST(CAttention, parallelism_0_is_what_the_librarys_own_threads_run) {
  AttentionCase c(parallel_options());
  AttentionLimits limits = c.limits();
  limits.parallelism = 0;
  CProblem problem(c.problem());
  const folio_limits open = to_c(limits);
  folio_attention* made = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_create_attention(&problem.problem, &open, FOLIO_CPU, 0, nullptr, &made, &message),
            FOLIO_OK)
      << message.text;
  const Handle attention(made);
  EXPECT_EQ(folio_get_workspace_bytes(made),
            Attention::create(c.problem(), limits).value().workspace_bytes());
}

TEST(CAttention, tasks_run_on_the_callers_threads_in_any_order) {
  AttentionCase c(parallel_options());
  const std::vector<std::byte> expected = bits_through_cpp(c);
  CCase through_c(c);
  ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
  c.poison_output();
  const auto prepare = [&] {
    return folio_prepare(through_c.attention.get(), &through_c.plan, &through_c.args.args,
                         through_c.workspace.data(), through_c.workspace.bytes(),
                         &through_c.message);
  };
  const auto run = [&](int64_t task) {
    return folio_attend_task(through_c.attention.get(), &through_c.plan, &through_c.args.args,
                             through_c.workspace.data(), through_c.workspace.bytes(), task,
                             nullptr);
  };
  ASSERT_EQ(prepare(), FOLIO_OK) << through_c.message.text;
  const int64_t tasks = folio_get_num_tasks(&through_c.plan);
  ASSERT_GT(tasks, 1);
  std::thread other([&] {
    for (int64_t i = tasks - 1; i >= 0; i -= 2) EXPECT_EQ(run(i), FOLIO_OK);
  });
  for (int64_t i = tasks - 2; i >= 0; i -= 2) EXPECT_EQ(run(i), FOLIO_OK);
  other.join();
  EXPECT_EQ(c.output_bits(), expected);
  EXPECT_EQ(run(-1), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(run(tasks), FOLIO_INVALID_ARGUMENT);

  folio_tensor other_q = *through_c.args.args.q;
  other_q.extent[2] += 8;
  folio_args other_args = through_c.args.args;
  other_args.q = &other_q;
  EXPECT_EQ(folio_attend_task(through_c.attention.get(), &through_c.plan, &other_args,
                              through_c.workspace.data(), through_c.workspace.bytes(), 0,
                              &through_c.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(std::string_view(through_c.message.text).substr(0, 14), "attend_task: q");
}

void expect_text(const folio_message& message, const char* words) {
  EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text << "\nhas not: " << words;
}

TEST(CAttention, mistakes_of_create_are_named) {
  AttentionCase c(full_options());
  for (const ProblemRow& row : problem_rows) {
    AttentionProblem problem = c.problem();
    AttentionLimits limits = c.limits();
    row.break_it(problem, limits);
    const CProblem broken(problem);
    const folio_limits l = to_c(limits);
    folio_attention* made = nullptr;
    folio_message message = {};
    EXPECT_EQ(folio_create_attention(&broken.problem, &l, FOLIO_CPU, 0, nullptr, &made, &message),
              FOLIO_INVALID_ARGUMENT)
        << row.words;
    EXPECT_EQ(made, nullptr);
    expect_text(message, row.words);
  }
}

TEST(CAttention, mistakes_of_plan_are_named) {
  AttentionCase c(full_options());
  CCase through_c(c);
  ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
  for (const BatchRow& row : batch_rows) {
    Batch broken = c.batch();
    row.break_it(broken);
    const folio_batch batch = to_c(broken);
    folio_plan plan;
    EXPECT_EQ(folio_make_plan(through_c.attention.get(), &batch, through_c.plan_memory.data(),
                              through_c.plan_memory.bytes(), &plan, &through_c.message),
              FOLIO_INVALID_ARGUMENT)
        << row.words;
    expect_text(through_c.message, row.words);
  }
}

TEST(CAttention, mistakes_of_attend_are_named_and_nothing_is_written) {
  AttentionCase c(full_options());
  CCase through_c(c);
  ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
  c.poison_output();
  const std::vector<std::byte> untouched = c.output_bits();
  for (const ArgsRow& row : args_rows) {
    AttentionArgs broken = c.args();
    row.break_it(broken);
    const CArgs args(broken);
    EXPECT_EQ(folio_attend(through_c.attention.get(), &through_c.plan, &args.args,
                           through_c.workspace.data(), through_c.workspace.bytes(), nullptr,
                           &through_c.message),
              FOLIO_INVALID_ARGUMENT)
        << row.words;
    expect_text(through_c.message, row.words);
    EXPECT_EQ(
        folio_prepare(through_c.attention.get(), &through_c.plan, &args.args,
                      through_c.workspace.data(), through_c.workspace.bytes(), &through_c.message),
        FOLIO_INVALID_ARGUMENT)
        << row.words;
    EXPECT_EQ(std::string_view(through_c.message.text).substr(0, 9), "prepare: ");
    expect_text(through_c.message, row.words);
  }
  EXPECT_EQ(c.output_bits(), untouched);
}

TEST(CAttention, null_pointers_and_missing_functions_are_named) {
  AttentionCase c(full_options());
  CCase t(c);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  folio_attention* made = nullptr;
  const auto attend = [&](const folio_attention* a, const folio_plan* p, const folio_args* args,
                          const folio_executor* e) {
    return folio_attend(a, p, args, t.workspace.data(), t.workspace.bytes(), e, &t.message);
  };
  const auto no_functions = c_struct<folio_executor>();
  EXPECT_EQ(folio_create_attention(nullptr, &t.limits, FOLIO_CPU, 0, nullptr, &made, &t.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "problem is null");
  EXPECT_EQ(
      folio_create_attention(&t.problem.problem, nullptr, FOLIO_CPU, 0, nullptr, &made, &t.message),
      FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "limits is null");
  EXPECT_EQ(folio_create_attention(&t.problem.problem, &t.limits, FOLIO_CPU, 0, nullptr, nullptr,
                                   &t.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "attention is null");
  EXPECT_EQ(folio_create_attention(&t.problem.problem, &t.limits, 7, 0, nullptr, &made, &t.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "device_kind is 7");
  EXPECT_EQ(folio_create_attention(&t.problem.problem, &t.limits, FOLIO_CPU, 0, "no_such_kernel",
                                   &made, &t.message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "no_such_kernel");
  EXPECT_EQ(attend(nullptr, &t.plan, &t.args.args, nullptr), FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "attention is null");
  EXPECT_EQ(attend(t.attention.get(), nullptr, &t.args.args, nullptr), FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "plan is null");
  EXPECT_EQ(attend(t.attention.get(), &t.plan, nullptr, nullptr), FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "args is null");
  EXPECT_EQ(attend(t.attention.get(), &t.plan, &t.args.args, &no_functions),
            FOLIO_INVALID_ARGUMENT);
  expect_text(t.message, "executor->concurrency is null");
  folio_destroy_attention(nullptr);
  EXPECT_EQ(attend(nullptr, nullptr, nullptr, nullptr), FOLIO_INVALID_ARGUMENT);
}

TEST(CAttention, a_shorter_struct_of_an_older_caller_is_taken_with_defaults) {
  CaseOptions options;
  options.sequences = {{2, 40}};
  AttentionCase c(options);
  const std::vector<std::byte> expected = bits_through_cpp(c);
  CCase through_c(c);
  folio_problem& problem = through_c.problem.problem;
  // An older caller knew nothing behind out_dtype: causal, no options, default scale. What lies
  // behind its struct is not ours.
  problem.struct_size = offsetof(folio_problem, mask_left);
  problem.mask_left = problem.mask_chunk = 77;
  problem.options = -1;
  problem.scale = problem.softcap = std::numeric_limits<float>::quiet_NaN();
  through_c.args.args.struct_size = offsetof(folio_args, sink_logits);
  through_c.args.args.sink_logits = reinterpret_cast<const float*>(1);
  through_c.batch.struct_size = offsetof(folio_batch, query_positions);
  through_c.batch.query_positions = reinterpret_cast<const int32_t*>(1);
  folio_attention* made = nullptr;
  ASSERT_EQ(folio_create_attention(&problem, &through_c.limits, FOLIO_CPU, 0, nullptr, &made,
                                   &through_c.message),
            FOLIO_OK)
      << through_c.message.text;
  const Handle attention(made);
  folio_plan plan;
  ASSERT_EQ(folio_make_plan(made, &through_c.batch, through_c.plan_memory.data(),
                            through_c.plan_memory.bytes(), &plan, &through_c.message),
            FOLIO_OK)
      << through_c.message.text;
  c.poison_output();
  ASSERT_EQ(folio_attend(made, &plan, &through_c.args.args, through_c.workspace.data(),
                         through_c.workspace.bytes(), nullptr, &through_c.message),
            FOLIO_OK)
      << through_c.message.text;
  EXPECT_EQ(c.output_bits(), expected);
}

TEST(CAttention, a_longer_struct_of_a_newer_caller_is_taken_only_if_nothing_new_is_asked) {
  struct NewerLimits {
    folio_limits limits;
    int32_t wish;
  };
  AttentionCase c(CaseOptions{});
  const CProblem problem(c.problem());
  NewerLimits newer{to_c(c.limits()), 0};
  newer.limits.struct_size = sizeof newer;
  folio_attention* made = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_create_attention(&problem.problem, &newer.limits, FOLIO_CPU, 0, nullptr, &made,
                                   &message),
            FOLIO_OK)
      << message.text;
  folio_destroy_attention(made);
  newer.wish = 1;
  EXPECT_EQ(folio_create_attention(&problem.problem, &newer.limits, FOLIO_CPU, 0, nullptr, &made,
                                   &message),
            FOLIO_UNSUPPORTED);
  expect_text(message, "limits->struct_size is 28");
  newer.limits.struct_size = 3;
  EXPECT_EQ(folio_create_attention(&problem.problem, &newer.limits, FOLIO_CPU, 0, nullptr, &made,
                                   &message),
            FOLIO_INVALID_ARGUMENT);
  expect_text(message, "limits->struct_size is 3");
}

TEST(CAttention, refuse_gives_the_reason) {
  AttentionCase c(full_options());
  CProblem problem(c.problem());
  EXPECT_EQ(folio_refuse(&problem.problem, FOLIO_CPU, 0), nullptr);
  problem.problem.options |= FOLIO_SELECTION;
  ASSERT_NE(folio_refuse(&problem.problem, FOLIO_CPU, 0), nullptr);
  EXPECT_NE(std::strstr(folio_refuse(&problem.problem, FOLIO_CPU, 0), "selection"), nullptr);
  EXPECT_NE(folio_refuse(nullptr, FOLIO_CPU, 0), nullptr);
}

TEST(CAttention, a_parallelism_of_zero_is_what_the_default_executor_offers) {
  const AttentionCase c(CaseOptions{});
  const CProblem problem(c.problem());
  const auto workspace_bytes = [&](const folio_limits& limits) {
    folio_attention* made = nullptr;
    EXPECT_EQ(
        folio_create_attention(&problem.problem, &limits, FOLIO_CPU, 0, nullptr, &made, nullptr),
        FOLIO_OK);
    const Handle attention(made);
    return folio_get_workspace_bytes(made);
  };
  const Executor executor = default_executor();
  folio_limits limits = to_c(c.limits());
  limits.parallelism = executor.concurrency(executor.context);
  const int64_t given = workspace_bytes(limits);
  EXPECT_GT(given, 0);
  limits.parallelism = 0;
  EXPECT_EQ(workspace_bytes(limits), given);
  // a caller who knew no parallelism
  limits.parallelism = -7;
  limits.struct_size = offsetof(folio_limits, parallelism);
  EXPECT_EQ(workspace_bytes(limits), given);
}

TEST(CAttention, shared_levels_have_a_default_and_can_be_none) {
  const AttentionCase c(CaseOptions{});
  const CProblem problem(c.problem());
  const auto plan_bytes = [&](const folio_limits& limits, const char* word = nullptr) {
    folio_attention* made = nullptr;
    folio_message message = {};
    const folio_code code =
        folio_create_attention(&problem.problem, &limits, FOLIO_CPU, 0, nullptr, &made, &message);
    EXPECT_EQ(code, word == nullptr ? FOLIO_OK : FOLIO_INVALID_ARGUMENT);
    if (word != nullptr) {
      EXPECT_NE(std::strstr(message.text, word), nullptr) << message.text;
    }
    const Handle attention(made);
    return folio_get_plan_bytes(made);
  };
  folio_limits limits = to_c(c.limits());
  limits.batch = 8;
  limits.shared_levels = 2;
  const int64_t two = plan_bytes(limits);
  limits.shared_levels = 0;
  EXPECT_EQ(plan_bytes(limits), two);
  limits.shared_levels = -1;
  EXPECT_LT(plan_bytes(limits), two);
  limits.shared_levels = 8;
  EXPECT_GT(plan_bytes(limits), two);
  limits.shared_levels = 9;
  plan_bytes(limits, "limits.shared_levels is 9, expected 0 to 8");
  limits.shared_levels = -2;
  plan_bytes(limits, "limits.shared_levels is -2, expected -1 to 8");
  limits.struct_size = offsetof(folio_limits, shared_levels);  // who knew nothing of it
  EXPECT_EQ(plan_bytes(limits), two);
  EXPECT_EQ(folio_get_keys_read(nullptr, nullptr), 0);
}

TEST(CAttention, kernels_are_listed_by_the_names_that_create_takes) {
  const int32_t count = folio_get_num_kernels();
  ASSERT_GE(count, 1);
  AttentionCase c(CaseOptions{});
  const CProblem problem(c.problem());
  const folio_limits limits = to_c(c.limits());
  int made_any = 0;
  for (int32_t i = 0; i < count; ++i) {
    const char* const name = folio_get_kernel_name(i);
    folio_attention* made = nullptr;
    folio_message message = {};
    const folio_code code =
        folio_create_attention(&problem.problem, &limits, FOLIO_CPU, 0, name, &made, &message);
    const Handle attention(made);
    EXPECT_TRUE(code == FOLIO_OK || code == FOLIO_UNSUPPORTED) << name << ": " << message.text;
    if (code != FOLIO_OK) continue;
    ++made_any;
    EXPECT_STREQ(folio_get_kernel(made), name);
  }
  EXPECT_GE(made_any, 1);
  EXPECT_STREQ(folio_get_kernel_name(-1), "");
  EXPECT_STREQ(folio_get_kernel_name(count), "");
}

TEST(CAttention, codes_and_types_are_those_of_the_cpp_interface) {
  EXPECT_STREQ(folio_get_code_name(FOLIO_OUT_OF_PAGES), name(Errc::out_of_pages));
  EXPECT_STREQ(folio_get_code_name(FOLIO_INTERNAL), name(Errc::internal));
  EXPECT_STREQ(folio_get_code_name(99), "unknown");
  EXPECT_EQ(static_cast<int>(DType::f32), FOLIO_F32);
  EXPECT_EQ(static_cast<int>(DType::bf16), FOLIO_BF16);
  EXPECT_EQ(static_cast<int>(DType::f16), FOLIO_F16);
  EXPECT_EQ(static_cast<int>(DType::f8_e4m3), FOLIO_F8_E4M3);
  EXPECT_EQ(static_cast<int>(DType::f8_e5m2), FOLIO_F8_E5M2);
  EXPECT_EQ(static_cast<int>(DType::f8_e8m0), FOLIO_F8_E8M0);
  EXPECT_EQ(static_cast<int>(DType::i8), FOLIO_I8);
  EXPECT_EQ(static_cast<int>(DType::q8_0), FOLIO_Q8_0);
  EXPECT_EQ(static_cast<int>(DType::q4_0), FOLIO_Q4_0);
  EXPECT_EQ(static_cast<int>(DType::q4_1), FOLIO_Q4_1);
  EXPECT_EQ(static_cast<int>(DType::q5_0), FOLIO_Q5_0);
  EXPECT_EQ(static_cast<int>(DType::q5_1), FOLIO_Q5_1);
  EXPECT_EQ(static_cast<int>(DType::iq4_nl), FOLIO_IQ4_NL);
  EXPECT_EQ(unbounded_page_size, FOLIO_UNBOUNDED_PAGE_SIZE);
  EXPECT_EQ(folio_get_version() >> 16, 1u);
}

}  // namespace
}  // namespace folio::test
