// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_test.cpp: sequences that go from one end to another, over every
/// transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"

namespace folio::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Handovers : public ::testing::TestWithParam<TransportKind> {
 protected:
  using Senders = std::vector<PrefillEnd*>;

  [[nodiscard]] std::unique_ptr<Transport> transport(const TransportOptions& options = {}) {
    return GetParam().make(options).value();
  }
  /// A prompt goes from senders to a receiver, in chunks.
  void hand_over(const Senders& senders, DecodeEnd& to, const Tokens& tokens, int32_t chunk) {
    struct Way {
      PrefillEnd* from;
      SequenceId id;
      HandoverId handover;
      int32_t done = 0;
    };
    std::vector<Way> ways;
    const uint64_t request = ++requests_;
    for (PrefillEnd* from : senders) {
      const Admission a = from->admit(tokens).value();
      ways.push_back({from, a.id,
                      from->sender.begin(peer(*from, to), request, a.id, tokens).value(),
                      a.cached_tokens});
    }
    const auto size = static_cast<int32_t>(tokens.size());
    for (bool is_over = false; !is_over;) {
      is_over = true;
      for (Way& way : ways) {
        const int32_t last = std::min(way.done + chunk, size);
        if (way.done == size) continue;
        way.from->prefill(way.id, tokens, {&way.handover, 1}, way.done, last);
        way.done = last;
        is_over = false;
        way.from->sender.poll(now);
        to.receiver.poll(now);
      }
    }
    const Tokens output{7, 8};
    for (Way& way : ways) way.from->sender.finish(way.handover, output).or_throw();
    ASSERT_TRUE(comes_true([&] {
      for (const Way& way : ways) way.from->sender.poll(now);
      to.receiver.poll(now);
      return std::ranges::all_of(
          ways, [](const Way& way) { return way.from->sender.figures().handovers == 0; });
    }));
    for (const Way& way : ways) {
      const HandoverEnd end = wait_for_end(*way.from, to);
      EXPECT_EQ(end.id, way.handover);
      ASSERT_EQ(end.outcome, HandoverOutcome::done) << end.reason.message();
      way.from->pool.release(way.id).or_throw();
      expect_idle(*way.from);
    }
    const ReceivedSequence got = to.take();
    EXPECT_EQ(got.request, request);
    ASSERT_EQ(got.tokens, tokens);
    EXPECT_EQ(got.output, output);
    EXPECT_EQ(to.pool.length(got.id).value(), size);
    EXPECT_EQ(to.count_wrong(got.id, tokens, 0, size), 0);
    last_cached = got.cached_tokens;
    expect_idle(to);
    to.pool.release(got.id).or_throw();
  }
  HandoverEnd wait_for_end(PrefillEnd& from, DecodeEnd& to, int64_t step_ms = 0) {
    HandoverEnd end[1];
    EXPECT_TRUE(comes_true([&] {
      now += step_ms;
      from.sender.poll(now);
      to.receiver.poll(now);
      return from.sender.take_ends(end) == 1;
    }));
    return std::move(end[0]);
  }
  /// Until the receiver holds nothing any more.
  void settle(PrefillEnd& from, DecodeEnd& to) {
    EXPECT_TRUE(comes_true([&] {
      from.sender.poll(now);
      to.receiver.poll(now);
      return to.receiver.figures().handovers == 0;
    }));
  }
  static PeerId peer(PrefillEnd& from, DecodeEnd& to) {
    PeerId& id = from.peers[&to];
    if (id == PeerId{}) id = from.connect(to);
    return id;
  }
  void hand_over_some(const EndSpec& from, const EndSpec& to, Landing landing = Landing::direct) {
    Rng rng(fresh_seed());
    PrefillEnd a(from, transport());
    DecodeEnd b(to, transport(), {.landing = landing, .staging_slots = 3});
    for (int i = 0; i < 4; ++i)
      hand_over({&a}, b, random_tokens(rng, rng.int_between(1, 70)), rng.int_between(1, 30));
    staged = b.receiver.figures().staged_pieces;
    direct = b.receiver.figures().direct_pieces;
  }
  /// Why the receiver refuses the sender, or nothing.
  std::string refusal_of(const EndSpec& from, const EndSpec& to,
                         const HandoverReceiverOptions& options = {}) {
    PrefillEnd a(from, transport());
    DecodeEnd b(to, transport(), options);
    const Tokens tokens{1, 2, 3};
    const Admission s = a.admit(tokens).value();
    static_cast<void>(a.sender.begin(peer(a, b), 1, s.id, tokens).value());
    const HandoverEnd end = wait_for_end(a, b);
    EXPECT_EQ(end.outcome, HandoverOutcome::refused);
    EXPECT_EQ(a.sender.begin(peer(a, b), 2, s.id, tokens).error().code(), Errc::unsupported);
    EXPECT_EQ(b.receiver.figures().refused_peers, 1);
    expect_idle(a);
    expect_idle(b);
    return std::string(end.reason.message());
  }

  int32_t last_cached = 0;
  int64_t staged = 0, direct = 0;
  int64_t now = 0;

 private:
  uint64_t requests_ = 0;
};

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
  Rng rng(fresh_seed());
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
  Rng rng(fresh_seed());
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

// ---- Prefixes

TEST_P(Handovers, leave_out_what_the_receiver_has) {
  Rng rng(fresh_seed());
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

// ---- Ends before the end

TEST_P(Handovers, that_the_sender_cancels_leave_nothing) {
  for (const Landing landing : {Landing::direct, Landing::staged}) {
    PrefillEnd a({}, transport());
    DecodeEnd b({}, transport(), {.landing = landing});
    Rng rng(1);
    const Tokens tokens = random_tokens(rng, 40);
    const SequenceId id = a.admit(tokens).value().id;
    const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
    a.prefill(id, tokens, {&h, 1}, 0, 21);
    ASSERT_TRUE(comes_true([&] {
      a.sender.poll(0), b.receiver.poll(0);
      return a.sender.figures().sent_pieces >= 3;
    }));
    a.sender.cancel(h);
    EXPECT_FALSE(a.sender.push(h, 0, 21, 1).is_ok());
    EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::cancelled);
    settle(a, b);
    expect_idle(a);
    expect_idle(b);
    EXPECT_EQ(b.pool.stats().used_pages, 0);
    EXPECT_EQ(b.pool.peek(tokens), 0) << "not even the pages that were whole";
    a.sender.cancel(h);
  }
}
TEST_P(Handovers, that_the_receiver_cancels_leave_nothing) {
  for (const Landing landing : {Landing::direct, Landing::staged}) {
    PrefillEnd a({}, transport());
    DecodeEnd b({}, transport(), {.landing = landing});
    Rng rng(1);
    const Tokens tokens = random_tokens(rng, 40);
    const SequenceId id = a.admit(tokens).value().id;
    const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
    a.prefill(id, tokens, {&h, 1}, 0, 21);
    ASSERT_TRUE(comes_true([&] {
      a.sender.poll(0), b.receiver.poll(0);
      return a.sender.figures().sent_pieces >= 3;
    }));
    b.receiver.cancel(1);
    EXPECT_EQ(b.pool.check_invariants().message(), "");
    EXPECT_EQ(b.receiver.figures().sequences, 0);
    EXPECT_EQ(b.receiver.figures().handovers, 1) << "until its sender has stopped";
    if (landing == Landing::direct) {
      EXPECT_EQ(b.receiver.figures().pinned_pages, 10);
      EXPECT_EQ(b.pool.stats().used_pages, 10) << "nobody gets them yet";
    }
    const HandoverEnd end = wait_for_end(a, b);
    EXPECT_EQ(end.outcome, HandoverOutcome::cancelled);
    EXPECT_THAT(std::string(end.reason.message()), HasSubstr("cancelled by the receiver"));
    settle(a, b);
    expect_idle(a);
    expect_idle(b);
    EXPECT_EQ(b.pool.stats().used_pages, 0);
    b.receiver.cancel(1);
  }
}
TEST_P(Handovers, fail_when_their_sequence_is_gone) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 9);
  const SequenceId id = a.admit(tokens).value().id;
  const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
  a.prefill(id, tokens, {&h, 1}, 0, 9);
  a.pool.release(id).or_throw();
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::failed);
  settle(a, b);
  expect_idle(b);
  EXPECT_EQ(b.pool.stats().used_pages, 0);
}
TEST_P(Handovers, are_late_where_the_other_end_is_silent) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  const SequenceId id = a.admit(tokens).value().id;
  const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
  a.sender.poll(5000);
  EXPECT_EQ(a.sender.figures().handovers, 1);
  a.sender.poll(10'001);  // the receiver has not been polled
  HandoverEnd end[1];
  ASSERT_EQ(a.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::late);
  settle(a, b);

  const HandoverId silent = a.sender.begin(peer(a, b), 2, id, tokens).value();
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(now), b.receiver.poll(now);
    return b.receiver.figures().handovers == 1;
  }));
  b.receiver.poll(20'000);  // this sender computes for too long
  EXPECT_EQ(b.receiver.figures().sequences, 0);
  EXPECT_EQ(b.receiver.figures().pinned_pages, 10);
  EXPECT_NE(silent, h);
  // it may have been the first one, on its way until now: the receiver's time goes on
  HandoverEnd late[1];
  int64_t later = 20'000;
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(now), b.receiver.poll(later += 100);
    return a.sender.take_ends(late) == 1;
  }));
  EXPECT_EQ(late[0].outcome, HandoverOutcome::late) << late[0].reason.message();
  settle(a, b);
  expect_idle(b);
}
TEST_P(Handovers, of_a_sender_that_does_not_stop_end_with_the_peer) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  static_cast<void>(a.sender.begin(peer(a, b), 1, a.admit(tokens).value().id, tokens).value());
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(0), b.receiver.poll(0);
    return b.receiver.figures().handovers == 1;
  }));
  b.receiver.cancel(1);
  b.receiver.poll(10'001);
  EXPECT_EQ(b.receiver.figures().lost_peers, 1);
  EXPECT_EQ(b.receiver.figures().pinned_pages, 10) << "a write may be under way";
  b.receiver.poll(20'003);
  expect_idle(b);
  EXPECT_EQ(b.pool.stats().used_pages, 0);
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::cancelled) << "it had been told";
  expect_idle(a);
}
TEST_P(Handovers, of_a_request_may_come_from_another_sender_meanwhile) {
  PrefillEnd silent({}, transport()), other({}, transport());
  DecodeEnd to({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  static_cast<void>(
      silent.sender.begin(peer(silent, to), 1, silent.admit(tokens).value().id, tokens).value());
  ASSERT_TRUE(comes_true([&] {
    silent.sender.poll(0), to.receiver.poll(0);
    return to.receiver.figures().handovers == 1;
  }));
  to.receiver.cancel(1);
  const SequenceId id = other.admit(tokens).value().id;
  const HandoverId h = other.sender.begin(peer(other, to), 1, id, tokens).value();
  now = 9000;
  ASSERT_TRUE(comes_true([&] {
    other.sender.poll(now), to.receiver.poll(now);
    return to.receiver.figures().handovers == 2;
  }));
  to.receiver.poll(10'001);  // the first sender is cut off
  EXPECT_EQ(to.receiver.figures().lost_peers, 1);
  other.prefill(id, tokens, {&h, 1}, 0, 40);
  other.sender.finish(h).or_throw();
  const HandoverEnd end = wait_for_end(other, to);
  EXPECT_EQ(end.outcome, HandoverOutcome::done) << end.reason.message();
  EXPECT_EQ(to.count_wrong(to.take().id, tokens, 0, 40), 0);
}
TEST_P(Handovers, end_with_an_end_that_goes) {
  for (const bool is_sender : {true, false}) {
    auto a = std::make_unique<PrefillEnd>(EndSpec{}, transport());
    auto b = std::make_unique<DecodeEnd>(EndSpec{}, transport());
    Rng rng(1);
    const Tokens tokens = random_tokens(rng, 40);
    const SequenceId id = a->admit(tokens).value().id;
    const HandoverId h = a->sender.begin(a->connect(*b), 1, id, tokens).value();
    a->prefill(id, tokens, {&h, 1}, 0, 21);
    ASSERT_TRUE(comes_true([&] {
      a->sender.poll(0), b->receiver.poll(0);
      return a->sender.figures().sent_pieces >= 3;
    }));
    if (is_sender) {
      a = nullptr;
      ASSERT_TRUE(comes_true([&] {
        b->receiver.poll(0);
        return b->receiver.figures().handovers == 0;
      }));
      expect_idle(*b);
      EXPECT_EQ(b->pool.stats().used_pages, 0);
    } else {
      b = nullptr;
      HandoverEnd end[1];
      ASSERT_TRUE(comes_true([&] {
        a->sender.poll(0);
        return a->sender.take_ends(end) == 1;
      }));
      EXPECT_THAT(end[0].outcome, AnyOf(HandoverOutcome::cancelled, HandoverOutcome::lost));
      expect_idle(*a);
    }
  }
}

// ---- Back-pressure

TEST_P(Handovers, wait_where_little_room_is_left) {
  Rng rng(fresh_seed());
  PrefillEnd a({.max_io_pins = 3}, transport(), {.max_posts = 1, .post_bytes = 1});
  DecodeEnd b({.page_size = 8}, transport(), {.staging_slots = 1});
  hand_over({&a}, b, random_tokens(rng, 50), 7);
  EXPECT_EQ(b.receiver.figures().staged_pieces, 13 * 3);
}

}  // namespace
}  // namespace folio::test
