// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/process_test.cpp: handovers between processes, of which either is killed.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tier/peer/child.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends_at_work.h"

namespace folio::test {
namespace {

class HandoversBetweenProcesses : public ::testing::TestWithParam<TransportKind> {
 protected:
  static std::vector<std::string> peer(const char* role, Rng& rng) {
    return {FOLIO_HANDOVER_PEER, GetParam().name, role, std::to_string(rng.between(1, 1'000'000))};
  }
  /// Connections of some take a while.
  static int rounds() { return GetParam().name == "shared_memory" ? 10 : 3; }
  static std::unique_ptr<Transport> make() { return GetParam().make({}).value(); }
};

std::vector<TransportKind> kinds_between_processes() {
  std::vector<TransportKind> kinds = transport_kinds();
  std::erase_if(kinds, [](const TransportKind& kind) { return kind.name == "in_process"; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, HandoversBetweenProcesses,
                         ::testing::ValuesIn(kinds_between_processes()),
                         [](const auto& kind) { return kind.param.name; });

/// One receiver outlives all senders.
TEST_P(HandoversBetweenProcesses, leave_nothing_of_senders_that_are_killed) {
  Rng rng(fresh_seed());
  DecodeEnd to({.page_size = 8}, make());
  Decoder decoder(to);
  for (int round = 0; round < rounds(); ++round) {
    Child child(peer("prefill", rng));
    child.tell(to.transport->address().value());
    const int64_t before = to.receiver.figures().announced;
    const int64_t more = rng.between(1, 20);
    ASSERT_TRUE(comes_true([&] {
      decoder.step(0);
      return to.receiver.figures().announced >= before + more;
    })) << round;
    for (int64_t i = rng.between(0, 300); i > 0; --i) decoder.step(0);
    child.kill();
    ASSERT_TRUE(comes_true([&] {
      decoder.step(0);
      return to.receiver.figures().handovers == 0 &&
             decoder.taken == to.receiver.figures().committed;
    })) << round;
    decoder.release_all();
    expect_idle(to);
    ASSERT_EQ(to.pool.stats().used_pages, 0) << round;
  }
  EXPECT_EQ(decoder.faults, 0);
  EXPECT_GT(decoder.taken, 0);
}

/// One sender outlives all receivers.
TEST_P(HandoversBetweenProcesses, leave_nothing_at_the_sender_of_receivers_that_are_killed) {
  Rng rng(fresh_seed());
  PrefillEnd from({}, make());
  int64_t done = 0, lost = 0;
  for (int round = 0; round < rounds(); ++round) {
    Child child(peer("decode", rng));
    const PeerId to = from.transport->connect(child.address()).value();
    Prefiller prefiller(from, to, rng.next());
    const int64_t wanted = rng.between(0, 20);
    ASSERT_TRUE(comes_true([&] { return !prefiller.step(0) || prefiller.ended[0] >= wanted; }))
        << round;
    for (int64_t i = rng.between(0, 300); i > 0; --i) prefiller.step(0);
    child.kill();
    ASSERT_TRUE(comes_true([&] {
      prefiller.look(0);
      return prefiller.is_idle();
    })) << round;
    expect_idle(from);
    ASSERT_EQ(from.pool.stats().used_pages, 0) << round;
    done += prefiller.ended[0];
    lost += prefiller.ended[static_cast<size_t>(HandoverOutcome::lost)];
    static_cast<void>(from.transport->disconnect(to));
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(lost, 0);
}

/// And the one that looks at the bytes says that they were right.
TEST_P(HandoversBetweenProcesses, bring_every_byte) {
  Rng rng(fresh_seed());
  PrefillEnd from({}, make());
  Child child(peer("decode", rng));
  Prefiller prefiller(from, from.transport->connect(child.address()).value(), rng.next());
  ASSERT_TRUE(comes_true([&] { return !prefiller.step(0) || prefiller.ended[0] >= 100; }));
  EXPECT_EQ(child.finish(), 0);
}

}  // namespace
}  // namespace folio::test
