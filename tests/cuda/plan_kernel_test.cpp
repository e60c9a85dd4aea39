// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/plan_kernel_test.cpp: the plan kernel against a slow statement of what a plan is, and
/// what it does to lengths that nobody could check.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cuda/plan_run.h"
#include "support/random.h"

namespace folio::test {
namespace {

using cuda::DeviceGeometry;
using cuda::DeviceTask;

/// A batch with its arrays; positions and intervals where asked for.
struct Lengths {
  std::vector<int32_t> offsets = {0}, contexts, query_positions, key_positions, begins, ends;

  void add(int32_t new_tokens, int32_t context) {
    offsets.push_back(offsets.back() + new_tokens);
    contexts.push_back(context);
  }
  [[nodiscard]] Batch batch() const {
    Batch b;
    b.size = static_cast<int32_t>(contexts.size());
    b.query_offsets = offsets.data();
    b.context_lengths = contexts.data();
    if (!query_positions.empty()) b.query_positions = query_positions.data();
    if (!key_positions.empty()) b.key_positions = key_positions.data();
    if (!begins.empty()) b.visible_begin = begins.data();
    if (!ends.empty()) b.visible_end = ends.data();
    return b;
  }
};

struct Setting {
  AttentionProblem problem;
  AttentionLimits limits = {.batch = 8, .tokens = 64, .context = 4096, .parallelism = 1};
  DeviceGeometry few = {16, 64, 16};
  DeviceGeometry many = {32, 128, 0};
  int32_t blocks_few = 5;
  int32_t blocks_many = 3;

  Setting() {
    problem.key.num_heads = 2;
    problem.q_heads = 8;
    problem.v_head_size = 64;
  }
  [[nodiscard]] cuda::DevicePlanLayout layout() const {
    return cuda::device_plan_layout(problem, limits, few, many, blocks_few, blocks_many);
  }
};

/// One (sequence, head, row): how often each span occurs in its tasks.
struct Coverage {
  int32_t tasks = 0;
  int32_t empty_tasks = 0;
  std::map<int32_t, int32_t> spans;
};

class Checker {
 public:
  Checker(const Setting& s, const Lengths& lengths, PlanRun<64>& run)
      : s_(s), lengths_(lengths), run_(run), batch_(lengths.batch()) {}

  void check() {
    ASSERT_EQ(run_.fault, "");
    for (int list = 0; list < 2; ++list) check_list(list);
    const int32_t group = s_.problem.q_heads / s_.problem.key.num_heads;
    for (int32_t b = 0; b < batch_.size; ++b) {
      const Sequence sequence = sequence_of(batch_, b);
      for (int32_t row = 0; row < sequence.new_tokens * group; ++row)
        for (int32_t head = 0; head < s_.problem.key.num_heads; ++head)
          check_row(sequence, b, row, head);
    }
    for (const auto& [key, coverage] : rows_) EXPECT_GT(coverage.tasks, 0);
  }

 private:
  void check_list(int list) {
    const auto& layout = run_.layout.lists[list];
    const auto& plan = run_.plan();
    EXPECT_LE(plan.num_tasks[list], layout.tasks);
    EXPECT_LE(plan.num_splits[list], layout.splits);
    EXPECT_LE(plan.num_partials[list], layout.partials);
    if (layout.blocks == 0) return;
    const cuda::TaskList tasks = run_.tasks(list);
    EXPECT_EQ(tasks.block_tasks[0], 0);
    EXPECT_EQ(tasks.block_tasks[layout.blocks], plan.num_tasks[list]);
    std::map<int32_t, std::vector<DeviceTask>> of_split;
    for (int32_t block = 0; block < layout.blocks; ++block) {
      ASSERT_LE(tasks.block_tasks[block], tasks.block_tasks[block + 1]);
      for (int32_t i = tasks.block_tasks[block]; i < tasks.block_tasks[block + 1]; ++i) {
        const DeviceTask& task = tasks.tasks[i];
        take(task, list);
        if (task.split >= 0) of_split[task.split].push_back(task);
      }
    }
    EXPECT_EQ(of_split.size(), static_cast<size_t>(plan.num_splits[list]));
    int32_t next_partial = 0;
    for (const auto& [split, parts] : of_split) {
      ASSERT_GE(split, layout.first_split);
      ASSERT_LT(split, layout.first_split + layout.splits);
      const cuda::DeviceSplit& all = run_.splits()[split];
      EXPECT_EQ(all.tasks, static_cast<int32_t>(parts.size()));
      EXPECT_LE(all.tasks, cuda::tasks_of_split_max);
      EXPECT_EQ(all.first_partial, next_partial);
      for (const DeviceTask& task : parts) {
        EXPECT_EQ(task.partial, next_partial);
        next_partial += run_.layout.stores_spans ? spans_of(task, list) : 1;
      }
      EXPECT_EQ(all.first_partial + all.partials, next_partial);
    }
    EXPECT_EQ(plan.num_partials[list], next_partial);
  }

  int32_t spans_of(const DeviceTask& task, int list) {
    const cuda::LiveTiles live = live_of(task, list);
    return live.before(task.span_end) - live.before(task.span_begin);
  }
  cuda::LiveTiles live_of(const DeviceTask& task, int list) {
    const int32_t group = s_.problem.q_heads / s_.problem.key.num_heads;
    Visible seen;
    const Sequence sequence = sequence_of(batch_, task.sequence);
    for (int32_t row = task.row_begin; row < task.row_end; ++row)
      seen = hull(seen, visible_of(s_.problem, batch_, sequence, row / group));
    return cuda::live_tiles(seen, run_.layout.geometries[list].span_keys);
  }

  void take(const DeviceTask& task, int list) {
    const DeviceGeometry& geometry = run_.layout.geometries[list];
    EXPECT_GT(task.row_end, task.row_begin);
    EXPECT_LE(task.row_end - task.row_begin, geometry.rows);
    const int32_t rows = sequence_of(batch_, task.sequence).new_tokens *
                         (s_.problem.q_heads / s_.problem.key.num_heads);
    EXPECT_LE(task.row_end, rows);
    EXPECT_EQ(list, rows <= s_.few.rows_at_most ? 0 : 1) << "a sequence of " << rows << " rows";
    const cuda::LiveTiles live = live_of(task, list);
    for (int32_t row = task.row_begin; row < task.row_end; ++row) {
      Coverage& c = rows_[{task.sequence, task.head, row}];
      c.tasks += 1;
      c.empty_tasks += task.span_begin == task.span_end ? 1 : 0;
      for (int32_t n = live.before(task.span_begin); n < live.before(task.span_end); ++n)
        c.spans[live.at(n) * geometry.span_keys] += 1;
      span_keys_[{task.sequence, task.head, row}] = geometry.span_keys;
    }
  }

  void check_row(const Sequence& sequence, int32_t b, int32_t row, int32_t head) {
    const int32_t group = s_.problem.q_heads / s_.problem.key.num_heads;
    const auto at = rows_.find({b, head, row});
    ASSERT_NE(at, rows_.end()) << "sequence " << b << " head " << head << " row " << row;
    const Coverage& c = at->second;
    const Visible v = visible_of(s_.problem, batch_, sequence, row / group);
    const int32_t span_keys = span_keys_[{b, head, row}];
    for (const Interval& part : {v.sinks, v.keys})
      for (int64_t key = part.begin; key < part.end; ++key)
        EXPECT_TRUE(c.spans.contains(static_cast<int32_t>(key / span_keys) * span_keys))
            << "sequence " << b << " row " << row << " key " << key;
    for (const auto& [span, times] : c.spans) EXPECT_EQ(times, 1) << "span at key " << span;
    if (c.spans.empty()) {
      EXPECT_EQ(c.tasks, 1);
    } else {
      EXPECT_EQ(c.empty_tasks, 0);
    }
  }

  const Setting& s_;
  const Lengths& lengths_;
  PlanRun<64>& run_;
  Batch batch_;
  std::map<std::vector<int32_t>, Coverage> rows_;
  std::map<std::vector<int32_t>, int32_t> span_keys_;
};

void check(const Setting& s, const Lengths& lengths) {
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  Checker(s, lengths, run).check();
}

Lengths usual() {
  Lengths lengths;
  lengths.add(1, 700);
  lengths.add(4, 64);
  lengths.add(0, 30);
  lengths.add(5, 5);
  lengths.add(1, 0);
  lengths.add(17, 1030);
  return lengths;
}

TEST(PlanKernel, covers_every_row_head_and_visible_span_once) { check(Setting(), usual()); }

TEST(PlanKernel, stores_a_partial_for_each_span_where_no_bit_may_depend_on_the_cut) {
  Setting s;
  s.problem.reproducible = Reproducible::per_sequence;
  check(s, usual());
}

TEST(PlanKernel, gives_every_row_to_the_first_list_where_there_is_no_second) {
  Setting s;
  s.problem.reproducible = Reproducible::per_query;
  s.few.rows_at_most = INT32_MAX;
  s.many = {};
  s.blocks_many = 0;
  check(s, usual());
}

TEST(PlanKernel, gives_an_empty_batch_no_tasks) {
  check(Setting(), Lengths());
  Lengths nobody;
  nobody.add(0, 10);
  check(Setting(), nobody);
}

TEST(PlanKernel, skips_what_lies_between_sink_tokens_and_a_window) {
  Setting s;
  s.problem.mask = Mask::sliding_window(100, 4);
  check(s, usual());
  PlanRun<64> run(s.problem, s.limits, usual().batch(), s.layout());
  int32_t most = 0;
  for (int32_t i = 0; i < run.plan().num_tasks[0]; ++i)
    most = std::max(most, run.tasks(0).tasks[i].span_end);
  EXPECT_EQ(most, (700 + 63) / 64);
  EXPECT_LT(run.plan().num_tasks[0], 12) << "the gap was planned as work";
}

TEST(PlanKernel, covers_windows_chunks_positions_and_intervals_of_random_batches) {
  Rng rng(test_seed());
  for (int round = 0; round < 60; ++round) {
    Setting s;
    s.blocks_few = rng.int_between(1, 9);
    s.blocks_many = rng.int_between(0, 4);
    if (s.blocks_many == 0) s.few.rows_at_most = INT32_MAX;
    s.problem.mask = {rng.int_between(-1, 1) * rng.int_between(0, 300), rng.int_between(-1, 20),
                      rng.chance(0.3) ? rng.int_between(1, 200) : 0,
                      rng.chance(0.4) ? rng.int_between(1, 150) : 0};
    s.problem.mask.left = std::max(s.problem.mask.left, -1);
    if (rng.chance(0.5)) s.problem.reproducible = Reproducible::per_sequence;
    s.problem.intervals = rng.chance(0.2);
    Lengths lengths;
    for (int32_t b = rng.int_between(0, 8); b > 0; --b)
      lengths.add(rng.chance(0.5) ? 1 : rng.int_between(0, 20),
                  std::min(rng.int_between(0, 2000), rng.int_between(0, 2000)));
    while (lengths.offsets.back() > s.limits.tokens) {
      lengths.offsets.pop_back();
      lengths.contexts.pop_back();
    }
    const bool positions = rng.chance(0.4);
    for (const int32_t context : lengths.contexts) {
      if (!positions) break;
      lengths.key_positions.push_back(rng.int_between(-50, 50));
      lengths.query_positions.push_back(rng.int_between(-60, context + 60));
    }
    for (int32_t i = 0; s.problem.intervals && i < lengths.offsets.back(); ++i) {
      lengths.begins.push_back(rng.int_between(-100, 1500));
      lengths.ends.push_back(lengths.begins.back() + rng.int_between(-10, 700));
    }
    check(s, lengths);
    if (::testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

TEST(PlanKernel, gives_blocks_equal_work) {
  Setting s;
  s.blocks_few = 7;
  Lengths lengths;
  for (const int32_t context : {4000, 130, 64, 2500, 1, 900}) lengths.add(1, context);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  const cuda::TaskList tasks = run.tasks(0);
  const int32_t overhead = cuda::unit_overhead_keys / s.few.span_keys;
  int64_t all = 0;
  for (const int32_t context : lengths.contexts) all += 2 * (overhead + (context + 63) / 64);
  const int64_t range = (all + 6) / 7;
  std::set<int32_t> begun;
  for (int32_t block = 0; block < 7; ++block) {
    int64_t cost = 0;
    for (int32_t i = tasks.block_tasks[block]; i < tasks.block_tasks[block + 1]; ++i) {
      const DeviceTask& task = tasks.tasks[i];
      cost += task.span_end - task.span_begin;
      if (task.split < 0 || begun.insert(task.split).second) cost += overhead;
    }
    EXPECT_LE(cost, range + overhead) << "block " << block;
    if (block < 6) {
      EXPECT_GE(cost, range - overhead) << "block " << block;
    }
  }
}

TEST(PlanKernel, cuts_more_work_than_32_bits_count) {
  Setting s;
  s.limits = {.batch = 100, .tokens = 100, .context = INT32_MAX, .parallelism = 1};
  s.blocks_few = 7;
  Lengths lengths;
  for (int i = 0; i < 100; ++i) lengths.add(1, INT32_MAX - 1000 * i);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  std::vector<int64_t> spans(200);
  const cuda::TaskList tasks = run.tasks(0);
  for (int32_t block = 0; block < 7; ++block) {
    int64_t of_block = 0;
    for (int32_t i = tasks.block_tasks[block]; i < tasks.block_tasks[block + 1]; ++i) {
      const DeviceTask& task = tasks.tasks[i];
      int64_t& of_unit = spans[static_cast<size_t>(2 * task.sequence + task.head)];
      EXPECT_EQ(task.span_begin, of_unit) << "tasks of a unit follow one another";
      of_unit = task.span_end;
      of_block += task.span_end - task.span_begin;
    }
    EXPECT_NEAR(static_cast<double>(of_block), 200.0 * 0x1p25 / 7, 0x1p16);
  }
  for (size_t unit = 0; unit < 200; ++unit)
    EXPECT_EQ(spans[unit], (lengths.contexts[unit / 2] + int64_t{63}) / 64);
}

TEST(PlanKernel, shares_no_unit_among_more_tasks_than_one_block_can_fold) {
  Setting s;
  s.problem.key.num_heads = 1;
  s.limits.context = 64 * 400;
  s.blocks_few = 132;
  Lengths lengths;
  lengths.add(1, 64 * 400);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  ASSERT_EQ(run.plan().num_splits[0], 1);
  EXPECT_LE(run.splits()[0].tasks, cuda::tasks_of_split_max);
  EXPECT_GE(run.splits()[0].tasks, cuda::tasks_of_split_max - 4);
}

TEST(PlanKernel, keeps_units_whole_once_the_room_for_spans_is_used) {
  Setting s;
  s.problem.reproducible = Reproducible::per_sequence;
  s.limits.context = 64 * 1000;
  s.blocks_few = 9;
  Lengths lengths;
  for (int i = 0; i < 6; ++i) lengths.add(1, 64 * 1000 - i);
  const cuda::DevicePlanLayout layout = s.layout();
  ASSERT_LT(layout.lists[0].partials, 2 * 6 * 1000);
  check(s, lengths);
}

/// Everything of a plan that kernels read.
std::vector<int32_t> words_of_plan(cuda::DevicePlanLayout layout, void* memory) {
  std::vector<int32_t> words;
  const auto put = [&words](const auto* from, int64_t count) {
    const auto* first = reinterpret_cast<const int32_t*>(from);
    words.insert(words.end(), first, first + count * static_cast<int64_t>(sizeof *from) / 4);
  };
  const cuda::DevicePlan& plan = *layout.plan(memory);
  for (int list = 0; list < 2; ++list) {
    put(&plan.num_tasks[list], 1);
    put(&plan.num_splits[list], 1);
    put(&plan.num_partials[list], 1);
    put(layout.tasks(memory, list).block_tasks, layout.lists[list].blocks + 1);
    put(layout.tasks(memory, list).tasks, plan.num_tasks[list]);
    put(layout.splits(memory) + layout.lists[list].first_split, plan.num_splits[list]);
  }
  put(plan.batch.query_offsets, plan.batch.size + 1);
  put(plan.batch.context_lengths, plan.batch.size);
  return words;
}

TEST(PlanKernel, makes_the_same_plan_with_any_number_of_threads_on_any_schedule) {
  for (const Reproducible promise : {Reproducible::per_plan, Reproducible::per_sequence}) {
    Setting s;
    s.problem.reproducible = promise;
    s.limits.tokens = 200;
    s.limits.batch = 60;
    Lengths lengths;
    Rng rng(7);
    for (int i = 0; i < 60; ++i) lengths.add(rng.int_between(0, 6), rng.int_between(0, 3000));
    ASSERT_LE(lengths.offsets.back(), 200);
    PlanRun<32, 4> narrow(s.problem, s.limits, lengths.batch(), s.layout());
    PlanRun<256, 1024> wide(s.problem, s.limits, lengths.batch(), s.layout(), 2);
    ASSERT_EQ(narrow.fault, "");
    ASSERT_EQ(wide.fault, "");
    EXPECT_EQ(words_of_plan(narrow.layout, narrow.memory.data()),
              words_of_plan(wide.layout, wide.memory.data()));
  }
}

TEST(PlanKernel, takes_contexts_outside_of_the_limits_for_none) {
  const Setting s;
  Lengths lengths;
  for (const int32_t context : {4097, -1, INT32_MIN, INT32_MAX, 100}) lengths.add(1, context);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  for (size_t b = 0; b < 4; ++b) lengths.contexts[b] = 0;
  Checker(s, lengths, run).check();
}

TEST(PlanKernel, gives_no_rows_to_offsets_that_descend_or_leave_the_limits) {
  const Setting s;
  Lengths lengths;
  for (int i = 0; i < 6; ++i) lengths.add(1, 100);
  lengths.offsets = {0, 3, 2, INT32_MAX, INT32_MIN, -4, 7};
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  for (int32_t i = 0; i < run.plan().num_tasks[0]; ++i)
    EXPECT_EQ(run.tasks(0).tasks[i].sequence, 0);
  EXPECT_EQ(run.plan().num_tasks[1], 0);
}

/// 512 units of 2^25 spans.
TEST(PlanKernel, cuts_more_spans_than_32_bits_count) {
  constexpr int32_t context = 2147483000;
  Setting s;
  s.problem.key.num_heads = s.problem.q_heads = 64;
  s.limits.context = context;
  Lengths lengths;
  for (int b = 0; b < 8; ++b) lengths.add(1, context);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  int64_t spans = 0;
  for (int32_t i = 0; i < run.plan().num_tasks[0]; ++i)
    spans += run.tasks(0).tasks[i].span_end - run.tasks(0).tasks[i].span_begin;
  EXPECT_EQ(spans, 512 * int64_t{(context + 63) / 64});
}

/// By one row, so that its tiles are no more than the limits allow.
TEST(PlanKernel, gives_no_rows_to_a_sequence_that_ends_behind_the_limits) {
  const Setting s;
  Lengths lengths;
  for (const int32_t new_tokens : {3, 57, 5}) lengths.add(new_tokens, 100);
  ASSERT_EQ(lengths.offsets.back(), s.limits.tokens + 1);
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  for (int list = 0; list < 2; ++list) {
    EXPECT_GT(run.plan().num_tasks[list], 0);
    for (int32_t i = 0; i < run.plan().num_tasks[list]; ++i)
      EXPECT_EQ(run.tasks(list).tasks[i].sequence, list);
  }
}

TEST(PlanKernel, gives_nobody_rows_where_offsets_make_more_tiles_than_the_limits) {
  Setting s;
  s.limits = {.batch = 8, .tokens = 64, .context = 100, .parallelism = 1};
  Lengths lengths;
  for (int i = 0; i < 8; ++i) lengths.add(1, 100);
  lengths.offsets = {0, 64, 0, 64, 0, 64, 0, 64, 0};
  PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
  ASSERT_EQ(run.fault, "");
  EXPECT_EQ(run.plan().num_tasks[0], 0);
  EXPECT_EQ(run.plan().num_tasks[1], 0);
}

TEST(PlanKernel, stays_within_its_memory_whatever_the_lengths) {
  Rng rng(test_seed());
  for (int round = 0; round < 60; ++round) {
    Setting s;
    s.limits = {.batch = 20, .tokens = 40, .context = 900, .parallelism = 1};
    if (rng.chance(0.5)) s.problem.reproducible = Reproducible::per_query;
    Lengths lengths;
    for (int i = 0; i < 20; ++i) lengths.add(0, 0);
    for (int32_t& x : lengths.offsets)
      x = rng.chance(0.8) ? rng.int_between(-3, 50) : static_cast<int32_t>(rng.next());
    for (int32_t& x : lengths.contexts)
      x = rng.chance(0.8) ? rng.int_between(0, 900) : static_cast<int32_t>(rng.next());
    PlanRun<64> run(s.problem, s.limits, lengths.batch(), s.layout());
    ASSERT_EQ(run.fault, "");
    for (int list = 0; list < 2; ++list) {
      ASSERT_LE(run.plan().num_tasks[list], run.layout.lists[list].tasks);
      ASSERT_LE(run.plan().num_splits[list], run.layout.lists[list].splits);
      ASSERT_LE(run.plan().num_partials[list], run.layout.lists[list].partials);
    }
  }
}

}  // namespace
}  // namespace folio::test
