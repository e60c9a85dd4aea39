// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_test.cpp: what every transport does.
#include "folio/tier/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tier/peer/transport_pair.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Kinds, EveryTransport, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST(Transports, that_are_absent_say_why) {
  if (const std::string absent = absent_transports(); !absent.empty()) GTEST_SKIP() << absent;
}

TEST(NixlTransport, says_what_it_misses) {
  const auto refusal = [](const NixlOptions& nixl) {
    const auto made = make_nixl_transport({}, nixl);
    EXPECT_FALSE(made);
    return made.error();
  };
  const Status nowhere = refusal({.library = "/nowhere/libnixl_capi.so"});
  EXPECT_EQ(nowhere.code(), Errc::unsupported);
  EXPECT_THAT(nowhere.message(), HasSubstr("/nowhere/libnixl_capi.so: cannot open"));
  const Status another = refusal({.library = "libstdc++.so.6"});
  EXPECT_EQ(another.code(), Errc::unsupported);
  EXPECT_THAT(another.message(),
              HasSubstr("libstdc++.so.6: it has no nixl_capi_create_configured_agent"));
  const Status several = refusal({.transports = "tcp,self"});
  EXPECT_EQ(several.code(), Errc::invalid_argument);
  EXPECT_THAT(several.message(), HasSubstr("transports is \"tcp,self\", expected one"));
  EXPECT_EQ(refusal({.transports = ""}).code(), Errc::invalid_argument);
  EXPECT_EQ(make_nixl_transport({.max_peers = 0}).error().code(), Errc::invalid_argument);
}

TEST_P(EveryTransport, writes_and_reads_runs_whose_cuts_do_not_agree) {
  Rng rng(1);
  fill(a.memory, rng);
  const RegionRun local[] = {
      {a.region, 100, 5000}, {a.region, 60'000, 1}, {a.region, 20'000, 3000}};
  const RegionRun remote[] = {{b.region, 0, 1}, {b.region, 99'000, 1000}, {b.region, 50, 7000}};
  std::vector<std::byte> stream;
  for (const RegionRun& run : local)
    stream.insert(stream.end(), a.memory.begin() + run.offset,
                  a.memory.begin() + run.offset + run.bytes);
  const TransferId write =
      a.transport->post({.peer = b_of_a, .local = local, .remote = remote}).value();
  EXPECT_EQ(wait_for(*a.transport, write), TransferState::done);
  EXPECT_EQ(wait_for(*a.transport, write), TransferState::done) << "once more";
  std::vector<std::byte> expected(b.memory.size());
  auto at = stream.begin();
  for (const RegionRun& run : remote) {
    std::copy_n(at, run.bytes, expected.begin() + run.offset);
    at += run.bytes;
  }
  EXPECT_TRUE(b.memory == expected);

  const std::vector<std::byte> before = a.memory;
  for (const RegionRun& run : local)
    std::fill_n(a.memory.begin() + run.offset, run.bytes, std::byte{});
  const TransferId read = a.transport
                              ->post({.direction = TransferDirection::read,
                                      .peer = b_of_a,
                                      .local = local,
                                      .remote = remote})
                              .value();
  EXPECT_EQ(wait_for(*a.transport, read), TransferState::done);
  EXPECT_TRUE(a.memory == before);
  EXPECT_TRUE(b.memory == expected);
  EXPECT_TRUE(a.transport->release(write).is_ok());
  EXPECT_THAT(a.transport->poll(write).error().message(), HasSubstr("poll: transfer is"));
  EXPECT_FALSE(a.transport->release(write).is_ok());
}

TEST_P(EveryTransport, delivers_messages_in_order_both_ways) {
  for (const char* text : {"one", "two", "three"})
    EXPECT_TRUE(a.transport->send(b_of_a, bytes_of(text)).is_ok());
  PeerId a_of_b;
  for (const char* text : {"one", "two", "three"}) {
    const PeerMessage message = wait_for_message(*b.transport);
    EXPECT_EQ(text_of(message.bytes), text);
    a_of_b = message.peer;
  }
  EXPECT_TRUE(b.transport->send(a_of_b, bytes_of("back")).is_ok());
  const PeerMessage back = wait_for_message(*a.transport);
  EXPECT_EQ(text_of(back.bytes), "back");
  EXPECT_EQ(back.peer, b_of_a);
  // and what connected can be read from
  b.memory[17] = std::byte{1};
  a.memory[5] = std::byte{42};
  const RegionRun local[] = {{b.region, 17, 1}}, remote[] = {{a.region, 5, 1}};
  const TransferId read = b.transport
                              ->post({.direction = TransferDirection::read,
                                      .peer = a_of_b,
                                      .local = local,
                                      .remote = remote})
                              .value();
  EXPECT_EQ(wait_for(*b.transport, read), TransferState::done);
  EXPECT_EQ(b.memory[17], std::byte{42});
}

TEST_P(EveryTransport, brings_regions_up_to_date_by_a_later_address) {
  std::vector<std::byte> more(1000);
  const RegionId later = b.transport->add_region(more).value();
  const RegionRun ours{a.region, 0, 1000}, theirs{later, 0, 1000};
  EXPECT_THAT(refusal(request(TransferDirection::write, ours, theirs)).message(),
              HasSubstr("remote run 0 is of region"));
  EXPECT_EQ(a.transport->connect(b.transport->address().value()).value(), b_of_a);
  std::fill(a.memory.begin(), a.memory.end(), std::byte{5});
  const auto id = a.transport->post(request(TransferDirection::write, ours, theirs)).value();
  EXPECT_EQ(wait_for(*a.transport, id), TransferState::done);
  EXPECT_EQ(more, std::vector<std::byte>(1000, std::byte{5}));
  EXPECT_TRUE(comes_true([&] { return b.transport->remove_region(later).is_ok(); }));
  // who has the old address finds nothing there
  const auto stale = a.transport->post(request(TransferDirection::read, ours, theirs)).value();
  EXPECT_EQ(wait_for(*a.transport, stale), TransferState::failed);
  EXPECT_EQ(a.memory[0], std::byte{5});
}

TEST_P(EveryTransport, fails_what_is_pending_when_the_peer_goes) {
  ASSERT_EQ(wait_for(*a.transport, b_of_a), PeerState::connected);
  b.transport.reset();
  EXPECT_TRUE(
      comes_true([&] { return a.transport->peer_state(b_of_a).value() == PeerState::lost; }));
  const RegionRun ours{a.region, 0, 10}, theirs{b.region, 0, 10};
  EXPECT_EQ(refusal(request(TransferDirection::write, ours, theirs)).code(), Errc::io);
  EXPECT_EQ(a.transport->send(b_of_a, bytes_of("?")).code(), Errc::io);
  EXPECT_FALSE(a.transport->last_fault().is_ok());
  EXPECT_TRUE(a.transport->remove_region(a.region).is_ok());
  EXPECT_TRUE(a.transport->disconnect(b_of_a).is_ok());
  EXPECT_FALSE(a.transport->peer_state(b_of_a)) << "its id is gone";
}

TEST_P(EveryTransport, fails_transfers_of_a_peer_that_is_disconnected) {
  ASSERT_EQ(wait_for(*a.transport, b_of_a), PeerState::connected);
  std::vector<TransferId> ids;
  const RegionRun ours{a.region, 0, 100'000}, theirs{b.region, 0, 100'000};
  for (int i = 0; i < 50; ++i)
    ids.push_back(a.transport->post(request(TransferDirection::write, ours, theirs)).value());
  EXPECT_TRUE(a.transport->disconnect(b_of_a).is_ok());
  for (const TransferId id : ids) {
    const TransferState state = wait_for(*a.transport, id);
    EXPECT_TRUE(state == TransferState::failed || state == TransferState::done) << name(state);
  }
  EXPECT_TRUE(comes_true([&] { return a.transport->remove_region(a.region).is_ok(); }));
  EXPECT_TRUE(comes_true([&] { return b.transport->remove_region(b.region).is_ok(); }));
  // and it can be had again
  const PeerId again = a.transport->connect(b.transport->address().value()).value();
  EXPECT_NE(again, b_of_a);
  EXPECT_EQ(wait_for(*a.transport, again), PeerState::connected);
}

TEST_P(EveryTransport, cancels_and_then_leaves_the_memory_alone) {
  std::vector<std::byte> large(8 << 20, std::byte{1});
  const RegionId region = a.transport->add_region(large).value();
  std::vector<std::byte> target(8 << 20);
  const RegionId there = b.transport->add_region(target).value();
  ASSERT_EQ(a.transport->connect(b.transport->address().value()).value(), b_of_a);
  const RegionRun ours{region, 0, 8 << 20}, theirs{there, 0, 8 << 20};
  for (int i = 0; i < 20; ++i) {
    const auto direction = i % 2 == 0 ? TransferDirection::write : TransferDirection::read;
    const TransferId id = a.transport->post(request(direction, ours, theirs)).value();
    EXPECT_TRUE(a.transport->cancel(id).is_ok());
    const TransferState state = wait_for(*a.transport, id);
    EXPECT_TRUE(state == TransferState::cancelled || state == TransferState::done) << name(state);
    EXPECT_TRUE(a.transport->release(id).is_ok());
  }
  EXPECT_TRUE(
      a.transport
          ->release(a.transport->post(request(TransferDirection::read, ours, theirs)).value())
          .is_ok());
  EXPECT_TRUE(comes_true([&] { return a.transport->remove_region(region).is_ok(); }));
  EXPECT_TRUE(comes_true([&] { return b.transport->remove_region(there).is_ok(); }));
}

/// Random transfers of random runs, all bytes compared with a model's.
TEST_P(EveryTransport, random_transfers_put_every_byte_where_it_belongs) {
  const uint64_t seed = test_seed();
  Rng rng(seed);
  SCOPED_TRACE(seed);
  fill(a.memory, rng);
  fill(b.memory, rng);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::byte> a_model = a.memory, b_model = b.memory;
    const bool is_write = rng.between(0, 1) == 0;
    // slots of 500 bytes in random order, cut into runs that differ
    const auto runs = [&](RegionId region, int64_t bytes) {
      std::vector<int64_t> slots(200);
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i) * 500;
      for (size_t i = slots.size(); i > 1; --i)
        std::swap(slots[i - 1],
                  slots[static_cast<size_t>(rng.between(0, static_cast<int64_t>(i) - 1))]);
      std::vector<RegionRun> all;
      for (size_t i = 0; bytes > 0; ++i) {
        const int64_t part = std::min<int64_t>(bytes, i + 30 > 200 ? 500 : rng.between(1, 500));
        all.push_back({region, slots[i], part});
        bytes -= part;
      }
      return all;
    };
    const int64_t bytes = rng.between(1, 20'000);
    const auto local = runs(a.region, bytes), remote = runs(b.region, bytes);
    std::vector<std::pair<size_t, size_t>> pairs;
    for (const RegionRun& run : local)
      for (int64_t i = 0; i < run.bytes; ++i)
        pairs.push_back({static_cast<size_t>(run.offset + i), 0});
    size_t at = 0;
    for (const RegionRun& run : remote)
      for (int64_t i = 0; i < run.bytes; ++i)
        pairs[at++].second = static_cast<size_t>(run.offset + i);
    for (const auto& [x, y] : pairs)
      (is_write ? b_model[y] : a_model[x]) = is_write ? a.memory[x] : b.memory[y];
    const TransferId id =
        a.transport
            ->post({.direction = is_write ? TransferDirection::write : TransferDirection::read,
                    .peer = b_of_a,
                    .local = local,
                    .remote = remote,
                    .message = std::as_bytes(std::span(&round, 1))})
            .value();
    const PeerMessage message = wait_for_message(*b.transport);
    ASSERT_EQ(message.bytes.size(), sizeof(round));
    EXPECT_EQ(std::memcmp(message.bytes.data(), &round, sizeof(round)), 0);
    // when the message is there, so are all bytes
    if (is_write) {
      ASSERT_TRUE(b.memory == b_model) << round;
    }
    ASSERT_EQ(wait_for(*a.transport, id), TransferState::done);
    ASSERT_TRUE(a.memory == a_model) << round;
    ASSERT_TRUE(b.memory == b_model) << round;
    EXPECT_TRUE(a.transport->release(id).is_ok());
  }
}

}  // namespace
}  // namespace folio::test
