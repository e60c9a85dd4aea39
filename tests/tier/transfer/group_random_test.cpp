// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/group_random_test.cpp: many handovers of hybrid models at once, in random
/// order, between ends that differ, with cancels, faults and deaths: whole sequences come or
/// nothing of them, no byte is ever wrong, and nothing is held.
#include <gtest/gtest.h>

#include "tier/transfer/faulty_transport.h"
#include "tier/transfer/group_ends_at_work.h"
#include "tier/transfer/group_handovers.h"

namespace folio::test {
namespace {

struct GroupPair {
  GroupEndSpec from, to;
  HandoverReceiverOptions options = {};
};

/// One group as two, where that can be.
void split_some_group(GroupEndSpec& spec, Rng& rng) {
  const auto g = static_cast<size_t>(rng.between(0, std::ssize(spec.groups) - 1));
  if (spec.groups[g].layers.size() < 2) return;
  GroupSpec other = spec.groups[g];
  const size_t cut = 1 + static_cast<size_t>(rng.between(0, std::ssize(other.layers) - 2));
  other.layers.assign(spec.groups[g].layers.begin() + static_cast<std::ptrdiff_t>(cut),
                      spec.groups[g].layers.end());
  spec.groups[g].layers.resize(cut);
  spec.groups.push_back(other);
}

GroupPair random_group_pair(Rng& rng) {
  const std::vector<GroupEndSpec> models = group_ends();
  const GroupEndSpec model = rng.pick(models);
  GroupPair pair{model, model};
  const int32_t sizes[] = {2, 3, 4, 8};
  for (GroupEndSpec* spec : {&pair.from, &pair.to}) {
    if (rng.chance(0.5)) *spec = with_pages(*spec, rng.pick(sizes));
    for (GroupSpec& group : spec->groups) {
      const DType types[] = {DType::bf16, DType::f32, DType::f16, DType::f8_e4m3};
      if (rng.chance(0.3)) group.dtype = rng.pick(types);
      if (rng.chance(0.3)) group.order = StorageOrder::head_major;
    }
    if (rng.chance(0.3)) split_some_group(*spec, rng);
    spec->min_partial_tokens = rng.chance(0.3) ? 1 : 0;
  }
  if (rng.chance(0.3))
    for (GroupSpec& group : pair.to.groups) group.num_heads = 1, group.first_head = 1;
  pair.from.pages = rng.between(24, 80);
  pair.to.pages = rng.between(16, 64);
  pair.from.max_io_pins = static_cast<uint32_t>(rng.between(4, 64));
  pair.options.landing = rng.chance(0.7) ? Landing::direct : Landing::staged;
  pair.options.staging_slots = static_cast<uint32_t>(rng.between(2, 12));
  pair.options.total_ms = 60'000;  // ends what a sender that is polled computes no further
  return pair;
}

FaultRates random_group_faults(Rng& rng) {
  const auto some = [&](double rate) { return rng.chance(0.4) ? rate : 0.0; };
  return {.lost = some(0.02), .late = some(0.5), .failed = some(0.03), .busy = some(0.3)};
}

class RandomGroupHandovers : public ::testing::Test {
 protected:
  /// What is not over soon is late.
  static void settle(InProcessNetwork& network, GroupPrefiller& prefiller, GroupDecodeEnd& to,
                     GroupDecoder& decoder, int64_t now) {
    for (int i = 0; i < 400; ++i) {
      if (prefiller.is_idle() && to.receiver.figures().handovers == 0) break;
      now += 500;
      for (int k = 0; k < 200 && network.step(); ++k) {}
      ASSERT_NO_FATAL_FAILURE(prefiller.look(now));
      ASSERT_NO_FATAL_FAILURE(decoder.step(now));
    }
    while (decoder.taken < to.receiver.figures().committed)
      ASSERT_NO_FATAL_FAILURE(decoder.step(now));
    ASSERT_NO_FATAL_FAILURE(decoder.release_all());
  }
  void run_round(Rng& rng) {
    const GroupPair pair = random_group_pair(rng);
    InProcessNetwork network(InProcessNetwork::Pace::on_step);
    const auto faulty = [&] {
      return std::make_unique<FaultyTransport>(network.make_end().value(), random_group_faults(rng),
                                               rng.next());
    };
    GroupPrefillEnd from(
        pair.from, faulty(),
        {.max_posts = static_cast<uint32_t>(rng.between(1, 8)), .post_bytes = 500});
    GroupDecodeEnd to(pair.to, faulty(), pair.options);
    GroupPrefiller prefiller(from, from.connect(to), rng.next());
    GroupDecoder decoder(to, rng.next());
    const double cancels = rng.chance(0.5) ? 0.02 : 0;
    int64_t now = 0;
    for (int64_t step = rng.between(20, 300); step > 0; --step) {
      now += rng.between(0, 20);
      ASSERT_NO_FATAL_FAILURE(prefiller.step(now, cancels));
      for (int64_t i = rng.between(0, 12); i > 0; --i) network.step();
      if (rng.chance(0.6)) {
        ASSERT_NO_FATAL_FAILURE(decoder.step(now));
      }
      if (rng.chance(cancels)) to.receiver.cancel(prefiller.some_request());
      if (step % 16 != 0) continue;
      ASSERT_EQ(from.pool.check_invariants().message(), "");
      ASSERT_EQ(to.pool.check_invariants().message(), "");
    }
    const int64_t death = rng.between(0, 3);
    if (death == 1) network.cut(dynamic_cast<FaultyTransport&>(*from.transport).inner());
    if (death == 2) network.cut(dynamic_cast<FaultyTransport&>(*to.transport).inner());
    ASSERT_NO_FATAL_FAILURE(settle(network, prefiller, to, decoder, now));
    from.copy(), to.copy();  // those of admits have run
    expect_idle(from);
    expect_idle(to);
    EXPECT_EQ(used_pages(from), 0);
    EXPECT_EQ(used_pages(to), 0);
    EXPECT_GE(decoder.taken, prefiller.ended[0]);
    EXPECT_EQ(to.receiver.figures().corrupt_pieces, 0);
    const HandoverReceiverFigures figures = to.receiver.figures();
    EXPECT_EQ(figures.accepted, figures.committed + figures.failed) << "every loss is counted";
    done += prefiller.ended[0];
    for (int i = 1; i < num_handover_outcomes; ++i) others += prefiller.ended[i];
    direct += figures.direct_pieces, staged += figures.staged_pieces;
  }

  int64_t done = 0, others = 0, direct = 0, staged = 0;
};

TEST_F(RandomGroupHandovers, bring_whole_sequences_or_nothing) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    run_round(rng);
    if (HasFailure()) FAIL() << "round " << round;
  }
  std::printf("[   totals ] %lld done, %lld ended otherwise, %lld direct and %lld staged pieces\n",
              static_cast<long long>(done), static_cast<long long>(others),
              static_cast<long long>(direct), static_cast<long long>(staged));
  EXPECT_GT(done, 200);
  EXPECT_GT(others, 200);
  EXPECT_GT(direct, 1000);
  EXPECT_GT(staged, 1000);
}

}  // namespace
}  // namespace folio::test
