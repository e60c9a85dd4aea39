// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_mutants_test.cpp: what the tests compare with would see the faults that are
/// planted into the index engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cpu/features.h"
#include "cpu/index/top.h"
#include "sparse/index_case.h"
#include "sparse/index_mutants.h"

namespace folio::test {
namespace {

/// Whole numbers: lists of the definition are exact, and any other is a fault.
IndexCase sound_case() {
  IndexCaseOptions options;
  options.attention.q_heads = 7;
  options.attention.kv_heads = 1;
  options.attention.head_size = 16;
  options.attention.q_dtype = options.attention.key_dtype = DType::bf16;
  options.attention.sequences = {{6, 300}};
  options.attention.unassigned = 0.3;
  return IndexCase(options);
}

/// Lists of the best, and of all keys that there are and some more.
constexpr int32_t lengths[] = {50, 290};

/// The lists of k keys of a kernel, run as one task.
std::vector<int32_t> lists_of(const IndexKernel& kernel, const IndexCase& c, int32_t k) {
  const GuardedMemory scratch(kernel.geometry(c.problem).scratch_bytes, 64);
  const auto room = static_cast<size_t>(indexer::Top::room_for(k));
  std::vector<uint64_t> kept(6 * room), spare(room);
  std::vector<indexer::Top> tops;
  for (size_t t = 0; t < 6; ++t) tops.push_back(indexer::Top::empty(kept.data() + t * room, k));
  IndexTask task;
  task.token_end = 6;
  task.key_end = 300;
  kernel.select({&c.problem, &c.args, &c.batch()}, task, scratch.data(), tops.data(), spare.data());
  std::vector<int32_t> lists(size_t{6} * static_cast<size_t>(k));
  for (size_t t = 0; t < 6; ++t)
    indexer::write_list(tops[t], spare.data(), lists.data() + t * static_cast<size_t>(k));
  return lists;
}

std::vector<int32_t> lists_of(const IndexKernel& kernel, const IndexCase& c) {
  std::vector<int32_t> all;
  for (const int32_t k : lengths) {
    const std::vector<int32_t> lists = lists_of(kernel, c, k);
    all.insert(all.end(), lists.begin(), lists.end());
  }
  return all;
}

std::vector<int32_t> lists_by_definition(IndexCase& c) {
  std::vector<int32_t> all;
  for (const int32_t k : lengths) {
    for (int64_t row = 0; row < 6; ++row) {
      const std::vector<int32_t> list = reference::top_of(c.expected(row).score, k);
      all.insert(all.end(), list.begin(), list.end());
    }
  }
  return all;
}

class IndexMutants : public ::testing::TestWithParam<IndexMutantEngine (*)()> {};

TEST_P(IndexMutants, are_seen_and_the_sound_engine_is_not) {
  const IndexMutantEngine engine = GetParam()();
  if (!machine_has(engine.kernel.needs)) GTEST_SKIP() << "this machine lacks the instructions";
  IndexCase c = sound_case();
  c.make_whole();
  const std::vector<int32_t> expected = lists_by_definition(c);
  EXPECT_EQ(lists_of(engine.kernel, c), expected);
  for (const IndexMutant mutant : {IndexMutant::relu_ignored, IndexMutant::weight_of_next_head,
                                   IndexMutant::mask_of_first_query, IndexMutant::dead_keys_kept,
                                   IndexMutant::tile_end_left_out}) {
    *engine.mutant = mutant;
    EXPECT_NE(lists_of(engine.kernel, c), expected) << static_cast<int>(mutant);
  }
  *engine.mutant = IndexMutant::none;
  EXPECT_EQ(lists_of(engine.kernel, c), expected);
}

#ifdef FOLIO_TEST_BF16_MUTANTS
INSTANTIATE_TEST_SUITE_P(Engines, IndexMutants,
                         ::testing::Values(portable_index_mutants, avx512_index_mutants,
                                           amx_index_mutants));
#else
INSTANTIATE_TEST_SUITE_P(Engines, IndexMutants, ::testing::Values(portable_index_mutants));
#endif

}  // namespace
}  // namespace folio::test
