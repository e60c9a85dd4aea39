// SPDX-License-Identifier: Apache-2.0
/// tests/attention/dead_slots_test.cpp: what no query sees reaches no output, values and scales;
/// what is seen spoils its own only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/elements.h"
#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

/// Dead keys of a sequence that lie between keys which some query sees.
int64_t holes_of(const AttentionCase& c, int32_t sequence) {
  std::vector<bool> alive;
  for (int64_t key = 0; key < c.batch().context_lengths[sequence]; ++key) {
    bool is_seen = false;
    for (int64_t row = c.batch().query_offsets[sequence];
         row < c.batch().query_offsets[sequence + 1]; ++row) {
      is_seen = is_seen || reference::is_visible(c.problem(), c.batch(), sequence, row, key);
    }
    alive.push_back(is_seen);
  }
  const auto first = std::find(alive.begin(), alive.end(), true);
  const auto last = std::find(alive.rbegin(), alive.rend(), true).base();
  return first < last ? std::count(first, last, false) : 0;
}

TEST(DeadSlots, holes_between_explicit_intervals_do_not_matter) {
  int64_t holes = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CaseOptions options;
    options.seed = seed;
    options.intervals = true;
    options.page_size = seed % 2 == 0 ? 4 : 32;
    options.head_size = 16;
    options.sequences = {{3, 60}, {2, 140}, {4, 200}};
    if (seed % 3 == 0) {
      options.key_dtype = options.value_dtype = DType::i8;
      options.key_scales.kind = options.value_scales.kind = ScaleKind::granule;
    }
    const AttentionCase c(options);
    for (int32_t b = 0; b < c.batch().size; ++b) holes += holes_of(c, b);
    expect_every_kernel_right(options);
  }
  EXPECT_GT(holes, 100) << "the cases must have what they are about";
}

TEST(DeadSlots, scales_of_dead_slots_do_not_matter) {
  // Scales that append computes stay NaN where nothing was appended, in f32, f16, bf16, e4m3 and
  // e8m0.
  for (const DType scale : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e8m0}) {
    for (const ScaleKind kind : {ScaleKind::token_and_head, ScaleKind::granule}) {
      CaseOptions options;
      options.key_dtype = DType::i8;
      options.value_dtype = DType::f8_e5m2;
      options.key_scales = options.value_scales = {kind, scale, 8, false};
      options.mask = Mask::sliding_window(21, 3);
      options.page_size = 8;
      options.head_size = 32;
      options.sequences = {{2, 90}, {5, 31}, {1, 200}};
      expect_every_kernel_right(options);
    }
  }
}

/// Overwrites everything that is NaN in the planes by `value`.
void refill_dead(AttentionCase& c, double value) {
  for (const PagedKVView* view : {&c.args().key, &c.args().value}) {
    if (view->data == nullptr) continue;
    for (int64_t page = 0; page < view->num_pages; ++page)
      for (int64_t slot = 0; slot < view->page_size; ++slot)
        for (int64_t head = 0; head < view->num_heads; ++head)
          for (int32_t d = 0; d < view->head_size; ++d) {
            auto* at = static_cast<std::byte*>(view->data) + page * view->page_stride_bytes +
                       slot * view->slot_stride_bytes + head * view->head_stride_bytes +
                       int64_t{d} * bit_width(view->dtype) / 8;
            if (std::isnan(reference::load(at, view->dtype)))
              reference::store(at, view->dtype, value);
          }
  }
}

TEST(DeadSlots, their_contents_change_no_bit) {
  CaseOptions options;
  options.mask = Mask::sliding_window(21, 3);
  options.head_size = 32;
  options.sequences = {{2, 90}, {5, 31}, {1, 200}};
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    ASSERT_TRUE(run_case(c, kernel).is_ok());
    const std::vector<std::byte> with_nan = c.output_bits();
    for (const double value : {std::numeric_limits<double>::infinity(), -0x1p127, 0.0}) {
      AttentionCase other(c.options());
      refill_dead(other, value);
      ASSERT_TRUE(run_case(other, kernel).is_ok());
      EXPECT_EQ(other.output_bits(), with_nan) << value;
    }
  });
}

TEST(DeadSlots, a_visible_nan_spoils_only_its_own_sequence) {
  for (const bool in_key : {true, false}) {
    CaseOptions options;
    options.shared = 0.0;
    options.head_size = 16;
    options.sequences = {{1, 40}, {3, 77}, {1, 40}, {2, 90}};
    const auto arrange = [&](AttentionCase& c) {
      const PagedKVView& view = in_key || c.options().value_in_key ? c.args().key : c.args().value;
      // sequence 1, keys 16 .. 31
      const auto page = static_cast<int64_t>(c.table_entries()[1 * c.batch().table.row_stride + 1]);
      auto* at = static_cast<std::byte*>(view.data) + page * view.page_stride_bytes +
                 3 * view.slot_stride_bytes;
      const ScaleView& scales = view.scales;  // of a type that has no NaN, its scale has one
      if (view.dtype == DType::i8 || folio::detail::is_packed(view.dtype))
        reference::store(static_cast<std::byte*>(scales.data) + page * scales.page_stride_bytes +
                             3 * scales.slot_stride_bytes,
                         scales.dtype, std::nan(""));
      else
        reference::store(at, view.dtype, std::nan(""));
    };
    for_each_kernel_case(
        options, {Adapt::shapes, arrange}, [](AttentionCase& c, const std::string& kernel) {
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          EXPECT_TRUE(matches_reference(c, {0, 1}));
          EXPECT_TRUE(matches_reference(c, {4, 7}));
          EXPECT_TRUE(std::isnan(c.output(1, 0, 0))) << "a NaN that is seen is not hidden";
        });
  }
}

TEST(DeadSlots, a_nan_in_one_query_spoils_only_its_row) {
  // Rows share tiles of products; heads of a group and tokens that follow one another lie side by
  // side there.
  for (const SequenceShape& shape :
       {SequenceShape{1, 90}, SequenceShape{5, 90}, SequenceShape{40, 90}}) {
    CaseOptions options;
    options.q_heads = 10;
    options.head_size = 32;
    options.sequences = {shape, {2, 30}};
    const int64_t row = shape.new_tokens / 2;
    const auto arrange = [&](AttentionCase& c) {
      std::byte* const at = c.query_memory().data() + row * c.args().q.stride_bytes[0] +
                            3 * c.args().q.stride_bytes[1];
      reference::store(at, c.args().q.dtype, std::nan(""));
    };
    for_each_kernel_case(options, {Adapt::shapes, arrange},
                         [&](AttentionCase& c, const std::string& kernel) {
                           ASSERT_TRUE(run_case(c, kernel).is_ok());
                           Scope others;
                           others.except_row = row;
                           others.except_head = 3;
                           EXPECT_TRUE(matches_reference(c, others));
                         });
  }
}

}  // namespace
}  // namespace folio::test
