// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_kernel_test.cpp: paged decode in the emulator, against the reference: shapes,
/// pages, masks, every option, and the promises about bits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/decode_run.h"
#include "support/bias_cases.h"
#include "support/pairwise.h"

namespace folio::test {
namespace {

using Plain128 = cuda::DecodeKernel<DType::bf16, 128, false>;
using Plain64 = cuda::DecodeKernel<DType::bf16, 64, false>;
using Half64 = cuda::DecodeKernel<DType::f16, 64, false>;
using Plain256 = cuda::DecodeKernel<DType::bf16, 256, false>;
using General64 = cuda::DecodeKernel<DType::bf16, 64, true>;

/// One token per sequence unless said otherwise, as small as shows the fault.
template <class Kernel>
CaseOptions usual(std::vector<SequenceShape> sequences) {
  CaseOptions options;
  options.sequences = std::move(sequences);
  options.head_size = Kernel::Config::head_size;
  options.q_dtype = options.key_dtype = options.value_dtype = Kernel::Config::type;
  options.out_dtype = DType::f32;
  options.seed = 11;
  return options;
}

std::vector<SequenceShape> decode(const std::vector<int32_t>& contexts) {
  std::vector<SequenceShape> sequences;
  sequences.reserve(contexts.size());
  for (const int32_t context : contexts) sequences.push_back({1, context});
  return sequences;
}

/// No fault, no bank conflict, no row read twice, and the result is right.
template <class Kernel>
void expect_right(AttentionCase& c, const DecodeOptions& o = {}) {
  c.set_precision({Kernel::Config::type, DType::f32, DType::f32});
  const DecodeResult result = run_decode<Kernel>(c, o);
  ASSERT_EQ(result.fault, "") << describe(c.options());
  EXPECT_EQ(result.counts.ldmatrix_extra_passes, 0);
  EXPECT_EQ(result.counts.copied_bytes, result.visible_bytes);
  EXPECT_TRUE(matches_reference(c)) << describe(c.options());
}

template <class Kernel>
void expect_right(const CaseOptions& options, const DecodeOptions& o = {}) {
  AttentionCase c(options);
  expect_right<Kernel>(c, o);
}

TEST(DecodeKernel, is_right_at_every_edge_of_slabs_spans_and_pages) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    CaseOptions options = usual<Plain128>(decode({1, 15, 16, 17, 63, 64, 65, 0, 127, 129}));
    options.seed = seed;
    expect_right<Plain128>(options, {.blocks = 7, .seed = seed});
  }
}

}  // namespace
}  // namespace folio::test
