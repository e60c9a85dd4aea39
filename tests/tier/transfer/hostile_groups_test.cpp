// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_groups_test.cpp: peers that lie about their groups, in whatever they
/// say, and bytes that nobody has written: a reason, a count, nothing held, and others are served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tier/transfer/group_handovers.h"
#include "tier/transfer/hostile_peer.h"
#include "tier/transfer/names.h"

namespace folio::test {
namespace {

using namespace tier;
using ::testing::HasSubstr;

using Change = std::function<void(Layout&)>;
struct Lie {
  Change change;
  const char* reason;
};

/// Of mixed_end: group 0 full with layer 1, 1 a window with sinks, 2 a window, 3 states.
std::vector<Lie> lies() {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  return {
      {[](Layout& l) { l.groups.clear(); }, "there are 0 groups, expected 1 .. 8"},
      {[](Layout& l) { l.groups.resize(9); }, "there are 9 groups, expected 1 .. 8"},
      {[](Layout& l) { l.groups.resize(3); }, "layer 3 is in group 3, expected one of 3"},
      {[](Layout& l) { l.groups.push_back(l.groups[1]); }, "group 4 has no layers"},
      {[](Layout& l) { l.group_of[2] = 77; }, "layer 2 is in group 77, expected one of 4"},
      {[](Layout& l) { l.group_of[2] = 1; }, "group 2 has no layers"},
      {[](Layout& l) { l.group_of.clear(); }, "there are 0 layers"},
      {[](Layout& l) { l.group_of.assign(5000, 0); }, "there are 5000 layers, expected 1 .. 4096"},
      {[](Layout& l) { l.group_of.push_back(1); }, "there are 5 checksums of scales, expected 6"},
      {[](Layout& l) { l.group_of.push_back(1), l.shared_crc.push_back(0); },
       "num_layers of group 0 is 5, expected the model's 6"},
      {[](Layout& l) { l.groups[0].rule = GroupRule::window, l.groups[0].window = 4; },
       "rule of group 0 is 1, expected 0 .. 0"},
      {[](Layout& l) { l.groups[1].rule = static_cast<GroupRule>(9); }, "rule of group 1 is 9"},
      {[](Layout& l) { l.groups[1].window = 0; }, "window of group 1 is 0, expected 1 .."},
      {[](Layout& l) { l.groups[1].window = -9; }, "window of group 1 is -9, expected 1 .."},
      {[](Layout& l) { l.groups[1].sinks = 9; }, "sinks of group 1 is 9, expected 0 .. 8"},
      {[](Layout& l) { l.groups[1].chunk = 9; }, "chunk of group 1 is 9, expected 0 .. 0"},
      {[](Layout& l) { l.groups[1].rule = GroupRule::chunked; }, "of group 1 is"},
      {[](Layout& l) { l.groups[2].page_tokens = 8; }, "page_tokens of group 2 is 8, expected 4"},
      {[](Layout& l) { l.groups[0].page_tokens = 0; }, "page_tokens of group 0 is 0"},
      {[](Layout& l) { l.groups[0].page_tokens = -4; }, "page_tokens of group 0 is -4"},
      {[](Layout& l) {
         for (GroupLayout& g : l.groups) g.page_tokens = 8;
       },
       "page_size of group 0 is 4, expected 8"},
      {[](Layout& l) { l.groups[3].page_tokens = 6; }, "page_tokens of group 3 is 6"},
      {[](Layout& l) { l.groups[3].page_tokens = 0; }, "page_tokens of group 3 is 0"},
      {[](Layout& l) { l.groups[3].pages.state_rows = {}; }, "state_rows[0] of group 3 is 0"},
      {[](Layout& l) { l.groups[3].pages.state_rows[1] = -1; }, "state_rows[1] of group 3 is -1"},
      {[](Layout& l) { l.groups[3].pages.state_rows[3] = int64_t{1} << 60; }, "state_rows[3] of"},
      {[](Layout& l) { l.groups[3].pages.num_heads = most; }, "num_heads of group 3 is 2147483647"},
      {[](Layout& l) { l.groups[3].pages.first_head = 1; }, "first_head of group 3 is 1"},
      {[](Layout& l) { l.groups[3].pages.page_size = 4; }, "page_size of group 3 is 4"},
      {[](Layout& l) { l.groups[3].pages.order = StorageOrder::token_major; }, "order of group 3"},
      {[](Layout& l) { l.groups[3].rule = GroupRule::full; }, "of group 3 is 8, expected 4"},
      {[](Layout& l) { l.groups[2].pages.state_rows[0] = 8; }, "group 2 has parts of states"},
      {[](Layout& l) { l.groups[2].pages.head_size = -1; }, "group 2: head_size is -1"},
      {[](Layout& l) { l.groups[2].pages.key.dtype = static_cast<DType>(77); },
       "group 2: key.dtype is 77"},
      {[](Layout& l) { l.groups[1].pages.value.hadamard.block = 24; },
       "group 1: value.hadamard is of blocks of 24"},
      {[](Layout& l) { l.groups[1].window = 10; }, "window is "},
      {[](Layout& l) { std::swap(l.group_of[0], l.group_of[2]); }, "window is "},
  };
}

// ---- Senders

class HostileGroups : public GroupHandovers {
 protected:
  HostileGroups()
      : to(mixed_end(), transport(), {.staging_slots = 4}), good(mixed_end(), transport()) {
    layout = pages_of("test", good.end()).value().layout;
    Rng rng(test_seed());
    tokens = random_tokens(rng, 41);
  }
  /// Nothing is held, and others are served.
  void TearDown() override {
    for (int64_t now = 0; now <= 90'000; now += 30'000) to.receiver.poll(now);
    expect_idle(to);
    EXPECT_EQ(used_pages(to), 0);
    EXPECT_EQ(to.receiver.figures().committed, 0);
    ASSERT_NO_FATAL_FAILURE(hand_over({&good}, to, tokens, 9));
  }
  void greet(Peer& peer) {
    peer.send(Hello{.version = groups_version});
    peer.send(tier::Groups{.layout = layout});
    to.receiver.poll(0);
    welcome = peer.receive<WelcomeGroups>();
  }
  /// An accepted handover `id`.
  AcceptGroups open(Peer& peer, uint64_t id) {
    peer.send(Announce{.id = id, .request = id, .tokens = tokens});
    to.receiver.poll(0);
    return peer.receive<AcceptGroups>();
  }
  template <class Message>
  void expect_refused(Peer& peer, const Message& message, const char* reason) {
    const int64_t before = to.receiver.figures().refused_messages;
    static_cast<void>(open(peer, message.id));
    peer.send(message);
    to.receiver.poll(0);
    EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << reason;
    EXPECT_THAT(std::string(to.receiver.last_fault().message()), HasSubstr(reason));
    EXPECT_EQ(to.receiver.figures().sequences, 0);
    peer.send(Ended{.id = message.id});
    to.receiver.poll(0);
    expect_idle(to);
    EXPECT_EQ(used_pages(to), 0);
  }

  GroupDecodeEnd to;
  GroupPrefillEnd good;
  Layout layout;
  Tokens tokens;
  WelcomeGroups welcome;
};

TEST_F(HostileGroups, of_a_sender_that_lies_are_refused_with_the_reason) {
  int64_t refused = 0;
  for (const Lie& lie : lies()) {
    Peer peer(network, *to.transport);
    Layout other = layout;
    lie.change(other);
    peer.send(Hello{.version = groups_version});
    peer.send(tier::Groups{.layout = other});
    to.receiver.poll(0);
    EXPECT_THAT(peer.receive<Unwelcome>().reason, HasSubstr(lie.reason));
    EXPECT_EQ(to.receiver.figures().refused_peers, ++refused) << lie.reason;
    peer.send(Announce{.id = 1, .tokens = tokens});  // what was under way meanwhile
    to.receiver.poll(0);
  }
  EXPECT_EQ(to.receiver.figures().announced, 0);
}
TEST_F(HostileGroups, are_not_said_or_said_twice) {
  Peer silent(network, *to.transport);
  silent.send(Hello{.version = groups_version});
  silent.send(Announce{.id = 1, .tokens = tokens});
  to.receiver.poll(0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 1);
  EXPECT_THAT(std::string(to.receiver.last_fault().message()),
              HasSubstr("no groups behind its hello"));
  Peer mute(network, *to.transport);
  mute.send(tier::Groups{.layout = layout});
  to.receiver.poll(0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 2) << "no hello";
  Peer twice(network, *to.transport);
  greet(twice);
  twice.send(tier::Groups{.layout = layout});
  to.receiver.poll(0);
  EXPECT_EQ(to.receiver.figures().refused_messages, 3);
  EXPECT_TRUE(twice.is_cut_off());
}
TEST_F(HostileGroups, have_pieces_that_are_none) {
  Peer peer(network, *to.transport);
  greet(peer);
  // 41 tokens: the window of 9 needs pages 0 and 8 .. 10, that of 14 pages 7 .. 10, states page 5
  expect_refused(peer, Landed{.id = 1, .layer = 5, .pieces = {{}}}, "a layer that is none");
  expect_refused(peer, Landed{.id = 2, .layer = 0, .pieces = {{.page = 1}}},
                 "a page that is none of the handover's");
  expect_refused(peer, Landed{.id = 3, .layer = 0, .pieces = {{.page = 7}}},
                 "a page that is none of the handover's");
  expect_refused(peer, Landed{.id = 4, .layer = 2, .pieces = {{.page = 6}}},
                 "a page that is none of the handover's");
  expect_refused(peer, Landed{.id = 5, .layer = 3, .pieces = {{.page = 4}}},
                 "a page that is none of the handover's");
  expect_refused(peer, Landed{.id = 6, .layer = 3, .pieces = {{.page = huge}}},
                 "a page that is none of the handover's");
  expect_refused(peer, Landed{.id = 7, .layer = 3}, "nothing that has landed");
  expect_refused(peer, Want{.id = 8, .slots = 1}, "slots that it needs not");
  expect_refused(peer, Done{.id = 9, .pieces = 24, .num_tokens = 41}, "before all has landed");
}
TEST_F(HostileGroups, bring_damaged_states) {
  Peer peer(network, *to.transport);
  greet(peer);
  static_cast<void>(open(peer, 1));
  peer.send(Landed{.id = 1, .layer = 3, .pieces = {{.page = 5, .crc = 0xbad}}});
  to.receiver.poll(0);
  EXPECT_EQ(to.receiver.figures().corrupt_pieces, 1);
  EXPECT_EQ(to.receiver.figures().failed, 1);
  EXPECT_EQ(peer.receive<Abort>().id, 1U);
  peer.send(Ended{.id = 1});
  to.receiver.poll(0);
}
TEST_F(HostileGroups, are_cut_or_lengthened) {
  const std::vector<std::byte> whole = encode(tier::Groups{.layout = layout});
  int64_t refused = 0;
  for (size_t size = 1; size <= whole.size() + 1; ++size) {
    if (size == whole.size()) continue;
    Peer peer(network, *to.transport);
    std::vector<std::byte> cut = whole;
    cut.resize(size);
    peer.send(Hello{.version = groups_version});
    peer.send_bytes(cut);
    to.receiver.poll(0);
    EXPECT_EQ(to.receiver.figures().refused_messages, ++refused) << size;
  }
  std::vector<std::byte> many = whole;
  std::memcpy(many.data() + 5, &huge, sizeof(huge));
  Peer peer(network, *to.transport);
  peer.send(Hello{.version = groups_version});
  peer.send_bytes(many);
  to.receiver.poll(0);
  EXPECT_EQ(to.receiver.figures().refused_messages, ++refused) << "a list longer than its message";
}

// ---- Receivers

class HostileGroupReceiver : public GroupHandovers {
 protected:
  HostileGroupReceiver() : from(mixed_end(), transport()), peer(network) {
    to_ = from.transport->connect(peer.transport->address().value()).value();
    layout = pages_of("test", from.end()).value().layout;
    Rng rng(test_seed());
    tokens = random_tokens(rng, 41);
  }
  void TearDown() override {
    network.cut(*peer.transport);
    from.sender.poll(0);
    expect_idle(from);
  }
  /// The one before has ended.
  void begin(GroupPrefillEnd& sender, PeerId to) {
    static_cast<void>(sender.pool.release(id_));  // another sender's has no such id
    const SequenceId id = id_ = sender.pool.admit(tokens)->id;
    handover = sender.sender.begin(to, 1, id, tokens).value();
    ASSERT_TRUE(sender.prefill(id, tokens, {&handover, 1}, sender.pool.length(id).value(), 41));
    sender.sender.poll(0);
  }
  [[nodiscard]] WelcomeGroups welcome() const {
    WelcomeGroups w{.layout = layout, .may_be_direct = 1};
    w.places.resize(5 * num_sections);
    return w;
  }
  static std::string reason_of(GroupPrefillEnd& sender, HandoverOutcome outcome) {
    sender.sender.poll(0), sender.sender.poll(0);
    HandoverEnd end[1];
    EXPECT_EQ(sender.sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, outcome);
    return std::string(end[0].reason.message());
  }

  GroupPrefillEnd from;
  Peer peer;
  Layout layout;
  Tokens tokens;
  HandoverId handover;
  PeerId to_;

 private:
  SequenceId id_;
};

TEST_F(HostileGroupReceiver, lies_about_its_groups) {
  for (const Lie& lie : lies()) {
    GroupPrefillEnd sender(mixed_end(), transport());
    Peer other(network);
    const PeerId to = sender.transport->connect(other.transport->address().value()).value();
    ASSERT_NO_FATAL_FAILURE(begin(sender, to));
    static_cast<void>(other.receive<Announce>());
    WelcomeGroups w = welcome();
    lie.change(w.layout);
    other.send(w);
    EXPECT_THAT(reason_of(sender, HandoverOutcome::refused), HasSubstr(lie.reason));
    expect_idle(sender);
  }
}
TEST_F(HostileGroupReceiver, welcomes_with_too_few_places_or_as_one_without_groups) {
  ASSERT_NO_FATAL_FAILURE(begin(from, to_));
  static_cast<void>(peer.receive<Announce>());
  Welcome plain{.is_direct = 1};
  plain.geometry = layout.groups[0].pages;
  peer.send(plain);
  from.sender.poll(0);
  EXPECT_EQ(from.sender.figures().refused_messages, 1);
  WelcomeGroups w = welcome();
  w.places.pop_back();
  peer.send(w);
  EXPECT_THAT(reason_of(from, HandoverOutcome::refused), HasSubstr("19 places, expected 20"));
}
TEST_F(HostileGroupReceiver, has_pages_of_windows_that_hold_all_that_a_sender_has) {
  for (const int32_t size : {4096, 8192}) {
    GroupPrefillEnd sender(mixed_end(), transport());
    Peer other(network);
    const PeerId to = sender.transport->connect(other.transport->address().value()).value();
    ASSERT_NO_FATAL_FAILURE(begin(sender, to));
    static_cast<void>(other.receive<Announce>());
    WelcomeGroups w = welcome();
    for (GroupLayout& group : w.layout.groups) {
      group.page_tokens = size;
      if (!group.is_state()) group.pages.page_size = size;
    }
    other.send(w);
    if (size == 8192) {
      EXPECT_THAT(reason_of(sender, HandoverOutcome::refused),
                  HasSubstr("windows or chunks have 8192 tokens, expected at most 4096"));
    } else {
      sender.sender.poll(0);
      EXPECT_EQ(sender.sender.figures().handovers, 1);
      EXPECT_EQ(sender.sender.figures().refused_messages, 0);
    }
  }
}
TEST_F(HostileGroupReceiver, asks_for_what_is_not_to_be_had) {
  struct Case {
    AcceptGroups accept;
    const char* reason;
  };
  const Case cases[] = {
      {{.cached_tokens = 41}, "tokens that are not to be sent"},
      {{.runs = {{4, 0, 4}}}, "a group that it has not"},
      {{.runs = {{huge, 0, 4}}}, "a group that it has not"},
      {{.runs = {{0, 0, 44}}}, "tokens that the prompt has not"},
      {{.runs = {{0, -4, 4}}}, "tokens that the prompt has not"},
      {{.runs = {{0, 8, 8}}}, "tokens that the prompt has not"},
      {{.runs = {{0, 8, 4}}}, "tokens that the prompt has not"},
      {{.runs = {{0, 2, 4}}}, "part of a page of its own"},
      {{.runs = {{0, 0, 6}}}, "part of a page of its own"},
      {{.runs = {{0, 0, 8}, {0, 4, 8}}, .pages = {1, 2, 3}}, "out of order, or twice"},
      {{.runs = {{1, 32, 41}, {0, 0, 41}}}, "out of order, or twice"},
      {{.runs = {{1, 4, 8}}, .pages = {1}}, "tokens that its rule gives up"},
      {{.runs = {{1, 0, 8}}, .pages = {1, 2}}, "tokens that its rule gives up"},
      {{.runs = {{2, 0, 41}}}, "tokens that its rule gives up"},
      {{.runs = {{3, 39, 40}}, .pages = {1}}, "a state that is not behind the prompt"},
      {{.runs = {{3, 0, 41}}, .pages = {1}}, "a state that is not behind the prompt"},
      {{.runs = {{0, 0, 8}}, .pages = {1}}, "another number of pages"},
      {{.runs = {{3, 40, 41}}, .pages = {1, 2}}, "another number of pages"},
      {{.pages = {1}}, "another number of pages"}};
  ASSERT_NO_FATAL_FAILURE(begin(from, to_));
  static_cast<void>(peer.receive<Announce>());
  peer.send(welcome());
  int64_t refused = 0;
  for (const Case& c : cases) {
    AcceptGroups accept = c.accept;
    accept.id = handover.value;
    peer.send(accept);
    EXPECT_THAT(reason_of(from, HandoverOutcome::failed), HasSubstr(c.reason));
    EXPECT_EQ(from.sender.figures().refused_messages, ++refused) << c.reason;
    EXPECT_EQ(peer.receive<Ended>().id, handover.value);
    ASSERT_NO_FATAL_FAILURE(begin(from, to_));
  }
  peer.send(Accept{.id = handover.value, .pages = std::vector<uint32_t>(11)});
  EXPECT_THAT(reason_of(from, HandoverOutcome::failed), HasSubstr("what was not announced"));
}

// ---- Bytes

/// One thing of a message changed.
std::vector<std::byte> damaged(std::vector<std::byte> bytes, Rng& rng) {
  for (int64_t i = rng.between(1, 3); i > 0; --i) {
    const auto at = static_cast<size_t>(rng.between(0, std::ssize(bytes) - 1));
    const int64_t kind = rng.between(0, 3);
    if (kind == 0) bytes[at] = static_cast<std::byte>(rng.between(0, 255));
    if (kind == 1) bytes[at] ^= static_cast<std::byte>(1 << rng.between(0, 7));
    if (kind == 2) bytes.resize(at + 1);
    if (kind == 3) bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes[at]);
  }
  return bytes;
}

TEST_F(HostileGroups, may_be_any_bytes) {
  Rng rng(test_seed());
  tokens.resize(20);
  for (int round = 0; round < 3000; ++round) {
    Peer peer(network, *to.transport);
    const std::vector<std::byte> messages[] = {
        encode(Hello{.version = groups_version}),
        encode(tier::Groups{.layout = layout}),
        encode(Announce{.id = 1, .request = 1, .tokens = tokens}),
        encode(Want{.id = 1, .slots = 2}),
        encode(Computing{.id = 1}),
        encode(Landed{.id = 1, .layer = 3, .pieces = {{.page = 2}}}),
        encode(Done{.id = 1, .pieces = 18, .num_tokens = 20}),
        encode(Ended{.id = 1})};
    const int64_t broken = rng.between(0, std::ssize(messages) - 1);
    for (int64_t i = 0; i < std::ssize(messages); ++i)
      peer.send_bytes(i == broken ? damaged(messages[i], rng) : messages[i]);
    to.receiver.poll(0);
    ASSERT_EQ(to.pool.check_invariants().message(), "") << round;
    ASSERT_EQ(to.receiver.figures().committed, 0) << round;
    network.cut(*peer.transport);
    to.receiver.poll(0);
  }
}
TEST_F(HostileGroupReceiver, says_any_bytes) {
  Rng rng(test_seed());
  for (int round = 0; round < 1000; ++round) {
    Peer other(network);
    const PeerId to = from.transport->connect(other.transport->address().value()).value();
    ASSERT_NO_FATAL_FAILURE(begin(from, to));
    static_cast<void>(other.receive<Announce>());
    WelcomeGroups w = welcome();
    w.staging = {.region = 1, .slots = 4, .base = 0, .stride = 64};
    w.may_be_direct = static_cast<uint8_t>(rng.between(0, 1));
    const size_t pages = w.may_be_direct != 0 ? 11 + 4 + 1 : 0;
    const std::vector<std::byte> messages[] = {
        encode(w),
        encode(AcceptGroups{.id = handover.value,
                            .runs = {{0, 0, 41}, {1, 0, 4}, {1, 32, 41}, {3, 40, 41}},
                            .pages = std::vector<uint32_t>(pages)}),
        encode(Slots{.id = handover.value, .slots = {0, 1}}),
        encode(Committed{.id = handover.value})};
    const int64_t broken = rng.between(0, std::ssize(messages) - 1);
    for (int64_t i = 0; i < std::ssize(messages); ++i) {
      other.send_bytes(i == broken ? damaged(messages[i], rng) : messages[i]);
      from.sender.poll(0);
    }
    network.cut(*other.transport);
    from.sender.poll(0), from.sender.poll(0);
    from.transport->disconnect(to).or_throw();
    expect_idle(from);
    HandoverEnd end[1];
    ASSERT_EQ(from.sender.take_ends(end), 1U) << round;
    ASSERT_NE(end[0].outcome, HandoverOutcome::done) << round;
  }
}

}  // namespace
}  // namespace folio::test
