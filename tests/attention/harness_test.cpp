// SPDX-License-Identifier: Apache-2.0
/// tests/attention/harness_test.cpp: the harness judges itself: fastidious kernels get cases that
/// they accept, bounds follow precision.
///
/// The kernels here compute as the portable one and refuse more.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "attention/sharing.h"
#include "cpu/portable/portable.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

bool is_aligned(const PagedKVView& view) {
  return view.page_stride_bytes % 16 == 0 && view.slot_stride_bytes % 16 == 0 &&
         view.head_stride_bytes % 16 == 0;
}

const char* refuse_all_but_bf16(const AttentionProblem& p) noexcept {
  const auto is_known = [](const PagedKVView& v) {
    return v.dtype == DType::bf16 || (bit_width(v.dtype) == 8 && v.scales.dtype == DType::f32 &&
                                      v.scales.granularity >= v.head_size);
  };
  if (p.value_in_key || p.key.head_size > 256) return "grouped heads only";
  if (p.q_dtype != DType::bf16 || !is_known(p.key) || !is_known(p.value)) return "bf16 only";
  if (p.key.dtype != p.value.dtype) return "one type only";
  return is_aligned(p.key) && is_aligned(p.value) ? nullptr : "aligned rows only";
}

const char* refuse_all_but_latent(const AttentionProblem& p) noexcept {
  if (!p.value_in_key || p.key.head_size != 576 || p.v_head_size != 512) return "latent rows only";
  return p.q_dtype == DType::bf16 && p.key.dtype == DType::bf16 ? nullptr : "bf16 only";
}

const char* refuse_all_but_f16(const AttentionProblem& p) noexcept {
  return p.q_dtype == DType::f16 && p.key.dtype == DType::f16 ? nullptr : "f16 only";
}

const char* refuse_everything(const AttentionProblem&) noexcept { return "nothing"; }

Kernel fastidious(const char* (*refuse)(const AttentionProblem&) noexcept) {
  return {.name = "fastidious",
          .needs = needs_cpu,
          .promises = Reproducible::per_query,
          .supports = portable::supports,
          .refuse = refuse,
          .geometry = portable::geometry,
          .run = baseline::run_portable,
          .finish = baseline::finish_portable};
}

CaseOptions awkward_options() {
  CaseOptions options;
  options.head_size = 24;
  options.v_head_size = 40;
  options.gap_bytes = 12;
  options.value_dtype = DType::i8;
  options.value_scales = {ScaleKind::behind_row, DType::f32, 16, true};
  options.softcap = 3.0f;
  options.mask = Mask::sliding_window(20, 3);
  return options;
}

TEST(Harness, kernels_that_accept_little_get_the_nearest_case_they_accept) {
  for (auto* refuse : {refuse_all_but_bf16, refuse_all_but_latent, refuse_all_but_f16}) {
    for (const CaseOptions& options : {awkward_options(), CaseOptions{}}) {
      const Kernel kernel = fastidious(refuse);
      const auto c = accepted_case(kernel, options);
      ASSERT_NE(c, nullptr);
      EXPECT_EQ(refuse(c->problem()), nullptr);
      EXPECT_EQ(c->options().softcap, options.softcap);
      EXPECT_EQ(c->options().mask, options.mask);
      EXPECT_EQ(c->options().page_size, options.page_size);
      EXPECT_EQ(c->options().sequences.size(), options.sequences.size());
      ASSERT_TRUE(run_kernel(*c, kernel).is_ok());
      EXPECT_TRUE(matches_reference(*c));
    }
  }
}

TEST(Harness, a_case_changes_no_more_than_it_must) {
  const auto same = accepted_case(fastidious(portable::refuse), awkward_options());
  EXPECT_EQ(describe(same->options()), describe(AttentionCase(awkward_options()).options()));
  CaseOptions bf16;
  bf16.q_dtype = DType::f16;
  bf16.key_dtype = bf16.value_dtype = DType::bf16;
  const auto c = accepted_case(fastidious(refuse_all_but_bf16), bf16);
  EXPECT_EQ(c->options().head_size, bf16.head_size);
  EXPECT_EQ(c->options().key_dtype, DType::bf16);
  EXPECT_EQ(c->options().out_dtype, DType::f32);
  CaseOptions eight_bit;
  eight_bit.key_dtype = eight_bit.value_dtype = DType::f8_e5m2;
  eight_bit.key_scales.kind = eight_bit.value_scales.kind = ScaleKind::granule;
  EXPECT_EQ(accepted_case(fastidious(refuse_all_but_bf16), eight_bit)->options().key_dtype,
            DType::f8_e5m2);
}

TEST(Harness, what_may_not_change_does_not) {
  EXPECT_EQ(accepted_case(fastidious(refuse_everything), {}), nullptr);
  EXPECT_EQ(accepted_case(fastidious(refuse_all_but_latent), {}, {Adapt::types, nullptr}), nullptr);
  EXPECT_EQ(accepted_case(fastidious(refuse_all_but_f16), {}, {Adapt::nothing, nullptr}), nullptr);
  CaseOptions options;
  options.reproducible = Reproducible::per_query;
  Kernel kernel = fastidious(portable::refuse);
  kernel.promises = Reproducible::per_sequence;
  EXPECT_EQ(accepted_case(kernel, options), nullptr);
}

TEST(Harness, arrangements_are_made_once_before_any_kernel_runs) {
  int times = 0;
  const auto arrange = [&](AttentionCase&) { ++times; };
  std::set<AttentionCase*> cases;
  for_each_kernel_case({}, {Adapt::shapes, arrange},
                       [&](AttentionCase& c, const std::string&) { cases.insert(&c); });
  EXPECT_EQ(times, static_cast<int>(cases.size()));
  EXPECT_GT(times, 0);
}

/// The exact output, times `factor`.
bool accepts(AttentionCase& c, double factor) {
  c.poison_output();
  for (int64_t row = 0; row < c.tokens(); ++row) {
    for (int32_t head = 0; head < c.options().q_heads; ++head) {
      const reference::QueryResult& exact = c.expected(row, head);
      for (int64_t d = 0; d < c.options().v_head_size; ++d)
        c.set_output(row, head, d, exact.out[static_cast<size_t>(d)] * factor);
      c.args().lse[row * c.options().q_heads + head] = static_cast<float>(exact.lse);
    }
  }
  return static_cast<bool>(matches_reference(c));
}

TEST(Harness, bounds_follow_what_a_kernel_rounds) {
  CaseOptions options;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales.kind = options.value_scales.kind = ScaleKind::granule;
  AttentionCase c(options);
  EXPECT_TRUE(accepts(c, 1.0));
  EXPECT_FALSE(accepts(c, 1.0 + 0x1p-10)) << "float32";
  Kernel kernel = fastidious(portable::refuse);
  kernel.weights = DType::bf16;
  c.set_precision(precision_of(kernel, c.problem()));
  EXPECT_TRUE(accepts(c, 1.0 + 0x1p-10)) << "weights of bf16";
  EXPECT_FALSE(accepts(c, 1.0 + 0x1p-6)) << "weights of bf16";
  EXPECT_EQ(c.precision().keys, DType::f32);
  kernel.operands = DType::bf16;
  c.set_precision(precision_of(kernel, c.problem()));
  EXPECT_EQ(c.precision(), (Precision{DType::bf16, DType::bf16, DType::bf16}));
  EXPECT_FALSE(accepts(c, 1.0 + 0x1p-5)) << "weights and operands of bf16";
  options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
  EXPECT_EQ(precision_of(kernel, AttentionCase(options).problem()),
            (Precision{DType::bf16, DType::f32, DType::f32}));
}

/// What forks of cases have been seen to share.
struct SeenForks {
  int nested = 0;          // ranges behind others
  int unassigned = 0;      // ranges with an entry that is no page
  int whole_contexts = 0;  // ranges that end where a member does
  int one_row = 0;         // ranges with two members of one table row
};

/// All queries see all keys, so that every entry counts.
void look_at_forks(Rng& rng, SeenForks& seen) {
  CaseOptions options;
  options.sequences.clear();
  while (options.sequences.size() < 6) options.sequences.push_back({1, 64 * rng.int_between(1, 5)});
  options.q_heads = options.kv_heads = 1;
  options.head_size = 16;
  options.mask = Mask::full();
  options.table = TableForm::csr;
  options.unassigned = 0.05;
  options.sharing = Sharing::forks;
  options.seed = rng.next();
  const AttentionCase c(options);
  const Batch& batch = c.batch();
  std::vector<Hull> hulls;
  for (int32_t b = 0; b < batch.size; ++b) hulls.push_back({0, batch.context_lengths[b], true});
  Carver size(nullptr);
  take_sharing_memory(size, batch.size);
  const GuardedMemory memory(size.bytes(), Carver::alignment);
  Carver carver(memory.data());
  const SharingMemory parts = take_sharing_memory(carver, batch.size);
  for (const SharedRange& range : find_shared(batch.table, options.page_size, hulls, 64, parts)) {
    const int32_t* const members = parts.order + range.first_member;
    const int64_t row = batch.table.row_start(members[0]);
    seen.nested += range.parent >= 0 ? 1 : 0;
    for (int32_t key = range.key_begin; key < range.key_end; key += options.page_size)
      seen.unassigned += batch.table.entries[row + key / options.page_size] > 1'000'000u ? 1 : 0;
    for (int32_t m = 0; m < range.members; ++m) {
      seen.whole_contexts += batch.context_lengths[members[m]] == range.key_end ? 1 : 0;
      seen.one_row += m > 0 && batch.table.row_start(members[m]) == row ? 1 : 0;
    }
  }
}

TEST(Harness, forks_share_in_all_ways) {
  Rng rng(test_seed());
  SeenForks seen;
  for (int i = 0; i < 100; ++i) look_at_forks(rng, seen);
  EXPECT_GT(seen.nested, 10);
  EXPECT_GT(seen.unassigned, 10);
  EXPECT_GT(seen.whole_contexts, 10);
  EXPECT_GT(seen.one_row, 10);
}

}  // namespace
}  // namespace folio::test
