// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/conversions_test.cpp: ends that differ in page size, element type, scales
/// and heads.
#include "tier/transfer/conversions.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "support/block_dtypes.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr DType plain[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2};

TEST_F(Conversions, between_plain_types) {
  for (const DType from : plain)
    for (const DType to : plain)
      for (const int32_t page_size : {4, 6}) hand_over({spec_of(from)}, spec_of(to, page_size));
}
TEST_F(Conversions, of_block_formats) {
  for (const DType block : block_dtypes) {
    hand_over({spec_of(block)}, spec_of(block));
    hand_over({spec_of(block)}, spec_of(block, 16));
    hand_over({spec_of(block)}, spec_of(DType::bf16));
    hand_over({spec_of(DType::f16)}, spec_of(block, 8));
    for (const DType other : block_dtypes) hand_over({spec_of(block)}, spec_of(other, 8));
  }
}
TEST_F(Conversions, of_scaled_pages) {
  for (const DType dtype : {DType::f8_e4m3, DType::i8}) {
    hand_over({scaled(dtype, 64)}, scaled(dtype, 64, 16));
    hand_over({scaled(dtype, 64)}, scaled(dtype, 16));
    hand_over({scaled(dtype, 16)}, spec_of(DType::bf16, 8));
    hand_over({spec_of(DType::bf16)}, scaled(dtype, 32, 8));
  }
  hand_over({scaled(DType::f8_e4m3, 64)}, scaled(DType::i8, 16, 6));
  hand_over({scaled(DType::i8, 16)}, scaled(DType::f8_e4m3, 64, 6));
}
TEST_F(Conversions, of_scaled_pages_and_block_formats) {
  for (const DType block : block_dtypes) {
    for (const int32_t page_size : {4, 6}) {
      hand_over({scaled(DType::f8_e4m3, 64)}, spec_of(block, page_size));
      hand_over({spec_of(block)}, scaled(DType::f8_e4m3, 32, page_size));
      hand_over({spec_of(block)}, scaled(DType::i8, 16, page_size));
    }
  }
}
TEST_F(Conversions, of_block_formats_in_parts_of_heads) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    EndSpec lower = scaled(DType::f8_e4m3, 32);
    lower.total_heads = 4, lower.order = order;
    EndSpec upper = lower, whole = spec_of(DType::q8_0, 16);
    upper.first_head = 2, whole.num_heads = whole.total_heads = 4;
    hand_over({lower, upper}, whole);
    hand_over({whole}, lower);
    hand_over({whole}, upper);
  }
}

/// Scales that all pages share go with no page.
class SharedScales : public Conversions {
 protected:
  static void share(std::vector<KVPlanes>& planes, const float& scale) {
    for (KVPlanes& layer : planes)
      for (PagedKVView* view : {&layer.key, &layer.value})
        view->scales = {.data = const_cast<float*>(&scale),
                        .dtype = DType::f32,
                        .granularity = view->head_size};
  }
};

TEST_F(SharedScales, of_a_sender_are_refused_where_the_receiver_has_others) {
  const float scale = 0.25F, another = 0.5F;
  for (const DType dtype : {DType::bf16, DType::q8_0, DType::f8_e4m3}) {
    InProcessNetwork network;
    PrefillEnd from(spec_of(DType::f8_e4m3), network.make_end().value());
    DecodeEnd to(spec_of(dtype), network.make_end().value());
    share(from.planes, scale);
    if (dtype == DType::f8_e4m3) share(to.planes, another);
    HandoverSender sender = HandoverSender::create({.end = from.end()}).value();
    HandoverReceiver receiver = HandoverReceiver::create({.end = to.end()}).value();
    const Tokens tokens{1, 2, 3};
    static_cast<void>(
        sender.begin(from.connect(to), 1, from.admit(tokens).value().id, tokens).value());
    for (int i = 0; i < 4; ++i) sender.poll(0), receiver.poll(0);
    HandoverEnd end[1];
    ASSERT_EQ(sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::refused);
    EXPECT_THAT(std::string(end[0].reason.message()), HasSubstr("pages share scales"));
  }
}

TEST_F(SharedScales, of_a_receiver_are_those_it_is_converted_with) {
  const float scale = 1.0F / 256;
  for (const EndSpec& of : {spec_of(DType::bf16), spec_of(DType::q8_0), scaled(DType::i8, 16)}) {
    InProcessNetwork network;
    PrefillEnd from(of, network.make_end().value());
    DecodeEnd to(spec_of(DType::f8_e4m3, 8), network.make_end().value());
    share(to.planes, scale);
    HandoverReceiver receiver = HandoverReceiver::create({.end = to.end()}).value();
    const Tokens tokens = random_tokens(rng, 21);
    const std::vector<int64_t> rows = first_rows(21);
    Rows truth(of), got(of), near(of);
    for (float& x : truth.values()) x = static_cast<float>(rng.between(-1000, 1000)) / 1000;
    const SequenceId id = from.admit(tokens).value().id;
    copy_rows(truth.planes, rows, from.planes, slots_of(from, id, 21));
    const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
    for (int32_t layer = 0; layer < 2; ++layer) from.sender.push_layer(h, layer).or_throw();
    from.sender.finish(h).or_throw();
    ReceivedSequence sequence[1];
    ASSERT_TRUE(comes_true([&] {
      from.sender.poll(0), receiver.poll(0);
      return receiver.take(sequence) == 1;
    })) << receiver.last_fault().message();
    copy_rows(to.planes, slots_of(to, sequence[0].id, 21), got.planes, rows);
    copy_rows(truth.planes, rows, near.planes, rows);
    for (size_t i = 0; i < got.values().size(); ++i)
      ASSERT_NEAR(got.values()[i], near.values()[i], largest_error) << i;
    to.pool.release(sequence[0].id).or_throw();
  }
}

EndSpec random_spec(Rng& rng) {
  const bool is_block = rng.chance(0.4), is_scaled = !is_block && rng.chance(0.4);
  const int32_t page_size = rng.int_between(1, 17);
  const int32_t granularities[] = {16, 32, 64};
  EndSpec spec = is_block    ? spec_of(rng.pick(block_dtypes), page_size)
                 : is_scaled ? scaled(rng.chance(0.5) ? DType::i8 : DType::f8_e4m3,
                                      rng.pick(granularities), page_size)
                             : spec_of(rng.pick(plain), page_size);
  spec.order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
  spec.total_heads = 4;
  return spec;
}

TEST_F(Conversions, of_random_pairs) {
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    EndSpec from = random_spec(rng), to = random_spec(rng), other = random_spec(rng);
    const Landing landing = rng.chance(0.7) ? Landing::direct : Landing::staged;
    switch (rng.between(0, 2)) {
      case 0:  // as many heads on either side
        from.total_heads = to.total_heads = 2;
        hand_over({from}, to, landing);
        break;
      case 1:  // a part of the sender's
        from.num_heads = 4;
        to.first_head = rng.int_between(0, 2);
        hand_over({from}, to, landing);
        break;
      default:  // two senders, of any kind each
        to.num_heads = 4;
        other.first_head = 2;
        hand_over({from, other}, to, landing);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace folio::test
