// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/process_test.cpp: handovers between processes, of which either is killed:
/// 200 times in all, and 100 times those of a hybrid model, at any time and at moments that are
/// chosen. The other one goes on.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/rounds.h"
#include "tier/peer/child.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/kinds_of_work.h"
#include "tier/transfer/mortal_transport.h"

namespace folio::test {
namespace {

using Deed = Moment::Deed;
using tier::Kind;

/// When a process is killed; `count` is the most. The first ones: while the two connect.
constexpr size_t first_late_moment = 2;
constexpr Moment sender_moments[] = {
    {Deed::before_send, Kind::hello, 1},    {Deed::after_send, Kind::announce, 4},
    {Deed::on_receive, Kind::accept, 4},    {Deed::after_post, {}, 30},
    {Deed::before_send, Kind::landed, 30},  {Deed::after_send, Kind::landed, 30},
    {Deed::before_send, Kind::done, 4},     {Deed::after_send, Kind::done, 4},
    {Deed::on_receive, Kind::committed, 4},
};
constexpr Moment receiver_moments[] = {
    {Deed::before_send, Kind::welcome, 1},  {Deed::on_receive, Kind::announce, 4},
    {Deed::after_send, Kind::accept, 4},    {Deed::on_receive, Kind::landed, 30},
    {Deed::on_receive, Kind::done, 4},      {Deed::before_send, Kind::committed, 4},
    {Deed::after_send, Kind::committed, 4},
};

class HandoversBetweenProcesses
    : public ::testing::TestWithParam<std::tuple<TransportKind, int32_t, bool>> {
 protected:
  [[nodiscard]] static const TransportKind& kind() { return std::get<0>(GetParam()); }
  /// Of the receiver: the sender's, and pages are written to, or another.
  [[nodiscard]] static int32_t page_size() { return std::get<1>(GetParam()); }
  [[nodiscard]] static bool is_hybrid() { return std::get<2>(GetParam()); }
  static constexpr int32_t sender_page_size = 4;

  /// The most of a test: 40 and 10, two tests, two page sizes; of hybrid models half of it.
  /// Connections of some take a while.
  static int rounds() {
    const int all = kind().name == "shared_memory" ? 40 : 10;
    return share_of_rounds(is_hybrid() ? all / 2 : all);
  }
  /// Of ends with groups, which have messages of their own in place of some.
  static Kind kind_of(const Moment& moment) {
    if (!is_hybrid()) return moment.kind;
    switch (moment.kind) {
      case Kind::hello: return Kind::groups;
      case Kind::welcome: return Kind::welcome_groups;
      case Kind::accept: return Kind::accept_groups;
      default: return moment.kind;
    }
  }
  static std::unique_ptr<Transport> make() { return kind().make({}).value(); }
  static std::vector<std::string> peer(const char* role, Rng& rng, const Moment& moment = {}) {
    const int32_t size = role == std::string("decode") ? page_size() : sender_page_size;
    return {FOLIO_PEER,
            kind().name,
            role,
            std::to_string(rng.between(1, 1'000'000)),
            std::to_string(size),
            std::to_string(static_cast<int>(moment.deed)),
            std::to_string(static_cast<int>(kind_of(moment))),
            std::to_string(moment.count),
            is_hybrid() ? "hybrid" : "plain"};
  }
  /// Every third one: none, any time.
  static Moment moment_of(int round, std::span<const Moment> moments, Rng& rng) {
    if (round % 3 == 2) return {};
    const auto number = static_cast<size_t>(round - round / 3);
    if (!may_die_at_once()) moments = moments.subspan(first_late_moment);
    Moment moment = moments[number % moments.size()];
    moment.count = rng.between(1, moment.count) + (may_die_at_once() ? 0 : spared);
    return moment;
  }
  /// UCX 1.13 aborts a process whose peer dies while the two connect ("got REP message").
  [[nodiscard]] static bool may_die_at_once() { return kind().name == "shared_memory"; }
  /// So many of what is counted pass before, where it may not.
  static constexpr int spared = 1;

  template <class Work>
  void kill_senders();
  template <class Work>
  void kill_receivers();
  template <class Work>
  void bring_every_byte();
};

std::vector<TransportKind> kinds_between_processes() {
  std::vector<TransportKind> kinds = transport_kinds();
  std::erase_if(kinds, [](const TransportKind& kind) { return kind.name == "in_process"; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, HandoversBetweenProcesses,
                         ::testing::Combine(::testing::ValuesIn(kinds_between_processes()),
                                            ::testing::Values(4, 8), ::testing::Bool()),
                         [](const auto& way) {
                           return std::get<0>(way.param).name +
                                  (std::get<1>(way.param) == 4 ? "_direct" : "_staged") +
                                  (std::get<2>(way.param) ? "_hybrid" : "");
                         });

/// Every announcement has ended, and is counted as what it ended as.
void expect_counted(const HandoverReceiverFigures& f) {
  EXPECT_EQ(f.announced, f.accepted + f.refused + f.busy);
  EXPECT_EQ(f.accepted, f.committed + f.failed);
  EXPECT_EQ(f.corrupt_pieces, 0);
  EXPECT_EQ(f.refused_messages, 0);
  EXPECT_EQ(f.refused_peers, 0);
}
void expect_counted(const HandoverSenderFigures& f) {
  EXPECT_EQ(f.begun, std::accumulate(std::begin(f.ended), std::end(f.ended), int64_t{0}));
  EXPECT_EQ(f.refused_messages, 0);
}

template <class Work>
void HandoversBetweenProcesses::kill_senders() {
  Rng rng(test_seed());
  typename Work::To to(Work::spec(page_size()), make());
  auto decoder = Work::decoder(to, rng.next());
  const auto figures = [&] { return to.receiver.figures(); };
  const auto has_seen_all = [&] { return decoder.taken > 0 && figures().failed > 0; };
  for (int round = 0; is_due(round, rounds(), has_seen_all()); ++round) {
    SCOPED_TRACE(round);
    const Moment moment = moment_of(round, sender_moments, rng);
    const HandoverReceiverFigures before = figures();
    Child child(peer("prefill", rng, moment));
    child.tell(to.transport->address().value());
    if (moment.deed == Deed::never) {
      const int64_t wanted = before.announced + rng.between(1, 10);
      const int64_t whole = before.committed + (may_die_at_once() ? 0 : spared);
      ASSERT_TRUE(comes_true([&] {
        decoder.step(0);
        return figures().announced >= wanted && figures().committed >= whole;
      }));
      for (int64_t i = rng.between(0, 300); i > 0; --i) decoder.step(0);
    } else {
      ASSERT_TRUE(comes_true([&] {
        decoder.step(0);
        return child.has_ended();
      }));
    }
    EXPECT_EQ(child.kill(), -1) << "it found a wrong byte";
    // the first words of one that was killed may not have come: then it is not known
    ASSERT_TRUE(comes_true([&] {
      decoder.step(0);
      const bool is_known = figures().announced > before.announced;
      return (!is_known || figures().lost_peers > before.lost_peers) && figures().handovers == 0 &&
             decoder.taken == figures().committed;
    }));
    decoder.release_all();
    expect_idle(to);
    expect_counted(figures());
    ASSERT_EQ(used_pages(to), 0);
    EXPECT_LE(to.pool.stats().cached_pages, decoder.committed_pages)
        << "pages of sequences that have not come";
    decoder.look_again();
    if (rng.chance(0.5)) continue;
    to.pool.clear().or_throw();
    decoder.committed_pages = 0;
  }
  EXPECT_EQ(decoder.faults, 0);
  EXPECT_TRUE(has_seen_all());
  std::printf("[   totals ] %lld committed, %lld failed, %lld senders lost\n",
              static_cast<long long>(figures().committed), static_cast<long long>(figures().failed),
              static_cast<long long>(figures().lost_peers));
}

/// One receiver outlives all senders.
TEST_P(HandoversBetweenProcesses, leave_nothing_of_senders_that_are_killed) {
  if (is_hybrid()) return kill_senders<HybridWork>();
  kill_senders<PlainWork>();
}

template <class Work>
void HandoversBetweenProcesses::kill_receivers() {
  Rng rng(test_seed());
  typename Work::From from(Work::spec(sender_page_size), make());
  const auto has_seen_all = [&] {
    const HandoverSenderFigures figures = from.sender.figures();
    return figures.ended[0] > 0 && figures.ended[static_cast<size_t>(HandoverOutcome::lost)] > 0;
  };
  for (int round = 0; is_due(round, rounds(), has_seen_all()); ++round) {
    SCOPED_TRACE(round);
    const Moment moment = moment_of(round, receiver_moments, rng);
    Child child(peer("decode", rng, moment));
    const PeerId to = from.transport->connect(child.address()).value();
    typename Work::Prefiller prefiller(from, to, rng.next());
    if (moment.deed == Deed::never) {
      const int64_t wanted = rng.between(may_die_at_once() ? 0 : spared, 10);
      ASSERT_TRUE(comes_true([&] { return !prefiller.step(0) || prefiller.ended[0] >= wanted; }));
      for (int64_t i = rng.between(0, 300); i > 0; --i) prefiller.step(0);
    } else {
      ASSERT_TRUE(comes_true([&] {
        prefiller.step(0);
        return child.has_ended();
      }));
    }
    EXPECT_EQ(child.kill(), -1) << "it found a wrong byte";
    ASSERT_TRUE(comes_true([&] {
      prefiller.look(0);
      return prefiller.is_idle();
    }));
    EXPECT_EQ(prefiller.faults, 0);
    expect_idle(from);
    expect_counted(from.sender.figures());
    ASSERT_EQ(used_pages(from), 0);
    static_cast<void>(from.transport->disconnect(to));
  }
  const HandoverSenderFigures figures = from.sender.figures();
  EXPECT_TRUE(has_seen_all());
  std::printf("[   totals ] %lld done, %lld lost of %lld\n",
              static_cast<long long>(figures.ended[0]),
              static_cast<long long>(figures.ended[static_cast<size_t>(HandoverOutcome::lost)]),
              static_cast<long long>(figures.begun));
}

/// One sender outlives all receivers.
TEST_P(HandoversBetweenProcesses, leave_nothing_at_the_sender_of_receivers_that_are_killed) {
  if (is_hybrid()) return kill_receivers<HybridWork>();
  kill_receivers<PlainWork>();
}

template <class Work>
void HandoversBetweenProcesses::bring_every_byte() {
  Rng rng(test_seed());
  typename Work::From from(Work::spec(sender_page_size), make());
  Child child(peer("decode", rng));
  typename Work::Prefiller prefiller(from, from.transport->connect(child.address()).value(),
                                     rng.next());
  ASSERT_TRUE(comes_true([&] { return !prefiller.step(0) || prefiller.ended[0] >= 100; }));
  EXPECT_EQ(child.finish(), 0);
}

/// And the one that looks at the bytes says that they were right.
TEST_P(HandoversBetweenProcesses, bring_every_byte) {
  if (is_hybrid()) return bring_every_byte<HybridWork>();
  bring_every_byte<PlainWork>();
}

}  // namespace
}  // namespace folio::test
