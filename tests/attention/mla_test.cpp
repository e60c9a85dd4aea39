// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mla_test.cpp: latent heads through the public functions: every kernel that
/// accepts them, in shapes that models have.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/latent_options.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

TEST(Mla, decode_with_the_heads_of_one_to_eight_devices_is_right) {
  for (const int32_t q_heads : {16, 64, 128}) {
    CaseOptions options = deepseek(q_heads);
    options.sequences = {{1, 130}, {1, 1}};
    expect_every_kernel_right(options);
  }
}

TEST(Mla, speculative_tokens_and_chunks_are_right) {
  for (const int32_t q_heads : {16, 40}) {
    CaseOptions options = deepseek(q_heads);
    options.sequences = {{2, 130}, {9, 75}};
    expect_every_kernel_right(options);
  }
}

TEST(Mla, contexts_of_several_spans_are_right_however_they_are_cut) {
  for (const int32_t parallelism : {1, 4}) {
    CaseOptions options = deepseek(16);
    options.sequences = {{1, 4200}};
    options.parallelism = parallelism;
    expect_every_kernel_right(options);
  }
}

/// Bits of one sequence's output, rows [first, first + count) of q.
std::vector<double> outputs(const AttentionCase& c, int64_t first, int64_t count) {
  std::vector<double> all;
  for (int64_t row = first; row < first + count; ++row)
    for (int32_t h = 0; h < c.options().q_heads; ++h)
      for (int64_t d = 0; d < c.options().v_head_size; ++d) all.push_back(c.output(row, h, d));
  return all;
}

TEST(Mla, a_token_has_the_same_bits_alone_and_in_a_chunk) {
  for (const int32_t q_heads : {16, 48}) {
    CaseOptions options = deepseek(q_heads);
    options.reproducible = Reproducible::per_query;
    options.sequences = {{6, 150}};
    options.out_dtype = DType::f32;
    for_each_kernel_case(
        options, {Adapt::nothing}, [&](AttentionCase& c, const std::string& kernel) {
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          const std::vector<double> together = outputs(c, 5, 1);
          // The last token alone: the same case with the first five tokens counted as cached.
          int32_t offsets[2] = {0, 1};
          const Batch whole = c.batch();
          const AttentionArgs args = c.args();
          c.batch().query_offsets = offsets;
          c.args().q.data = static_cast<const std::byte*>(args.q.data) + 5 * args.q.stride_bytes[0];
          c.args().q.extent[0] = c.args().out.extent[0] = 1;
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          const std::vector<double> alone = outputs(c, 0, 1);
          c.batch() = whole;
          c.args() = args;
          EXPECT_EQ(alone, together) << kernel;
        });
  }
}

}  // namespace
}  // namespace folio::test
