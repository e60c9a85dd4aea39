// SPDX-License-Identifier: Apache-2.0
/// tests/attention/strides_test.cpp: strides come with the call: one handle serves planes and
/// scales that lie otherwise than those it was created with, with the bits of a handle of their
/// own.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

/// Runs the case with an Attention that was created for `planned`, a case of the same problem but
/// for its strides.
Status run_with_handle_of(const AttentionCase& planned, AttentionCase& c,
                          const std::string& kernel) {
  c.poison_output();
  AttentionProblem problem = c.problem();
  problem.key = planned.problem().key;
  problem.value = planned.problem().value;
  const Result<Attention> attention = Attention::create(problem, c.limits(), {}, kernel);
  if (!attention) return attention.error();
  const GuardedMemory plan_memory(attention->plan_bytes(), 64);
  const GuardedMemory workspace(attention->workspace_bytes(), 64);
  const Result<AttentionPlan> made = plan(*attention, c.batch(), plan_memory.span());
  if (!made) return made.error();
  return attend(*attention, *made, c.args(), workspace.span(), serial_executor());
}

struct Change {
  const char* name;
  void (*apply)(CaseOptions& o);
};

constexpr Change changes[] = {
    {"gaps", [](CaseOptions& o) { o.gap_bytes = 24; }},
    {"heads first", [](CaseOptions& o) { o.key_order = o.value_order = StorageOrder::head_major; }},
    {"K alone", [](CaseOptions& o) { o.key_order = StorageOrder::head_major; }},
    {"more pages",
     [](CaseOptions& o) {
       o.sequences.push_back({1, 400});
     }},
};

void expect_right(CaseOptions options, const Change& change) {
  options.parallelism = 3;
  for_each_kernel_case(options, [&](AttentionCase& planned, const std::string& kernel) {
    SCOPED_TRACE(change.name);
    CaseOptions other = planned.options();
    change.apply(other);
    AttentionCase c(other);
    ASSERT_TRUE(kernel_is_right(c, kernel));
    const std::vector<std::byte> own = c.output_bits();
    const Status status = run_with_handle_of(planned, c, kernel);
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_EQ(c.output_bits(), own) << "not the bits of a handle of its own";
  });
}

TEST(Strides, a_call_may_bring_planes_that_lie_otherwise) {
  for (const Change& change : changes) expect_right({}, change);
}

TEST(Strides, a_call_may_bring_latent_rows_that_lie_otherwise) {
  CaseOptions options;
  options.head_size = 96;
  options.v_head_size = 64;
  options.value_in_key = true;
  options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  for (const Change& change : changes) expect_right(options, change);
}

TEST(Strides, a_dense_cache_grows_under_one_handle) {
  // Pages of unbounded size, heads first: the head stride is the length.
  CaseOptions options;
  options.page_size = unbounded_page_size;
  options.key_order = options.value_order = StorageOrder::head_major;
  expect_right(options, {"growth", [](CaseOptions& o) { o.sequences.push_back({1, 900}); }});
}

TEST(Strides, a_call_may_bring_scales_that_lie_otherwise) {
  CaseOptions options;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales = options.value_scales = {ScaleKind::granule, DType::f32, 16};
  expect_right(options, changes[0]);
  expect_right(options, {"shared by all tokens", [](CaseOptions& o) {
                           if (o.key_scales.kind == ScaleKind::granule)
                             o.key_scales.kind = ScaleKind::calibrated_granule;
                         }});
  options.key_scales = options.value_scales = {ScaleKind::token_and_head, DType::f32};
  expect_right(options, {"behind the rows", [](CaseOptions& o) {
                           if (o.key_scales.kind == ScaleKind::token_and_head)  // as asked
                             o.key_scales.kind = o.value_scales.kind = ScaleKind::behind_row;
                         }});
}

/// More rows of a head than a block of any kernel, so that rows of V that lie far apart are worth
/// a copy.
CaseOptions many_rows_options(uint64_t seed) {
  CaseOptions options;
  options.sequences = {{90, 333}, {70, 70}, {3, 200}, {150, 260}};
  options.head_size = 64;
  options.page_size = seed % 2 == 0 ? 16 : 40;
  options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  options.unassigned = 0.2;
  options.seed = seed;
  return options;
}

TEST(Strides, rows_far_apart_give_many_queries_the_bits_of_rows_side_by_side) {
  for (const uint64_t seed : {test_seed(), test_seed() + 1}) {
    for_each_kernel_case(
        many_rows_options(seed), [&](AttentionCase& near, const std::string& kernel) {
          ASSERT_TRUE(kernel_is_right(near, kernel));
          for (const int32_t gap_bytes : {700, 1900}) {
            CaseOptions far = near.options();
            far.gap_bytes = gap_bytes;
            AttentionCase c(far);
            ASSERT_TRUE(kernel_is_right(c, kernel));
            EXPECT_EQ(c.output_bits(), near.output_bits()) << gap_bytes << " bytes between rows";
          }
        });
  }
}

/// The kernel's answer to arguments whose planes were bent.
Status check_bent(const Kernel& kernel, const AttentionCase& c, void (*bend)(AttentionArgs& a)) {
  AttentionArgs args = c.args();
  bend(args);
  return check_planes("attend", kernel, c.problem(), args);
}

void expect_refused(const Status& status, std::string_view words) {
  ASSERT_FALSE(status.is_ok()) << words;
  EXPECT_EQ(status.code(), Errc::invalid_argument);
  EXPECT_NE(status.message().find(words), std::string_view::npos) << status.message();
  EXPECT_NE(status.message().find("expected"), std::string_view::npos) << status.message();
}

TEST(Strides, what_a_kernel_aligns_its_loads_to_is_asked_of_each_call) {
  CaseOptions options;
  options.key_dtype = options.value_dtype = DType::bf16;
  const AttentionCase c(options);
  Kernel kernel = kernels().back();
  ASSERT_EQ(unsupported(kernel.supports, c.problem()), nullptr);
  const auto bend = [](AttentionArgs& a) { a.key.slot_stride_bytes += 2; };
  EXPECT_TRUE(check_bent(kernel, c, bend).is_ok());
  kernel.supports.plane_alignment = 16;
  ASSERT_EQ(unsupported(kernel.supports, c.problem()), nullptr);
  EXPECT_TRUE(check_bent(kernel, c, [](AttentionArgs&) {}).is_ok());
  expect_refused(check_bent(kernel, c, bend),
                 "attend: key.slot_stride_bytes is 258, expected a multiple of 16 bytes");
  expect_refused(check_bent(kernel, c, [](AttentionArgs& a) { a.value.head_stride_bytes -= 8; }),
                 "attend: value.head_stride_bytes");
  expect_refused(
      check_bent(kernel, c,
                 [](AttentionArgs& a) { a.key.data = static_cast<std::byte*>(a.key.data) + 8; }),
      "attend: key.data is not aligned");
  AttentionProblem problem = c.problem();
  problem.value.page_stride_bytes += 8;
  ASSERT_NE(unsupported(kernel.supports, problem), nullptr) << "nor is it selected for such planes";
}

TEST(Strides, a_kernel_without_granules_is_not_given_them_by_a_call) {
  CaseOptions options;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales = options.value_scales = {ScaleKind::granule, DType::f32, 16};
  AttentionCase c(options);
  c.problem().key.scales.granule_stride_bytes = 0;  // one scale per head, says the problem
  c.problem().value.scales.granule_stride_bytes = 0;
  for (const Kernel& kernel : kernels()) {
    const Status status = check_bent(kernel, c, [](AttentionArgs&) {});
    const bool is_able = kernel.supports.features.has(Feature::key_granules);
    EXPECT_EQ(status.is_ok(), is_able) << kernel.name << ": " << status.message();
    if (is_able || !kernel.supports.features.has(Feature::value_plane)) continue;
    expect_refused(status, "attend: key.scales.granule_stride_bytes is 4, expected 0");
    expect_refused(
        check_bent(kernel, c, [](AttentionArgs& a) { a.key.scales.granule_stride_bytes = 0; }),
        "attend: value.scales.granule_stride_bytes is 4, expected 0");
  }
}

TEST(Strides, rows_of_unbounded_pages_are_one_run) {
  CaseOptions options;
  options.page_size = unbounded_page_size;
  AttentionCase c(options);
  AttentionProblem problem = c.problem();
  problem.value.num_pages = 2;
  problem.value.page_stride_bytes *= 2;
  expect_refused(Attention::create(problem, c.limits()).error(),
                 "Attention::create: value.page_stride_bytes is ");
  problem.value.num_pages = 1;
  EXPECT_TRUE(Attention::create(problem, c.limits()).has_value()) << "one row has no other";
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value()) << p.error().message();
  AttentionArgs args = c.args();
  args.key.page_stride_bytes *= 2;
  expect_refused(attend(p->attention, p->plan, args, p->workspace.span(), serial_executor()),
                 "attend: key.page_stride_bytes is ");
}

TEST(Strides, planes_may_run_backwards) {
  const AttentionCase c(CaseOptions{});
  const Kernel& kernel = kernels().back();
  EXPECT_TRUE(check_bent(kernel, c, [](AttentionArgs& a) {
                a.key.page_stride_bytes = -a.key.page_stride_bytes;
              }).is_ok());
}

}  // namespace
}  // namespace folio::test
