// SPDX-License-Identifier: Apache-2.0
/// tests/attention/cascade_test.cpp: shared tasks of random trees of prefixes: every row meets its
/// keys once, states of a split follow one another, and pages are read as often as a naive planner
/// would.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "attention/cascade.h"
#include "attention/plan_memory.h"
#include "attention/schedule.h"
#include "support/random.h"

namespace folio::inline v1 {
namespace {

using test::Rng;
using test::test_seed;

constexpr int32_t span_keys = 2048;

/// A batch whose table rows are branches of random trees.
struct Forest {
  AttentionProblem problem;
  AttentionLimits limits;
  KernelGeometry geometry;
  std::vector<std::vector<uint32_t>> rows;
  std::vector<int32_t> offsets, contexts;
  std::vector<uint32_t> entries;
  std::vector<int64_t> starts;
  std::vector<std::byte> memory;
  ScheduleMemory schedule;
  ScheduleSize bounds, size;
  Batch batch;

  [[nodiscard]] int32_t context(int32_t b) const { return contexts[static_cast<size_t>(b)]; }
  [[nodiscard]] int32_t new_tokens(int32_t b) const {
    return offsets[static_cast<size_t>(b) + 1] - offsets[static_cast<size_t>(b)];
  }
  [[nodiscard]] const std::vector<uint32_t>& row(int32_t b) const {
    return rows[static_cast<size_t>(b)];
  }
  [[nodiscard]] int32_t group() const { return problem.q_heads / problem.key.num_heads; }
  [[nodiscard]] std::span<const Task> tasks() const {
    return {schedule.tasks, static_cast<size_t>(size.tasks)};
  }
  [[nodiscard]] std::span<const Split> splits() const {
    return {schedule.splits, static_cast<size_t>(size.splits)};
  }

  void plan() {
    for (const auto& row : rows) {
      starts.push_back(static_cast<int64_t>(entries.size()));
      entries.insert(entries.end(), row.begin(), row.end());
    }
    limits.batch = static_cast<int32_t>(rows.size()) + 3;
    limits.tokens = offsets.back() + 5;
    limits.context = *std::max_element(contexts.begin(), contexts.end()) + 1;
    batch.size = static_cast<int32_t>(rows.size());
    batch.query_offsets = offsets.data();
    batch.context_lengths = contexts.data();
    batch.table.entries = entries.data();
    batch.table.row_starts = starts.data();
    bounds = schedule_bounds(problem, limits, geometry);
    memory.resize(static_cast<size_t>(plan_parts(nullptr, limits, bounds).bytes) + 64);
    void* at = memory.data();
    size_t room = memory.size();
    schedule = plan_parts(std::align(64, room - 64, at, room), limits, bounds).schedule;
    size = make_schedule(problem, limits, batch, geometry, schedule);
  }
};

struct ForestOptions {
  int32_t sequences = 1;
  int32_t new_tokens = 1;         // at the most
  int32_t fork_keys = span_keys;  // forks and ends at multiples of this
  int32_t forks = 6;              // pieces of a row at the most
  bool odd_ends = true;           // rows end anywhere in the last pages
  int32_t levels = 4;             // at the most; 8: always so many
  int32_t workers = 8;            // at the most
};

Forest random_forest(Rng& rng, const ForestOptions& options) {
  Forest f;
  const int32_t heads = rng.int_between(1, 8), group = rng.int_between(1, 8);
  f.problem.key.num_heads = heads;
  f.problem.q_heads = heads * group;
  f.problem.key.page_size = 1 << rng.int_between(0, 7);
  f.problem.reproducible = static_cast<Reproducible>(rng.int_between(0, 2));
  f.geometry = {.rows = 16 << rng.int_between(0, 4),
                .span_keys = span_keys,
                .shared_cut = f.problem.reproducible == Reproducible::per_plan ? 64 : span_keys};
  f.geometry.partial_bytes = int64_t{f.geometry.rows} * 520;
  f.limits.parallelism = rng.int_between(1, options.workers);
  f.limits.shared_levels = rng.int_between(options.levels / 8 * 8, options.levels);
  f.offsets = {0};
  uint32_t next = 0;
  for (int32_t b = 0; b < options.sequences; ++b) {
    std::vector<uint32_t> row;
    const int32_t pages_of_piece = std::max(1, options.fork_keys / f.problem.key.page_size);
    if (b > 0 && rng.chance(0.8)) {  // a branch of another
      const auto& other = f.rows[static_cast<size_t>(rng.int_between(0, b - 1))];
      const auto pieces = static_cast<int32_t>(other.size()) / pages_of_piece;
      row.assign(other.begin(), other.begin() + rng.int_between(0, pieces) * pages_of_piece);
    }
    const int32_t more = rng.int_between(row.empty() ? 1 : 0, options.forks) * pages_of_piece;
    for (int32_t i = 0; i < more; ++i) row.push_back(next++);
    const auto keys = static_cast<int32_t>(row.size()) * f.problem.key.page_size;
    f.contexts.push_back(keys - (options.odd_ends && rng.chance(0.5)
                                     ? rng.int_between(0, std::min(keys - 1, 70))
                                     : 0));
    f.offsets.push_back(f.offsets.back() +
                        std::min(rng.int_between(1, options.new_tokens), f.contexts.back()));
    f.rows.push_back(std::move(row));
  }
  f.plan();
  return f;
}

/// Calls visit(sequence, row, split) for each row of a head that the task has, as its sequence
/// counts rows.
template <class Visit>
void for_each_row(const Forest& f, const Task& task, Visit visit) {
  for (int32_t row = task.row_begin; row < task.row_end; ++row) {
    if (task.first_query < 0) {
      visit(task.sequence, row, task.split);
    } else {
      const SharedQuery& query = f.schedule.queries[task.first_query + row / f.group()];
      visit(query.sequence, query.token * f.group() + row % f.group(), query.split);
    }
  }
}

using Piece = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // keys, then states

/// Each row has each key that it sees in one task, and its states in the order of keys.
void expect_everything_once(const Forest& f) {
  std::map<std::tuple<int32_t, int32_t, int32_t>, std::vector<Piece>> found;
  for (const Task& task : f.tasks())
    for_each_row(f, task, [&](int32_t b, int32_t row, int32_t) {
      for (int32_t head = task.head; head < task.head + task.heads; ++head)
        found[{b, row, head}].emplace_back(task.key_begin, task.key_end, task.first_state,
                                           task.states);
    });
  int64_t rows = 0;
  for (int32_t b = 0; b < f.batch.size; ++b) {
    for (int32_t row = 0; row < f.new_tokens(b) * f.group(); ++row) {
      for (int32_t head = 0; head < f.problem.key.num_heads; ++head, ++rows) {
        auto& pieces = found[{b, row, head}];
        std::sort(pieces.begin(), pieces.end());
        int32_t key = 0, state = 0;
        for (const auto& [key_begin, key_end, first_state, states] : pieces) {
          ASSERT_EQ(key_begin, key);
          if (pieces.size() > 1) {
            ASSERT_EQ(first_state, state);
            ASSERT_GE(states, 1);
          }
          key = key_end;
          state += states;
        }
        ASSERT_GE(key, f.context(b) - f.new_tokens(b) + row / f.group() + 1);
      }
    }
  }
  ASSERT_EQ(static_cast<int64_t>(found.size()), rows) << "rows that do not exist";
}

/// Every split is complete, and its memory its own.
void expect_splits_complete(const Forest& f) {
  std::vector<int32_t> tasks(f.splits().size());
  for (const Task& task : f.tasks()) {
    std::set<int32_t> of_task;
    for_each_row(f, task, [&](int32_t b, int32_t row, int32_t split) {
      if (split < 0) return;
      const Task& whole = f.splits()[static_cast<size_t>(split)].whole;
      EXPECT_EQ(whole.sequence, b);
      EXPECT_LE(whole.head, task.head);
      EXPECT_GE(whole.head + whole.heads, task.head + task.heads);
      EXPECT_GE(row, whole.row_begin);
      EXPECT_LT(row, whole.row_end);
      EXPECT_LE(task.first_state + task.states, whole.states);
      of_task.insert(split);
    });
    for (const int32_t split : of_task) ++tasks[static_cast<size_t>(split)];
  }
  int64_t next = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Split& split = f.splits()[i];
    EXPECT_EQ(split.tasks, tasks[i]);
    EXPECT_EQ(split.first_byte, next);
    const int64_t rows = int64_t{split.whole.heads} * (split.whole.row_end - split.whole.row_begin);
    EXPECT_GE(split.whole.partial_bytes, rows * (f.geometry.partial_bytes / f.geometry.rows));
    next += split.whole.partial_bytes * split.whole.states;
  }
  EXPECT_EQ(next, f.size.partial_bytes);
}

void expect_within_bounds(const Forest& f) {
  EXPECT_LE(f.size.tasks, f.bounds.tasks);
  EXPECT_LE(f.size.splits, f.bounds.splits);
  EXPECT_LE(f.size.shared_queries, f.bounds.shared_queries);
  EXPECT_LE(f.size.partial_bytes, f.bounds.partial_bytes);
  for (const Task& task : f.tasks()) {
    EXPECT_LE(task.heads * (task.row_end - task.row_begin), f.geometry.rows);
    EXPECT_EQ(task.key_begin % 64, 0);
    if (task.first_query < 0) continue;
    EXPECT_EQ(task.key_begin % f.geometry.shared_cut, 0);
    EXPECT_EQ(task.key_end % f.geometry.shared_cut, 0);
    EXPECT_EQ(task.row_begin, 0);
  }
}

/// Leading entries of two rows that agree.
int32_t equal_entries(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  const auto end = std::min(a.size(), b.size());
  return static_cast<int32_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(end), b.begin()).first -
      a.begin());
}

/// How often a head's tile of 64 keys is read, by sequences that have it in the same place behind
/// the same pages: together where there are two at least, as many as fit into a task.
int64_t naive_reads(const Forest& f) {
  const int32_t fit = f.geometry.rows / f.group();
  int64_t reads = 0;
  for (int32_t b = 0; b < f.batch.size; ++b) {
    for (int32_t key = 0; key < f.context(b); key += 64) {
      int64_t queries = 0, members = 0;
      bool is_first = true;
      for (int32_t other = 0; other < f.batch.size; ++other) {
        const int32_t equal = equal_entries(f.row(b), f.row(other)) * f.problem.key.page_size;
        if (std::min({equal, f.context(b), f.context(other)}) / f.geometry.shared_cut *
                f.geometry.shared_cut <
            key + 64)
          continue;
        is_first = is_first && other >= b;
        queries += f.new_tokens(other);
        ++members;
      }
      if (members < 2) {
        ++reads;
      } else if (is_first) {
        reads += (queries + fit - 1) / fit;
      }
    }
  }
  return reads * f.problem.key.num_heads;
}

int64_t reads_of(const Forest& f) {
  int64_t reads = 0;
  for (const Task& task : f.tasks())
    reads += (task.key_end - task.key_begin + 63) / 64 * task.heads;
  return reads;
}

TEST(Cascade, every_row_meets_its_keys_once_whatever_is_shared) {
  for (uint64_t i = 0; i < 300; ++i) {
    Rng rng(test_seed() + i);
    const Forest f = random_forest(rng, {.sequences = rng.int_between(1, 20),
                                         .new_tokens = rng.int_between(1, 40),
                                         .fork_keys = 1 << rng.int_between(5, 12),
                                         .forks = rng.int_between(1, 9)});
    SCOPED_TRACE(test_seed() + i);
    expect_everything_once(f);
    expect_splits_complete(f);
    expect_within_bounds(f);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Cascade, pages_are_read_as_often_as_by_a_naive_planner) {
  int64_t shared = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    Rng rng(test_seed() + i);
    // a nest of all of them has 8 ranges, each of which is worth it; one worker divides no rows
    const Forest f = random_forest(
        rng, {.sequences = rng.int_between(2, 9), .odd_ends = false, .levels = 8, .workers = 1});
    SCOPED_TRACE(test_seed() + i);
    EXPECT_EQ(reads_of(f), naive_reads(f));
    shared += f.size.shared_queries;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(shared, 0);
}

TEST(Cascade, levels_bound_the_nest) {
  // each of 12 sequences is the one before and a span more: a nest of 11 ranges
  for (int32_t levels = 0; levels <= 8; ++levels) {
    Forest f;
    f.problem.key.num_heads = 2;
    f.problem.q_heads = 8;
    f.problem.key.page_size = 64;
    f.geometry = {
        .rows = 128, .span_keys = span_keys, .partial_bytes = 128 * 520, .shared_cut = 64};
    f.limits.parallelism = 4;
    f.limits.shared_levels = levels;
    f.offsets = {0};
    for (int32_t b = 0; b < 12; ++b) {
      f.contexts.push_back((b + 1) * span_keys);
      f.offsets.push_back(b + 1);
      std::vector<uint32_t> row(static_cast<size_t>((b + 1) * span_keys / 64));
      std::iota(row.begin(), row.end(), 0);
      f.rows.push_back(row);
    }
    f.plan();
    expect_everything_once(f);
    std::set<int32_t> ends;
    for (const Task& task : f.tasks())
      if (task.first_query >= 0) ends.insert(f.schedule.queries[task.first_query].sequence);
    EXPECT_LE(static_cast<int32_t>(ends.size()), levels);
    EXPECT_EQ(ends.empty(), levels == 0);
  }
}

}  // namespace
}  // namespace folio::inline v1
