// SPDX-License-Identifier: Apache-2.0
/// tests/attention/reference_test.cpp: the reference judges itself: two formulations, a result
/// known by hand, a harness that can fail.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "reference/attention.h"
#include "reference/elements.h"
#include "reference/merge.h"
#include "support/attention_case.h"
#include "support/run_case.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

using reference::QueryResult;
using reference::Rows;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Both formulations on every query of a case.
void expect_formulations_agree(CaseOptions options) {
  AttentionCase c(std::move(options));
  for (int64_t row = 0; row < c.tokens(); ++row) {
    for (int32_t head = 0; head < c.options().q_heads; ++head) {
      reference::Fetched fetched;
      reference::fetch(c.problem(), c.batch(), c.args(), c.sequence_of(row), row, head, fetched);
      const QueryResult direct = reference::attend_rows(fetched.rows);
      const QueryResult merged = reference::attend_rows_by_merging(fetched.rows);
      ASSERT_EQ(direct.keys, merged.keys);
      if (std::isinf(direct.lse)) {
        ASSERT_EQ(direct.lse, merged.lse);
      } else {
        ASSERT_NEAR(direct.lse, merged.lse, 1e-11);
      }
      for (size_t d = 0; d < direct.out.size(); ++d)
        ASSERT_NEAR(direct.out[d], merged.out[d], 1e-11 * (1.0 + direct.magnitude[d]));
    }
  }
}

TEST(Reference, both_formulations_agree) {
  CaseOptions plain;
  expect_formulations_agree(plain);
  CaseOptions all;
  all.softcap = 5.0f;
  all.sink_logits = all.alibi = true;
  all.bias = BiasForm::per_head;
  all.mask = Mask::sliding_window(9, 2);
  all.key_dtype = DType::f8_e4m3;
  all.key_scales.kind = ScaleKind::granule;
  all.unassigned = 0.3;
  expect_formulations_agree(all);
  CaseOptions sharp;
  sharp.q_amplitude = 3e5f;
  expect_formulations_agree(sharp);
}

TEST(Reference, two_keys_by_hand) {
  const double q[] = {2.0}, keys[] = {0.0, std::log(3.0) / 2.0}, values[] = {4.0, 8.0};
  Rows rows;
  rows.q = q;
  rows.keys = keys;
  rows.values = values;
  rows.count = 2;
  rows.head_size = rows.v_head_size = rows.key_stride = rows.value_stride = 1;
  const QueryResult result = reference::attend_rows(rows, {1.0, 0.0, 0.0});
  EXPECT_NEAR(result.out[0], 0.25 * 4.0 + 0.75 * 8.0, 1e-14);
  EXPECT_NEAR(result.lse, std::log(4.0), 1e-14);
  EXPECT_EQ(result.records, 2);
  EXPECT_NEAR(result.magnitude[0], 7.0, 1e-14);
  EXPECT_NEAR(result.spread[0], 0.75 * std::log(3.0) * 1.0, 1e-6);  // key 0 has magnitude 0
  const double large = 10.0 / reference::error_unit;  // key 1 may weigh nothing, or everything
  const QueryResult vague = reference::attend_rows(rows, {large, 0.0, 0.0});
  EXPECT_EQ(vague.spread[0], 3.0 / reference::error_unit);
  const double error = 10.0 * std::log(3.0), least = 0.25 + 0.75 * std::exp(-error);
  EXPECT_NEAR(vague.mean_weight * reference::error_unit, std::log(0.25 + 0.75 * std::exp(error)),
              1e-12);
  EXPECT_LT(-std::log(least), vague.mean_weight * reference::error_unit);

  rows.has_sink = true;  // as heavy as both keys together
  rows.sink_logit = std::log(4.0);
  const QueryResult with_sink = reference::attend_rows(rows);
  EXPECT_NEAR(with_sink.out[0], 3.5, 1e-14);
  EXPECT_NEAR(with_sink.lse, std::log(8.0), 1e-14);

  rows.count = 0;
  EXPECT_EQ(reference::attend_rows(rows).lse, std::log(4.0));
  rows.has_sink = false;
  EXPECT_EQ(reference::attend_rows(rows).lse, -infinity);
  EXPECT_EQ(reference::attend_rows(rows).out[0], 0.0);
}

TEST(Reference, merging_is_associative_and_has_a_neutral_element) {
  const reference::Part a{{1.0}, 0.5}, b{{-2.0}, 1.5}, c{{7.0}, -0.25};
  const reference::Part none{{std::nan("")}, -infinity};
  const reference::Part ab = reference::merge(std::array{a, b}, 1),
                        bc = reference::merge(std::array{b, c}, 1);
  const reference::Part left = reference::merge(std::array{ab, c}, 1),
                        right = reference::merge(std::array{a, bc}, 1);
  EXPECT_NEAR(left.out[0], right.out[0], 1e-15);
  EXPECT_NEAR(left.lse, right.lse, 1e-15);
  const reference::Part same = reference::merge(std::array{none, a, none}, 1);
  EXPECT_DOUBLE_EQ(same.out[0], a.out[0]);
  EXPECT_DOUBLE_EQ(same.lse, a.lse);
  EXPECT_EQ(reference::merge(std::array{none, none}, 1).lse, -infinity);
}

/// Copies the exact result into the output, times `factor`.
void write_expected(AttentionCase& c, double factor) {
  c.poison_output();
  for (int64_t row = 0; row < c.tokens(); ++row) {
    for (int32_t head = 0; head < c.options().q_heads; ++head) {
      const QueryResult& exact = c.expected(row, head);
      for (int64_t d = 0; d < c.options().v_head_size; ++d)
        c.set_output(row, head, d, exact.out[static_cast<size_t>(d)] * factor);
      c.args().lse[row * c.options().q_heads + head] = static_cast<float>(exact.lse);
    }
  }
}

TEST(Harness, accepts_the_rounded_exact_result_and_nothing_a_little_off) {
  for (const DType out : {DType::f32, DType::bf16, DType::f16}) {
    CaseOptions options;
    options.out_dtype = out;
    options.gap_bytes = 8;
    AttentionCase c(options);
    write_expected(c, 1.0);
    EXPECT_TRUE(matches_reference(c)) << name(out);
    write_expected(c, 1.0 + 6.0 * reference::unit_roundoff(out) + 0x1p-12);
    EXPECT_FALSE(matches_reference(c)) << name(out);
  }
}

TEST(Harness, sees_what_was_not_written_and_what_should_not_have_been) {
  CaseOptions options;
  options.gap_bytes = 8;
  AttentionCase c(options);
  c.poison_output();
  EXPECT_FALSE(matches_reference(c)) << "poisoned output";
  write_expected(c, 1.0);
  c.output_memory().data()[64 * 4 + 3] = std::byte{0};  // behind the first head
  EXPECT_FALSE(matches_reference(c)) << "a byte in a gap";
  write_expected(c, 1.0);
  c.args().lse[3] += 0.01f;
  EXPECT_FALSE(matches_reference(c)) << "lse";
}

TEST(Harness, dead_slots_of_a_case_are_nan) {
  CaseOptions options;
  options.mask = Mask::sliding_window(20);
  options.sequences = {{1, 100}};
  AttentionCase c(options);
  const PagedKVView& view = c.args().key;
  int64_t dead = 0, alive = 0;
  for (int64_t page = 0; page < view.num_pages; ++page) {
    for (int64_t slot = 0; slot < view.page_size; ++slot) {
      ++(std::isnan(reference::element(view, page, slot, 1, 7)) ? dead : alive);
    }
  }
  EXPECT_EQ(alive, 20);
  EXPECT_EQ(dead, view.num_pages * view.page_size - 20);
}

}  // namespace
}  // namespace folio::test
