// SPDX-License-Identifier: Apache-2.0
/// tests/attention/accuracy_test.cpp: what is promised of ordinary inputs; errors that do not grow
/// with length; logits of any size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

/// Every slot of the only page holds what its first slot holds.
void make_keys_equal(AttentionCase& c) {
  for (const PagedKVView* plane : {&c.args().key, &c.args().value}) {
    if (plane->data == nullptr) continue;
    auto* page =
        static_cast<std::byte*>(plane->data) + c.table_entries()[0] * plane->page_stride_bytes;
    const int64_t bytes = int64_t{plane->head_size} * bit_width(plane->dtype) / 8;
    for (int64_t slot = 1; slot < plane->page_size; ++slot)
      std::copy_n(page, bytes, page + slot * plane->slot_stride_bytes);
    if (plane->scales.data == nullptr) continue;
    ASSERT_EQ(plane->scales.granularity, plane->head_size) << "scales along rows are not copied";
    auto* scale = static_cast<std::byte*>(plane->scales.data) +
                  c.table_entries()[0] * plane->scales.page_stride_bytes;
    for (int64_t slot = 1; slot < plane->page_size; ++slot)
      std::copy_n(scale, sizeof(float), scale + slot * plane->scales.slot_stride_bytes);
  }
}

TEST(Accuracy, a_million_equal_keys_cost_no_more_than_a_few) {
  constexpr int32_t page_size = 64;
  CaseOptions options;
  options.q_heads = options.kv_heads = 1;
  options.head_size = 8;
  options.page_size = page_size;
  options.sequences = {{1, page_size}};
  for_each_kernel_case(
      options, {Adapt::shapes, make_keys_equal}, [&](AttentionCase& c, const std::string& kernel) {
        const Batch one_page = c.batch();
        const reference::QueryResult exact = c.expected(0, 0);
        // 2^6, 2^10, 2^15, 2^20 keys: the same page over and over
        for (const int32_t pages : {1, 16, 512, 16384}) {
          const std::vector<uint32_t> table(static_cast<size_t>(pages), c.table_entries()[0]);
          const int32_t context = pages * page_size;
          c.batch().context_lengths = &context;
          c.batch().table.entries = table.data();
          ASSERT_EQ(run_case(c, kernel).message(), "");
          // Beyond the bound of tolerance.h: no more than what one chain of spans costs, whatever
          // the length.
          const double error = longest_chain * f32_roundoff +
                               (c.precision().weights == DType::f32 ? 0.0 : coarse_exp);
          // a rounded query is off by the same at any length
          const double of_query =
              c.precision().queries == DType::i8 ? lse_bound(exact, c.precision()) : 0.0;
          for (int64_t d = 0; d < c.options().v_head_size; ++d) {
            const double v = exact.out[static_cast<size_t>(d)];
            ASSERT_NEAR(c.output(0, 0, d), v,
                        std::fabs(v) * (error + reference::unit_roundoff(c.options().out_dtype)))
                << context << " keys";
          }
          EXPECT_NEAR(static_cast<double>(c.output_lse(0, 0)),
                      exact.lse + std::log(static_cast<double>(pages)), error + of_query)
              << context << " keys";
        }
        c.batch() = one_page;
      });
}

/// What users are promised, of inputs as they are met: logits of a few units.
TEST(Accuracy, every_kernel_keeps_what_is_promised) {
  for (const int32_t head_size : {64, 128, 256}) {
    for (const DType out : {DType::f32, DType::bf16}) {
      CaseOptions options;
      options.head_size = head_size;
      options.q_heads = 16;
      options.kv_heads = 2;
      options.out_dtype = out;
      options.sequences = {{1, 3000}, {20, 700}, {2, 40}};
      for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
        Accuracy accuracy;
        ASSERT_EQ(run_case(c, kernel).message(), "");
        ASSERT_TRUE(matches_reference(c, {0, c.tokens(), 3}, &accuracy));
        AccuracyDemand demand = accuracy_demand(c.precision());
        if (c.options().out_dtype == DType::bf16)
          demand.relative_rms = std::max(demand.relative_rms, 2.5e-3);
        EXPECT_LE(accuracy.relative_rms, demand.relative_rms);
        EXPECT_LE(accuracy.lse, demand.lse);
      });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Accuracy, logits_of_any_size_are_right) {
  for (const float size : {1e2f, 1e4f, 1e5f, 1e9f, 1e15f, 1e30f}) {
    // kernels have another path for plain logits
    for (const BiasForm bias : {BiasForm::none, BiasForm::per_head}) {
      CaseOptions options;
      options.head_size = 16;
      options.q_amplitude = size;
      options.scale = 1.0f;
      options.sink_logits = size == 1e4f;
      options.bias = bias;
      expect_every_kernel_right(options);
    }
  }
}

TEST(Accuracy, one_visible_key_far_below_zero_has_all_the_weight) {
  // Masked must mean -inf: a large finite number would outweigh a visible key of -1e5.
  for (const float logit : {-1e5f, -2e38f, 1e5f, 2e38f}) {
    CaseOptions options;
    options.head_size = 8;
    options.q_heads = options.kv_heads = 1;
    options.mask = Mask::sliding_window(1);
    options.bias = BiasForm::shared;
    options.sequences = {{1, 100}, {3, 3}};
    const auto arrange = [&](AttentionCase& c) {
      for (int64_t row = 0; row < c.tokens(); ++row) {
        const int64_t key = row == 0 ? 99 : row - 1;
        std::memcpy(c.bias_memory().data() + row * c.args().bias.stride_bytes[1] + key * 4, &logit,
                    4);
      }
    };
    for_each_kernel_case(
        options, {Adapt::shapes, arrange}, [&](AttentionCase& c, const std::string& kernel) {
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
  const std::vector<float> sinks(4, 1e5f);
  const auto arrange = [&](AttentionCase& c) { c.args().sink_logits = sinks.data(); };
  for_each_kernel_case(options, {Adapt::shapes, arrange},
                       [&](AttentionCase& c, const std::string& kernel) {
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
  const float hidden = -std::numeric_limits<float>::infinity();
  const auto arrange = [&](AttentionCase& c) {
    std::byte* const bias = c.bias_memory().data();
    for (int64_t key = 0; key < 100; key += 3) std::memcpy(bias + key * 4, &hidden, 4);
    // The only key of the second sequence: nothing is left.
    std::memcpy(bias + c.args().bias.stride_bytes[1], &hidden, 4);
  };
  for_each_kernel_case(options, {Adapt::shapes, arrange},
                       [&](AttentionCase& c, const std::string& kernel) {
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
    const auto arrange = [&](AttentionCase& c) {
      for (int64_t key = 0; key < 3000; ++key) {
        const float bias = slope * static_cast<float>(key);
        std::memcpy(c.bias_memory().data() + key * 4, &bias, 4);
      }
    };
    expect_every_kernel_right(options, {Adapt::shapes, arrange});
  }
}

/// Multiplies every element of V (or of K's rows, where V lies there) by a power of two.
void shift_values(AttentionCase& c, double factor) {
  const PagedKVView& view = c.options().value_in_key ? c.args().key : c.args().value;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = 0; slot < view.page_size; ++slot)
      for (int64_t head = 0; head < view.num_heads; ++head)
        for (int64_t d = 0; d < view.head_size; ++d) {
          auto* at = static_cast<std::byte*>(view.data) + page * view.page_stride_bytes +
                     slot * view.slot_stride_bytes + head * view.head_stride_bytes +
                     d * bit_width(view.dtype) / 8;
          reference::store(at, view.dtype, reference::load(at, view.dtype) * factor);
        }
}

TEST(Accuracy, values_at_both_ends_of_the_range_are_right) {
  // Subnormal numbers may count as 0, no more; large ones leave room for the sum of 77 weights.
  for (const double factor : {0x1p-130, 0x1p-120, 0x1p100}) {
    CaseOptions options;
    options.head_size = 32;
    options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
    // K grows where V lies in it; logits shall not
    if (factor > 1.0) options.scale = static_cast<float>(0.1 / factor);
    expect_every_kernel_right(options,
                              {Adapt::shapes, [&](AttentionCase& c) { shift_values(c, factor); }});
  }
}

}  // namespace
}  // namespace folio::test
