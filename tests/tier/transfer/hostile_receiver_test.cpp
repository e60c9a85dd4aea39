// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_receiver_test.cpp: receivers that send what no receiver sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"
#include "tier/transfer/hostile_peer.h"

namespace folio::test {
namespace {

using namespace tier;
using ::testing::HasSubstr;

class HostileReceiver : public ::testing::Test {
 protected:
  HostileReceiver() : from({}, network.make_end().value()), peer(network), rng_(test_seed()) {
    to_ = from.transport->connect(peer.transport->address().value()).value();
    geometry = geometry_of("test", from.end()).value();
  }
  void TearDown() override {
    network.cut(*peer.transport);
    from.sender.poll(0);
    expect_idle(from);
  }
  void begin() {
    tokens = random_tokens(rng_, 10);
    id = from.admit(tokens).value().id;
    handover = from.sender.begin(to_, 1, id, tokens).value();
    from.prefill(id, tokens, {&handover, 1}, 0, 10);
    from.sender.poll(0);
    static_cast<void>(peer.receive<Announce>());
  }
  [[nodiscard]] Welcome welcome() const {
    Welcome w{.is_direct = 1};
    w.geometry = geometry;
    w.places.resize(3 * num_sections);
    return w;
  }
  HandoverEnd end_of() {
    from.sender.poll(0), from.sender.poll(0);
    HandoverEnd end[1];
    EXPECT_EQ(from.sender.take_ends(end), 1U);
    return std::move(end[0]);
  }
  template <class Message>
  void expect_failed(const Message& message, const char* reason) {
    const int64_t before = from.sender.figures().refused_messages;
    peer.send(message);
    const HandoverEnd end = end_of();
    EXPECT_EQ(end.outcome, HandoverOutcome::failed);
    EXPECT_THAT(std::string(end.reason.message()), HasSubstr(reason));
    EXPECT_EQ(from.sender.figures().refused_messages, before + 1);
    EXPECT_EQ(peer.receive<Ended>().id, handover.value);
  }

  InProcessNetwork network;
  PrefillEnd from;
  Peer peer;
  Geometry geometry;
  Tokens tokens;
  SequenceId id;
  HandoverId handover;

 private:
  PeerId to_;
  Rng rng_;
};

TEST_F(HostileReceiver, welcomes_with_nonsense) {
  begin();
  Welcome w = welcome();
  w.geometry.num_heads = -1;
  peer.send(w);
  HandoverEnd end = end_of();
  EXPECT_EQ(end.outcome, HandoverOutcome::refused);
  EXPECT_THAT(std::string(end.reason.message()), HasSubstr("num_heads is -1"));
}
TEST_F(HostileReceiver, welcomes_with_too_few_places) {
  begin();
  Welcome w = welcome();
  w.places.pop_back();
  peer.send(w);
  EXPECT_THAT(std::string(end_of().reason.message()), HasSubstr("not ones that can be written to"));
}
TEST_F(HostileReceiver, accepts_what_was_not_announced) {
  begin();
  peer.send(welcome());
  expect_failed(Accept{.id = 1, .cached_tokens = 10}, "accepts something else");
  begin();
  expect_failed(Accept{.id = 2, .cached_tokens = 3, .pages = {1, 2, 3}}, "accepts something else");
  begin();
  expect_failed(Accept{.id = 3, .pages = {1, 2}}, "accepts something else");
  begin();
  expect_failed(Committed{.id = 4}, "has committed what has not all been sent");
  begin();
  expect_failed(Slots{.id = 5, .slots = {1}}, "slots that were not asked for");
  peer.send(Committed{.id = 77});
  peer.send_bytes(bytes_of("no message"));
  const int64_t before = from.sender.figures().refused_messages;
  from.sender.poll(0);
  EXPECT_EQ(from.sender.figures().refused_messages, before + 2);
}
TEST_F(HostileReceiver, has_places_that_are_nowhere) {
  begin();
  Welcome w = welcome();
  for (Place& place : w.places)
    place = {.region = 3,
             .base = std::numeric_limits<int64_t>::max(),
             .page_stride = std::numeric_limits<int64_t>::min(),
             .slot_stride = std::numeric_limits<int64_t>::max(),
             .head_stride = -1};
  peer.send(w);
  peer.send(Accept{.id = 1, .pages = {huge, huge, 0}});
  const HandoverEnd end = end_of();
  EXPECT_EQ(end.outcome, HandoverOutcome::failed);
  EXPECT_THAT(std::string(end.reason.message()), HasSubstr("Transport::post"));
}
TEST_F(HostileReceiver, gives_slots_that_it_has_not) {
  begin();
  Welcome w = welcome();
  w.is_direct = 0;
  w.places.clear();
  w.staging = {.region = 1, .slots = 4, .base = 0, .stride = std::numeric_limits<int64_t>::max()};
  peer.send(w);
  peer.send(Accept{.id = 1});
  from.sender.poll(0);
  EXPECT_EQ(peer.receive<Want>().slots, 9U);
  expect_failed(Slots{.id = 1, .slots = {4}}, "slots that were not asked for");
  begin();
  peer.send(Accept{.id = 2});
  from.sender.poll(0);
  peer.send(Slots{.id = 2, .slots = {3}});
  EXPECT_THAT(std::string(end_of().reason.message()), HasSubstr("Transport::post"));
}
TEST_F(HostileReceiver, gives_up_with_a_code_that_is_none) {
  begin();
  peer.send(Abort{.id = 1, .code = 200, .reason = "because"});
  const HandoverEnd end = end_of();
  EXPECT_EQ(end.outcome, HandoverOutcome::failed);
  EXPECT_THAT(std::string(end.reason.message()), HasSubstr("because"));
}

}  // namespace
}  // namespace folio::test
