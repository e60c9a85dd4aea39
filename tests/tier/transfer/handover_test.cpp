// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_test.cpp: sequences that go from one end to another, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "tier/transfer/handovers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Kinds, Handovers, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

// ---- Geometries

TEST_P(Handovers, bring_every_byte_of_equal_pages_straight_into_them) {
  hand_over_some({}, {});
  EXPECT_EQ(staged, 0);
  EXPECT_GT(direct, 0);
  hand_over_some({.order = StorageOrder::head_major}, {.order = StorageOrder::head_major});
  EXPECT_EQ(staged, 0);
}
TEST_P(Handovers, bring_every_byte_by_staging_slots_where_pages_are_not_to_be_written_to) {
  hand_over_some({}, {}, Landing::staged);
  EXPECT_GT(staged, 0);
  EXPECT_EQ(direct, 0);
}
TEST_P(Handovers, convert_page_sizes) {
  hand_over_some({.page_size = 16}, {.page_size = 32});
  hand_over_some({.page_size = 32}, {.page_size = 16});
  hand_over_some({.page_size = 4}, {.page_size = 6});
  EXPECT_GT(staged, 0);
}
TEST_P(Handovers, convert_types) {
  hand_over_some({.dtype = DType::bf16}, {.dtype = DType::f32});
  hand_over_some({.dtype = DType::bf16}, {.dtype = DType::f8_e4m3});
  hand_over_some({.page_size = 4, .dtype = DType::f32}, {.page_size = 8, .dtype = DType::f16});
  EXPECT_GT(staged, 0);
}
TEST_P(Handovers, convert_storage_orders) {
  hand_over_some({}, {.order = StorageOrder::head_major});
  hand_over_some({.order = StorageOrder::head_major}, {});
  EXPECT_GT(staged, 0);
}
TEST_P(Handovers, bring_scales_of_slots) {
  const EndSpec quantised{.dtype = DType::f8_e4m3, .scale_dtype = DType::f32, .granularity = 16};
  hand_over_some(quantised, quantised);
  EXPECT_EQ(staged, 0);
  EndSpec large = quantised;
  large.page_size = 8;
  hand_over_some(quantised, large);
  EXPECT_GT(staged, 0);
  hand_over_some(quantised, {.dtype = DType::f32});
}
TEST_P(Handovers, bring_latent_caches) {
  hand_over_some({.num_heads = 1, .total_heads = 1, .is_mla = true},
                 {.page_size = 8, .num_heads = 1, .total_heads = 1, .is_mla = true});
}

// ---- Heads

TEST_P(Handovers, of_several_senders_fill_the_heads_of_one_sequence) {
  Rng rng(test_seed());
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    const EndSpec half{.num_heads = 2, .total_heads = 4, .order = order};
    EndSpec upper = half, whole = half;
    upper.first_head = 2, whole.num_heads = 4;
    PrefillEnd a(half, transport()), b(upper, transport());
    DecodeEnd to(whole, transport());
    for (int i = 0; i < 4; ++i)
      hand_over({&a, &b}, to, random_tokens(rng, rng.int_between(1, 70)), rng.int_between(1, 30));
    const bool is_staged = to.receiver.figures().staged_pieces != 0;
    EXPECT_EQ(is_staged, order == StorageOrder::token_major);
  }
}
TEST_P(Handovers, bring_a_receiver_its_heads_alone) {
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    for (const int32_t page_size : {4, 8}) {
      const EndSpec whole{.num_heads = 4, .total_heads = 4, .order = order};
      EndSpec half = whole;
      half.num_heads = 2, half.page_size = page_size;
      hand_over_some(whole, half);
      half.first_head = 2;
      hand_over_some(whole, half);
    }
  }
}
TEST_P(Handovers, of_a_sequence_go_to_two_receivers_at_once) {
  Rng rng(test_seed());
  const EndSpec whole{.num_heads = 4, .total_heads = 4};
  EndSpec half = whole, upper = whole;
  half.num_heads = 2, upper.num_heads = 2, upper.first_head = 2;
  PrefillEnd from(whole, transport());
  DecodeEnd a(half, transport()), b(upper, transport());
  const Tokens tokens = random_tokens(rng, 43);
  const SequenceId id = from.admit(tokens).value().id;
  const HandoverId handovers[] = {from.sender.begin(peer(from, a), 5, id, tokens).value(),
                                  from.sender.begin(peer(from, b), 5, id, tokens).value()};
  from.prefill(id, tokens, handovers, 0, 43);
  for (const HandoverId h : handovers) from.sender.finish(h).or_throw();
  for (int i = 0; i < 2; ++i) {
    HandoverEnd end[1];
    ASSERT_TRUE(comes_true([&] {
      from.sender.poll(0), a.receiver.poll(0), b.receiver.poll(0);
      return from.sender.take_ends(end) == 1;
    }));
    EXPECT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
  }
  for (DecodeEnd* to : {&a, &b}) EXPECT_EQ(to->count_wrong(to->take().id, tokens, 0, 43), 0);
  expect_idle(from);
}

// ---- Layers

TEST_P(Handovers, tell_which_layers_are_there_while_others_come) {
  Rng rng(test_seed());
  EndSpec lower{.num_heads = 2, .total_heads = 4}, upper = lower, whole = lower;
  upper.first_head = 2, whole.num_heads = 4, whole.page_size = 8;
  PrefillEnd a(lower, transport()), b(upper, transport());
  DecodeEnd to(whole, transport());
  const Tokens tokens = random_tokens(rng, 21);
  ArrivingSequence arriving[2];
  EXPECT_EQ(to.receiver.arriving(arriving), 0U);
  std::map<PrefillEnd*, std::pair<SequenceId, HandoverId>> ways;
  for (PrefillEnd* from : {&a, &b}) {
    const SequenceId id = from->admit(tokens).value().id;
    ways[from] = {id, from->sender.begin(peer(*from, to), 5, id, tokens).value()};
  }
  const auto land = [&](PrefillEnd& from, int32_t layer, int64_t pieces) {
    from.compute(ways[&from].first, tokens, layer, 0, 21);
    from.sender.push_layer(ways[&from].second, layer).or_throw();
    EXPECT_TRUE(comes_true([&] {
      a.sender.poll(0), b.sender.poll(0), to.receiver.poll(0);
      return to.receiver.figures().staged_pieces == pieces;
    }));
    EXPECT_EQ(to.receiver.arriving(arriving), 1U);
    return arriving[0].layers_ready;
  };
  EXPECT_EQ(land(a, 0, 6), 0) << "of half of the heads";
  EXPECT_EQ(land(b, 1, 12), 0) << "not the first one";
  EXPECT_EQ(land(b, 0, 18), 1);
  EXPECT_EQ(arriving[0].request, 5U);
  EXPECT_EQ(arriving[0].cached_tokens, 0);
  EXPECT_TRUE(std::ranges::equal(arriving[0].tokens, tokens));
  EXPECT_EQ(to.pool.length(arriving[0].id).value(), 0) << "not committed";
  EXPECT_EQ(land(a, 1, 24), 2);
  EXPECT_EQ(land(a, 2, 30), 2);
  EXPECT_EQ(land(b, 2, 36), 3);
  EXPECT_EQ(to.count_wrong(arriving[0].id, tokens, 0, 21), 0);
  for (const auto& [from, way] : ways) from->sender.finish(way.second).or_throw();
  EXPECT_TRUE(comes_true([&] {
    a.sender.poll(0), b.sender.poll(0), to.receiver.poll(0);
    return to.receiver.figures().committed == 1;
  }));
  EXPECT_EQ(to.receiver.arriving(arriving), 0U);
  EXPECT_EQ(to.take().id, arriving[0].id);
}

// ---- Prefixes

TEST_P(Handovers, leave_out_what_the_receiver_has) {
  Rng rng(test_seed());
  for (const int32_t page_size : {4, 6, 16}) {
    for (const int32_t partial : {0, 2}) {
      PrefillEnd a({.page_size = 4}, transport());
      DecodeEnd b({.page_size = page_size, .min_partial_tokens = partial}, transport());
      Tokens tokens = random_tokens(rng, 39);
      hand_over({&a}, b, tokens, 39);
      EXPECT_EQ(last_cached, 0);
      tokens.resize(35);
      tokens.push_back(1), tokens.push_back(2);
      hand_over({&a}, b, tokens, 39);
      EXPECT_EQ(last_cached, 35 / page_size * page_size) << "and no part of a page";
      EXPECT_EQ(a.sender.figures().skipped_tokens, last_cached);
    }
  }
}
TEST_P(Handovers, tell_salt_and_adapter) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const ContentSpan spans[] = {{.offset = 2, .length = 4, .hash = {{9}}}};
  const SequenceOptions options{.salt = "tenant", .adapter = 3};
  const SequenceId id = a.pool.admit(tokens, options).value().id;
  a.pool.reserve(id, 9).or_throw();
  const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens, options).value();
  a.prefill(id, tokens, {&h, 1}, 0, 9);
  a.sender.finish(h).or_throw();
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::done);
  b.pool.release(b.take().id).or_throw();
  EXPECT_EQ(b.pool.peek(tokens, options), 8);
  EXPECT_EQ(b.pool.peek(tokens), 0);
  EXPECT_EQ(a.sender.begin(peer(a, b), 2, id, tokens, {.spans = spans}).value().value, 2U);
  const HandoverEnd end = wait_for_end(a, b);
  EXPECT_EQ(end.outcome, HandoverOutcome::refused) << "the receiver's pool takes no spans";
  EXPECT_THAT(std::string(end.reason.message()), HasSubstr("max_spans"));
}

// ---- Refusals

TEST_P(Handovers, of_another_geometry_are_refused_with_the_reason) {
  EXPECT_THAT(refusal_of({.model = 2}, {}), HasSubstr("the models of the two ends differ"));
  EXPECT_THAT(refusal_of({.num_layers = 2}, {}), HasSubstr("num_layers is 2, expected"));
  EXPECT_THAT(refusal_of({.head_size = 64}, {}), HasSubstr("head_size is 64, expected"));
  EXPECT_THAT(refusal_of({.total_heads = 4}, {}), HasSubstr("total_heads is 4, expected"));
  EXPECT_THAT(refusal_of({.num_heads = 1, .total_heads = 1, .is_mla = true},
                         {.num_heads = 1, .total_heads = 1}),
              HasSubstr("is_mla is 1, expected"));
  EXPECT_THAT(refusal_of({.num_heads = 2, .total_heads = 4},
                         {.first_head = 2, .num_heads = 2, .total_heads = 4}),
              HasSubstr("heads 0 .. 1, expected some of 2 .. 3"));
  EXPECT_THAT(refusal_of({.page_size = 1024}, {}), HasSubstr("staging_slot_bytes"));
}
TEST_P(Handovers, that_find_no_room_may_come_later) {
  PrefillEnd a({}, transport());
  DecodeEnd b({.num_pages = 4}, transport(), {.max_tokens = 30});
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 20);
  const SequenceId id = a.admit(tokens).value().id;
  static_cast<void>(a.sender.begin(peer(a, b), 1, id, tokens).value());
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::refused) << "never has room for 5 pages";
  const SequenceId other = b.pool.admit(random_tokens(rng, 9)).value().id;
  b.pool.reserve(other, 9).or_throw();
  hand_over({&a}, b, random_tokens(rng, 4), 4);
  const Tokens some = random_tokens(rng, 8);
  const SequenceId waits = a.admit(some).value().id;
  static_cast<void>(a.sender.begin(peer(a, b), 2, waits, some).value());
  const HandoverEnd end = wait_for_end(a, b);
  EXPECT_EQ(end.outcome, HandoverOutcome::busy) << end.reason.message();
  b.pool.release(other).or_throw();
  a.pool.release(waits).or_throw();
  hand_over({&a}, b, some, 8);
  const Tokens many = random_tokens(rng, 31);
  static_cast<void>(a.sender.begin(peer(a, b), 3, a.admit(many).value().id, many).value());
  const HandoverEnd too_many = wait_for_end(a, b);
  EXPECT_EQ(too_many.outcome, HandoverOutcome::refused);
  EXPECT_THAT(std::string(too_many.reason.message()), HasSubstr("31 tokens, expected 1 .. 30"));
}

// ---- Back-pressure

TEST_P(Handovers, wait_where_little_room_is_left) {
  Rng rng(test_seed());
  PrefillEnd a({.max_io_pins = 3}, transport(), {.max_posts = 1, .post_bytes = 1});
  DecodeEnd b({.page_size = 8}, transport(), {.staging_slots = 1});
  hand_over({&a}, b, random_tokens(rng, 50), 7);
  EXPECT_EQ(b.receiver.figures().staged_pieces, 13 * 3);
}

}  // namespace
}  // namespace folio::test
