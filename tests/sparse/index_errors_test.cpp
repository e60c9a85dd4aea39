// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/index_errors_test.cpp: broken indexers and calls are refused by the name of what is
/// broken, and nothing is written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "folio/sparse/index.h"
#include "folio/sparse/select.h"
#include "kernel/index_kernel.h"
#include "sparse/kernel_list.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

PagedKVView key_view(void* data, int64_t pages) {
  PagedKVView key;
  key.data = data;
  key.dtype = DType::f32;
  key.num_heads = 1;
  key.head_size = 8;
  key.page_size = 16;
  key.num_pages = pages;
  key.slot_stride_bytes = key.head_stride_bytes = 32;
  key.page_stride_bytes = 512;
  return key;
}

IndexProblem sound_problem() {
  IndexProblem problem;
  problem.key = key_view(nullptr, 0);
  problem.q_heads = 2;
  problem.q_dtype = DType::f32;
  return problem;
}

struct CreateCall {
  IndexProblem problem = sound_problem();
  IndexLimits limits = {2, 4, 100, 16, 1};
  Device device = {};
  std::string kernel;
  Status run() {
    const Result<Index> index = Index::create(problem, limits, device, kernel);
    return index ? Status() : index.error();
  }
  [[nodiscard]] std::vector<std::byte> written() const { return {}; }
};

TEST(IndexErrors, create_names_what_is_broken) {
  using B = Broken<CreateCall>;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused<CreateCall>(
      "Index::create",
      {
          B{"key.dtype",
            [](CreateCall& c) { c.problem.key.dtype = DType::invalid; },
            {"key.dtype"}},
          B{"key.num_heads", [](CreateCall& c) { c.problem.key.num_heads = 0; }, {"num_heads"}},
          B{"key.head_size", [](CreateCall& c) { c.problem.key.head_size = 0; }, {"head_size"}},
          B{"key.page_size", [](CreateCall& c) { c.problem.key.page_size = -4; }, {"page_size"}},
          B{"key.slot_stride",
            [](CreateCall& c) { c.problem.key.slot_stride_bytes = 33; },
            {"slot_stride_bytes is 33"}},
          B{"key.page_stride",
            [](CreateCall& c) { c.problem.key.page_stride_bytes = int64_t{1} << 60; },
            {"page_stride_bytes", "2^56"}},
          B{"key.hadamard", [](CreateCall& c) { c.problem.key.hadamard.block = 16; }, {"hadamard"}},
          B{"key.scales",
            [](CreateCall& c) {
              c.problem.key.scales.dtype = DType::f32;
              c.problem.key.scales.granularity = 0;
            },
            {"key.scales.granularity"}},
          B{"q_heads", [](CreateCall& c) { c.problem.q_heads = 0; }, {"q_heads is 0"}},
          B{"q_heads and heads of K",
            [](CreateCall& c) {
              c.problem.key.num_heads = 2;
              c.problem.q_heads = 3;
            },
            {"q_heads is 3", "multiple of key.num_heads = 2"}},
          B{"q_dtype", [](CreateCall& c) { c.problem.q_dtype = DType::i8; }, {"q_dtype is i8"}},
          B{"weight_dtype",
            [](CreateCall& c) { c.problem.weight_dtype = DType::invalid; },
            {"weight_dtype"}},
          B{"mask", [](CreateCall& c) { c.problem.mask.left = -2; }, {"mask.left is -2"}},
          B{"scale", [](CreateCall& c) { c.problem.scale = nan; }, {"scale"}},
          B{"block_keys", [](CreateCall& c) { c.problem.block_keys = 0; }, {"block_keys is 0"}},
          B{"lists",
            [](CreateCall& c) { c.problem.lists = static_cast<IndexLists>(9); },
            {"lists is 9"}},
          B{"limits.batch", [](CreateCall& c) { c.limits.batch = 0; }, {"limits.batch is 0"}},
          B{"limits.tokens", [](CreateCall& c) { c.limits.tokens = 0; }, {"limits.tokens is 0"}},
          B{"limits.tokens times heads",
            [](CreateCall& c) { c.limits.tokens = INT32_MAX; },
            {"limits.tokens", "1073741823"}},
          B{"limits.context", [](CreateCall& c) { c.limits.context = 0; }, {"limits.context is 0"}},
          B{"limits.top 0", [](CreateCall& c) { c.limits.top = 0; }, {"limits.top is 0"}},
          B{"limits.top", [](CreateCall& c) { c.limits.top = 4097; }, {"limits.top is 4097"}},
          B{"limits.parallelism",
            [](CreateCall& c) { c.limits.parallelism = -1; },
            {"limits.parallelism is -1"}},
          B{"limits.parallelism large",
            [](CreateCall& c) { c.limits.parallelism = 16385; },
            {"limits.parallelism is 16385"}},
          B{"kernel", [](CreateCall& c) { c.kernel = "index_none"; }, {"\"index_none\""}},
      });
}

/// Sound, and served by no kernel.
TEST(IndexErrors, create_names_what_no_kernel_does) {
  const struct {
    const char* word;
    void (*ask)(IndexProblem&);
  } table[] = {{"lists", [](IndexProblem& p) { p.lists = IndexLists::per_head; }},
               {"block_keys", [](IndexProblem& p) { p.block_keys = 128; }},
               {"head_size",
                [](IndexProblem& p) {
                  p.key.head_size = 4;
                  p.key.head_stride_bytes = 16;
                }},
               {"key.dtype", [](IndexProblem& p) { p.key.dtype = DType::f8_e8m0; }}};
  for (const auto& row : table) {
    IndexProblem problem = sound_problem();
    row.ask(problem);
    const Result<Index> index = Index::create(problem, {1, 1, 1, 1, 1});
    ASSERT_FALSE(index) << row.word;
    EXPECT_EQ(index.error().code(), Errc::unsupported) << row.word;
    EXPECT_NE(index.error().message().find(row.word), std::string_view::npos)
        << index.error().message();
    ASSERT_NE(refuse(problem), nullptr);
    EXPECT_NE(std::string_view(refuse(problem)).find(row.word), std::string_view::npos);
  }
  EXPECT_EQ(refuse(sound_problem()), nullptr);
  EXPECT_NE(refuse(sound_problem(), {Device::Kind::cuda, 0}), nullptr);
  EXPECT_FALSE(Index::create(sound_problem(), {1, 1, 1, 1, 1}, {Device::Kind::cuda, 0}));
}

TEST(IndexErrors, an_empty_index_is_refused_by_every_call) {
  const Index empty;
  EXPECT_EQ(empty.kernel(), "");
  EXPECT_EQ(empty.with_limits({}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(score_index(empty, {}, {}, 0, {}, {}, serial_executor()).code(),
            Errc::invalid_argument);
  EXPECT_EQ(select_keys(empty, {}, {}, {}, serial_executor()).code(), Errc::invalid_argument);
}

TEST(IndexErrors, the_widest_limits_are_counted_without_overflow) {
  IndexProblem problem = sound_problem();
  problem.q_heads = 65536;
  problem.key.num_heads = 65536;
  problem.key.head_size = 576;
  problem.key.head_stride_bytes = 576 * 4;
  const IndexLimits limits = {INT32_MAX - 1, INT32_MAX / 65536, INT32_MAX, 4096, 16384};
  const Result<Index> index = Index::create(problem, limits);
  ASSERT_TRUE(index) << index.error().message();
  EXPECT_GT(index->workspace_bytes(), int64_t{16384} * 65536 * 576 * 4);
  EXPECT_LT(index->workspace_bytes(), int64_t{1} << 56);
}

/// What score_index and select_keys share.
struct World {
  std::vector<float> key_memory = std::vector<float>(3 * 128, 0.5f), q = std::vector<float>(48, 1),
                     weights = std::vector<float>(6, 1);
  std::vector<int32_t> offsets = {0, 1, 3}, lengths = {20, 40}, begin = {0, 0, 0}, end = {9, 9, 9};
  std::vector<uint32_t> entries = {1, 2, 0, 0, 1, 2};
  std::vector<uint64_t> tree = {1, 1, 1};
  Batch batch = {};
  ScoreArgs args = {};
  Index index = Index::create(sound_problem(), {2, 4, 100, 16, 2}).value();
  GuardedMemory memory = GuardedMemory(index.workspace_bytes(), 64);
  MemorySpan workspace = memory.span();
  Executor executor = serial_executor();

  World() {
    batch.size = 2;
    batch.query_offsets = offsets.data();
    batch.context_lengths = lengths.data();
    batch.table.entries = entries.data();
    batch.table.row_stride = 3;
    args.q = {q.data(), DType::f32, {3, 2, 8}, {64, 32, 4}};
    args.weights = {weights.data(), DType::f32, {3, 2}, {8, 4}};
    args.key = key_view(key_memory.data(), 3);
  }
  /// Another problem, and limits as they are.
  void ask(void (*change)(IndexProblem&)) {
    IndexProblem problem = sound_problem();
    change(problem);
    index = Index::create(problem, index.limits()).value();
    memory = GuardedMemory(index.workspace_bytes(), 64);
    workspace = memory.span();
  }
};

struct ScoreCall : World {
  std::vector<float> out = std::vector<float>(120, 7.0f);
  AnyTensor<2> scores = {out.data(), DType::f32, {3, 40}, {160, 4}};
  int32_t first_key = 0;
  Status run() { return score_index(index, batch, args, first_key, scores, workspace, executor); }
  [[nodiscard]] std::vector<std::byte> written() const {
    const auto* const at = reinterpret_cast<const std::byte*>(out.data());
    return {at, at + out.size() * sizeof(float)};
  }
};

struct SelectCall : World {
  std::vector<int32_t> lists = std::vector<int32_t>(12, 99);
  SelectArgs select = {};
  SelectCall() {
    select.k = 4;
    select.lists = lists.data();
    select.stride = 4;
  }
  Status run() {
    select.score = args;
    return select_keys(index, batch, select, workspace, executor);
  }
  [[nodiscard]] std::vector<std::byte> written() const {
    const auto* const at = reinterpret_cast<const std::byte*>(lists.data());
    return {at, at + lists.size() * sizeof(int32_t)};
  }
};

template <class Call>
std::vector<Broken<Call>> shared_mistakes() {
  using B = Broken<Call>;
  return {
      B{"batch.size negative", [](Call& c) { c.batch.size = -1; }, {"batch.size is -1"}},
      B{"batch.size beyond limits",
        [](Call& c) {
          c.index = c.index.with_limits({1, 4, 100, 16, 2}).value();
        },
        {"batch.size is 2", "limits.batch = 1"}},
      B{"offsets null", [](Call& c) { c.batch.query_offsets = nullptr; }, {"query_offsets"}},
      B{"offsets descend", [](Call& c) { c.offsets[1] = 5; }, {"query_offsets[2]"}},
      B{"tokens beyond limits",
        [](Call& c) {
          c.index = c.index.with_limits({2, 2, 100, 16, 2}).value();
        },
        {"query_offsets[2] is 3", "limits.tokens = 2"}},
      B{"lengths null", [](Call& c) { c.batch.context_lengths = nullptr; }, {"context_lengths"}},
      B{"length beyond limits",
        [](Call& c) { c.lengths[1] = 101; },
        {"context_lengths[1] is 101", "limits.context"}},
      B{"length negative", [](Call& c) { c.lengths[0] = -1; }, {"context_lengths[0] is -1"}},
      B{"table null", [](Call& c) { c.batch.table.entries = nullptr; }, {"table.entries"}},
      B{"table stride", [](Call& c) { c.batch.table.row_stride = -1; }, {"row_stride is -1"}},
      B{"tree",
        [](Call& c) { c.batch.tree = c.tree.data(); },
        {"batch.tree", "unsupported"},
        Errc::unsupported},
      B{"visible_begin unasked for",
        [](Call& c) { c.batch.visible_begin = c.begin.data(); },
        {"visible_begin is given"}},
      B{"visible_end missing",
        [](Call& c) {
          c.ask([](IndexProblem& p) { p.intervals = true; });
          c.batch.visible_begin = c.begin.data();
        },
        {"visible_end is null"}},
      B{"q null", [](Call& c) { c.args.q.data = nullptr; }, {"q"}},
      B{"q dtype", [](Call& c) { c.args.q.dtype = DType::bf16; }, {"q has dtype bf16"}},
      B{"q heads", [](Call& c) { c.args.q.extent[1] = 3; }, {"q has shape [3, 3, 8]"}},
      B{"q tokens", [](Call& c) { c.args.q.extent[0] = 2; }, {"q has shape [2, 2, 8]"}},
      B{"q stride", [](Call& c) { c.args.q.stride_bytes[1] = 30; }, {"stride_bytes[1] is 30"}},
      B{"weights null", [](Call& c) { c.args.weights.data = nullptr; }, {"weights"}},
      B{"weights dtype",
        [](Call& c) { c.args.weights.dtype = DType::f16; },
        {"weights has dtype f16"}},
      B{"weights shape",
        [](Call& c) { c.args.weights.extent[1] = 1; },
        {"weights has shape [3, 1]", "[3, 2]"}},
      B{"weights unasked for",
        [](Call& c) { c.ask([](IndexProblem& p) { p.has_weights = false; }); },
        {"weights is given"}},
      B{"key null", [](Call& c) { c.args.key.data = nullptr; }, {"key.data is null"}},
      B{"key dtype", [](Call& c) { c.args.key.dtype = DType::bf16; }, {"key has dtype bf16"}},
      B{"key head_size", [](Call& c) { c.args.key.head_size = 16; }, {"key.head_size is 16"}},
      B{"key page_size", [](Call& c) { c.args.key.page_size = 8; }, {"key.page_size is 8"}},
      B{"key num_heads", [](Call& c) { c.args.key.num_heads = 2; }, {"key.num_heads is 2"}},
      B{"key scales",
        [](Call& c) { c.args.key.scales.dtype = DType::f32; },
        {"key.scales.dtype is f32"}},
      B{"key stride",
        [](Call& c) { c.args.key.page_stride_bytes = int64_t{1} << 58; },
        {"key.page_stride_bytes", "2^56"}},
      B{"workspace small", [](Call& c) { --c.workspace.bytes; }, {"workspace"}},
      B{"workspace null", [](Call& c) { c.workspace.data = nullptr; }, {"workspace"}},
      B{"workspace misaligned",
        [](Call& c) { c.workspace.data = static_cast<std::byte*>(c.workspace.data) + 32; },
        {"workspace"}},
      B{"executor", [](Call& c) { c.executor = {}; }, {"executor"}},
  };
}

TEST(ScoreIndexErrors, name_what_is_broken) {
  using B = Broken<ScoreCall>;
  std::vector<B> table = shared_mistakes<ScoreCall>();
  const std::vector<B> own = {
      B{"scores null", [](ScoreCall& c) { c.scores.data = nullptr; }, {"scores.data is null"}},
      B{"scores dtype",
        [](ScoreCall& c) { c.scores.dtype = DType::f16; },
        {"scores has dtype f16"}},
      B{"scores tokens", [](ScoreCall& c) { c.scores.extent[0] = 4; }, {"scores has shape"}},
      B{"scores keys", [](ScoreCall& c) { c.scores.extent[1] = -1; }, {"-1 keys"}},
      B{"scores rows share bytes",
        [](ScoreCall& c) { c.scores.stride_bytes[0] = 156; },
        {"scores.stride_bytes[0] is 156", "160"}},
      B{"scores stride 0",
        [](ScoreCall& c) { c.scores.stride_bytes[0] = 0; },
        {"scores.stride_bytes[0] is 0"}},
      B{"first_key", [](ScoreCall& c) { c.first_key = -1; }, {"first_key is -1"}},
      B{"first_key beyond int32",
        [](ScoreCall& c) { c.first_key = INT32_MAX - 39; },
        {"first_key = 2147483608"}},
  };
  table.insert(table.end(), own.begin(), own.end());
  expect_refused<ScoreCall>("score_index", table);
}

TEST(SelectKeysErrors, name_what_is_broken) {
  using B = Broken<SelectCall>;
  std::vector<B> table = shared_mistakes<SelectCall>();
  const std::vector<B> own = {
      B{"k 0", [](SelectCall& c) { c.select.k = 0; }, {"k is 0"}},
      B{"k beyond limits",
        [](SelectCall& c) { c.select.k = 17; },
        {"k is 17", "1 to 16 (limits.top)"}},
      B{"stride", [](SelectCall& c) { c.select.stride = 3; }, {"stride is 3", "at least 4"}},
      B{"lists null", [](SelectCall& c) { c.select.lists = nullptr; }, {"lists is null"}},
      B{"lists misaligned",
        [](SelectCall& c) {
          c.select.lists = reinterpret_cast<int32_t*>(reinterpret_cast<std::byte*>(c.lists.data()) +
                                                      1);  // never written
        },
        {"lists is not aligned"}},
      B{"entries",
        [](SelectCall& c) { c.select.entries = static_cast<ListEntries>(2); },
        {"entries is 2"}},
      B{"page_size", [](SelectCall& c) { c.select.page_size = -1; }, {"page_size is -1"}},
      B{"num_pages",
        [](SelectCall& c) {
          c.select.page_size = 16;
          c.select.num_pages = (int64_t{1} << 27) + 1;
        },
        {"num_pages is 134217729"}},
      B{"table of the lists",
        [](SelectCall& c) {
          c.select.page_size = 16;
          c.select.num_pages = 3;
        },
        {"table.entries is null"}},
      B{"slots of the index cache beyond int32",
        [](SelectCall& c) { c.args.key.num_pages = (int64_t{1} << 27) + 1; },
        {"num_pages is 134217729"}},
  };
  table.insert(table.end(), own.begin(), own.end());
  expect_refused<SelectCall>("select_keys", table);
}

TEST(IndexErrors, batches_of_nothing_need_no_arrays) {
  ScoreCall score;
  score.batch = {};
  score.args.q = {nullptr, DType::f32, {0, 2, 8}, {64, 32, 4}};
  score.args.weights = {nullptr, DType::f32, {0, 2}, {8, 4}};
  score.scores = {nullptr, DType::f32, {0, 40}, {160, 4}};
  EXPECT_TRUE(score.run().is_ok()) << score.run().message();
  SelectCall select;
  select.batch = {};
  select.args.q = score.args.q;
  select.args.weights = score.args.weights;
  select.select.lists = nullptr;
  EXPECT_TRUE(select.run().is_ok()) << select.run().message();
}

TEST(IndexErrors, an_executor_that_leaves_out_tasks_is_told) {
  const auto idle = [](World& world) {
    world.executor.concurrency = [](void*) { return 2; };
    world.executor.parallel_for = [](void*, int64_t, void (*)(void*, int64_t) noexcept, void*) {};
  };
  ScoreCall score;
  idle(score);
  EXPECT_EQ(score.run().code(), Errc::internal);
  SelectCall select;
  idle(select);
  EXPECT_EQ(select.run().code(), Errc::internal);
}

/// Runs in a child process that has asked for nothing yet.
void check_forced(const char* value, Errc expected) {
  setenv("FOLIO_FORCE_INDEX_KERNEL", value, 1);
  setenv("FOLIO_FORCE_KERNEL", "attention_paged_any_x86_64", 1);  // says nothing of index kernels
  const Result<Index> index = Index::create(sound_problem(), {2, 4, 100, 16, 1});
  const bool right = expected == Errc::ok ? index.has_value() && index->kernel() == value
                                          : !index.has_value() && index.error().code() == expected;
  std::_Exit(right ? 0 : 1);
}

TEST(ForcedIndexKernelDeathTest, the_variable_chooses_by_name) {
  EXPECT_EXIT(check_forced("index_any_x86_64", Errc::ok), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(check_forced("no_such_kernel", Errc::invalid_argument), ::testing::ExitedWithCode(0),
              "");
}

}  // namespace
}  // namespace folio::test
