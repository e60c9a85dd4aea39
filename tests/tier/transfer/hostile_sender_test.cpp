// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_sender_test.cpp: senders that send what no sender sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tier/payload.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"
#include "tier/transfer/hostile_peer.h"
#include "tier/transfer/names.h"

namespace folio::test {
namespace {

using namespace tier;
using ::testing::HasSubstr;

class HostileSender : public ::testing::Test {
 protected:
  explicit HostileSender(const EndSpec& of = {}, Landing landing = Landing::direct)
      : good(of, network.make_end().value()),
        to(of, network.make_end().value(), {.landing = landing, .staging_slots = 4}),
        peer(network, *to.transport),
        geometry(geometry_of("test", good.end()).value()) {
    Rng rng(fresh_seed());
    tokens = random_tokens(rng, 10);
  }
  void TearDown() override {
    EXPECT_EQ(to.pool.check_invariants().message(), "");
    EXPECT_EQ(to.receiver.figures().committed, 0);
    // whatever came before, others are served
    const SequenceId id = good.admit(tokens).value().id;
    const HandoverId h = good.sender.begin(good.connect(to), 99, id, tokens).value();
    good.prefill(id, tokens, {&h, 1}, 0, 10);
    good.sender.finish(h).or_throw();
    for (int i = 0; i < 20; ++i) good.sender.poll(0), poll();
    HandoverEnd end[1];
    ASSERT_EQ(good.sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
    EXPECT_EQ(to.count_wrong(to.take().id, tokens, 0, 10), 0);
    // and what the peer held is free when it is gone
    network.cut(*peer.transport);
    poll();
    to.receiver.poll(30'000), to.receiver.poll(60'000), to.receiver.poll(90'000);
    expect_idle(to);
    EXPECT_EQ(to.pool.stats().used_pages, 3) << "those that have been taken";
  }
  void poll() { to.receiver.poll(0); }
  void greet() {
    Hello hello;
    hello.geometry = geometry;
    peer.send(hello);
    poll();
    welcome = peer.receive<Welcome>();
  }
  /// An accepted handover `id`.
  Accept open(uint64_t id) {
    peer.send(Announce{.id = id, .request = id, .tokens = tokens});
    poll();
    return peer.receive<Accept>();
  }
  /// The message is refused, and the handover with it.
  template <class Message>
  void expect_refused(const Message& message, const char* reason) {
    const int64_t before = to.receiver.figures().refused_messages;
    peer.send(message);
    poll();
    EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << reason;
    EXPECT_EQ(to.receiver.figures().sequences, 0) << reason;
    EXPECT_THAT(std::string(to.receiver.last_fault().message()), HasSubstr(reason));
    EXPECT_EQ(peer.receive<Abort>().id, message.id);
    peer.send(message);  // and once more
    poll();
    EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << reason << ": late";
    peer.send(Ended{.id = message.id});
    poll();
    expect_idle(to);
    EXPECT_EQ(to.pool.stats().used_pages, 0);
  }
  /// Writes a piece that the receiver expects, and says what has landed.
  LandedPiece land(uint32_t layer, uint32_t page, const Accept& accept) {
    const int64_t row = geometry.row_bytes_of(0);
    const auto of_layer = std::span(welcome.places).subspan(layer * num_sections, num_sections);
    std::vector<RegionRun> remote;
    const int32_t valid = std::min(4, 10 - static_cast<int32_t>(page) * 4);
    add_piece_runs(geometry, of_layer, {.page = accept.pages[page], .heads = 2, .tokens = valid},
                   remote);
    std::vector<std::byte> bytes(static_cast<size_t>(2 * row * 2 * valid), std::byte{0x3f});
    const RegionId region = peer.transport->add_region(bytes).value();
    const RegionRun local{region, 0, std::ssize(bytes)};
    PeerId other{1};
    const TransferId t =
        peer.transport->post({.peer = other, .local = {&local, 1}, .remote = remote}).value();
    EXPECT_EQ(wait_for(*peer.transport, t), TransferState::done);
    peer.transport->release(t).or_throw();
    peer.transport->remove_region(region).or_throw();
    return {.page = page, .crc = extend_crc(0, bytes.data(), std::ssize(bytes))};
  }
  void land_all(uint64_t id, const Accept& accept) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      Landed landed{.id = id, .layer = layer};
      for (uint32_t page = 0; page < 3; ++page) landed.pieces.push_back(land(layer, page, accept));
      peer.send(landed);
    }
    poll();
  }
  [[nodiscard]] Done done(uint64_t id) const {
    return {.id = id, .pieces = 9, .num_tokens = 10, .token_crc = crc_of_tokens(tokens)};
  }

  InProcessNetwork network;
  PrefillEnd good;
  DecodeEnd to;
  Peer peer;
  Geometry geometry;
  Welcome welcome;
  Tokens tokens;
};

TEST_F(HostileSender, says_no_hello) {
  peer.send(Announce{.id = 1, .tokens = tokens});
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_EQ(to.receiver.figures().announced, 0);
}

TEST_F(HostileSender, sends_what_is_no_message) {
  greet();
  static_cast<void>(open(1));
  peer.send_bytes(bytes_of("x"));
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_EQ(to.receiver.figures().sequences, 0);
  EXPECT_EQ(to.receiver.figures().pinned_pages, 3) << "a write may be under way";
}

TEST_F(HostileSender, cuts_or_lengthens_messages) {
  Hello hello;
  hello.geometry = geometry;
  const std::vector<std::byte> messages[] = {
      encode(hello),
      encode(Announce{.id = 1, .salt = "s", .spans = {{0, 1, {}}}, .tokens = tokens}),
      encode(Want{.id = 1, .slots = 2}),
      encode(Landed{.id = 1, .layer = 0, .pieces = {{}}}),
      encode(Done{.id = 1, .output = tokens}),
      encode(Ended{.id = 1})};
  for (const std::vector<std::byte>& whole : messages) {
    for (size_t size = 1; size <= whole.size() + 1; ++size) {
      if (size == whole.size()) continue;
      Peer other(network, *to.transport);
      std::vector<std::byte> cut = whole;
      cut.resize(size);
      if (kind_of(whole) != Kind::hello) other.send(hello);
      other.send_bytes(cut);
      const int64_t before = to.receiver.figures().refused_messages;
      to.receiver.poll(0);
      EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << size;
    }
  }
  EXPECT_EQ(to.receiver.figures().announced, 0);
}

TEST_F(HostileSender, says_that_lists_are_longer_than_its_messages) {
  greet();
  std::vector<std::byte> message = encode(Announce{.id = 1, .tokens = tokens});
  const size_t count = message.size() - 40 - sizeof(uint32_t);
  std::memcpy(message.data() + count, &huge, sizeof(huge));
  peer.send_bytes(message);
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
}

TEST_F(HostileSender, has_a_geometry_that_is_none) {
  const auto expect = [&](auto change, const char* reason) {
    Peer other(network, *to.transport);
    Hello hello;
    hello.geometry = geometry;
    change(hello.geometry);
    other.send(hello);
    poll();
    EXPECT_THAT(other.receive<Unwelcome>().reason, HasSubstr(reason));
    other.send(Announce{.id = 1, .tokens = tokens});  // what was under way meanwhile
    poll();
  };
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  expect([](Geometry& g) { g.num_layers = 0; }, "num_layers is 0, expected 1 ..");
  expect([](Geometry& g) { g.page_size = most; }, "page_size is 2147483647, expected 1 ..");
  expect([](Geometry& g) { g.head_size = -1; }, "head_size is -1, expected 1 ..");
  expect([](Geometry& g) { g.num_heads = g.total_heads = most; }, "num_heads is 2147483647");
  expect([](Geometry& g) { g.total_heads = 1; }, "total_heads is 1, expected 2 ..");
  expect([](Geometry& g) { g.first_head = most; }, "first_head is 2147483647, expected 0 .. 0");
  expect([](Geometry& g) { g.dtype = static_cast<DType>(77); }, "dtype is 77, expected");
  expect([](Geometry& g) { g.dtype = DType::f8_e8m0; }, "dtype is 6, expected");
  expect([](Geometry& g) { g.scale_kind = static_cast<ScaleKind>(3); }, "scale_kind is 3");
  expect([](Geometry& g) { g.scale_kind = ScaleKind::slots; }, "scale_dtype is 0, expected");
  expect([](Geometry& g) { g.scale_kind = ScaleKind::slots, g.scale_dtype = DType::f32; },
         "granularity is 0, expected 1 or more");
  expect([](Geometry& g) { g.order = static_cast<StorageOrder>(2); }, "order is 2, expected");
  expect([](Geometry& g) { g.is_mla = 2; }, "is_mla is 2, expected 0 .. 1");
  expect([](Geometry& g) { g.page_size = 1 << 16, g.dtype = DType::f32; }, "staging_slot_bytes");
  expect(
      [](Geometry& g) {
        g.scale_kind = ScaleKind::shared, g.scale_dtype = DType::f32, g.granularity = 8;
      },
      "share scales");
  EXPECT_EQ(to.receiver.figures().announced, 0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 0);
}

TEST_F(HostileSender, greets_twice_or_is_of_another_version) {
  Hello hello;
  hello.geometry = geometry;
  hello.version = 2;
  Peer other(network, *to.transport);
  other.send(hello);
  poll();
  EXPECT_THAT(other.receive<Unwelcome>().reason, HasSubstr("version 2, expected 1"));
  greet();
  hello.version = 1;
  peer.send(hello);
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_TRUE(peer.is_cut_off());
}

TEST_F(HostileSender, announces_what_cannot_be) {
  greet();
  uint64_t id = 0;
  const auto expect = [&](Announce announce, const char* reason) {
    announce.id = ++id;
    peer.send(announce);
    poll();
    const Abort abort = peer.receive<Abort>();
    EXPECT_EQ(abort.id, id);
    EXPECT_THAT(abort.reason, HasSubstr(reason));
    EXPECT_EQ(abort.code, static_cast<uint8_t>(AbortCode::refused));
    EXPECT_EQ(to.receiver.figures().handovers, 0);
    EXPECT_EQ(to.pool.stats().used_pages, 0);
  };
  expect({}, "0 tokens, expected 1 ..");
  expect({.tokens = Tokens(200'000, 1)}, "expected");  // 50,000 pages
  expect({.salt = std::string(1000, 's'), .tokens = tokens}, "salt");
  expect({.spans = {{-5, 3, {}}}, .tokens = tokens}, "spans");
  expect({.spans = {{0, std::numeric_limits<int32_t>::max(), {}}}, .tokens = tokens}, "spans");
  peer.send(Announce{.id = id, .tokens = tokens});
  poll();
  EXPECT_EQ(to.receiver.figures().refused_messages, 1) << "an id that it had";
  const Accept accept = open(++id);
  EXPECT_EQ(accept.id, id);
  peer.send(Announce{.id = id + 1, .request = id, .tokens = {1, 2}});
  poll();
  EXPECT_THAT(peer.receive<Abort>().reason, HasSubstr("with other tokens"));
  peer.send(Announce{.id = id + 2, .request = id, .tokens = tokens});
  poll();
  EXPECT_THAT(peer.receive<Abort>().reason, HasSubstr("has a sender of heads 0 .. 1 already"));
  EXPECT_EQ(to.receiver.figures().handovers, 1);
}

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
