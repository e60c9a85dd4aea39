// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/select_keys_test.cpp: lists in one pass equal score_index, select_top and remap one
/// after the other, and where scores are exact those of the definition in double.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "folio/cache/page_table.h"
#include "folio/sparse/select.h"
#include "sparse/index_case.h"
#include "support/executors.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// The lists of the scores as they are, by the reference.
std::vector<int32_t> lists_of_scores(const IndexCase& c, const std::vector<float>& scores,
                                     int32_t k) {
  std::vector<int32_t> lists;
  const int64_t keys = c.longest();
  for (int64_t row = 0; row < c.tokens(); ++row) {
    const auto first = scores.begin() + row * keys;
    const std::vector<int32_t> list =
        reference::top_of(std::vector<double>(first, first + c.context(row)), k);
    lists.insert(lists.end(), list.begin(), list.end());
  }
  return lists;
}

std::vector<int32_t> slots_of(const IndexCase& c, std::vector<int32_t> lists, int32_t k) {
  for (size_t i = 0; i < lists.size(); ++i) {
    const int32_t b = c.sequence_of(static_cast<int64_t>(i) / k);
    lists[i] = static_cast<int32_t>(
        reference::slot_number(c.batch(), b, lists[i], c.args.key.page_size, c.args.key.num_pages));
  }
  return lists;
}

TEST(SelectKeys, equals_scores_then_top_then_remap) {
  Rng rng(test_seed());
  int64_t listed = 0;
  for (int round = 0; round < 80; ++round) {
    IndexCaseOptions options = random_index_options(rng);
    const int32_t k = rng.int_between(1, 90);
    options.top = k + rng.int_between(0, 5);
    SCOPED_TRACE("k " + std::to_string(k) + ", " + describe(options.attention));
    const IndexCase c(options);
    for (const IndexKernel* kernel : index_kernels_for(c)) {
      const Index index = c.index(kernel->name, rng.int_between(1, 5));
      ShufflingExecutor threads(3, rng.next());
      const std::vector<int32_t> expected =
          lists_of_scores(c, c.scores(index, threads.executor()), k);
      ASSERT_EQ(c.lists(index, k, ListEntries::keys, threads.executor()), expected) << kernel->name;
      ASSERT_EQ(c.lists(index, k, ListEntries::slots, threads.executor()), slots_of(c, expected, k))
          << kernel->name;
      for (const int32_t key : expected) listed += key >= 0 ? 1 : 0;
    }
  }
  EXPECT_GT(listed, 5000);
}

/// Whole numbers: many ties, and no rounding to hide behind.
TEST(SelectKeys, is_exact_where_scores_are_whole_numbers) {
  Rng rng(test_seed());
  for (int round = 0; round < 40; ++round) {
    IndexCaseOptions options = random_index_options(rng);
    options.attention.key_scales = {};
    options.attention.key_turn = {};
    options.attention.sequences = {{3, 400}, {1, 2600}, {9, 65}};
    options.top = 100;
    SCOPED_TRACE(describe(options.attention));
    IndexCase c(options);
    c.make_whole();
    std::vector<int32_t> expected;
    for (int64_t row = 0; row < c.tokens(); ++row) {
      const std::vector<int32_t> list = reference::top_of(c.expected(row).score, 100);
      expected.insert(expected.end(), list.begin(), list.end());
    }
    for (const IndexKernel* kernel : index_kernels_for(c)) {
      ShufflingExecutor threads(2, rng.next());
      ASSERT_EQ(c.lists(c.index(kernel->name, rng.int_between(1, 3)), 100, ListEntries::keys,
                        threads.executor()),
                expected)
          << kernel->name;
    }
  }
}

TEST(SelectKeys, lists_the_same_whatever_the_threads_and_the_limits) {
  Rng rng(test_seed());
  IndexCaseOptions options;
  options.attention.q_heads = 4;
  options.attention.kv_heads = 1;
  options.attention.head_size = 16;
  options.attention.sequences = {{1, 20000}, {30, 3000}, {2, 9000}};
  options.attention.unassigned = 0.05;
  options.top = 2048;
  IndexCase c(options);
  c.make_whole();  // ties across every cut
  const std::vector<int32_t> alone =
      c.lists(c.index({}, 1), 2048, ListEntries::slots, serial_executor());
  for (const int32_t parallelism : {2, 3, 8, 33}) {
    ShufflingExecutor threads(4, rng.next());
    EXPECT_EQ(c.lists(c.index({}, parallelism), 2048, ListEntries::slots, threads.executor()),
              alone);
  }
}

/// The list of token `t` of a sequence by itself, of 64 keys.
std::vector<int32_t> list_of_token(const IndexCase& c, const Index& index, int32_t t) {
  const GuardedMemory workspace(index.workspace_bytes(), 64);
  const int32_t offsets[] = {0, 1}, lengths[] = {t + 1};
  Batch batch = c.batch();
  batch.query_offsets = offsets;
  batch.context_lengths = lengths;
  SelectArgs select;
  select.score = c.args;
  const auto move = [t](auto& tensor) {
    tensor.data = static_cast<const std::byte*>(tensor.data) + t * tensor.stride_bytes[0];
    tensor.extent[0] = 1;
  };
  move(select.score.q);
  move(select.score.weights);
  std::vector<int32_t> list(64);
  select.k = 64;
  select.lists = list.data();
  select.stride = 64;
  select.entries = ListEntries::keys;
  const Status status = select_keys(index, batch, select, workspace.span(), serial_executor());
  EXPECT_TRUE(status.is_ok()) << status.message();
  return list;
}

/// Whole prefill, chunks and single tokens see the same keys, and list the same.
TEST(SelectKeys, lists_the_same_in_chunks) {
  IndexCaseOptions options;
  options.attention.q_heads = 4;
  options.attention.kv_heads = 1;
  options.attention.sequences = {{300, 300}};
  options.attention.bf16_operands = true;
  const IndexCase c(options);
  for (const IndexKernel* kernel : index_kernels_for(c)) {
    const Index index = c.index(kernel->name, 2);
    const std::vector<int32_t> whole = c.lists(index, 64, ListEntries::keys, serial_executor());
    for (const int32_t t : {0, 1, 15, 16, 17, 63, 64, 150, 299}) {
      const auto first = whole.begin() + int64_t{t} * 64;
      EXPECT_EQ(list_of_token(c, index, t), std::vector<int32_t>(first, first + 64))
          << kernel->name << ", token " << t;
    }
  }
}

TEST(SelectKeys, lists_nothing_where_the_mask_hides_all) {
  IndexCaseOptions options;
  options.attention.sequences = {{5, 40}};
  options.attention.intervals = true;
  options.attention.bf16_operands = true;
  IndexCase c(options);
  const std::vector<int32_t> nothing(5, 0);
  c.attention().batch().visible_begin = nothing.data();
  c.attention().batch().visible_end = nothing.data();
  for (const IndexKernel* kernel : index_kernels_for(c))
    EXPECT_EQ(c.lists(c.index(kernel->name), 7, ListEntries::slots, serial_executor()),
              std::vector<int32_t>(35, -1));
}

/// Lists for planes whose pages are of another size and elsewhere, some not there.
TEST(SelectKeys, lists_slots_of_other_planes) {
  IndexCaseOptions options;
  options.attention.sequences = {{2, 100}, {1, 30}};
  const IndexCase c(options);
  const Index index = c.index({});
  const std::vector<int32_t> keys = c.lists(index, 20, ListEntries::keys, serial_executor());
  const uint32_t entries[] = {9, 4, 30, 1, 0, 2, 7, 5};
  const GuardedMemory workspace(index.workspace_bytes(), 64);
  std::vector<int32_t> lists(60);
  SelectArgs select;
  select.score = c.args;
  select.k = 20;
  select.lists = lists.data();
  select.stride = 20;
  select.table.entries = entries;
  select.table.row_stride = 4;
  select.page_size = 32;
  select.num_pages = 10;
  const Status status = select_keys(index, c.batch(), select, workspace.span(), serial_executor());
  ASSERT_TRUE(status.is_ok()) << status.message();
  int none = 0;
  for (size_t i = 0; i < 60; ++i) {
    const int32_t key = keys[i];
    const uint32_t page = key < 0 ? 99 : entries[(i >= 40 ? 4 : 0) + static_cast<size_t>(key) / 32];
    EXPECT_EQ(lists[i], page >= 10 ? -1 : static_cast<int32_t>(page) * 32 + key % 32);
    none += key >= 0 && page >= 10 ? 1 : 0;
  }
  EXPECT_GT(none, 0) << "of the page that is not there";
}

/// The longest lists, over fewer keys, as many, and more.
TEST(SelectKeys, takes_lists_of_the_longest_kind) {
  for (const int32_t context : {100, 4095, 4096, 4097, 9000}) {
    IndexCaseOptions options;
    options.attention.q_heads = 1;
    options.attention.kv_heads = 1;
    options.attention.head_size = 8;
    options.attention.sequences = {{1, context}};
    options.top = top_max;
    const IndexCase c(options);
    const Index index = c.index({}, 4);
    EXPECT_EQ(c.lists(index, top_max, ListEntries::keys, default_executor(2)),
              lists_of_scores(c, c.scores(index, serial_executor()), top_max));
  }
}

/// Pages further apart than 32 bits count.
TEST(SelectKeys, reads_pages_beyond_2_to_the_31_bytes) {
  constexpr int64_t stride = (int64_t{1} << 31) + 4096;
  constexpr size_t bytes = 3 * static_cast<size_t>(stride);
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "no 6 GiB of address space";
  IndexProblem problem;
  problem.key.data = map;
  problem.key.dtype = problem.q_dtype = DType::f32;
  problem.key.num_heads = problem.q_heads = 1;
  problem.key.head_size = 8;
  problem.key.page_size = 64;
  problem.key.num_pages = 3;
  problem.key.slot_stride_bytes = problem.key.head_stride_bytes = 32;
  problem.key.page_stride_bytes = stride;
  problem.has_weights = false;
  const float q[8] = {1};
  const int32_t offsets[] = {0, 1}, lengths[] = {192};
  const uint32_t entries[] = {2, 0, 1};
  for (int64_t key = 0; key < 192; ++key)  // the score of a key is its number
    *reinterpret_cast<float*>(static_cast<std::byte*>(map) + entries[key / 64] * stride +
                              key % 64 * 32) = static_cast<float>(key);
  const Index index = Index::create(problem, {1, 1, 192, 4, 1}).value();
  const GuardedMemory workspace(index.workspace_bytes(), 64);
  Batch batch;
  batch.size = 1;
  batch.query_offsets = offsets;
  batch.context_lengths = lengths;
  batch.table.entries = entries;
  int32_t list[4] = {};
  SelectArgs select;
  select.score.q = dense_tensor<3>(q, DType::f32, {1, 1, 8});
  select.score.key = problem.key;
  select.k = 4;
  select.lists = list;
  select.stride = 4;
  const Status status = select_keys(index, batch, select, workspace.span(), serial_executor());
  EXPECT_TRUE(status.is_ok()) << status.message();
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(list[i], 64 + 60 + i);
  munmap(map, bytes);
}

TEST(SelectKeys, keeps_its_lists_within_other_limits) {
  IndexCaseOptions options;
  options.attention.sequences = {{3, 5000}};
  const IndexCase c(options);
  const Index index = c.index({}, 2);
  IndexLimits wider = index.limits();
  wider.batch = 7;
  wider.tokens = 1000;
  wider.context = 1 << 20;
  wider.top = 4096;
  wider.parallelism = 5;
  const Index other = index.with_limits(wider).value();
  EXPECT_EQ(other.limits(), wider);
  EXPECT_GT(other.workspace_bytes(), index.workspace_bytes());
  EXPECT_EQ(c.lists(other, 64, ListEntries::keys, default_executor(2)),
            c.lists(index, 64, ListEntries::keys, serial_executor()));
}

}  // namespace
}  // namespace folio::test
