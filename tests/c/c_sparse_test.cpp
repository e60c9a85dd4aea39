// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_sparse_test.cpp: sparse attention through the C interface: on random problems the
/// bits of the C++ calls; what structs of zeros and of older callers say.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "c/sparse_to_c.h"
#include "sparse/index_case.h"
#include "sparse/page_case.h"
#include "support/executors.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// An Index of the case through C, with workspace for it.
struct CIndexCase {
  CIndexCase(const IndexCase& c, const Index& own) : batch(to_c(c.batch())), args(c.args) {
    const CIndexProblem problem(c.problem);
    const folio_index_limits limits = to_c(own.limits());
    folio_index* made = nullptr;
    EXPECT_EQ(folio_create_index(&problem.problem, &limits, FOLIO_CPU, 0,
                                 std::string(own.kernel()).c_str(), &made, &message),
              FOLIO_OK)
        << message.text;
    index.reset(made);
    workspace = GuardedMemory(folio_get_index_workspace_bytes(made), 64);
  }
  void score(int32_t first_key, const AnyTensor<2>& scores, const folio_executor* executor) {
    const folio_matrix to = to_c(ConstTensor<2>(scores));
    EXPECT_EQ(folio_score_index(index.get(), &batch, &args.args, first_key, &to, workspace.data(),
                                workspace.bytes(), executor, &message),
              FOLIO_OK)
        << message.text;
  }
  void select(const SelectArgs& select, const folio_executor* executor) {
    const CSelectArgs to(select);
    EXPECT_EQ(folio_select_keys(index.get(), &batch, &to.args, workspace.data(), workspace.bytes(),
                                executor, &message),
              FOLIO_OK)
        << message.text;
  }

  folio_batch batch;
  CScoreArgs args;
  IndexHandle index;
  GuardedMemory workspace;
  folio_message message = {};
};

/// Three rows of pages that are not those of the index cache.
struct OtherPages {
  explicit OtherPages(const IndexCase& c) {
    const int32_t row = c.longest() / page_size + 1;
    for (int32_t i = 0; i < row * c.batch().size; ++i)
      entries.push_back(static_cast<uint32_t>(row * c.batch().size - 1 - i));
    starts.resize(static_cast<size_t>(c.batch().size));
    for (size_t b = 0; b < starts.size(); ++b) starts[b] = static_cast<int64_t>(b) * row;
  }
  void say(SelectArgs& args) const {
    args.table = {entries.data(), 0, starts.data()};
    args.page_size = page_size;
    args.num_pages = std::ssize(entries);
  }
  static constexpr int32_t page_size = 5;
  std::vector<uint32_t> entries;
  std::vector<int64_t> starts;
};

std::vector<int32_t> lists_of(const IndexCase& c, const Index& index, SelectArgs args,
                              CIndexCase* through_c, const folio_executor* executor) {
  std::vector<int32_t> lists(static_cast<size_t>(c.tokens() * args.stride) + 1, -7);
  args.lists = lists.data();
  if (through_c != nullptr) {
    through_c->select(args, executor);
    return lists;
  }
  const GuardedMemory workspace(index.workspace_bytes(), 64);
  const Status status = select_keys(index, c.batch(), args, workspace.span(), serial_executor());
  EXPECT_TRUE(status.is_ok()) << status.message();
  return lists;
}

TEST(CSparse, an_indexer_gives_the_scores_and_lists_of_the_cpp_calls) {
  Rng rng(test_seed());
  size_t listed = 0;
  for (int round = 0; round < 40; ++round) {
    const IndexCaseOptions options = random_index_options(rng);
    SCOPED_TRACE(describe(options.attention));
    const IndexCase c(options);
    const std::vector<const IndexKernel*> kernels = index_kernels_for(c);
    const Index index = c.index(rng.pick(kernels)->name, rng.int_between(1, 3));
    CIndexCase through_c(c, index);
    ASSERT_NE(through_c.index, nullptr);
    EXPECT_EQ(folio_get_index_kernel(through_c.index.get()), index.kernel());
    EXPECT_EQ(folio_get_index_workspace_bytes(through_c.index.get()), index.workspace_bytes());
    ShufflingExecutor threads(2, rng.next());
    const Executor own = threads.executor();
    const folio_executor callers = to_c(own);
    const folio_executor* const executor = rng.chance(0.5) ? &callers : nullptr;

    const std::vector<float> expected = c.scores(index, serial_executor());
    const int32_t first = c.longest() / 3, keys = c.longest() - first;
    std::vector<float> scores(static_cast<size_t>(c.tokens() * keys) + 1, -7.0f);
    through_c.score(first, dense_tensor<2>(scores.data(), DType::f32, {c.tokens(), keys}),
                    executor);
    for (int64_t t = 0; t < c.tokens() && keys > 0; ++t)
      ASSERT_EQ(std::memcmp(scores.data() + t * keys, expected.data() + t * c.longest() + first,
                            static_cast<size_t>(keys) * sizeof(float)),
                0)
          << t;

    SelectArgs args;
    args.score = c.args;
    args.k = rng.int_between(1, options.top);
    args.stride = args.k + rng.between(0, 2);
    args.entries = rng.chance(0.3) ? ListEntries::keys : ListEntries::slots;
    const OtherPages pages(c);
    if (rng.chance(0.5)) pages.say(args);
    const std::vector<int32_t> lists = lists_of(c, index, args, nullptr, nullptr);
    ASSERT_EQ(lists_of(c, index, args, &through_c, executor), lists);
    for (const int32_t entry : lists) listed += entry >= 0 ? 1 : 0;
  }
  EXPECT_GT(listed, 1000u);
}

TEST(CSparse, other_limits_are_those_of_a_handle_of_its_own) {
  const IndexCase c(IndexCaseOptions{});
  const Index index = c.index("", 1);
  IndexLimits wider = index.limits();
  wider.top = 2 * index.limits().top;
  wider.parallelism = 3;
  const folio_index_limits limits = to_c(wider);
  folio_index* made = nullptr;
  {
    const CIndexCase first(c, index);
    ASSERT_EQ(folio_index_with_limits(first.index.get(), &limits, &made, nullptr), FOLIO_OK);
  }
  CIndexCase second(c, index);
  second.index.reset(made);
  second.workspace = GuardedMemory(folio_get_index_workspace_bytes(made), 64);
  const Index own = index.with_limits(wider).value();
  EXPECT_EQ(folio_get_index_workspace_bytes(made), own.workspace_bytes());
  EXPECT_EQ(folio_get_index_kernel(made), own.kernel());
  SelectArgs args;
  args.score = c.args;
  args.k = wider.top;
  args.stride = args.k;
  EXPECT_EQ(lists_of(c, own, args, &second, nullptr), lists_of(c, own, args, nullptr, nullptr));
}

/// A struct that a caller clears, or of which he has the front alone, asks for the same.
TEST(CSparse, zeros_of_a_problem_are_the_defaults) {
  IndexCaseOptions options;
  options.attention.mask = Mask::causal();
  const IndexCase c(options);
  const Index index = c.index("", 1);
  CIndexProblem problem(c.problem);
  problem.problem.struct_size = offsetof(folio_index_problem, options);
  problem.problem.weight_dtype = 0;
  problem.problem.options = 77;
  folio_index_limits limits = to_c(index.limits());
  limits.top = 0;
  folio_index* made = nullptr;
  folio_message message = {};
  ASSERT_EQ(folio_create_index(&problem.problem, &limits, FOLIO_CPU, 0, nullptr, &made, &message),
            FOLIO_OK)
      << message.text;
  CIndexCase through_c(c, index);
  through_c.index.reset(made);
  through_c.workspace = GuardedMemory(folio_get_index_workspace_bytes(made), 64);
  IndexLimits wide = index.limits();
  wide.top = IndexLimits().top;
  EXPECT_EQ(folio_get_index_workspace_bytes(made), index.with_limits(wide)->workspace_bytes());
  const std::vector<float> expected = c.scores(index, serial_executor());
  std::vector<float> scores(expected.size());
  through_c.score(0, dense_tensor<2>(scores.data(), DType::f32, {c.tokens(), c.longest()}),
                  nullptr);
  EXPECT_EQ(std::memcmp(scores.data(), expected.data(), scores.size() * sizeof(float)), 0);
}

TEST(CSparse, refuse_is_that_of_cpp) {
  const IndexCase c(IndexCaseOptions{});
  CIndexProblem problem(c.problem);
  EXPECT_EQ(folio_refuse_index(&problem.problem, FOLIO_CPU, 0), nullptr);
  IndexProblem blocks = c.problem;
  blocks.block_keys = 128;
  problem.problem.block_keys = 128;
  EXPECT_STREQ(folio_refuse_index(&problem.problem, FOLIO_CPU, 0), refuse(blocks));
  EXPECT_NE(folio_refuse_index(&problem.problem, FOLIO_CUDA, 0), nullptr);
  EXPECT_NE(folio_refuse_index(&problem.problem, 7, 0), nullptr);
  EXPECT_NE(folio_refuse_index(nullptr, FOLIO_CPU, 0), nullptr);
}

TEST(CSparse, the_greatest_scores_are_listed_and_become_slots) {
  Rng rng(test_seed());
  for (int round = 0; round < 30; ++round) {
    const IndexCase c(random_index_options(rng));
    const int64_t keys = c.longest() + rng.between(1, 3);
    std::vector<float> scores(static_cast<size_t>((c.tokens() + 1) * keys));
    for (float& x : scores) x = static_cast<float>(rng.int_between(-20, 20));
    std::vector<int32_t> lengths;
    for (int64_t t = 0; t < c.tokens(); ++t) lengths.push_back(c.context(t));
    TopArgs own;
    own.scores = dense_tensor<2>(scores.data(), DType::f32, {c.tokens(), keys});
    own.lengths = lengths.data();
    own.k = rng.int_between(1, 50);
    own.stride = own.k + rng.between(0, 2);
    const auto size = static_cast<size_t>(c.tokens() * own.stride) + 1;
    std::vector<int32_t> expected(size, -7), lists(size, -7);
    own.indices = expected.data();
    const GuardedMemory workspace(select_top_bytes(own.k, 2), 64);
    ASSERT_EQ(folio_get_select_top_bytes(own.k, 2), workspace.bytes());
    ASSERT_TRUE(select_top(own, workspace.span(), serial_executor()).is_ok());
    const folio_matrix matrix = to_c(own.scores);
    const folio_top_args args = {sizeof args, own.k,        &matrix,
                                 own.lengths, lists.data(), own.stride};
    folio_message message = {};
    ASSERT_EQ(folio_select_top(&args, workspace.data(), workspace.bytes(), nullptr, &message),
              FOLIO_OK)
        << message.text;
    ASSERT_EQ(lists, expected);

    const RemapArgs slots{expected.data(),      own.stride,      own.k,     c.args.key.page_size,
                          c.args.key.num_pages, expected.data(), own.stride};
    ASSERT_TRUE(remap(c.batch(), slots, serial_executor()).is_ok());
    auto remapped = c_struct<folio_remap_args>();
    remapped.count = own.k;
    remapped.indices = remapped.slots = lists.data();
    remapped.stride = remapped.slots_stride = own.stride;
    remapped.page_size = slots.page_size;
    remapped.num_pages = slots.num_pages;
    const folio_batch batch = to_c(c.batch());
    ASSERT_EQ(folio_remap(&batch, &remapped, nullptr, &message), FOLIO_OK) << message.text;
    ASSERT_EQ(lists, expected);
  }
}

TEST(CSparse, pages_are_chosen_as_in_cpp) {
  Rng rng(test_seed());
  size_t listed = 0;
  for (int round = 0; round < 60; ++round) {
    PageCase c(rng, {.is_exact = rng.chance(0.5)});
    c.select(serial_executor(), 1);
    const std::vector<int32_t> expected = c.selected;
    const std::vector<float> missed = c.missed;
    std::fill(c.selected.begin(), c.selected.end(), -7);
    std::fill(c.missed.begin(), c.missed.end(), -7.0f);
    const CPageArgs args(c.args);
    const folio_batch batch = to_c(c.batch);
    int32_t longest = 0;
    for (int32_t b = 0; b < c.batch.size; ++b)
      longest = std::max(longest, c.batch.context_lengths[b]);
    const int64_t bytes = folio_get_select_pages_bytes(&args.args, longest, 2);
    ASSERT_EQ(bytes, select_pages_bytes(c.args, longest, 2));
    const GuardedMemory workspace(bytes, 64);
    folio_message message = {};
    ASSERT_EQ(folio_select_pages(&batch, &args.args, workspace.data(), bytes, nullptr, &message),
              FOLIO_OK)
        << message.text;
    ASSERT_EQ(c.selected, expected);
    ASSERT_TRUE(missed.empty() ||
                std::memcmp(c.missed.data(), missed.data(), missed.size() * sizeof(float)) == 0);
    for (const int32_t slot : expected) listed += slot >= 0 ? 1 : 0;
  }
  EXPECT_GT(listed, 1000u);
}

TEST(CSparse, zeros_of_page_args_are_the_defaults) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    PageCase c(rng, {.windows = false});
    c.args.first_pages = c.args.last_pages = 1;
    c.args.lists = PageLists::per_query;
    c.args.score = PageScore::greatest;
    c.args.scale = 0.0f;
    c.args.k_pages = 3;
    c.args.stride = c.count();
    c.select(serial_executor(), 1);
    const std::vector<int32_t> expected = c.selected;
    std::fill(c.selected.begin(), c.selected.end(), -7);
    const CPageArgs whole(c.args);
    folio_page_args args = {};
    args.struct_size = sizeof args;
    args.mask_left = -1;
    args.page_size = c.args.page_size;
    args.q = &whole.q;
    args.summaries = &whole.summaries.summaries;
    args.k_pages = 3;
    args.selected = c.selected.data();
    args.stride = c.args.stride;
    const folio_batch batch = to_c(c.batch);
    const GuardedMemory workspace(folio_get_select_pages_bytes(&args, 40 * args.page_size, 1), 64);
    folio_message message = {};
    ASSERT_EQ(
        folio_select_pages(&batch, &args, workspace.data(), workspace.bytes(), nullptr, &message),
        FOLIO_OK)
        << message.text;
    ASSERT_EQ(c.selected, expected);
  }
}

TEST(CSparse, summaries_are_those_of_cpp) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    PageCase c(rng, {});
    std::vector<folio_filled_page> filled;
    std::vector<FilledPage> pages;
    for (int64_t p = 0; p < c.key.view.num_pages; ++p) {
      const int32_t slots = rng.int_between(1, c.key.view.page_size);
      pages.push_back({static_cast<uint32_t>(p), slots});
      filled.push_back({static_cast<uint32_t>(p), slots});
    }
    ASSERT_TRUE(summarise(c.key.view, c.args.summaries, pages, serial_executor()).is_ok());
    const std::vector<std::byte> expected = c.rows.bytes();
    c.rows.set_bytes(std::vector<std::byte>(expected.size(), std::byte{0xff}));
    const CView key(c.key.view);
    const CSummaries summaries(c.args.summaries);
    folio_message message = {};
    ASSERT_EQ(folio_summarise(&key.view, &summaries.summaries, filled.data(), std::ssize(filled),
                              nullptr, &message),
              FOLIO_OK)
        << message.text;
    ASSERT_EQ(c.rows.bytes(), expected);
    EXPECT_EQ(folio_summarise(&key.view, &summaries.summaries, nullptr, 0, nullptr, &message),
              FOLIO_OK)
        << message.text;
  }
}

}  // namespace
}  // namespace folio::test
