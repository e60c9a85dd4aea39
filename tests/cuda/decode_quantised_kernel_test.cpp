// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_quantised_kernel_test.cpp: decode over 8-bit K and V in the emulator against
/// the reference.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cuda/decode/quantised.h"
#include "cuda/decode/quantised_kernels.h"
#include "cuda/decode_run.h"
#include "support/bias_cases.h"

namespace folio::test {
namespace {

using cuda::Options;

constexpr ScaleOptions no_scales = {};
constexpr ScaleOptions per_token = {ScaleKind::token_and_head, DType::f32, 16, false};

CaseOptions byte_case(std::vector<SequenceShape> sequences, DType stored = DType::f8_e4m3,
                      const ScaleOptions& scales = per_token, int32_t head_size = 128) {
  CaseOptions o;
  o.sequences = std::move(sequences);
  o.q_heads = 8;
  o.kv_heads = 2;
  o.head_size = head_size;
  o.q_dtype = o.out_dtype = DType::bf16;
  o.key_dtype = o.value_dtype = stored;
  o.key_scales = o.value_scales = scales;
  return o;
}

/// No rule is broken, each visible row is fetched once for each tile of query rows, no bank is met
/// twice, and the output is right.
template <DType Stored, int HeadSize, Options What>
::testing::AssertionResult is_right(AttentionCase& c, const DecodeOptions& how = {}) {
  using Kernel = cuda::QuantisedDecodeKernel<Stored, HeadSize, What>;
  constexpr bool rounds_elements = What == Options::granules || What == Options::fine;
  const DType operands = rounds_elements ? cuda::quantised_decode_rounding : DType::f32;
  c.set_precision({cuda::quantised_decode_rounding, operands, operands});
  const DecodeResult result = run_decode<Kernel>(c, how);
  const auto failure = [&] {
    return ::testing::AssertionFailure() << describe(c.options()) << "\n";
  };
  if (!result.fault.empty()) return failure() << result.fault;
  const bool is_exact = !c.problem().bias && !c.problem().intervals && !c.problem().tree;
  if (is_exact && result.counts.copied_bytes != result.visible_bytes)
    return failure() << result.counts.copied_bytes << " bytes are copied, expected "
                     << result.visible_bytes;
  if (result.counts.ldmatrix_extra_passes != 0) return failure() << "ldmatrix meets banks twice";
  const ::testing::AssertionResult right = matches_reference(c);
  return right ? right : failure() << right.message();
}

/// By the instance that the problem asks for.
::testing::AssertionResult is_right(AttentionCase& c, const DecodeOptions& how = {}) {
  const AttentionProblem problem = resolve(c.problem()).value();
  if (const char* why = unsupported(cuda::supports_quantised_decode, problem); why != nullptr)
    return ::testing::AssertionFailure() << why;
  if (const char* why = cuda::refuse_quantised_decode(problem); why != nullptr)
    return ::testing::AssertionFailure() << why;
  const std::string name = cuda::quantised_decode_kernel.instance(problem);
  using enum Options;
  constexpr DType e4m3 = DType::f8_e4m3, e5m2 = DType::f8_e5m2, i8 = DType::i8;
  if (name == "decode_e4m3_64") return is_right<e4m3, 64, plain>(c, how);
  if (name == "decode_e4m3_64_general") return is_right<e4m3, 64, general>(c, how);
  if (name == "decode_e4m3_64_granules") return is_right<e4m3, 64, granules>(c, how);
  if (name == "decode_e4m3_128") return is_right<e4m3, 128, plain>(c, how);
  if (name == "decode_e4m3_128_general") return is_right<e4m3, 128, general>(c, how);
  if (name == "decode_e4m3_128_granules") return is_right<e4m3, 128, granules>(c, how);
  if (name == "decode_e5m2_64") return is_right<e5m2, 64, plain>(c, how);
  if (name == "decode_e5m2_128_granules") return is_right<e5m2, 128, granules>(c, how);
  if (name == "decode_e5m2_128") return is_right<e5m2, 128, plain>(c, how);
  if (name == "decode_i8_64_general") return is_right<i8, 64, general>(c, how);
  if (name == "decode_i8_64_granules") return is_right<i8, 64, granules>(c, how);
  if (name == "decode_i8_128") return is_right<i8, 128, plain>(c, how);
  if (name == "decode_e4m3_64_fine") return is_right<e4m3, 64, fine>(c, how);
  if (name == "decode_e4m3_128_fine") return is_right<e4m3, 128, fine>(c, how);
  if (name == "decode_e5m2_64_fine") return is_right<e5m2, 64, fine>(c, how);
  if (name == "decode_i8_64_fine") return is_right<i8, 64, fine>(c, how);
  if (name == "decode_i8_128_fine") return is_right<i8, 128, fine>(c, how);
  if (name == "decode_e5m2_128_fine") return is_right<e5m2, 128, fine>(c, how);
  if (name == "decode_e4m3_256") return is_right<e4m3, 256, plain>(c, how);
  if (name == "decode_e4m3_256_general") return is_right<e4m3, 256, general>(c, how);
  if (name == "decode_e4m3_256_fine") return is_right<e4m3, 256, fine>(c, how);
  if (name == "decode_e5m2_256_fine") return is_right<e5m2, 256, fine>(c, how);
  if (name == "decode_i8_256") return is_right<i8, 256, plain>(c, how);
  if (name == "decode_i8_256_fine") return is_right<i8, 256, fine>(c, how);
  return ::testing::AssertionFailure() << name << " is not built into this test";
}

::testing::AssertionResult is_right(const CaseOptions& options, const DecodeOptions& how = {}) {
  AttentionCase c(options);
  return is_right(c, how);
}

TEST(QuantisedDecode, IsRightForEachTypeAndHeadSize) {
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    EXPECT_TRUE(is_right(byte_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}}, stored)));
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2})
    EXPECT_TRUE(is_right(byte_case({{1, 77}, {2, 130}, {1, 3}}, stored, per_token, 64)));
}

TEST(QuantisedDecode, IsRightRoundEdgesOfSlabsAndSpans) {
  for (const int32_t context : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257})
    EXPECT_TRUE(is_right(byte_case({{1, context}})));
}

TEST(QuantisedDecode, IsRightWithoutScales) {
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    CaseOptions o = byte_case({{1, 77}, {3, 40}}, stored, no_scales);
    if (stored == DType::i8) o.q_amplitude = 0.1f;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, IsRightForScalesOfEveryKindAndType) {
  for (const ScaleKind kind : {ScaleKind::tensor, ScaleKind::head, ScaleKind::page,
                               ScaleKind::page_and_head, ScaleKind::token_and_head})
    for (const DType dtype :
         {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3}) {
      CaseOptions o = byte_case({{1, 50}, {2, 20}}, DType::f8_e4m3, {kind, dtype, 16, true});
      o.value_scales.tensor_scale = dtype != DType::f32;
      EXPECT_TRUE(is_right(o));
    }
}

/// A plane with scales behind its rows, moved to a multiple of 16 bytes.
void align(PagedKVView& view, GuardedMemory& memory) {
  const auto behind =
      static_cast<std::byte*>(view.scales.data) - static_cast<std::byte*>(view.data);
  const int64_t bytes = behind + reach_of_scales(view);
  memory = GuardedMemory(bytes, 16);
  std::memcpy(memory.data(), view.data, static_cast<size_t>(bytes));
  view.data = memory.data();
  view.scales.data = memory.data() + behind;
}

TEST(QuantisedDecode, IsRightForScalesBehindTheRow) {
  CaseOptions o = byte_case({{1, 50}, {2, 20}});
  o.key_scales.kind = o.value_scales.kind = ScaleKind::behind_row;
  o.gap_bytes = 16;  // rows of 128 + 16 + 16 bytes
  AttentionCase c(o);
  GuardedMemory key, value;
  align(c.args().key, key);
  align(c.args().value, value);
  EXPECT_TRUE(is_right(c));
}

TEST(QuantisedDecode, IsRightForScalesThatVaryAlongAHead) {
  for (const ScaleKind kind : {ScaleKind::granule, ScaleKind::calibrated_granule})
    for (const int32_t granularity : {16, 32, 48, 64}) {
      EXPECT_TRUE(is_right(
          byte_case({{1, 50}, {2, 20}}, DType::f8_e4m3, {kind, DType::f32, granularity, false})));
      EXPECT_TRUE(is_right(
          byte_case({{1, 50}, {2, 20}}, DType::f8_e5m2, {kind, DType::bf16, granularity, true})));
    }
  for (const DType dtype : {DType::f16, DType::f8_e8m0, DType::f8_e4m3})
    EXPECT_TRUE(is_right(
        byte_case({{1, 50}, {2, 20}}, DType::i8, {ScaleKind::granule, dtype, 16, true}, 64)));
}

TEST(QuantisedDecode, IsRightForGranulesOfAnySize) {
  constexpr DType types[] = {DType::f8_e4m3, DType::f8_e5m2, DType::i8};
  constexpr DType scale_types[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e8m0,
                                   DType::f8_e4m3};
  int i = 0;
  for (const int32_t granularity : {1, 2, 3, 4, 5, 7, 8, 12, 24, 40, 65, 100})
    for (const int32_t head_size : {64, 128, 256}) {
      if (granularity >= head_size) continue;
      const ScaleKind kind = i % 2 == 0 ? ScaleKind::granule : ScaleKind::calibrated_granule;
      EXPECT_TRUE(
          is_right(byte_case({{1, 50}, {2, 20}}, types[i % 3],
                             {kind, scale_types[i / 3 % 5], granularity, i % 4 == 1}, head_size)));
      ++i;
    }
}

TEST(QuantisedDecode, IsRightForHeadsOf256) {
  for (const DType stored : {DType::f8_e4m3, DType::i8})
    for (const DType q : {DType::bf16, DType::f16}) {
      CaseOptions o = byte_case({{1, 77}, {2, 130}, {0, 9}, {1, 3}}, stored, per_token, 256);
      o.q_dtype = q;
      EXPECT_TRUE(is_right(o));
      o.reproducible = Reproducible::per_query;
      EXPECT_TRUE(is_right(o, {.blocks = 3, .seed = 5}));
    }
  CaseOptions o = byte_case({{1, 60}, {5, 50}}, DType::f8_e4m3, per_token, 256);
  o.softcap = 3.0f;
  o.bias = BiasForm::per_head;
  o.unassigned = 0.3;
  EXPECT_TRUE(is_right(o));
  for (const int32_t granularity : {16, 32, 128}) {
    o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, granularity, false};
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, IsRightForGranulesOfOnePlaneAlone) {
  CaseOptions o = byte_case({{1, 50}, {2, 20}});
  o.key_scales = {ScaleKind::granule, DType::f32, 32, false};
  EXPECT_TRUE(is_right(o));
  std::swap(o.key_scales, o.value_scales);
  EXPECT_TRUE(is_right(o));
  o.key_scales = no_scales;
  EXPECT_TRUE(is_right(o));
}

TEST(QuantisedDecode, IsRightForPagesOfAnySize) {
  for (const int32_t page_size : {1, 2, 3, 8, 16, 24, 64, unbounded_page_size}) {
    CaseOptions o = byte_case({{1, 70}, {2, 33}});
    o.page_size = page_size;
    EXPECT_TRUE(is_right(o));
    o.key_order = StorageOrder::head_major;
    o.gap_bytes = 32;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, CountsKeysOfUnassignedPagesAsInvisible) {
  CaseOptions o = byte_case({{1, 100}, {2, 64}, {1, 40}, {1, 16}});
  o.unassigned = 0.5;
  EXPECT_TRUE(is_right(o));
  o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, 16, false};
  EXPECT_TRUE(is_right(o));
}

TEST(QuantisedDecode, IsRightForF16QueriesAndEveryOutput) {
  CaseOptions o = byte_case({{1, 70}, {2, 33}});
  o.q_dtype = DType::f16;
  for (const DType out : {DType::f32, DType::f16, DType::bf16}) {
    o.out_dtype = out;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, TakesBf16QueriesOfAnySize) {
  for (const float amplitude : {1e-30f, 1e-6f, 1e6f, 1e30f}) {
    CaseOptions o = byte_case({{1, 40}, {2, 20}});
    o.q_amplitude = amplitude;
    o.scale = 0.3f / amplitude;
    EXPECT_TRUE(is_right(o));
  }
}

/// Multiplies the scales of every row's V by a power of two that changes from token to token.
TEST(QuantisedDecode, KeepsWeightsOfScalesFarFromOneAnother) {
  CaseOptions o = byte_case({{1, 60}, {2, 33}});
  o.out_dtype = DType::f32;
  AttentionCase c(o);
  const PagedKVView& value = c.args().value;
  int32_t step = 0;
  for (int64_t page = 0; page < value.num_pages; ++page)
    for (int64_t slot = 0; slot < value.page_size; ++slot)
      for (int64_t head = 0; head < value.num_heads; ++head) {
        auto* const scale = reinterpret_cast<float*>(
            static_cast<std::byte*>(value.scales.data) +
            folio::detail::scale_offset_bytes(value.scales, page, slot, head, 0));
        *scale = std::ldexp(*scale, (++step * 7) % 61 - 30);  // NaN stays
      }
  EXPECT_TRUE(is_right(c));
}

TEST(QuantisedDecode, IsRightForEveryMask) {
  const Mask masks[] = {Mask::full(),
                        Mask::sliding_window(1),
                        Mask::sliding_window(40),
                        Mask::sliding_window(20, 3),
                        Mask::chunked(24),
                        {5, 3, 0, 0}};
  for (const Mask& mask : masks) {
    CaseOptions o = byte_case({{1, 150}, {3, 90}, {2, 30}});
    o.mask = mask;
    EXPECT_TRUE(is_right(o));
  }
}

TEST(QuantisedDecode, IsRightForIntervalsTreesAndTerms) {
  CaseOptions o = byte_case({{1, 60}, {5, 50}, {3, 20}}, DType::i8, per_token, 64);
  o.softcap = 3.0f;
  o.alibi = true;
  EXPECT_TRUE(is_right(o));
  o.intervals = true;
  o.bias = BiasForm::per_head;
  EXPECT_TRUE(is_right(o));
  CaseOptions tree = byte_case({{5, 70}, {1, 40}, {9, 33}});
  tree.tree = TreeForm::random;
  tree.sink_logits = true;
  EXPECT_TRUE(is_right(tree));
  tree.key_scales = tree.value_scales = {ScaleKind::granule, DType::f32, 32, false};
  EXPECT_TRUE(is_right(tree));
}

TEST(QuantisedDecode, IgnoresWhatABiasHides) {
  const float lowest = -std::numeric_limits<float>::infinity();
  for (const ScaleOptions& scales :
       {per_token, ScaleOptions{ScaleKind::granule, DType::f32, 32, false}}) {
    CaseOptions o = byte_case({{1, 50}, {2, 33}}, DType::f8_e4m3, scales);
    o.bias = BiasForm::shared;
    AttentionCase c(o);
    const auto is_hidden = [](int64_t key) { return key % 5 == 2 || key == 20; };
    set_bias(c, [&](int64_t, int64_t key) { return is_hidden(key) ? lowest : 0.5f; });
    poison_keys(c, is_hidden, std::numeric_limits<double>::quiet_NaN());
    for (const PagedKVView* view : {&c.args().key, &c.args().value})
      for (int32_t b = 0; b < c.batch().size; ++b)
        for (int64_t key = 0; key < c.batch().context_lengths[b]; ++key) {
          const reference::Slot at = reference::slot_of(*view, c.batch(), b, key);
          if (!is_hidden(key) || at.page < 0) continue;
          for (int64_t head = 0; head < view->num_heads; ++head)
            for (int64_t g = 0; g * view->scales.granularity < view->head_size; ++g) {
              const float nan = std::numeric_limits<float>::quiet_NaN();
              std::memcpy(
                  static_cast<std::byte*>(view->scales.data) +
                      folio::detail::scale_offset_bytes(view->scales, at.page, at.slot, head, g),
                  &nan, sizeof nan);
            }
        }
    EXPECT_TRUE(is_right(c));
  }
}

TEST(QuantisedDecode, IsRightHoweverThePlanCutsIt) {
  const CaseOptions o = byte_case({{1, 700}, {2, 300}, {1, 60}});
  for (const int blocks : {1, 2, 5, 9}) EXPECT_TRUE(is_right(o, {.blocks = blocks}));
}

TEST(QuantisedDecode, GivesTheSameBitsHoweverSpansAreCut) {
  for (const Reproducible level : {Reproducible::per_sequence, Reproducible::per_query}) {
    CaseOptions o = byte_case({{1, 1100}, {2, 600}});
    o.out_dtype = DType::f32;
    o.reproducible = level;
    AttentionCase whole(o);
    EXPECT_TRUE(is_right(whole, {.blocks = 1}));
    for (const int blocks : {2, 5}) {
      AttentionCase cut(o);
      EXPECT_TRUE(is_right(cut, {.blocks = blocks, .seed = 3}));
      EXPECT_EQ(whole.output_bits(), cut.output_bits()) << blocks;
    }
  }
}

TEST(QuantisedDecode, IsRightOnAnySchedule) {
  CaseOptions o = byte_case({{1, 200}, {2, 140}});
  for (uint64_t seed = 10; seed < 18; ++seed) {
    o.key_scales = o.value_scales = per_token;
    EXPECT_TRUE(is_right(o, {.blocks = 4, .resident = 4, .seed = seed}));
    o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, 16, false};
    EXPECT_TRUE(is_right(o, {.blocks = 3, .resident = 1, .seed = seed}));
  }
}

TEST(QuantisedDecode, FindsPagesGigabytesApart) {
  AttentionCase c(byte_case({{1, 40}, {2, 33}}));
  PagedKVView& plane = c.args().key;
  for (const int64_t stride : {(int64_t{1} << 31) + 4096, (int64_t{1} << 32) + 16}) {
    const int64_t bytes = plane.num_pages * stride;
    void* const far = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(far, MAP_FAILED);
    const PagedKVView near = plane;
    for (int64_t page = 0; page < plane.num_pages; ++page)
      std::memcpy(static_cast<std::byte*>(far) + page * stride,
                  static_cast<std::byte*>(near.data) + page * near.page_stride_bytes,
                  static_cast<size_t>(near.page_size * near.slot_stride_bytes));
    plane.data = far;
    plane.page_stride_bytes = stride;
    EXPECT_TRUE(is_right(c));
    plane = near;
    munmap(far, static_cast<size_t>(bytes));
  }
}

AttentionProblem problem_of(const CaseOptions& options) {
  return resolve(AttentionCase(options).problem()).value();
}

TEST(QuantisedDecode, RefusesByNameWhatItLacks) {
  const auto refusal = [](const AttentionProblem& problem) {
    const char* const why = cuda::refuse_quantised_decode(problem);
    return std::string(why == nullptr ? "" : why);
  };
  AttentionProblem problem = problem_of(byte_case({{1, 3}}));
  EXPECT_EQ(refusal(problem), "");
  problem.value.dtype = DType::i8;
  EXPECT_NE(refusal(problem).find("value.dtype"), std::string::npos);
  problem = problem_of(byte_case({{1, 3}}, DType::i8, per_token, 96));
  EXPECT_NE(refusal(problem).find("head_size"), std::string::npos);
  problem = problem_of(byte_case({{1, 3}}));
  problem.key.dtype = DType::bf16;
  EXPECT_NE(unsupported(cuda::supports_quantised_decode, problem), nullptr);
}

}  // namespace
}  // namespace folio::test
