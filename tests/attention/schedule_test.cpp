// SPDX-License-Identifier: Apache-2.0
/// tests/attention/schedule_test.cpp: how batches are split into tasks: everything once, within
/// bounds, and no worker left idle.
///
/// The schedule is a pure function, so these tests run no kernel. "Lanes" take tasks in order, as
/// the workers of attend do.
#include "attention/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "folio/attention/plan.h"
#include "folio/attention/visible_keys.h"
#include "folio/cache/planes.h"
#include "kernel/sequence.h"
#include "support/random.h"
#include "support/sanitized.h"

namespace folio::test {
namespace {

constexpr int32_t span_keys = 2048;

/// Geometries as kernels have them: a tile of rows, several heads padded to 16, many rows, few rows
/// of a head padded less.
constexpr KernelGeometry geometries[] = {
    {.rows = 16, .span_keys = span_keys, .partial_bytes = 16 * 130 * 4},
    {.rows = 128, .span_keys = span_keys, .partial_bytes = 128 * 514 * 4, .row_granule = 16},
    {.rows = 512,
     .span_keys = span_keys,
     .partial_bytes = 512 * 130 * 4,
     .row_granule = 16,
     .key_cost = 64},
    {.rows = 192,
     .span_keys = span_keys,
     .partial_bytes = 192 * 130 * 4,
     .row_granule = 16,
     .few_rows = 8},
};

struct Lengths {
  int32_t new_tokens = 1;
  int32_t context = 1;
};

struct Planned {
  AttentionProblem problem;
  AttentionLimits limits;
  KernelGeometry geometry;
  Batch batch;
  std::vector<int32_t> offsets, contexts;
  ScheduleSize bounds, size;
  std::vector<Task> tasks;
  std::vector<Split> splits;
};

AttentionProblem make_problem(int32_t q_heads, int32_t kv_heads, Mask mask) {
  const KVShape shape{
      .num_heads = kv_heads, .head_size = 128, .page_size = 64, .dtype = DType::bf16};
  const KVPlanes planes = make_planes(shape, 0, {}).value()[0];
  AttentionProblem problem;
  problem.key = planes.key;
  problem.value = planes.value;
  problem.q_heads = q_heads;
  problem.mask = mask;
  return problem;
}

/// Limits are exactly what the batch needs, unless given.
Planned plan_batch(const AttentionProblem& problem, const std::vector<Lengths>& sequences,
                   const KernelGeometry& geometry, int32_t workers, AttentionLimits limits = {}) {
  Planned p;
  p.problem = problem;
  p.geometry = geometry;
  p.offsets.push_back(0);
  for (const Lengths& s : sequences) {
    p.offsets.push_back(p.offsets.back() + s.new_tokens);
    p.contexts.push_back(s.context);
    limits.context = std::max(limits.context, s.context);
  }
  limits.batch = std::max(limits.batch, static_cast<int32_t>(sequences.size()));
  limits.tokens = std::max(limits.tokens, p.offsets.back());
  limits.parallelism = workers;
  p.limits = limits;
  p.batch.size = static_cast<int32_t>(sequences.size());
  p.batch.query_offsets = p.offsets.data();
  p.batch.context_lengths = p.contexts.data();
  p.bounds = schedule_bounds(problem, limits, geometry);
  p.tasks.resize(static_cast<size_t>(p.bounds.tasks) + 1);
  p.splits.resize(static_cast<size_t>(p.bounds.splits) + 1);
  p.size = make_schedule(problem, limits, p.batch, geometry,
                         {.tasks = p.tasks.data(), .splits = p.splits.data()});
  p.tasks.resize(static_cast<size_t>(p.size.tasks));
  p.splits.resize(static_cast<size_t>(p.size.splits));
  return p;
}

/// The longest worker over the mean of all, when each takes the next task as soon as it is free.
double imbalance(const Planned& p) {
  std::vector<int64_t> workers(static_cast<size_t>(p.limits.parallelism));
  for (const Task& task : p.tasks) *std::min_element(workers.begin(), workers.end()) += task.cost;
  const int64_t total = std::accumulate(workers.begin(), workers.end(), int64_t{0});
  const int64_t longest = *std::max_element(workers.begin(), workers.end());
  return static_cast<double>(longest) * static_cast<double>(workers.size()) /
         static_cast<double>(total);
}

std::string describe(const Planned& p) {
  std::ostringstream text;
  text << "rows " << p.geometry.rows << ", " << p.limits.parallelism << " lanes, "
       << p.problem.q_heads << " / " << p.problem.key.num_heads << " heads, sequences";
  for (size_t b = 0; b < p.contexts.size(); ++b)
    text << " " << p.offsets[b + 1] - p.offsets[b] << "/" << p.contexts[b];
  return text.str();
}

/// Every row of every head sees all keys it needs in tasks that do not overlap.
void expect_everything_once(const Planned& p) {
  using Row = std::tuple<int32_t, int32_t, int32_t>;  // sequence, head, row
  std::map<Row, std::vector<std::pair<int32_t, int32_t>>> keys;
  for (const Task& task : p.tasks)
    for (int32_t head = task.head; head < task.head + task.heads; ++head)
      for (int32_t row = task.row_begin; row < task.row_end; ++row)
        keys[{task.sequence, head, row}].emplace_back(task.key_begin, task.key_end);

  const int32_t heads = p.problem.key.num_heads, group = p.problem.q_heads / heads;
  int64_t rows = 0;
  for (int32_t b = 0; b < p.batch.size; ++b) {
    const Sequence sequence = sequence_of(p.batch, b);
    for (int32_t head = 0; head < heads; ++head) {
      for (int32_t row = 0; row < sequence.new_tokens * group; ++row, ++rows) {
        const auto found = keys.find({b, head, row});
        ASSERT_NE(found, keys.end())
            << "sequence " << b << ", head " << head << ", row " << row << ": " << describe(p);
        auto& parts = found->second;
        std::sort(parts.begin(), parts.end());
        for (size_t i = 1; i < parts.size(); ++i)
          ASSERT_EQ(parts[i].first, parts[i - 1].second) << describe(p);
        const Visible seen = visible_of(p.problem, p.batch, sequence, row / group);
        if (seen.sinks.size() == 0 && seen.keys.size() == 0) continue;
        const int64_t first = seen.sinks.size() > 0 ? seen.sinks.begin : seen.keys.begin,
                      last = std::max(seen.sinks.end, seen.keys.end);
        ASSERT_LE(int64_t{parts.front().first}, first) << describe(p);
        ASSERT_GE(int64_t{parts.back().second}, last) << describe(p);
      }
    }
  }
  ASSERT_EQ(static_cast<int64_t>(keys.size()), rows) << "rows that do not exist: " << describe(p);
}

int64_t padded(int64_t rows, const KernelGeometry& geometry) {
  int64_t power = 1;
  while (power < rows) power *= 2;
  if (rows <= geometry.few_rows) return power;
  return (rows + geometry.row_granule - 1) / geometry.row_granule * geometry.row_granule;
}

void expect_tasks_fit(const Planned& p) {
  for (const Task& task : p.tasks) {
    const int64_t rows = task.row_end - task.row_begin;
    ASSERT_LE(rows, p.geometry.rows) << describe(p);
    if (task.heads > 1) {
      ASSERT_LE(task.heads * padded(rows, p.geometry), p.geometry.rows) << describe(p);
    }
    ASSERT_EQ(task.row_begin % p.geometry.row_granule, 0) << describe(p);
  }
  for (size_t i = 1; i < p.tasks.size(); ++i)
    ASSERT_GE(p.tasks[i - 1].cost, p.tasks[i].cost) << describe(p);
}

/// Stored states of splits lie behind one another, each large enough for its rows, and each split
/// knows how many tasks it has.
void expect_cuts_consistent(const Planned& p) {
  std::vector<int32_t> tasks(p.splits.size()), states(p.splits.size());
  for (const Task& task : p.tasks) {
    if (task.split < 0) continue;
    ASSERT_LT(task.split, static_cast<int32_t>(p.splits.size()));
    const Split& split = p.splits[static_cast<size_t>(task.split)];
    ++tasks[static_cast<size_t>(task.split)];
    states[static_cast<size_t>(task.split)] += task.states;
    EXPECT_EQ(task.first_state, (task.key_begin - split.whole.key_begin) / span_keys);
    EXPECT_EQ(task.states, (task.key_end + span_keys - 1) / span_keys - task.key_begin / span_keys);
    EXPECT_EQ(task.partial_bytes, split.whole.partial_bytes);
    EXPECT_EQ(std::tie(task.sequence, task.head, task.heads, task.row_begin, task.row_end),
              std::tie(split.whole.sequence, split.whole.head, split.whole.heads,
                       split.whole.row_begin, split.whole.row_end));
  }
  int64_t next = 0;
  for (size_t i = 0; i < p.splits.size(); ++i) {
    const Task& unit = p.splits[i].whole;
    const int64_t row_bytes = p.geometry.partial_bytes / p.geometry.rows;
    EXPECT_EQ(p.splits[i].tasks, tasks[i]);
    EXPECT_EQ(p.splits[i].first_byte, next);
    EXPECT_EQ(unit.partial_bytes % 64, 0);
    EXPECT_GE(unit.partial_bytes, row_bytes * unit.heads * (unit.row_end - unit.row_begin));
    EXPECT_EQ(unit.states, states[i]) << describe(p);
    next += unit.partial_bytes * unit.states;
  }
  EXPECT_EQ(next, p.size.partial_bytes);
  EXPECT_LE(p.size.tasks, p.bounds.tasks) << describe(p);
  EXPECT_LE(p.size.splits, p.bounds.splits) << describe(p);
  EXPECT_LE(p.size.partial_bytes, p.bounds.partial_bytes) << describe(p);
}

Planned random_plan(Rng& rng) {
  const int32_t kv_heads = rng.int_between(1, 8), group = rng.int_between(1, 9);
  const Mask masks[] = {Mask::full(), Mask::causal(), Mask::sliding_window(1000, 4),
                        Mask::chunked(3000)};
  std::vector<Lengths> sequences(static_cast<size_t>(rng.int_between(0, 12)));
  for (Lengths& s : sequences) {
    s.context = rng.chance(0.2) ? rng.int_between(0, 100'000) : rng.int_between(0, 3 * span_keys);
    s.new_tokens = rng.chance(0.2) ? rng.int_between(0, 300) : rng.int_between(0, 2);
  }
  const KernelGeometry geometry = rng.pick(geometries);
  return plan_batch(make_problem(kv_heads * group, kv_heads, rng.pick(masks)), sequences, geometry,
                    rng.int_between(1, 20));
}

TEST(Schedule, every_row_meets_every_span_it_sees_exactly_once) {
  Rng rng(test_seed());
  for (int round = 0; round < (is_sanitized ? 60 : 300); ++round) {
    const Planned p = random_plan(rng);
    expect_everything_once(p);
    expect_tasks_fit(p);
    expect_cuts_consistent(p);
    if (HasFailure()) return;
  }
}

TEST(Schedule, one_lane_divides_nothing) {
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    Planned p = random_plan(rng);
    p = plan_batch(p.problem, {{1, 100'000}, {40, 9000}}, p.geometry, 1);
    EXPECT_EQ(p.size.splits, 0);
    EXPECT_EQ(p.bounds.partial_bytes, 0);
  }
}

TEST(Schedule, heads_of_a_decode_are_read_together_where_they_fit) {
  const std::vector<Lengths> sequences(16, Lengths{1, 4096});
  const Planned p = plan_batch(make_problem(64, 8, Mask::causal()), sequences, geometries[2], 2);
  EXPECT_EQ(p.tasks.front().heads, 8);
}

TEST(Schedule, heads_with_few_rows_take_no_more_room_than_their_rows) {
  for (const auto& [group, heads] : {std::pair{1, 64}, {2, 64}, {3, 48}, {4, 48}, {8, 24}}) {
    const Planned p = plan_batch(make_problem(group * heads, heads, Mask::causal()), {{1, 4096}},
                                 geometries[3], 1);
    EXPECT_EQ(p.tasks.front().heads, heads) << describe(p);
  }
}

TEST(Schedule, heads_stay_together_where_spans_go_round) {
  for (const int32_t spans : {2, 4, 8}) {
    const Planned p = plan_batch(make_problem(32, 32, Mask::causal()), {{1, spans * span_keys}},
                                 geometries[3], 2);
    for (const Task& task : p.tasks) EXPECT_EQ(task.heads, 32) << describe(p);
    EXPECT_EQ(p.tasks.size() % 2, 0u) << describe(p);
  }
}

TEST(Schedule, a_long_sequence_among_short_ones_leaves_no_lane_idle) {
  std::vector<Lengths> sequences(64, Lengths{1, 512});
  sequences[17].context = 131072;
  for (const KernelGeometry& geometry : geometries) {
    for (const int32_t workers : {2, 4, 8, 16}) {
      const Planned p =
          plan_batch(make_problem(32, 8, Mask::causal()), sequences, geometry, workers);
      EXPECT_LE(imbalance(p), 1.03) << describe(p).substr(0, 40);
    }
  }
}

TEST(Schedule, any_number_of_equal_sequences_is_balanced) {
  for (const KernelGeometry& geometry : geometries) {
    for (const int32_t context : {1024, 8192, 131072}) {
      for (const int32_t workers : {2, 3, 8}) {
        for (int count = 1; count <= 20; ++count) {
          const Planned p = plan_batch(
              make_problem(32, 8, Mask::causal()),
              std::vector<Lengths>(static_cast<size_t>(count), {1, context}), geometry, workers);
          EXPECT_LE(imbalance(p), workers == 2 ? 1.07 : 1.21) << describe(p);
        }
      }
    }
  }
}

TEST(Schedule, a_small_prefill_occupies_all_lanes) {
  for (const KernelGeometry& geometry : geometries) {
    for (const int32_t kv_heads : {1, 2, 8}) {
      for (const Lengths lengths : {Lengths{128, 128}, Lengths{128, 4096}, Lengths{512, 512},
                                    Lengths{100, 100'000}, Lengths{4096, 4096}}) {
        for (const int32_t workers : {2, 4}) {
          const Planned p = plan_batch(make_problem(kv_heads * 4, kv_heads, Mask::causal()),
                                       {lengths}, geometry, workers);
          EXPECT_LE(imbalance(p), 1.12) << describe(p);
        }
      }
    }
  }
}

TEST(Schedule, a_causal_row_costs_what_it_sees) {
  const Planned whole =
      plan_batch(make_problem(4, 1, Mask::full()), {{2048, 2048}}, geometries[2], 1);
  const Planned causal =
      plan_batch(make_problem(4, 1, Mask::causal()), {{2048, 2048}}, geometries[2], 1);
  const auto cost = [](const Planned& p) {
    int64_t sum = 0;
    for (const Task& task : p.tasks) sum += task.cost;
    return static_cast<double>(sum);
  };
  EXPECT_NEAR(cost(causal) / cost(whole), 0.5, 0.05);
}

TEST(Schedule, the_lengths_alone_decide_where_rows_are_parted) {
  const AttentionProblem problem = make_problem(32, 8, Mask::causal());
  const std::vector<Lengths> sequence = {{700, 5000}};
  const Planned alone = plan_batch(problem, sequence, geometries[2], 1);
  const Planned other = plan_batch(problem, {{3, 90}, {700, 5000}, {1, 7}}, geometries[2], 1,
                                   {.batch = 9, .tokens = 9000, .context = 70'000});
  const auto parts = [](const Planned& p, int32_t sequence_index) {
    std::vector<std::pair<int32_t, int32_t>> rows;
    for (const Task& task : p.tasks)
      if (task.sequence == sequence_index) rows.emplace_back(task.row_begin, task.row_end);
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  EXPECT_EQ(parts(alone, 0), parts(other, 1));
}

TEST(Schedule, stored_states_of_long_contexts_stay_within_64_mib_on_two_lanes) {
  for (const KernelGeometry& geometry : geometries) {
    const AttentionLimits limits{.batch = 64, .tokens = 4096, .context = 131072, .parallelism = 2};
    EXPECT_LE(schedule_bounds(make_problem(64, 8, Mask::causal()), limits, geometry).partial_bytes,
              int64_t{64} << 20);
  }
}

}  // namespace
}  // namespace folio::test
