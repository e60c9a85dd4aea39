// SPDX-License-Identifier: Apache-2.0
/// tests/testing/pipeline_test.cpp: the barrier emulator lets a right ring of stages pass and names
/// each thing that may be wrong.
#include "folio/testing/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

using emulator::Actor;
using emulator::BarrierId;
using emulator::Fault;
using emulator::Pipeline;
using emulator::SharedRange;
using ::testing::AnyOf;
using ::testing::HasSubstr;

enum class Mistake {
  none,
  no_release,           // a consumer keeps its stage
  release_before_read,  //
  // the barrier is made for all but one consumer, and the last one keeps silent
  one_release_of_two,
  no_wait_for_release,     // the producer takes a stage without asking
  no_wait_for_arrival,     // a consumer reads without asking
  expects_too_few_bytes,   //
  expects_too_many_bytes,  //
  consumer_parity_stuck,   // never flips
  producer_starts_at_0,    // waits for a release that nobody owes
  consumer_starts_at_1,    // passes before anything has come
  arrives_at_full,         // a consumer takes the wrong barrier
  ends_early,              // the last tile is not waited for
};

/// `stages` stages of two halves; every tile is one number, written to both halves by two copies.
struct Ring {
  int stages = 2;
  int consumers = 1;
  int tiles = 12;
  Mistake mistake = Mistake::none;

  static constexpr int64_t half_bytes = 64;
  static constexpr int max_stages = 4;
  BarrierId full[max_stages] = {};
  BarrierId empty[max_stages] = {};
  int shared[max_stages][2] = {};

  [[nodiscard]] SharedRange half(int stage, int i) const {
    return {(stage * 2 + i) * half_bytes, half_bytes};
  }
  [[nodiscard]] SharedRange whole(int stage) const {
    return {stage * 2 * half_bytes, 2 * half_bytes};
  }
};

Actor producer(Pipeline& p, Ring& ring) {
  for (int tile = 0; tile < ring.tiles; ++tile) {
    const int s = tile % ring.stages;
    const int round = tile / ring.stages;
    const int first_parity = ring.mistake == Mistake::producer_starts_at_0 ? 0 : 1;
    if (ring.mistake != Mistake::no_wait_for_release)
      co_await p.wait(ring.empty[s], (round & 1) ^ first_parity);
    int64_t bytes = 2 * Ring::half_bytes;
    if (ring.mistake == Mistake::expects_too_few_bytes) bytes = Ring::half_bytes;
    if (ring.mistake == Mistake::expects_too_many_bytes) bytes += 16;
    co_await p.arrive_expect_tx(ring.full[s], bytes);
    for (int i = 0; i < 2; ++i) {
      co_await p.copy(ring.full[s], ring.half(s, i), [&ring, s, i, tile]() -> Result<int64_t> {
        ring.shared[s][i] = tile;
        return Ring::half_bytes;
      });
    }
  }
}

Actor consumer(Pipeline& p, Ring& ring, int index) {
  const int tiles = ring.mistake == Mistake::ends_early ? ring.tiles - 1 : ring.tiles;
  for (int tile = 0; tile < tiles; ++tile) {
    const int s = tile % ring.stages;
    int parity = tile / ring.stages & 1;
    if (ring.mistake == Mistake::consumer_parity_stuck) parity = 0;
    if (ring.mistake == Mistake::consumer_starts_at_1) parity ^= 1;
    if (ring.mistake != Mistake::no_wait_for_arrival) co_await p.wait(ring.full[s], parity);
    if (ring.mistake == Mistake::arrives_at_full && tile == 3)
      co_await p.arrive(ring.full[(s + 1) % ring.stages]);
    if (ring.mistake == Mistake::release_before_read) co_await p.arrive(ring.empty[s]);
    co_await p.read(ring.whole(s));
    if (ring.shared[s][0] != tile || ring.shared[s][1] != tile)
      co_await p.stop_if(fail(Errc::internal, "tile {} is not there", tile));
    const bool keeps = (ring.mistake == Mistake::no_release && index == 0 && tile == 5) ||
                       (ring.mistake == Mistake::one_release_of_two && index == ring.consumers - 1);
    if (ring.mistake != Mistake::release_before_read && !keeps) co_await p.arrive(ring.empty[s]);
  }
}

struct Outcome {
  Fault fault;
  Status status;
};

Outcome run(Ring ring, uint64_t seed) {
  Pipeline p(ring.stages * 2 * Ring::half_bytes, seed);
  for (int s = 0; s < ring.stages; ++s) {
    const std::string stage = std::to_string(s);
    ring.full[s] = p.add_barrier("full " + stage, 1);
    const int releases =
        ring.mistake == Mistake::one_release_of_two ? ring.consumers - 1 : ring.consumers;
    ring.empty[s] = p.add_barrier("empty " + stage, releases);
  }
  p.add_actor("producer", producer(p, ring));
  for (int c = 0; c < ring.consumers; ++c)
    p.add_actor("consumer " + std::to_string(c), consumer(p, ring, c));
  Status status = p.run();
  return {p.fault(), std::move(status)};
}

constexpr int num_seeds = 60;

/// Every schedule finds the mistake, as one of `faults`, of which the first occurs.
void expect_found(const Ring& ring, const std::vector<Fault>& faults) {
  const uint64_t seed = test_seed();
  std::set<Fault> seen;
  for (uint64_t i = 0; i < num_seeds; ++i) {
    const Outcome outcome = run(ring, seed + i);
    EXPECT_FALSE(outcome.status.is_ok()) << "seed " << seed + i;
    EXPECT_EQ(std::count(faults.begin(), faults.end(), outcome.fault), 1)
        << outcome.status.message();
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr(name(outcome.fault)));
    seen.insert(outcome.fault);
  }
  EXPECT_EQ(seen.count(faults[0]), 1u) << name(faults[0]);
}

TEST(Pipeline, a_right_ring_passes_in_every_order) {
  const uint64_t seed = test_seed();
  for (const int stages : {1, 2, 3, 4}) {
    for (const int consumers : {1, 2, 3}) {
      for (uint64_t i = 0; i < num_seeds; ++i) {
        const Outcome outcome = run({.stages = stages, .consumers = consumers}, seed + i);
        EXPECT_TRUE(outcome.status.is_ok()) << outcome.status.message();
        EXPECT_EQ(outcome.fault, Fault::none);
      }
    }
  }
}

TEST(Pipeline, a_stage_that_is_never_released_is_a_deadlock) {
  expect_found({.consumers = 2, .mistake = Mistake::no_release}, {Fault::deadlock});
  const std::string message(
      run({.consumers = 2, .mistake = Mistake::no_release}, 1).status.message());
  EXPECT_THAT(message, HasSubstr("producer waits with parity"));
  EXPECT_THAT(message, HasSubstr("empty 1 (phase 2 is open: 1 of 2 arrivals"));
}

TEST(Pipeline, a_release_before_the_read_is_found_on_every_schedule) {
  expect_found({.consumers = 2, .mistake = Mistake::release_before_read},
               {Fault::overwrite_before_release, Fault::read_before_arrival});
}

TEST(Pipeline, a_producer_that_does_not_wait_overwrites) {
  expect_found(
      {.mistake = Mistake::no_wait_for_release},
      {Fault::overwrite_before_arrival, Fault::overwrite_before_release, Fault::wrong_byte_count,
       Fault::too_many_arrivals, Fault::wrong_phase, Fault::read_before_arrival});
}

TEST(Pipeline, a_consumer_whose_release_is_not_counted_is_overwritten) {
  const Ring ring{.consumers = 2, .mistake = Mistake::one_release_of_two};
  expect_found(ring,
               {Fault::overwrite_before_release, Fault::read_before_arrival, Fault::wrong_phase});
  std::string message;
  for (uint64_t seed = 1; message.find("before release") == std::string::npos; ++seed)
    message = run(ring, seed).status.message();
  EXPECT_THAT(message, HasSubstr("a copy of producer overwrites shared byte "));
  EXPECT_THAT(message, HasSubstr("which consumer 1 reads without a release that was waited for"));
}

TEST(Pipeline, a_consumer_that_does_not_wait_reads_too_early) {
  expect_found({.mistake = Mistake::no_wait_for_arrival}, {Fault::read_before_arrival});
}

TEST(Pipeline, too_few_and_too_many_expected_bytes_are_wrong_byte_counts) {
  expect_found({.mistake = Mistake::expects_too_few_bytes},
               {Fault::wrong_byte_count, Fault::read_before_arrival});
  expect_found({.mistake = Mistake::expects_too_many_bytes}, {Fault::wrong_byte_count});
  EXPECT_THAT(std::string(run({.mistake = Mistake::expects_too_many_bytes}, 1).status.message()),
              HasSubstr("16 bytes missing"));
}

TEST(Pipeline, a_parity_that_is_not_flipped_is_a_wrong_phase) {
  expect_found({.mistake = Mistake::consumer_parity_stuck}, {Fault::wrong_phase});
  EXPECT_THAT(std::string(run({.mistake = Mistake::consumer_parity_stuck}, 1).status.message()),
              HasSubstr("but its next is phase 1 of full "));
}

TEST(Pipeline, a_wrong_first_parity_is_found) {
  expect_found({.mistake = Mistake::producer_starts_at_0}, {Fault::deadlock});
  expect_found({.mistake = Mistake::consumer_starts_at_1},
               {Fault::read_before_arrival, Fault::wrong_phase});
}

TEST(Pipeline, an_arrival_at_the_wrong_barrier_is_found) {
  expect_found({.stages = 2, .mistake = Mistake::arrives_at_full},
               {Fault::too_many_arrivals, Fault::wrong_phase, Fault::wrong_byte_count,
                Fault::read_before_arrival, Fault::overwrite_before_arrival,
                Fault::overwrite_before_release, Fault::deadlock, Fault::stopped});
}

TEST(Pipeline, a_copy_that_nobody_waits_for_may_be_in_flight_at_the_end) {
  int unfinished = 0;
  for (uint64_t seed = 1; seed <= num_seeds; ++seed) {
    const Outcome outcome = run({.mistake = Mistake::ends_early}, seed);
    if (outcome.fault == Fault::unfinished_copy) ++unfinished;
    EXPECT_THAT(outcome.fault, AnyOf(Fault::none, Fault::unfinished_copy));
  }
  EXPECT_GT(unfinished, 0);
}

Actor reads(Pipeline& p, SharedRange range) { co_await p.read(range); }
Actor writes(Pipeline& p, SharedRange range) { co_await p.write(range); }
Actor throws(Pipeline& p) {
  co_await p.write({0, 16});
  throw std::runtime_error("no");
}
Actor spins(Pipeline& p) {
  for (;;) co_await p.write({0, 16});
}
Actor waits(Pipeline& p, BarrierId barrier, int parity) { co_await p.wait(barrier, parity); }

TEST(Pipeline, programs_that_make_no_sense_are_refused) {
  {
    Pipeline p(64, 1);
    p.add_actor("reader", reads(p, {48, 32}));
    EXPECT_FALSE(p.run().is_ok());
    EXPECT_EQ(p.fault(), Fault::bad_access);
  }
  {
    Pipeline p(64, 1);
    p.add_actor("one", writes(p, {0, 32}));
    p.add_actor("other", writes(p, {16, 16}));
    EXPECT_THAT(std::string(p.run().message()), HasSubstr("overwrite before arrival: "));
  }
  {
    Pipeline p(64, 1);
    p.add_actor("thrower", throws(p));
    const Status status = p.run();
    EXPECT_EQ(status.code(), Errc::internal);
    EXPECT_EQ(p.fault(), Fault::stopped);
  }
  {
    Pipeline p(64, 1);
    p.add_actor("spinner", spins(p));
    EXPECT_FALSE(p.run(100).is_ok());
    EXPECT_EQ(p.fault(), Fault::endless);
  }
  {
    Pipeline p(64, 1);
    p.add_actor("waiter", waits(p, BarrierId{}, 0));
    EXPECT_FALSE(p.run().is_ok());
    EXPECT_EQ(p.fault(), Fault::invalid);
  }
  {
    Pipeline p(64, 1);
    const BarrierId barrier = p.add_barrier("b", 1);
    p.add_actor("waiter", waits(p, barrier, 2));
    EXPECT_FALSE(p.run().is_ok());
    EXPECT_EQ(p.fault(), Fault::invalid);
  }
  {
    Pipeline p(64, 1);
    p.add_barrier("b", 0);
    EXPECT_FALSE(p.run().is_ok());
  }
}

TEST(Pipeline, the_failure_of_a_copy_keeps_its_code) {
  Pipeline p(64, 1);
  const BarrierId barrier = p.add_barrier("b", 1);
  struct Program {
    static Actor actor(Pipeline& p, BarrierId barrier) {
      co_await p.copy(barrier, {0, 64},
                      []() -> Result<int64_t> { return fail(Errc::unsupported, "no such mode"); });
      co_await p.arrive_expect_tx(barrier, 64);
      co_await p.wait(barrier, 0);
    }
  };
  p.add_actor("producer", Program::actor(p, barrier));
  const Status status = p.run();
  EXPECT_EQ(status.code(), Errc::unsupported);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a copy of producer: no such mode"));
}

/// Writes behind or in front of its arrival; the copy that completes the phase is issued last.
Actor writes_then_copies(Pipeline& p, BarrierId full, bool in_front) {
  if (in_front) co_await p.write({0, 16});
  co_await p.arrive_expect_tx(full, 16);
  if (!in_front) co_await p.write({0, 16});
  co_await p.copy(full, {16, 16}, []() -> Result<int64_t> { return 16; });
}
Actor waits_then_reads(Pipeline& p, BarrierId full) {
  co_await p.wait(full, 0);
  co_await p.read({0, 32});
}

TEST(Pipeline, a_landing_copy_does_not_publish_what_its_issuer_wrote) {
  for (const bool in_front : {true, false}) {
    Pipeline p(64, 3);
    const BarrierId full = p.add_barrier("full", 1);
    p.add_actor("writer", writes_then_copies(p, full, in_front));
    p.add_actor("reader", waits_then_reads(p, full));
    EXPECT_EQ(p.run().is_ok(), in_front);
    EXPECT_EQ(p.fault(), in_front ? Fault::none : Fault::read_before_arrival);
  }
}

TEST(Pipeline, interleave_runs_each_seed_and_keeps_what_the_program_returns) {
  int runs = 0;
  const auto right = [&](Pipeline& p) {
    p.add_actor("writer", writes(p, {0, 16}));
    return std::make_shared<int>(++runs);
  };
  EXPECT_TRUE(emulator::interleave(64, 5, 10, right).is_ok());
  EXPECT_EQ(runs, 10);
  const auto wrong = [&](Pipeline& p) {
    if (++runs == 13) p.add_actor("reader", reads(p, {0, 16}));
  };
  EXPECT_THAT(std::string(emulator::interleave(64, 5, 10, wrong).message()),
              HasSubstr("seed 7, step "));
  EXPECT_EQ(runs, 13);
}

TEST(Pipeline, the_same_seed_gives_the_same_run) {
  const Ring ring{.stages = 3, .consumers = 2, .mistake = Mistake::release_before_read};
  EXPECT_EQ(run(ring, 7).status.message(), run(ring, 7).status.message());
  EXPECT_NE(run(ring, 7).status.message(), run(ring, 8).status.message());
}

}  // namespace
}  // namespace folio::test
