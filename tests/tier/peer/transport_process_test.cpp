// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_process_test.cpp: transports between processes, which are killed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/comes_true.h"
#include "support/open_files.h"
#include "support/rounds.h"
#include "tier/peer/child.h"
#include "tier/peer/traffic.h"
#include "tier/peer/transport_helpers.h"

namespace folio::test {
namespace {

class BetweenProcesses : public ::testing::TestWithParam<TransportKind> {
 protected:
  static std::vector<std::string> peer(uint64_t seed, int first = 0, int count = 0) {
    return {FOLIO_PEER, GetParam().name, std::to_string(seed % 1'000'000), std::to_string(first),
            std::to_string(count)};
  }
  /// Kills in each of two tests: 200 over shared memory and UCX. NIXL takes half a second to load,
  /// in each child.
  static int rounds() {
    if (GetParam().name == "nixl_tcp") return 12;
    return share_of_rounds(50);
  }
  /// Does not wait long for `child`, and is connected with it; on a machine that is too busy for
  /// that, one that waits longer.
  static std::unique_ptr<Transport> impatient(const std::vector<std::byte>& child, PeerId& peer) {
    for (int64_t ms = GetParam().name == "nixl_tcp" ? 4000 : 1000; ms < no_deadline_ms; ms *= 2) {
      auto end = make({.timeout_ms = ms});
      peer = end->connect(child).value();
      if (wait_for(*end, peer) == PeerState::connected) return end;
    }
    throw std::runtime_error("no connection");
  }
  /// Without those of NIXL's agents, one of which is kept ready.
  static int64_t counted_files() { return GetParam().name == "nixl_tcp" ? 0 : open_files(); }
  static std::unique_ptr<Transport> make(const TransportOptions& options = {}) {
    return GetParam().make(options).value();
  }
};

std::vector<TransportKind> kinds_between_processes() {
  std::vector<TransportKind> kinds = transport_kinds();
  std::erase_if(kinds, [](const TransportKind& kind) { return kind.name == "in_process"; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, BetweenProcesses, ::testing::ValuesIn(kinds_between_processes()),
                         [](const auto& kind) { return kind.param.name; });

/// Everybody writes to and reads from everybody: two children, and this process.
TEST_P(BetweenProcesses, three_ends_move_only_right_bytes) {
  const uint64_t seed = test_seed();
  Child one(peer(seed, 0, 16)), two(peer(seed + 1, 16, 16));
  TrafficEnd end(make());
  const auto first = one.address(), second = two.address();
  one.tell(end.transport().address().value());
  two.tell(end.transport().address().value());
  Traffic to_one(end, end.transport().connect(first).value(), 32, 16, seed + 2);
  Traffic to_two(end, end.transport().connect(second).value(), 48, 16, seed + 3);
  const int64_t wanted = GetParam().name == "nixl_tcp" ? 60 : 300;  // it moves each run by itself
  EXPECT_TRUE(comes_true([&] {
    std::set<uint32_t> freed;
    end.serve(&freed);
    for (const uint32_t slot : freed) (slot < 48 ? to_one : to_two).free({slot});
    EXPECT_TRUE(to_one.begin());
    EXPECT_TRUE(to_two.begin());
    to_one.look();
    to_two.look();
    return to_one.done() >= wanted && to_two.done() >= wanted && end.checked() >= wanted;
  }));
  EXPECT_EQ(end.faults() + to_one.faults() + to_two.faults(), 0);
  EXPECT_EQ(to_one.failed() + to_two.failed(), 0) << end.transport().last_fault().message();
  EXPECT_EQ(one.finish(), 0);
  EXPECT_EQ(two.finish(), 0);
}

/// A child is killed while this end writes to and reads from it.
TEST_P(BetweenProcesses, transfers_end_when_who_is_asked_is_killed) {
  Rng rng(test_seed());
  TrafficEnd end(make());
  int64_t lost = 0, most_files = 0;
  for (int round = 0; round < rounds(); ++round) {
    Child child(peer(rng.next()));
    const PeerId peer = end.transport().connect(child.address()).value();
    // UCX 1.13 ends a process whose peer dies while the two connect ("ucp_request.c:684")
    if (GetParam().name == "ucx_tcp") {
      ASSERT_EQ(wait_for(end.transport(), peer), PeerState::connected);
    }
    Traffic traffic(end, peer, 0, 32, rng.next());
    const int64_t calls = rng.between(1, 300);
    for (int64_t i = 0; i < calls && traffic.begin(); ++i) {
      std::set<uint32_t> freed;
      end.serve(&freed);
      traffic.free(freed);
      traffic.look();
    }
    child.kill();
    EXPECT_TRUE(comes_true([&] {
      traffic.look();
      end.serve(nullptr);
      return end.transport().peer_state(peer).value() == PeerState::lost && traffic.pending() == 0;
    })) << round;
    EXPECT_EQ(traffic.faults() + end.faults(), 0) << round;
    EXPECT_EQ(traffic.done() + traffic.failed(), traffic.begun()) << round;
    EXPECT_FALSE(end.transport().last_fault().is_ok());
    if (end.transport().disconnect(peer).is_ok()) ++lost;
    if (round == 2) most_files = counted_files();
  }  // and the region that was touched can be removed: Traffic waits for that
  EXPECT_EQ(lost, rounds()) << "every loss is told";
  EXPECT_TRUE(comes_true([&] { return counted_files() <= most_files; }));
}

/// Children are killed while they write to and read from this end; what they say is right.
TEST_P(BetweenProcesses, memory_is_free_again_when_who_asked_is_killed) {
  Rng rng(test_seed());
  TrafficEnd end(make());
  int64_t checked = 0, most_files = 0;
  for (int round = 0; round < rounds(); ++round) {
    Child child(peer(rng.next(), 0, 64));
    (void)child.address();
    child.tell(end.transport().address().value());
    const int64_t wanted = checked + rng.between(1, 60);
    EXPECT_TRUE(comes_true([&] {
      end.serve(nullptr);
      return end.checked() >= wanted;
    })) << round;
    const PeerId peer = end.last_peer();
    child.kill();
    EXPECT_TRUE(comes_true([&] {
      end.serve(nullptr);
      return end.transport().peer_state(peer).value() == PeerState::lost;
    })) << round;
    while (end.serve(nullptr)) {}
    checked = end.checked();
    EXPECT_EQ(end.faults(), 0) << round;
    if (round == 2) most_files = counted_files();
  }
  EXPECT_TRUE(comes_true([&] {
    end.serve(nullptr);
    return end.transport().remove_region(end.region()).is_ok() && counted_files() <= most_files;
  }));
}

/// Whoever says nothing for too long is lost, though its process lives.
TEST_P(BetweenProcesses, a_peer_that_hangs_is_lost) {
  Child child(peer(1));
  PeerId peer;
  TrafficEnd end(impatient(child.address(), peer));
  child.stop();
  Traffic traffic(end, peer, 0, 32, 2);
  for (int i = 0; i < 20; ++i) traffic.begin();
  EXPECT_TRUE(comes_true([&] {
    traffic.look();
    return traffic.pending() == 0;
  }));
  // a transfer may fail by itself before its peer does
  EXPECT_TRUE(
      comes_true([&] { return end.transport().peer_state(peer).value() == PeerState::lost; }));
  EXPECT_GT(traffic.failed(), 0);
}

/// It is in the midst of what this end reads, wakes up, and does not know yet that it is lost.
TEST_P(BetweenProcesses, a_peer_that_hung_writes_nothing_when_it_goes_on) {
  Child child(peer(1));
  std::vector<std::byte> memory(half_bytes);
  PeerId peer;
  const auto transport = impatient(child.address(), peer);
  const RegionId region = transport->add_region(memory).value();
  const RegionRun here{region, 0, half_bytes}, there{only_region, half_bytes, half_bytes};
  std::vector<TransferId> reads;
  for (int i = 0; i < 16; ++i)
    reads.push_back(transport
                        ->post({.direction = TransferDirection::read,
                                .peer = peer,
                                .local = {&here, 1},
                                .remote = {&there, 1}})
                        .value());
  (void)wait_for(*transport, reads.front());
  child.stop();
  for (const TransferId read : reads) (void)wait_for(*transport, read);
  EXPECT_TRUE(comes_true([&] { return transport->remove_region(region).is_ok(); }));
  std::fill(memory.begin(), memory.end(), std::byte{0xaa});
  child.go_on();
  ::usleep(300'000);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0xaa}), half_bytes);
}

}  // namespace
}  // namespace folio::test
