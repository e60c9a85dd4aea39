// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/conversions_test.cpp: what comes where two ends differ is what `copy_slots`
/// makes of the sender's pages, and near to what the sender was given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/tier/transports.h"
#include "support/block_dtypes.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"
#include "tier/transfer/geometry.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t max_tokens = 50;

/// K and V of a sequence's tokens, each a row, as f32.
class Rows {
 public:
  explicit Rows(const EndSpec& of)
      : shape_{.num_layers = of.num_layers,
               .num_heads = of.num_heads,
               .head_size = of.head_size,
               .page_size = max_tokens,
               .dtype = DType::f32,
               .is_mla = of.is_mla},
        memory_(Buffer::allocate(page_bytes(shape_).value()).value()),
        planes(make_planes(shape_, 1, memory_.span()).value()) {
    for (float& x : values()) x = 0;
  }
  [[nodiscard]] std::span<float> values() {
    return {reinterpret_cast<float*>(memory_.data()), static_cast<size_t>(memory_.bytes() / 4)};
  }

 private:
  KVShape shape_;
  Buffer memory_;

 public:
  std::vector<KVPlanes> planes;
};

/// The slots of a sequence's first tokens.
std::vector<int64_t> slots_of(const End& end, SequenceId id, int32_t count) {
  const uint32_t* const row = end.pool.table().entries + end.pool.row_start(id).value();
  const int32_t size = end.spec.page_size;
  std::vector<int64_t> slots;
  slots.reserve(static_cast<size_t>(count));
  for (int32_t t = 0; t < count; ++t) slots.push_back(int64_t{row[t / size]} * size + t % size);
  return slots;
}

void copy_rows(std::span<const KVPlanes> from, std::span<const int64_t> from_slots,
               std::span<const KVPlanes> to, std::span<const int64_t> to_slots) {
  std::vector<SlotCopy> copies;
  for (size_t t = 0; t < from_slots.size(); ++t) copies.push_back({from_slots[t], to_slots[t]});
  copy_slots(from, to, copies, serial_executor()).or_throw();
}

/// Heads of `planes`, which has those from `first` on.
std::vector<KVPlanes> heads_of(std::span<const KVPlanes> planes, int32_t first, int32_t count) {
  std::vector<KVPlanes> narrow;
  for (const KVPlanes& layer : planes) narrow.push_back(tier::with_heads(layer, first, count));
  return narrow;
}

/// The slots of `count` rows.
std::vector<int64_t> first_rows(int32_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// What can be told of an element that went through the formats of two ends, of [-1, 1].
constexpr float largest_error = 0.3F;

class Conversions : public ::testing::Test {
 protected:
  /// A prompt goes from senders to a receiver, which then has what `copy_slots` makes of theirs.
  void hand_over(const std::vector<EndSpec>& senders, const EndSpec& receiver,
                 Landing landing = Landing::direct) {
    const Tokens tokens = random_tokens(rng, rng.int_between(1, max_tokens));
    const auto count = static_cast<int32_t>(tokens.size());
    const std::vector<int64_t> rows = first_rows(count);
    EndSpec all = receiver, like = receiver;
    all.num_heads = receiver.total_heads;
    like.page_size = max_tokens, like.num_pages = 1;
    Rows truth(all), got(receiver), wanted(receiver);
    for (float& x : truth.values()) x = static_cast<float>(rng.between(-1000, 1000)) / 1000;
    InProcessNetwork network;
    DecodeEnd to(receiver, network.make_end().value(),
                 {.landing = landing, .staging_slots = 5, .staging_slot_bytes = 1 << 16});
    End expected(like, network.make_end().value());
    std::vector<std::unique_ptr<PrefillEnd>> froms;
    for (const EndSpec& spec : senders) {
      PrefillEnd& from =
          *froms.emplace_back(std::make_unique<PrefillEnd>(spec, network.make_end().value()));
      const SequenceId id = from.admit(tokens).value().id;
      const std::vector<int64_t> slots = slots_of(from, id, count);
      copy_rows(heads_of(truth.planes, spec.first_head, spec.num_heads), rows, from.planes, slots);
      const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
      for (int32_t layer = 0; layer < spec.num_layers; ++layer)
        from.sender.push_layer(h, layer).or_throw();
      from.sender.finish(h).or_throw();
      const int32_t first = std::max(spec.first_head, receiver.first_head);
      const int32_t heads =
          std::min(spec.first_head + spec.num_heads, receiver.first_head + receiver.num_heads) -
          first;
      copy_rows(heads_of(from.planes, first - spec.first_head, heads), slots,
                heads_of(expected.planes, first - receiver.first_head, heads), rows);
    }
    ASSERT_TRUE(comes_true([&] {
      for (const auto& from : froms) from->sender.poll(0);
      to.receiver.poll(0);
      return to.receiver.figures().committed == 1 || !to.receiver.last_fault().is_ok();
    }));
    ASSERT_TRUE(to.receiver.last_fault().is_ok()) << to.receiver.last_fault().message();
    const ReceivedSequence sequence = to.take();
    copy_rows(to.planes, slots_of(to, sequence.id, count), got.planes, rows);
    copy_rows(expected.planes, rows, wanted.planes, rows);
    EXPECT_TRUE(std::ranges::equal(got.values(), wanted.values()));
    Rows near(receiver);
    copy_rows(heads_of(truth.planes, receiver.first_head, receiver.num_heads), rows, near.planes,
              rows);
    for (size_t i = 0; i < got.values().size(); ++i)
      ASSERT_NEAR(got.values()[i], near.values()[i], largest_error) << i;
  }
  Rng rng{test_seed()};
};

EndSpec spec_of(DType dtype, int32_t page_size = 4) {
  return {.page_size = page_size, .dtype = dtype, .num_layers = 2, .head_size = 64};
}
EndSpec scaled(DType dtype, int32_t granularity, int32_t page_size = 4) {
  EndSpec spec = spec_of(dtype, page_size);
  spec.scale_dtype = DType::f32, spec.granularity = granularity;
  return spec;
}

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
