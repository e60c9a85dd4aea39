// SPDX-License-Identifier: Apache-2.0
/// tests/tier/hostile/handovers_test.cpp: callers who give ends of handovers what they cannot use,
/// or have moved them away. What else an end refuses is in tests/tier/transfer/errors_test.cpp.
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/transports.h"
#include "tier/hostile/refusals.h"
#include "tier/transfer/ends.h"

namespace folio::test {
namespace {

class HostileHandover : public ::testing::Test {
 protected:
  InProcessNetwork network_;
  PrefillEnd from_{{}, network_.make_end().value()};
  DecodeEnd to_{{}, network_.make_end().value()};
  const Tokens tokens_{1, 2, 3, 4, 5};

  /// Of a sender and of a receiver.
  void refuses(const char* part, const auto& change) {
    HandoverSenderOptions sender{.end = from_.end()};
    change(sender.end);
    expect_refusal(HandoverSender::create(sender), "HandoverSender::create: ");
    expect_refusal(HandoverSender::create(sender), part);
    HandoverReceiverOptions receiver{.end = to_.end()};
    change(receiver.end);
    expect_refusal(HandoverReceiver::create(receiver), "HandoverReceiver::create: ");
    expect_refusal(HandoverReceiver::create(receiver), part);
  }
  void poll(int times = 6) {
    for (int i = 0; i < times; ++i) from_.sender.poll(1), to_.receiver.poll(1);
  }
  /// A whole sequence goes over.
  void expect_at_work() {
    const Tokens tokens{7, 8, 9, 10, 11, 12};
    const SequenceId id = from_.admit(tokens).value().id;
    const HandoverId h = from_.sender.begin(from_.connect(to_), 99, id, tokens).value();
    from_.prefill(id, tokens, {&h, 1}, 0, 6);
    from_.sender.finish(h).or_throw();
    poll(20);
    HandoverEnd end[1];
    ASSERT_EQ(from_.sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::done);
    const ReceivedSequence got = to_.take();
    EXPECT_EQ(got.tokens, tokens);
    EXPECT_EQ(to_.count_wrong(got.id, tokens, 0, 6), 0);
  }
};

TEST_F(HostileHandover, names_what_is_wrong_with_an_end) {
  refuses("end.transport is null", [](auto& end) { end.transport = nullptr; });
  refuses("end.pool is null", [](auto& end) { end.pool = nullptr; });
  PagePool gone = std::move(PagePool::create({.num_pages = 64, .page_size = 4})).value();
  refuses("end.pool is one whose max_io_pins is 0", [&](auto& end) { end.pool = &gone; });
  const PagePool taken = std::move(gone);
  refuses("end.pool is one that was moved from", [&](auto& end) { end.pool = &gone; });
  refuses("end.planes is empty", [](auto& end) { end.planes = null_span<const KVPlanes>(); });
  refuses("end.regions is null", [](auto& end) { end.regions = null_span<TransferRegion>(); });
  const TransferRegion none[] = {{}},
                       nowhere[] = {{.id = RegionId{1}, .memory = null_span<std::byte>()}};
  refuses("end.regions[0] is region 0", [&](auto& end) { end.regions = none; });
  refuses("end.regions[0] is region 1 with 3 bytes at null",
          [&](auto& end) { end.regions = nowhere; });
  for (const int32_t heads : {least_int32, -1, most_int32})
    refuses("total_heads is ", [&](auto& end) { end.total_heads = heads; });
  for (const int32_t head : {least_int32, -1, 1, most_int32})
    refuses("first_head is ", [&](auto& end) { end.first_head = head; });
  for (const int64_t ms : {least_int64, int64_t{-1}, int64_t{0}, most_int64})
    refuses("end.idle_ms is ", [&](auto& end) { end.idle_ms = ms; });
  expect_at_work();
}

TEST_F(HostileHandover, names_planes_without_memory_of_their_own) {
  std::vector<KVPlanes> planes = from_.planes;
  planes[1] = planes[0];
  refuses("page 0 of planes[0] and page 0 of planes[1] share bytes",
          [&](auto& end) { end.planes = planes; });
  planes = from_.planes;
  planes[0].key.data = nullptr;
  refuses("key.data is null", [&](auto& end) { end.planes = planes; });
  expect_at_work();
}

TEST_F(HostileHandover, names_what_is_wrong_with_a_sender_and_a_receiver) {
  const auto sender = [&](const char* part, const auto& change) {
    HandoverSenderOptions options{.end = from_.end()};
    change(options);
    expect_refusal(HandoverSender::create(options), part);
  };
  const auto receiver = [&](const char* part, const auto& change) {
    HandoverReceiverOptions options{.end = to_.end()};
    change(options);
    expect_refusal(HandoverReceiver::create(options), part);
  };
  sender("max_handovers is 0", [](auto& o) { o.max_handovers = 0; });
  sender("max_posts is 0", [](auto& o) { o.max_posts = 0; });
  receiver("max_handovers is 0", [](auto& o) { o.max_handovers = 0; });
  for (const int64_t bad : {least_int64, int64_t{-1}, int64_t{0}}) {
    sender("post_bytes is ", [&](auto& o) { o.post_bytes = bad; });
    receiver("total_ms is ", [&](auto& o) { o.total_ms = bad; });
    if (bad != 0) receiver("staging_slot_bytes is ", [&](auto& o) { o.staging_slot_bytes = bad; });
  }
  receiver("staging_slot_bytes is ", [](auto& o) { o.staging_slot_bytes = most_int64; });
  receiver("total_ms is ", [](auto& o) { o.total_ms = most_int64; });
  for (const uint32_t slots : {0U, (1U << 20) + 1, UINT32_MAX})
    receiver("staging_slots is ", [&](auto& o) { o.staging_slots = slots; });
  for (const int32_t tokens : {least_int32, -1, 0})
    receiver("max_tokens is ", [&](auto& o) { o.max_tokens = tokens; });
  for (const int landing : {2, 255})
    receiver("landing is ", [&](auto& o) { o.landing = static_cast<Landing>(landing); });
  receiver("executor has no parallel_for",
           [](auto& o) { o.executor.concurrency = serial_executor().concurrency; });
  receiver("executor has no concurrency",
           [](auto& o) { o.executor.parallel_for = serial_executor().parallel_for; });
  HandoverSenderOptions large{.end = from_.end(), .post_bytes = most_int64};
  large.max_handovers = large.max_posts = UINT32_MAX;
  EXPECT_TRUE(HandoverSender::create(large));
}

TEST_F(HostileHandover, refuses_sequences_that_no_pool_takes) {
  const SequenceId id = from_.admit(tokens_).value().id;
  const PeerId peer = from_.connect(to_);
  const auto begin = [&](const SequenceOptions& options) {
    return from_.sender.begin(peer, 1, id, tokens_, options);
  };
  expect_refusal(from_.sender.begin(peer, 1, id, null_span<const TokenId>(9)),
                 "prompt has 9 tokens");
  expect_refusal(begin({.salt = null_text()}), "HandoverSender::begin: salt is null");
  const std::string longer(PagePool::max_salt_bytes + 1, 's');
  expect_refusal(begin({.salt = longer}), "HandoverSender::begin: salt has ");
  expect_refusal(begin({.spans = null_span<const ContentSpan>()}),
                 "HandoverSender::begin: spans is null");
  const ContentSpan bad[] = {{.offset = -1, .length = 1},
                             {.offset = 0, .length = 0},
                             {.offset = 0, .length = -1},
                             {.offset = 0, .length = 6},
                             {.offset = most_int32, .length = most_int32},
                             {.offset = least_int32, .length = most_int32}};
  for (const ContentSpan& span : bad)
    expect_refusal(begin({.spans = {&span, 1}}), "HandoverSender::begin: spans[0] has ");
  const ContentSpan overlapping[] = {{.offset = 0, .length = 3}, {.offset = 2, .length = 2}};
  expect_refusal(begin({.spans = overlapping}), "HandoverSender::begin: spans[1] has ");
  for (const SequenceId stale : {SequenceId{}, SequenceId{UINT32_MAX, UINT32_MAX}})
    expect_refusal(from_.sender.begin(peer, 1, stale, tokens_), "expected one that is alive");
  for (const PeerId nobody : {PeerId{}, PeerId{UINT32_MAX}})
    expect_refusal(from_.sender.begin(nobody, 1, id, tokens_), "peer is ");
  const PeerId gone = from_.connect(to_);
  from_.transport->disconnect(gone).or_throw();
  expect_refusal(from_.sender.begin(gone, 1, id, tokens_), "peer is ");
  EXPECT_EQ(from_.sender.figures().begun, 0);
  expect_at_work();
}

TEST_F(HostileHandover, refuses_calls_of_handovers_that_are_none) {
  const SequenceId id = from_.admit(tokens_).value().id;
  const HandoverId h = from_.sender.begin(from_.connect(to_), 1, id, tokens_).value();
  for (const HandoverId none : {HandoverId{}, HandoverId{h.value + 1}, HandoverId{UINT64_MAX}}) {
    expect_refusal(from_.sender.push(none, 0, 0, 1), "HandoverSender::push: id is ");
    expect_refusal(from_.sender.push_layer(none, 0), "HandoverSender::push_layer: id is ");
    expect_refusal(from_.sender.finish(none), "HandoverSender::finish: id is ");
    from_.sender.cancel(none);
  }
  for (const int32_t layer : {least_int32, -1, 3, most_int32}) {
    expect_refusal(from_.sender.push(h, layer, 0, 1), "push: layer is ");
    expect_refusal(from_.sender.push_layer(h, layer), "push_layer: layer is ");
  }
  for (const int32_t bad : {least_int32, -1, 6, most_int32}) {
    expect_refusal(from_.sender.push(h, 0, bad, 1), "push: first_token is ");
    expect_refusal(from_.sender.push(h, 0, 0, bad), "push: count is ");
  }
  from_.prefill(id, tokens_, {&h, 1}, 0, 5);
  expect_refusal(from_.sender.finish(h, null_span<const TokenId>()), "output is null");
  from_.sender.cancel(h);
  expect_refusal(from_.sender.finish(h), "finish: id is ");
  to_.receiver.cancel(12345);
  poll();
  EXPECT_EQ(from_.sender.take_ends(null_span<HandoverEnd>()), 0U);
  EXPECT_EQ(from_.sender.take_ends({}), 0U);
  HandoverEnd end[1];
  ASSERT_EQ(from_.sender.take_ends(end), 1U) << "it was not lost";
  EXPECT_EQ(end[0].outcome, HandoverOutcome::cancelled);
  expect_at_work();
}

TEST_F(HostileHandover, keeps_sequences_that_nobody_has_room_for) {
  const SequenceId id = from_.admit(tokens_).value().id;
  const HandoverId h = from_.sender.begin(from_.connect(to_), 7, id, tokens_).value();
  poll();
  EXPECT_EQ(to_.receiver.arriving(null_span<ArrivingSequence>()), 0U);
  EXPECT_EQ(to_.receiver.arriving({}), 0U);
  ArrivingSequence arriving[2];
  EXPECT_EQ(to_.receiver.arriving(arriving), 1U);
  from_.prefill(id, tokens_, {&h, 1}, 0, 5);
  from_.sender.finish(h).or_throw();
  poll(20);
  EXPECT_EQ(to_.receiver.take(null_span<ReceivedSequence>()), 0U);
  EXPECT_EQ(to_.receiver.take({}), 0U);
  EXPECT_EQ(to_.take().tokens, tokens_);
  EXPECT_TRUE(to_.receiver.last_fault().is_ok());
}

/// A clock does not go back; one that does, or jumps to its end, ends handovers as late.
TEST_F(HostileHandover, bears_times_at_either_end) {
  const SequenceId id = from_.admit(tokens_).value().id;
  const HandoverId h = from_.sender.begin(from_.connect(to_), 7, id, tokens_).value();
  for (const int64_t ms : {least_int64, int64_t{-1}, int64_t{1}, least_int64}) {
    from_.sender.poll(ms);
    to_.receiver.poll(ms);
  }
  EXPECT_TRUE(from_.sender.push(h, 0, 0, 1).is_ok());
  for (int i = 0; i < 20; ++i) from_.sender.poll(most_int64), to_.receiver.poll(most_int64);
  HandoverEnd end[2];
  ASSERT_EQ(from_.sender.take_ends(end), 1U);
  EXPECT_NE(end[0].outcome, HandoverOutcome::done);
  EXPECT_EQ(to_.receiver.figures().sequences, 0);
  EXPECT_EQ(from_.sender.figures().handovers, 0);
}

TEST_F(HostileHandover, that_was_moved_from_refuses_every_call) {
  const SequenceId id = from_.admit(tokens_).value().id;
  const PeerId peer = from_.connect(to_);
  const HandoverId h = from_.sender.begin(peer, 7, id, tokens_).value();
  HandoverSender& sender = from_.sender;
  HandoverReceiver& receiver = to_.receiver;
  HandoverSender other_sender = std::move(sender);
  HandoverReceiver other_receiver = std::move(receiver);

  expect_refusal(sender.begin(peer, 8, id, tokens_), "HandoverSender::begin: the object was moved");
  expect_refusal(sender.push(h, 0, 0, 1), "HandoverSender::push: the object was moved from");
  expect_refusal(sender.push_layer(h, 0), "HandoverSender::push_layer: the object was moved from");
  expect_refusal(sender.finish(h), "HandoverSender::finish: the object was moved from");
  sender.cancel(h);
  sender.poll(1);
  HandoverEnd end[1];
  EXPECT_EQ(sender.take_ends(end), 0U);
  EXPECT_EQ(sender.figures().begun, 0);

  receiver.poll(1);
  receiver.cancel(7);
  ReceivedSequence received[1];
  ArrivingSequence arriving[1];
  EXPECT_EQ(receiver.take(received), 0U);
  EXPECT_EQ(receiver.arriving(arriving), 0U);
  EXPECT_EQ(receiver.figures().announced, 0);
  EXPECT_TRUE(receiver.last_fault().is_ok());

  sender = std::move(other_sender);
  receiver = std::move(other_receiver);
  expect_refusal(other_sender.finish(h), "the object was moved from");
  other_receiver.poll(1);
  from_.prefill(id, tokens_, {&h, 1}, 0, 5);
  sender.finish(h).or_throw();
  poll(20);
  EXPECT_EQ(to_.take().tokens, tokens_);
}

}  // namespace
}  // namespace folio::test
