// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/prefill_bits_test.cpp: what the prefill kernel's bits depend on, what it copies, what
/// it refuses, and how it shares a row's keys between tasks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "attention/check.h"
#include "cuda/prefill_case.h"
#include "reference/elements.h"
#include "support/part.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

CaseOptions options_of(std::vector<SequenceShape> sequences, uint64_t seed = 1) {
  CaseOptions o;
  o.sequences = std::move(sequences);
  o.q_dtype = o.key_dtype = o.value_dtype = DType::bf16;
  o.seed = seed;
  return o;
}

std::vector<std::byte> bits_of(AttentionCase& c, const PrefillRun& how) {
  const PrefillResult result = run_prefill(c, how);
  EXPECT_EQ(result.fault, "");
  return c.output_bits();
}

TEST(PrefillBits, schedules_and_grids_decide_nothing) {
  for (const float softcap : {0.0f, 3.0f}) {
    CaseOptions o = options_of({{40, 100}, {1, 20}, {33, 33}});
    o.softcap = softcap;
    AttentionCase c(o);
    const std::vector<std::byte> bits = bits_of(c, {});
    for (uint64_t seed = 2; seed < 6; ++seed) {
      const auto blocks = static_cast<int32_t>(seed);
      EXPECT_EQ(bits_of(c, {.blocks = blocks, .resident = blocks / 2, .seed = seed}), bits)
          << "seed " << seed;
    }
  }
}

TEST(PrefillBits, the_rows_beside_a_row_decide_nothing) {
  CaseOptions o = options_of({{50, 120}});
  o.reproducible = Reproducible::per_sequence;
  AttentionCase c(o);
  const std::vector<std::byte> bits = bits_of(c, {});
  for (const int32_t rows : {1, 7, 16, 40, 100})
    EXPECT_EQ(bits_of(c, {.rows = rows}), bits) << rows << " rows of a task";
}

/// Chunks of the new tokens, one after the other, each with the keys that were there.
void prefill_in_chunks(AttentionCase& c, int32_t chunk) {
  c.poison_output();
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const int32_t tokens = c.options().sequences[static_cast<size_t>(b)].new_tokens;
    const int32_t context = c.batch().context_lengths[b];
    for (int32_t first = 0; first < tokens; first += chunk) {
      const int32_t queries = std::min(chunk, tokens - first);
      Part part(c, {b, first, queries, 0, context - tokens + first + queries});
      const PrefillResult result =
          run_prefill(c, part.batch(), part.args(), {.blocks = 1, .keeps_output = true});
      ASSERT_EQ(result.fault, "");
    }
  }
}

TEST(PrefillBits, a_prefill_in_chunks_has_the_bits_of_the_whole) {
  for (const int32_t head_size : {64, 256})
    for (const bool alibi : {false, true}) {
      CaseOptions o = options_of({{45, 45}, {20, 130}});
      o.head_size = head_size;
      o.alibi = alibi;
      o.reproducible = Reproducible::per_sequence;
      AttentionCase c(o);
      const std::vector<std::byte> bits = bits_of(c, {});
      for (const int32_t chunk : {1, 17}) {
        if (chunk == 1 && head_size == 256) continue;
        prefill_in_chunks(c, chunk);
        EXPECT_EQ(c.output_bits(), bits) << "chunks of " << chunk;
      }
    }
}

TEST(PrefillBits, a_query_of_nan_spoils_no_other) {
  AttentionCase c(options_of({{20, 40}, {3, 9}}));
  bits_of(c, {});
  std::vector<double> before;
  for (int64_t row = 0; row < c.tokens(); ++row) before.push_back(c.output(row, 1, 5));
  reference::store(
      c.query_memory().data() + 7 * c.args().q.stride_bytes[0] + 1 * c.args().q.stride_bytes[1],
      DType::bf16, std::nan(""));
  bits_of(c, {});
  for (int64_t row = 0; row < c.tokens(); ++row) {
    if (row == 7)
      EXPECT_TRUE(std::isnan(c.output(row, 1, 5)));
    else
      EXPECT_EQ(c.output(row, 1, 5), before[static_cast<size_t>(row)]) << row;
  }
}

/// Rows of K (and V) that the tasks have to fetch: those that a row of the task sees, of assigned
/// pages.
int64_t rows_to_fetch(const AttentionCase& c, int32_t rows_of_task) {
  const CaseOptions& o = c.options();
  const int32_t group = o.q_heads / o.kv_heads;
  int64_t fetched = 0;
  for (int32_t b = 0; b < c.batch().size; ++b) {
    const int32_t rows = o.sequences[static_cast<size_t>(b)].new_tokens * group;
    for (int32_t first = 0; first < rows; first += rows_of_task)
      for (int32_t key = 0; key < c.batch().context_lengths[b]; ++key) {
        if (reference::slot_of(c.args().key, c.batch(), b, key).page < 0) continue;
        bool seen = false;
        for (int32_t r = first; r < std::min(rows, first + rows_of_task) && !seen; ++r)
          seen = reference::is_visible(c.problem(), c.batch(), b,
                                       c.batch().query_offsets[b] + r / group, key);
        fetched += seen ? o.kv_heads : 0;
      }
  }
  return fetched;
}

TEST(PrefillCopies, every_visible_row_comes_once_a_task_and_no_other) {
  const Mask masks[] = {Mask::causal(), Mask::sliding_window(30), Mask::sliding_window(10, 3),
                        Mask::chunked(48)};
  for (const int32_t head_size : {64, 256})
    for (const Mask& mask : masks)
      for (const TreeForm tree : {TreeForm::none, TreeForm::random}) {
        CaseOptions o = options_of({{70, 200}, {1, 65}, {30, 31}});
        o.head_size = head_size;
        o.mask = mask;
        o.tree = tree;
        o.unassigned = 0.2;
        o.page_size = 8;
        AttentionCase c(o);
        const PrefillResult result = run_prefill(c);
        ASSERT_EQ(result.fault, "");
        const int32_t rows = cuda::prefill_kernel.geometry(resolve(c.problem()).value()).rows;
        EXPECT_EQ(result.counts.copied_bytes, rows_to_fetch(c, rows) * head_size * 2 * 2)
            << describe(o);
      }
}

TEST(PrefillTiles, tiles_between_sink_tokens_and_a_window_are_not_walked) {
  CaseOptions o = options_of({{1, 2000}});
  o.q_heads = o.kv_heads = 1;
  o.mask = Mask::sliding_window(30, 3);
  AttentionCase c(o);
  const PrefillResult result = run_prefill(c, {.blocks = 1});
  ASSERT_EQ(result.fault, "");
  EXPECT_TRUE(matches_reference(c));
  EXPECT_LE(result.counts.syncs, 8);  // one a tile, of 3 tiles; all 32 would be more
}

TEST(PrefillTiles, a_warp_multiplies_no_tile_that_none_of_its_rows_sees) {
  CaseOptions o = options_of({{128, 128}});
  o.q_heads = o.kv_heads = 1;
  AttentionCase c(o);
  const PrefillResult result = run_prefill(c, {.blocks = 1});
  ASSERT_EQ(result.fault, "");
  // rows 0-31 and 32-63 see the first tile of 64 keys, 64-95 and 96-127 both
  constexpr int64_t of_tile = 2 * (32 / 16) * (64 / 8) * (64 / 16);
  EXPECT_EQ(result.counts.mma, 6 * of_tile);
}

TEST(PrefillSplits, keys_shared_between_tasks_are_right) {
  for (const int32_t head_size : {64, 128, 256})
    for (const int32_t tasks : {2, 3}) {
      CaseOptions o = options_of({{2, 2100}, {9, 40}, {1, 1025}});
      o.head_size = head_size;
      o.q_heads = 3;
      o.kv_heads = 1;
      o.sink_logits = head_size != 64;
      o.mask = head_size == 256 ? Mask::sliding_window(1200, 3) : Mask::causal();
      AttentionCase c(o);
      for (const uint64_t seed : {1u, 2u}) {
        const PrefillResult result =
            run_prefill(c, {.blocks = 4, .resident = 3, .seed = seed, .tasks_of_row = tasks});
        ASSERT_EQ(result.fault, "");
        EXPECT_GT(result.counts.atomics, 0);
        EXPECT_TRUE(matches_reference(c)) << describe(o);
      }
    }
}

TEST(PrefillSplits, the_order_of_arrival_decides_nothing) {
  CaseOptions o = options_of({{4, 3200}});
  o.q_heads = o.kv_heads = 1;
  AttentionCase c(o);
  const PrefillRun how = {.blocks = 4, .resident = 4, .seed = 1, .tasks_of_row = 4};
  const std::vector<std::byte> bits = bits_of(c, how);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    PrefillRun other = how;
    other.seed = seed;
    EXPECT_EQ(bits_of(c, other), bits) << "seed " << seed;
  }
}

TEST(PrefillSplits, a_workspace_that_nobody_prepared_is_a_fault) {
  CaseOptions o = options_of({{1, 2100}});
  o.q_heads = o.kv_heads = 1;
  AttentionCase c(o);
  for (const uint32_t arrivals : {0u, 0xffffffffu, cuda::arrivals_ready + 2}) {
    const PrefillResult result = run_prefill(c, {.tasks_of_row = 2, .arrivals = arrivals});
    EXPECT_NE(result.fault.find("workspace not prepared"), std::string::npos) << result.fault;
  }
}

/// Pages of a case, 3 GiB apart in memory that is reserved and hardly used.
class FarPages {
 public:
  static constexpr int64_t stride = int64_t{3} << 30;

  FarPages(AttentionCase& c, PagedKVView& view)
      : bytes_(view.num_pages * stride),
        map_(mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (map_ == MAP_FAILED) return;
    const int64_t page = c.options().page_size * view.slot_stride_bytes;
    for (int64_t i = 0; i < view.num_pages; ++i)
      std::memcpy(static_cast<std::byte*>(map_) + i * stride,
                  static_cast<std::byte*>(view.data) + i * view.page_stride_bytes,
                  static_cast<size_t>(page));
    view.data = map_;
    view.page_stride_bytes = stride;
  }
  ~FarPages() {
    if (is_there()) munmap(map_, static_cast<size_t>(bytes_));
  }
  FarPages(const FarPages&) = delete;
  FarPages& operator=(const FarPages&) = delete;
  [[nodiscard]] bool is_there() const { return map_ != MAP_FAILED; }

 private:
  int64_t bytes_;
  void* map_;
};

TEST(PrefillOffsets, pages_gigabytes_apart_are_found) {
  CaseOptions o = options_of({{30, 90}});
  AttentionCase c(o);
  const FarPages key(c, c.args().key), value(c, c.args().value);
  if (!key.is_there() || !value.is_there()) GTEST_SKIP() << "no room for a map of that size";
  ASSERT_EQ(run_prefill(c).fault, "");
  EXPECT_TRUE(matches_reference(c));
}

TEST(PrefillRefusals, what_the_kernel_lacks_is_refused_by_name) {
  struct Refused {
    const char* word;
    void (*break_it)(AttentionProblem& p);
  };
  const Refused all[] = {
      {"selection", [](AttentionProblem& p) { p.selection = true; }},
      {"value_in_key", [](AttentionProblem& p) { p.value_in_key = true; }},
      {"key.scales", [](AttentionProblem& p) { p.key.scales.dtype = DType::f32; }},
      {"key.dtype", [](AttentionProblem& p) { p.key.dtype = DType::f8_e4m3; }},
      {"value.dtype", [](AttentionProblem& p) { p.value.dtype = DType::i8; }},
      {"q_dtype", [](AttentionProblem& p) { p.q_dtype = DType::f32; }},
      {"out_dtype", [](AttentionProblem& p) { p.out_dtype = DType::i8; }},
      {"same type", [](AttentionProblem& p) { p.q_dtype = DType::f16; }},
      {"same type", [](AttentionProblem& p) { p.value.dtype = DType::f16; }},
      {"head_size", [](AttentionProblem& p) { p.key.head_size = 80; }},
      {"v_head_size", [](AttentionProblem& p) { p.v_head_size = p.value.head_size = 128; }},
  };
  const AttentionCase c(options_of({{1, 1}}));
  for (const Refused& one : all) {
    AttentionProblem problem = resolve(c.problem()).value();
    one.break_it(problem);
    const char* reason = unsupported(cuda::supports_prefill, problem);
    if (reason == nullptr) reason = cuda::refuse_prefill(problem);
    ASSERT_NE(reason, nullptr) << one.word;
    EXPECT_NE(std::strstr(reason, one.word), nullptr) << reason;
  }
  const AttentionProblem problem = resolve(c.problem()).value();
  EXPECT_EQ(unsupported(cuda::supports_prefill, problem), nullptr);
  EXPECT_EQ(cuda::refuse_prefill(problem), nullptr);
}

TEST(PrefillInstances, tasks_divide_keys_where_bits_may_depend_on_it) {
  const AttentionCase c(options_of({{1, 1}}));
  AttentionProblem problem = resolve(c.problem()).value();
  EXPECT_EQ(cuda::prefill_kernel.geometry(problem).span_keys, 1024);
  problem.reproducible = Reproducible::per_sequence;
  EXPECT_GE(cuda::prefill_kernel.geometry(problem).span_keys, 1 << 30);
}

TEST(PrefillInstances, an_option_beyond_masks_and_sink_logits_takes_a_general_instance) {
  const AttentionCase c(options_of({{1, 1}}));
  const AttentionProblem plain = resolve(c.problem()).value();
  EXPECT_STREQ(cuda::prefill_kernel.instance(plain), "prefill_bf16_64");
  const auto name = [&](void (*change)(AttentionProblem&)) {
    AttentionProblem problem = plain;
    change(problem);
    return std::string(cuda::prefill_kernel.instance(problem));
  };
  EXPECT_EQ(name([](AttentionProblem& p) { p.sink_logits = true; }), "prefill_bf16_64");
  EXPECT_EQ(name([](AttentionProblem& p) { p.mask = {5, 3, 48, 0}; }), "prefill_bf16_64");
  for (void (*change)(AttentionProblem&) :
       {+[](AttentionProblem& p) { p.mask.sink_tokens = 1; },
        +[](AttentionProblem& p) { p.softcap = 1.0f; },
        +[](AttentionProblem& p) { p.alibi = true; }, +[](AttentionProblem& p) { p.bias = true; },
        +[](AttentionProblem& p) { p.tree = true; },
        +[](AttentionProblem& p) { p.intervals = true; }})
    EXPECT_EQ(name(change), "prefill_bf16_64_general");
}

}  // namespace
}  // namespace folio::test
