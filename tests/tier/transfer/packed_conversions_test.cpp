// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/packed_conversions_test.cpp: ends whose rows have four bits, zero points,
/// rotations and channel scales: what goes as it is, what is converted, what is refused.
#include <gmock/gmock.h>

#include <string>

#include "tier/transfer/conversions.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

EndSpec packed(DType dtype, Zeros zeros = Zeros::none, int32_t page_size = 4) {
  EndSpec spec = spec_of(dtype, page_size);
  spec.scale_dtype = zeros == Zeros::in_scale ? DType::f32 : DType::f16;
  if (dtype == DType::f4_e2m1) spec.scale_dtype = DType::f8_e4m3;
  spec.granularity = dtype == DType::f4_e2m1 ? 16 : 32;
  spec.zeros = zeros;
  return spec;
}

std::vector<EndSpec> all_packed(int32_t page_size = 4) {
  std::vector<EndSpec> all;
  for (const DType dtype : {DType::i4, DType::u4, DType::f4_e2m1, DType::i4_halves})
    all.push_back(packed(dtype, Zeros::none, page_size));
  for (const Zeros zeros : {Zeros::patterns, Zeros::minimum, Zeros::in_scale})
    all.push_back(packed(DType::u4, zeros, page_size));
  all.push_back(packed(DType::u4_halves, Zeros::minimum, page_size));
  return all;
}

EndSpec turned(EndSpec spec, int32_t block, uint32_t sign_seed = 0) {
  spec.hadamard = spec.value.hadamard = {block, sign_seed};
  return spec;
}

class PackedConversions : public Conversions {
 protected:
  /// Two roundings in turn, each off by a tenth or so of a turned row's elements: ten times that.
  PackedConversions() { largest_error = 1; }

  /// Whether the latest handover wrote into the receiver's pages, or all went by slots.
  [[nodiscard]] bool was_direct() const {
    EXPECT_TRUE(figures.direct_pieces == 0 || figures.staged_pieces == 0);
    return figures.direct_pieces != 0;
  }
  /// Why the sender's handovers are refused.
  [[nodiscard]] std::string refusal(const EndSpec& sender, const EndSpec& receiver) {
    InProcessNetwork network;
    PrefillEnd from(sender, network.make_end().value());
    DecodeEnd to(receiver, network.make_end().value());
    const Tokens tokens{1, 2, 3};
    static_cast<void>(
        from.sender.begin(from.connect(to), 1, from.admit(tokens).value().id, tokens).value());
    for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
    HandoverEnd end[1];
    if (from.sender.take_ends(end) != 1 || end[0].outcome != HandoverOutcome::refused) return "";
    return std::string(end[0].reason.message());
  }
};

TEST_F(PackedConversions, of_rows_that_are_alike_go_as_they_are) {
  for (const EndSpec& spec : all_packed()) {
    hand_over({spec}, spec);
    EXPECT_TRUE(was_direct()) << name(spec.dtype) << static_cast<int>(spec.zeros);
    hand_over({spec}, spec, Landing::staged);
    EXPECT_FALSE(was_direct());
  }
  hand_over({turned(packed(DType::i4), 64, 9)}, turned(packed(DType::i4), 64, 9));
  EXPECT_TRUE(was_direct());
}

TEST_F(PackedConversions, of_other_pages_and_types) {
  for (const EndSpec& spec : all_packed()) {
    EndSpec other = spec;
    other.page_size = 6;
    hand_over({spec}, other);
    hand_over({spec}, spec_of(DType::bf16, 4));
    EXPECT_FALSE(was_direct());
    hand_over({spec_of(DType::f16)}, other);
    for (const EndSpec& to : all_packed(8)) hand_over({spec}, to);
  }
  hand_over({packed(DType::i4)}, spec_of(DType::q4_0));
  hand_over({scaled(DType::i8, 16)}, packed(DType::u4, Zeros::minimum, 8));
}

TEST_F(PackedConversions, of_equal_bytes_that_mean_something_else) {
  const EndSpec plain = packed(DType::i4);
  for (const EndSpec& other : {turned(plain, 64), turned(plain, 32), turned(plain, 64, 3)}) {
    hand_over({plain}, other);
    EXPECT_FALSE(was_direct());
    hand_over({other}, plain);
    EXPECT_FALSE(was_direct());
    hand_over({other}, turned(plain, 64, 4));
    EXPECT_FALSE(was_direct());
  }
  hand_over({packed(DType::u4)}, packed(DType::i4));
  EXPECT_FALSE(was_direct());
  hand_over({packed(DType::u4, Zeros::patterns)}, packed(DType::u4, Zeros::minimum));
  EXPECT_FALSE(was_direct());
  hand_over({packed(DType::i4)}, packed(DType::i4_halves));
  EXPECT_FALSE(was_direct());
  hand_over({turned(spec_of(DType::bf16), 64)}, spec_of(DType::bf16));
  EXPECT_FALSE(was_direct());
}

TEST_F(PackedConversions, of_values_whose_rows_are_others_than_the_keys) {
  EndSpec pair = scaled(DType::i8, 64);
  pair.value = {.dtype = DType::i4, .scale_dtype = DType::f16, .granularity = 32};
  EndSpec other = pair;
  hand_over({pair}, pair);
  EXPECT_TRUE(was_direct());
  other.value.hadamard = {.block = 64};
  hand_over({pair}, other);
  EXPECT_FALSE(was_direct()) << "V alone is another";
  hand_over({other}, spec_of(DType::bf16, 6));
  hand_over({spec_of(DType::f32)}, other);
  EndSpec swapped = packed(DType::i4);
  swapped.value = {.dtype = DType::i8, .scale_dtype = DType::f32, .granularity = 64};
  hand_over({pair}, swapped);
  EXPECT_FALSE(was_direct());
}

TEST_F(PackedConversions, in_parts_of_heads) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    EndSpec lower = turned(packed(DType::u4, Zeros::patterns), 32, 5);
    lower.total_heads = 4, lower.order = order;
    EndSpec upper = lower, whole = lower, plain = spec_of(DType::f16, 16);
    upper.first_head = 2;
    whole.num_heads = plain.num_heads = plain.total_heads = 4;
    hand_over({lower, upper}, whole);
    hand_over({lower, upper}, plain);
    hand_over({whole}, upper);
    hand_over({plain}, upper);
  }
}

TEST_F(PackedConversions, of_channel_scales_that_both_ends_have) {
  EndSpec from = turned(packed(DType::i4), 64);
  from.channels = 0.5F;
  largest_error = 3;  // a column of the widest factor
  hand_over({from}, from);
  EXPECT_TRUE(was_direct());
  EndSpec to = from;
  to.page_size = 6;
  hand_over({from}, to);
  EXPECT_FALSE(was_direct());
}

TEST_F(PackedConversions, of_channel_scales_that_the_receiver_alone_has) {
  EndSpec to = packed(DType::u4, Zeros::minimum, 6);
  to.channels = 2;
  largest_error = 3;
  hand_over({packed(DType::i4)}, to);
  hand_over({spec_of(DType::bf16)}, to);
  EXPECT_FALSE(was_direct());
}

TEST_F(PackedConversions, of_channel_scales_that_the_receiver_has_not_are_refused) {
  EndSpec from = packed(DType::i4);
  from.channels = 2;
  EXPECT_THAT(refusal(from, packed(DType::i4)),
              HasSubstr("key.has_channel_scales differs from the receiver's"));
  EXPECT_THAT(refusal(from, spec_of(DType::bf16)), HasSubstr("key.dtype differs"));
  EndSpec to = from;
  to.hadamard = {.block = 16};
  EXPECT_THAT(refusal(from, to), HasSubstr("key.hadamard differs"));
  to = from, to.granularity = 16;
  EXPECT_THAT(refusal(from, to), HasSubstr("key.scales.granularity differs"));
  to = from, to.channels = 3;
  EXPECT_THAT(refusal(from, to), HasSubstr("equal ones of the same heads"));
  to = from, to.first_head = 1, to.total_heads = 3;
  EndSpec part = from;
  part.total_heads = 3;
  EXPECT_THAT(refusal(part, to), HasSubstr("equal ones of the same heads"));
  to = from;
  to.value = {.dtype = DType::bf16};
  EXPECT_THAT(refusal(from, to), HasSubstr("value.dtype differs"));
}

EndSpec random_rows(Rng& rng) {
  const std::vector<EndSpec> all = all_packed();
  EndSpec spec = rng.chance(0.7) ? all[static_cast<size_t>(rng.between(0, std::ssize(all) - 1))]
                                 : scaled(DType::i8, 16);
  constexpr int32_t blocks[] = {0, 16, 32, 64};
  if (const int32_t block = rng.pick(blocks); block != 0)
    spec.hadamard = {block, rng.chance(0.5) ? static_cast<uint32_t>(rng.next()) : 0};
  return spec;
}

EndSpec random_end(Rng& rng) {
  EndSpec spec = random_rows(rng);
  const EndSpec value = random_rows(rng);
  if (rng.chance(0.5))
    spec.value = {value.dtype, value.scale_dtype, value.granularity, value.zeros, value.hadamard};
  spec.page_size = rng.int_between(1, 17);
  spec.order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
  spec.total_heads = 4;
  return spec;
}

TEST_F(PackedConversions, of_random_pairs) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    EndSpec from = random_end(rng), to = rng.chance(0.3) ? from : random_end(rng);
    const Landing landing = rng.chance(0.7) ? Landing::direct : Landing::staged;
    to.page_size = rng.chance(0.5) ? from.page_size : to.page_size;
    if (rng.chance(0.5)) {
      from.num_heads = 4;
      to.first_head = rng.int_between(0, 2);
      hand_over({from}, to, landing);
    } else {
      EndSpec other = random_end(rng);
      to.num_heads = 4;
      other.first_head = 2;
      hand_over({from, other}, to, landing);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace folio::test
