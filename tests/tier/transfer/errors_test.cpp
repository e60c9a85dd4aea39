// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/errors_test.cpp: what ends of handovers refuse of their callers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "folio/tier/transports.h"
#include "tier/transfer/ends.h"

namespace folio::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HandoverErrors : public ::testing::Test {
 protected:
  InProcessNetwork network;
  PrefillEnd from{{}, network.make_end().value()};
  DecodeEnd to{{}, network.make_end().value()};
  HandoverSenderOptions sender{.end = from.end()};
  HandoverReceiverOptions receiver{.end = to.end()};

  void expect_sender(const char* reason, Errc code = Errc::invalid_argument) {
    const Status s = HandoverSender::create(sender).error();
    EXPECT_EQ(s.code(), code) << reason;
    EXPECT_THAT(std::string(s.message()),
                AllOf(HasSubstr("HandoverSender::create: "), HasSubstr(reason)));
    sender = {.end = from.end()};
  }
  void expect_receiver(const char* reason) {
    const Status s = HandoverReceiver::create(receiver).error();
    EXPECT_EQ(s.code(), Errc::invalid_argument) << reason;
    EXPECT_THAT(std::string(s.message()),
                AllOf(HasSubstr("HandoverReceiver::create: "), HasSubstr(reason)));
    receiver = {.end = to.end()};
  }
};

TEST_F(HandoverErrors, name_what_is_wrong_with_an_end) {
  sender.end.transport = nullptr;
  expect_sender("end.transport is null, expected one");
  sender.end.pool = nullptr;
  expect_sender("end.pool is null, expected one");
  sender.end.planes = {};
  expect_sender("end.planes is empty, expected those of all layers");
  sender.end.regions = {static_cast<const TransferRegion*>(nullptr), 1};
  expect_sender("end.regions is null, expected regions");
  sender.end.regions = {};
  expect_sender("planes[0].key lies in no region, expected one of end.regions");
  sender.end.idle_ms = 0;
  expect_sender("end.idle_ms is 0, expected 1 .. 2^40");
  sender.end.total_heads = 1;
  expect_sender("total_heads is 1, expected 2 ..");
  sender.end.first_head = 1;
  expect_sender("first_head is 1, expected 0 .. 0");
  sender.max_posts = 0;
  expect_sender("max_posts is 0, expected 1 or more");
  sender.max_handovers = 0;
  expect_sender("max_handovers is 0, expected 1 or more");
  sender.post_bytes = 0;
  expect_sender("post_bytes is 0, expected 1 or more");
}

TEST_F(HandoverErrors, name_what_is_wrong_with_planes) {
  std::vector<KVPlanes> planes = from.planes;
  sender.end.planes = planes;
  planes[1].value.num_heads = 1;
  expect_sender("planes[1] differs from planes[0]", Errc::unsupported);
  planes = from.planes, sender.end.planes = planes;
  planes[2].value = {};
  expect_sender("planes[2] differs from planes[0]", Errc::unsupported);
  planes = from.planes, sender.end.planes = planes;
  planes[0].value.num_pages = 3;
  expect_sender("planes[0] has 3 pages, expected the pool's 64");
  PrefillEnd other({.page_size = 8}, network.make_end().value());
  sender.end.pool = &other.pool;
  expect_sender("planes[0].key.page_size is 4, expected the pool's 8");
  std::vector<float> scales(64);
  planes = from.planes, sender.end.planes = planes;
  for (KVPlanes& layer : planes)
    for (PagedKVView* view : {&layer.key, &layer.value})
      view->scales = {
          .data = scales.data(), .dtype = DType::f32, .granularity = 32, .page_stride_bytes = 4};
  expect_sender("has scales of pages, expected those of slots", Errc::unsupported);
}

TEST_F(HandoverErrors, name_what_is_wrong_with_a_receiver) {
  receiver.staging_slots = 0;
  expect_receiver("staging_slots is 0, expected 1 ..");
  receiver.staging_slot_bytes = -1;
  expect_receiver("staging_slot_bytes is -1, expected 0 ..");
  receiver.max_handovers = 0;
  expect_receiver("max_handovers is 0, expected 1 ..");
  receiver.max_tokens = 0;
  expect_receiver("max_tokens is 0, expected 1 ..");
  receiver.total_ms = 0;
  expect_receiver("total_ms is 0, expected 1 ..");
  receiver.landing = static_cast<Landing>(2);
  expect_receiver("landing is 2, expected 0 .. 1");
  receiver.end.pool = nullptr;
  expect_receiver("end.pool is null, expected one");
  receiver.end.regions = {};
  expect_receiver("lies in no region");
  receiver.end.regions = {};
  receiver.landing = Landing::staged;
  EXPECT_TRUE(HandoverReceiver::create(receiver).has_value()) << "nobody writes to its pages";
}

TEST_F(HandoverErrors, name_what_is_wrong_with_a_call) {
  const auto expect = [](const Status& s, const char* reason, Errc code = Errc::invalid_argument) {
    EXPECT_EQ(s.code(), code) << reason;
    EXPECT_THAT(std::string(s.message()), HasSubstr(reason));
  };
  const Tokens tokens{1, 2, 3, 4, 5};
  const SequenceId id = from.admit(tokens).value().id;
  const PeerId peer = from.connect(to);
  expect(from.sender.begin(peer, 1, id, {}).error(), "begin: prompt has 0 tokens, expected 1");
  expect(from.sender.begin(peer, 1, SequenceId{9, 9}, tokens).error(),
         "expected one that is alive");
  expect(from.sender.begin(PeerId{99}, 1, id, tokens).error(), "peer is 99");
  const HandoverId h = from.sender.begin(peer, 1, id, tokens).value();
  expect(from.sender.push(HandoverId{7}, 0, 0, 1), "push: id is 7, expected that of a handover");
  expect(from.sender.push(h, -1, 0, 1), "push: layer is -1, expected 0 .. 2");
  expect(from.sender.push(h, 3, 0, 1), "push: layer is 3, expected 0 .. 2");
  expect(from.sender.push(h, 0, 1, 1), "push: first_token is 1, expected 0");
  expect(from.sender.push(h, 0, 0, 6), "push: count is 6, expected 0 .. 5");
  expect(from.sender.push(h, 0, 0, -1), "push: count is -1, expected 0 .. 5");
  expect(from.sender.push_layer(h, 3), "push_layer: layer is 3, expected 0 .. 2");
  expect(from.sender.push_layer(HandoverId{}, 0), "push_layer: id is 0, expected");
  expect(from.sender.finish(h), "finish: layer 0 has 0 tokens, expected 5");
  expect(from.sender.finish(HandoverId{}), "finish: id is 0, expected");
  from.prefill(id, tokens, {&h, 1}, 0, 5);
  expect(from.sender.finish(h, {static_cast<const TokenId*>(nullptr), 2}), "output is null");
  from.sender.finish(h).or_throw();
  expect(from.sender.finish(h), "handover 1 has been finished, expected one that has not");
  expect(from.sender.begin(peer, 1, id, std::span(tokens).first(3)).error(),
         "prompt has 3 tokens, expected 1 or more, at least the 5 of the sequence");
}

TEST_F(HandoverErrors, refuse_too_many_at_once) {
  PrefillEnd few({}, network.make_end().value(), {.max_handovers = 2});
  DecodeEnd one({}, network.make_end().value(), {.max_handovers = 1});
  const Tokens tokens{1, 2, 3};
  const SequenceId id = few.admit(tokens).value().id;
  const PeerId peer = few.connect(one);
  static_cast<void>(few.sender.begin(peer, 1, id, tokens).value());
  const HandoverId second = few.sender.begin(peer, 2, id, tokens).value();
  EXPECT_EQ(few.sender.begin(peer, 3, id, tokens).error().code(), Errc::busy);
  for (int i = 0; i < 4; ++i) few.sender.poll(0), one.receiver.poll(0);
  HandoverEnd end[2];
  ASSERT_EQ(few.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].id, second);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::busy);
  EXPECT_EQ(one.receiver.figures().busy, 1);
}

TEST(HandoverOutcomes, have_names) {
  for (int i = 0; i < num_handover_outcomes; ++i)
    EXPECT_STRNE(name(static_cast<HandoverOutcome>(i)), "not an outcome");
  EXPECT_STREQ(name(HandoverOutcome::late), "late");
  EXPECT_STREQ(name(static_cast<HandoverOutcome>(77)), "not an outcome");
}

}  // namespace
}  // namespace folio::test
