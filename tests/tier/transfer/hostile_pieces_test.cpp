// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_pieces_test.cpp: senders that tell of what has landed as no sender
/// does.
#include "tier/transfer/hostile_sender.h"

namespace folio::test {
namespace {

using namespace tier;
using ::testing::HasSubstr;

TEST_F(HostileSender, speaks_of_handovers_that_there_are_not) {
  greet();
  peer.send(Landed{.id = 5, .pieces = {{}}});
  peer.send(done(5));
  peer.send(Want{.id = huge, .slots = 1});
  peer.send(Ended{.id = 3});
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 4);
  static_cast<void>(open(7));
  peer.send(Landed{.id = 5, .pieces = {{}}});
  poll();
  EXPECT_EQ(to.receiver.figures().late_messages, 1);
  EXPECT_EQ(to.receiver.figures().sequences, 1);
}

TEST_F(HostileSender, tells_of_pieces_that_are_none) {
  greet();
  static_cast<void>(open(1));
  expect_refused(Landed{.id = 1, .layer = 3, .pieces = {{}}}, "a layer that is none");
  static_cast<void>(open(2));
  expect_refused(Landed{.id = 2, .layer = huge, .pieces = {{}}}, "a layer that is none");
  static_cast<void>(open(3));
  expect_refused(Landed{.id = 3, .pieces = {{.page = 3}}}, "a page that is none");
  static_cast<void>(open(4));
  expect_refused(Landed{.id = 4, .pieces = {{.page = huge}}}, "a page that is none");
  static_cast<void>(open(5));
  expect_refused(Landed{.id = 5}, "nothing that has landed");
  static_cast<void>(open(6));
  expect_refused(Want{.id = 6, .slots = huge}, "slots that it needs not");
}

TEST_F(HostileSender, tells_of_a_piece_twice) {
  greet();
  const Accept accept = open(1);
  const LandedPiece piece = land(0, 1, accept);
  peer.send(Landed{.id = 1, .pieces = {piece}});
  poll();
  EXPECT_EQ(to.receiver.figures().direct_pieces, 1);
  expect_refused(Landed{.id = 1, .pieces = {piece}}, "a piece that has landed");
}

TEST_F(HostileSender, brings_damaged_bytes) {
  greet();
  const Accept accept = open(1);
  LandedPiece piece = land(0, 1, accept);
  ++piece.crc;
  peer.send(Landed{.id = 1, .pieces = {piece}});
  poll();
  EXPECT_EQ(to.receiver.figures().corrupt_pieces, 1);
  EXPECT_THAT(peer.receive<Abort>().reason, HasSubstr("page 1 of layer 0 came damaged"));
}

TEST_F(HostileSender, is_done_before_all_has_landed) {
  greet();
  const Accept accept = open(1);
  expect_refused(done(1), "the last message before all has landed");
  static_cast<void>(accept);
}

TEST_F(HostileSender, is_done_with_something_else) {
  greet();
  uint64_t id = 0;
  const auto expect = [&](auto change, const char* reason) {
    ++id;
    land_all(id, open(id));
    Done last = done(id);
    change(last);
    expect_refused(last, reason);
  };
  expect([](Done& d) { ++d.token_crc; }, "a last message of other tokens");
  expect([](Done& d) { --d.pieces; }, "a last message of other tokens");
  expect([](Done& d) { d.num_tokens = huge; }, "a last message of other tokens");
  expect([](Done& d) { d.is_named = 1; }, "a last message of another name");
}

class HostileStagedSender : public HostileSender {
 protected:
  HostileStagedSender() : HostileSender({}, Landing::staged) {}
};

TEST_F(HostileStagedSender, writes_to_slots_that_are_not_its_own) {
  greet();
  EXPECT_TRUE(welcome.places.empty()) << "no place of any page is told";
  EXPECT_TRUE(open(1).pages.empty());
  expect_refused(Landed{.id = 1, .pieces = {{.slot = 0}}}, "a slot that it has not got");
  static_cast<void>(open(2));
  peer.send(Want{.id = 2, .slots = huge});
  poll();
  EXPECT_EQ(peer.receive<Slots>().slots.size(), 2U) << "half of them";
  poll();
  EXPECT_EQ(to.receiver.figures().used_slots, 2);
  expect_refused(Want{.id = 2, .slots = 1}, "fewer slots than before");
  static_cast<void>(open(3));
  expect_refused(Landed{.id = 3, .pieces = {{.slot = huge}}}, "a slot that it has not got");
}

}  // namespace
}  // namespace folio::test
