// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/random_test.cpp: many handovers at once in random order, with cancels,
/// faults and deaths.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "folio/tier/transports.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends_at_work.h"
#include "tier/transfer/faulty_transport.h"

namespace folio::test {
namespace {

struct Pair {
  EndSpec from, to;
  HandoverReceiverOptions options = {};
};

Pair random_pair(Rng& rng) {
  EndSpec whole{.num_heads = 2, .total_heads = 2, .num_layers = 2, .head_size = 8};
  EndSpec large = whole, wide = whole, half = whole;
  large.page_size = 8, wide.dtype = DType::f32, half.num_heads = 1;
  HandoverReceiverOptions staged{.landing = Landing::staged, .staging_slots = 5};
  HandoverReceiverOptions few{.staging_slots = 2, .max_handovers = 3};
  const Pair pairs[] = {{whole, whole},         {whole, whole, staged}, {whole, large, few},
                        {large, whole, staged}, {whole, wide, few},     {whole, half}};
  return rng.pick(pairs);
}

FaultRates random_faults(Rng& rng) {
  const auto some = [&](double rate) { return rng.chance(0.4) ? rate : 0.0; };
  return {.lost = some(0.03), .late = some(0.5), .failed = some(0.05), .busy = some(0.3)};
}

enum class Death : uint8_t { none, sender, receiver };

struct Totals {
  int64_t taken = 0, done = 0, others = 0, late_messages = 0;
};

/// What is not over soon is late.
void settle(InProcessNetwork& network, Prefiller& prefiller, DecodeEnd& to, Decoder& decoder,
            int64_t now) {
  for (int i = 0; i < 400; ++i) {
    if (prefiller.is_idle() && to.receiver.figures().handovers == 0) return;
    now += 500;
    for (int k = 0; k < 200 && network.step(); ++k) {}
    ASSERT_NO_FATAL_FAILURE(prefiller.look(now));
    decoder.step(now);
  }
}

/// Whole sequences have come or nothing, and nothing is held.
void expect_whole(PrefillEnd& from, DecodeEnd& to, const Prefiller& prefiller,
                  const Decoder& decoder) {
  expect_idle(from);
  expect_idle(to);
  EXPECT_EQ(from.pool.stats().used_pages, 0);
  EXPECT_EQ(to.pool.stats().used_pages, 0);
  EXPECT_EQ(decoder.faults, 0);
  EXPECT_GE(decoder.taken, prefiller.ended[0]);
  EXPECT_EQ(to.receiver.figures().corrupt_pieces, 0);
}

void run_round(Rng& rng, Totals& totals) {
  Pair pair = random_pair(rng);
  pair.to.num_pages = static_cast<uint32_t>(rng.between(12, 64));
  pair.from.max_io_pins = static_cast<uint32_t>(rng.between(2, 64));
  InProcessNetwork network(InProcessNetwork::Pace::on_step);
  const auto faulty = [&] {
    return std::make_unique<FaultyTransport>(network.make_end().value(), random_faults(rng),
                                             rng.next());
  };
  PrefillEnd from(pair.from, faulty(),
                  {.max_posts = static_cast<uint32_t>(rng.between(1, 8)), .post_bytes = 500});
  DecodeEnd to(pair.to, faulty(), pair.options);
  Prefiller prefiller(from, from.connect(to), rng.next());
  Decoder decoder(to);
  const auto death = static_cast<Death>(rng.between(0, 2));
  const int64_t steps = rng.between(20, 400);
  const double cancels = rng.chance(0.5) ? 0.02 : 0;
  int64_t now = 0;
  for (int64_t step = 0; step < steps; ++step) {
    now += rng.between(0, 20);
    ASSERT_NO_FATAL_FAILURE(prefiller.step(now, cancels));
    for (int64_t i = rng.between(0, 12); i > 0; --i) network.step();
    if (rng.chance(0.6)) decoder.step(now);
    if (cancels > 0 && rng.chance(0.05)) to.receiver.cancel(prefiller.some_request());
    if (step % 16 != 0) continue;
    ASSERT_EQ(from.pool.check_invariants().message(), "");
    ASSERT_EQ(to.pool.check_invariants().message(), "");
  }
  if (death == Death::sender) network.cut(dynamic_cast<FaultyTransport&>(*from.transport).inner());
  if (death == Death::receiver) network.cut(dynamic_cast<FaultyTransport&>(*to.transport).inner());
  ASSERT_NO_FATAL_FAILURE(settle(network, prefiller, to, decoder, now));
  while (decoder.taken < to.receiver.figures().committed) decoder.step(now);
  decoder.release_all();
  expect_whole(from, to, prefiller, decoder);
  totals.taken += decoder.taken;
  totals.done += prefiller.ended[0];
  for (int i = 1; i < num_handover_outcomes; ++i) totals.others += prefiller.ended[i];
  totals.late_messages += to.receiver.figures().late_messages;
}

TEST(RandomHandovers, bring_whole_sequences_or_nothing) {
  Rng rng(test_seed());
  Totals totals;
  for (int round = 0; round < 200; ++round) {
    run_round(rng, totals);
    if (HasFailure()) FAIL() << "round " << round;
  }
  std::printf("[   totals ] %lld taken, %lld done, %lld ended otherwise, %lld late messages\n",
              static_cast<long long>(totals.taken), static_cast<long long>(totals.done),
              static_cast<long long>(totals.others), static_cast<long long>(totals.late_messages));
  EXPECT_GT(totals.done, 200);
  EXPECT_GT(totals.others, 200);
}

}  // namespace
}  // namespace folio::test
