// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_sparse_errors_test.cpp: hostile callers of sparse attention through the C interface:
/// what is broken is named, and nothing is written.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "c/sparse_to_c.h"
#include "support/guarded_memory.h"

namespace folio::test {
namespace {

constexpr int32_t head_size = 8, page_size = 4, pages = 6, q_heads = 2, tokens = 3, context = 9;

folio_kv_view plane(std::vector<float>& values, int32_t rows) {
  values.assign(static_cast<size_t>(pages * rows * head_size), 0.5f);
  auto view = c_struct<folio_kv_view>();
  view.dtype = FOLIO_F32;
  view.data = values.data();
  view.num_heads = 1;
  view.head_size = head_size;
  view.page_size = rows;
  view.num_pages = pages;
  view.slot_stride_bytes = view.head_stride_bytes = head_size * 4;
  view.page_stride_bytes = rows * view.slot_stride_bytes;
  return view;
}

/// Two sequences with keys, summaries, and right arguments of every call.
struct World {
  std::vector<int32_t> offsets{0, 1, 3}, lengths{9, 5}, row_lengths{9, 5, 5},
      lists = std::vector<int32_t>(tokens * context, 1), slots = std::vector<int32_t>(64, 77);
  std::vector<uint32_t> entries{0, 1, 2, 3, 4, 5};
  std::vector<float> keys, rows, q_values = std::vector<float>(tokens * q_heads * head_size, 0.5f),
                                 numbers = std::vector<float>(tokens * context, 0.25f);
  folio_batch batch = c_struct<folio_batch>();
  folio_kv_view key = plane(keys, page_size), summary_rows = plane(rows, 2);
  folio_index_problem problem = {
      sizeof problem, q_heads, &key, FOLIO_F32, 0, 0, 0, 0, -1, 0, 0, 0, 0.0f};
  folio_index_limits limits = {sizeof limits, 2, tokens, context, 4, 1};
  IndexHandle handle;
  folio_index* made = nullptr;
  folio_tensor q = to_c(dense_tensor<3>(q_values.data(), DType::f32, {tokens, q_heads, head_size}));
  folio_matrix weights = to_c(dense_tensor<2>(q_values.data(), DType::f32, {tokens, q_heads}));
  folio_matrix scores = to_c(dense_tensor<2>(numbers.data(), DType::f32, {tokens, context}));
  folio_score_args score = {sizeof score, 0, &q, &weights, &key};
  folio_select_args select = {sizeof select, 4, &score, slots.data(), 4, 0, 0, 0,
                              nullptr,       0, nullptr};
  folio_top_args top = {sizeof top, 4, &scores, row_lengths.data(), slots.data(), 4};
  folio_remap_args remap = {sizeof remap, 4, lists.data(), 4, slots.data(), 4, pages, page_size, 0};
  folio_page_summaries summaries = {sizeof summaries, FOLIO_SUMMARY_BOUNDS, &summary_rows};
  folio_filled_page filled = {0, 3};
  folio_page_args page = {
      sizeof page, page_size, &q,           &summaries,    -1,     0, 0, 0, 0, 0.0f, 0, 0, 2, 0,
      0,           0,         slots.data(), 2 * page_size, nullptr};
  GuardedMemory workspace;
  void* memory = nullptr;
  int64_t bytes = 0;
  folio_message message = {};

  World() {
    batch.size = 2;
    batch.query_offsets = offsets.data();
    batch.context_lengths = lengths.data();
    batch.table_entries = entries.data();
    batch.table_row_stride = 3;
    folio_index* created = nullptr;
    EXPECT_EQ(folio_create_index(&problem, &limits, FOLIO_CPU, 0, "", &created, &message), FOLIO_OK)
        << message.text;
    handle.reset(created);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { folio_destroy_index(made); }

  void lend(int64_t needed) {
    workspace = GuardedMemory(needed, 64);
    memory = workspace.data();
    bytes = needed;
  }
  [[nodiscard]] std::vector<std::byte> outputs() const {
    std::vector<std::byte> all;
    const auto add = [&all](const auto& values) {
      const auto* const at = reinterpret_cast<const std::byte*>(values.data());
      all.insert(all.end(), at, at + values.size() * sizeof values[0]);
    };
    add(slots);
    add(numbers);
    add(rows);
    return all;
  }
};

struct Mistake {
  folio_code code;
  const char* words;
  std::function<void(World&)> make;
};

/// The call succeeds as the world is; with each mistake it fails with these words and has written
/// nothing.
void expect_refused(const std::function<void(World&)>& lend,
                    const std::function<folio_code(World&)>& call,
                    const std::vector<Mistake>& mistakes) {
  World sound;
  lend(sound);
  ASSERT_EQ(call(sound), FOLIO_OK) << sound.message.text;
  EXPECT_STREQ(sound.message.text, "");
  for (const Mistake& mistake : mistakes) {
    World w;
    lend(w);
    mistake.make(w);
    const std::vector<std::byte> before = w.outputs();
    EXPECT_EQ(call(w), mistake.code) << mistake.words << " in: " << w.message.text;
    EXPECT_NE(std::string(w.message.text).find(mistake.words), std::string::npos)
        << mistake.words << " in: " << w.message.text;
    EXPECT_EQ(w.outputs(), before) << mistake.words;
    EXPECT_EQ(w.made, nullptr) << mistake.words;
  }
}

constexpr folio_code invalid = FOLIO_INVALID_ARGUMENT, unsupported = FOLIO_UNSUPPORTED;

/// Of what all calls that work in a workspace have in common.
std::vector<Mistake> with_workspace(std::vector<Mistake> mistakes) {
  mistakes.push_back({invalid, "workspace", [](World& w) { w.memory = nullptr; }});
  mistakes.push_back({invalid, "workspace", [](World& w) { --w.bytes; }});
  mistakes.push_back({invalid, "workspace", [](World& w) { w.bytes = -1; }});
  mistakes.push_back(
      {invalid, "64", [](World& w) { w.memory = static_cast<std::byte*>(w.memory) + 8; }});
  return mistakes;
}

TEST(CSparseErrors, a_broken_indexer_leaves_null) {
  const auto create = [](World& w) {
    return folio_create_index(&w.problem, &w.limits, FOLIO_CPU, 0, nullptr, &w.made, &w.message);
  };
  // the sound call makes one; the others are to leave null
  expect_refused(
      [](World&) {}, create,
      {{invalid, "problem->struct_size is 3", [](World& w) { w.problem.struct_size = 3; }},
       {invalid, "problem->struct_size is 4294967295",
        [](World& w) { w.problem.struct_size = UINT32_MAX; }},
       {invalid, "folio_create_index: problem->key is null",
        [](World& w) { w.problem.key = nullptr; }},
       {invalid, "q_dtype is invalid", [](World& w) { w.problem.q_dtype = 0; }},
       {invalid, "q_dtype is invalid", [](World& w) { w.problem.q_dtype = 256 + FOLIO_F32; }},
       {invalid, "weight_dtype invalid", [](World& w) { w.problem.weight_dtype = -1; }},
       {unsupported, "problem->options is 32, expected bits of 31 only",
        [](World& w) { w.problem.options = 32; }},
       {invalid, "problem->lists is 2, expected 0 to 1", [](World& w) { w.problem.lists = 2; }},
       {invalid, "problem->lists is 256, expected 0 to 1", [](World& w) { w.problem.lists = 256; }},
       {unsupported, "lists", [](World& w) { w.problem.lists = FOLIO_INDEX_LISTS_PER_HEAD; }},
       {unsupported, "block_keys", [](World& w) { w.problem.block_keys = 128; }},
       {invalid, "block_keys is -1", [](World& w) { w.problem.block_keys = -1; }},
       {invalid, "mask.left is -7", [](World& w) { w.problem.mask_left = -7; }},
       {invalid, "limits->struct_size is 0", [](World& w) { w.limits.struct_size = 0; }},
       {invalid, "limits.tokens is 0", [](World& w) { w.limits.tokens = 0; }},
       {invalid, "limits.top is 4097", [](World& w) { w.limits.top = 4097; }},
       {invalid, "limits.parallelism is -1", [](World& w) { w.limits.parallelism = -1; }}});
}

TEST(CSparseErrors, newer_structs_are_taken_if_nothing_new_is_said) {
  World w;
  struct Newer {
    folio_index_problem problem;
    int64_t wish;
  } newer{w.problem, 0};
  newer.problem.struct_size = sizeof newer;
  const auto create = [&] {
    return folio_create_index(&newer.problem, &w.limits, FOLIO_CPU, 0, "", &w.made, &w.message);
  };
  ASSERT_EQ(create(), FOLIO_OK) << w.message.text;
  folio_destroy_index(w.made);
  newer.wish = 1;
  EXPECT_EQ(create(), FOLIO_UNSUPPORTED);
  EXPECT_EQ(w.made, nullptr);
  EXPECT_NE(std::strstr(w.message.text, "problem->struct_size is"), nullptr) << w.message.text;
}

TEST(CSparseErrors, handles_that_are_null_or_of_other_kernels) {
  World w;
  const auto create = [&w](int32_t device, const char* kernel) {
    return folio_create_index(&w.problem, &w.limits, device, 0, kernel, &w.made, &w.message);
  };
  EXPECT_EQ(create(FOLIO_CPU, "index_none"), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(w.message.text, "\"index_none\""), nullptr) << w.message.text;
  EXPECT_EQ(create(2, ""), FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(create(FOLIO_CUDA, ""), FOLIO_OK);
  EXPECT_EQ(w.made, nullptr);
  EXPECT_EQ(folio_create_index(&w.problem, &w.limits, FOLIO_CPU, 0, "", nullptr, nullptr),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_index_with_limits(nullptr, &w.limits, &w.made, &w.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(w.message.text, "folio_index_with_limits: index is null");
  EXPECT_EQ(folio_index_with_limits(w.handle.get(), nullptr, &w.made, nullptr),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_index_with_limits(w.handle.get(), &w.limits, nullptr, nullptr),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(folio_get_index_kernel(nullptr), "");
  EXPECT_EQ(folio_get_index_workspace_bytes(nullptr), 0);
  folio_destroy_index(nullptr);
}

void lend_index(World& w) { w.lend(folio_get_index_workspace_bytes(w.handle.get())); }

TEST(CSparseErrors, scores) {
  const auto call = [](World& w) {
    return folio_score_index(w.handle.get(), &w.batch, &w.score, 0, &w.scores, w.memory, w.bytes,
                             nullptr, &w.message);
  };
  expect_refused(
      lend_index, call,
      with_workspace(
          {{invalid, "folio_score_index: index is null", [](World& w) { w.handle.reset(); }},
           {invalid, "args->reserved is 1", [](World& w) { w.score.reserved = 1; }},
           {invalid, "args->struct_size is 2", [](World& w) { w.score.struct_size = 2; }},
           {invalid, "q has", [](World& w) { w.score.q = nullptr; }},
           {invalid, "weights", [](World& w) { w.score.weights = nullptr; }},
           {invalid, "weights->struct_size", [](World& w) { w.weights.struct_size = 1; }},
           {invalid, "key", [](World& w) { w.score.key = nullptr; }},
           {invalid, "scores.data is null", [](World& w) { w.scores.data = nullptr; }},
           {invalid, "scores has dtype", [](World& w) { w.scores.dtype = 256 + FOLIO_F32; }},
           {invalid, "scores has shape", [](World& w) { --w.scores.extent[0]; }},
           {unsupported, "batch.tree", [](World& w) {
              static const uint64_t bits[tokens] = {};
              w.batch.tree = bits;
            }}}));
  World w;
  EXPECT_EQ(folio_score_index(w.handle.get(), nullptr, &w.score, 0, &w.scores, nullptr, 0, nullptr,
                              &w.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(w.message.text, "folio_score_index: batch is null");
  EXPECT_EQ(folio_score_index(w.handle.get(), &w.batch, nullptr, 0, &w.scores, nullptr, 0, nullptr,
                              &w.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(w.message.text, "folio_score_index: args is null");
  EXPECT_EQ(folio_score_index(w.handle.get(), &w.batch, &w.score, 0, nullptr, nullptr, 0, nullptr,
                              &w.message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(w.message.text, "folio_score_index: scores is null");
}

TEST(CSparseErrors, keys_that_are_selected) {
  const auto call = [](World& w) {
    return folio_select_keys(w.handle.get(), &w.batch, &w.select, w.memory, w.bytes, nullptr,
                             &w.message);
  };
  expect_refused(
      lend_index, call,
      with_workspace(
          {{invalid, "folio_select_keys: index is null", [](World& w) { w.handle.reset(); }},
           {invalid, "args->score is null", [](World& w) { w.select.score = nullptr; }},
           {invalid, "k is 5, expected 1 to 4", [](World& w) { w.select.k = 5; }},
           {invalid, "stride is 3", [](World& w) { w.select.stride = 3; }},
           {invalid, "lists is null", [](World& w) { w.select.lists = nullptr; }},
           {invalid, "args->entries is 2", [](World& w) { w.select.entries = 2; }},
           {invalid, "args->entries is 256", [](World& w) { w.select.entries = 256; }},
           {invalid, "table.entries is null", [](World& w) { w.select.page_size = 4; }}}));
}

TEST(CSparseErrors, the_greatest_scores) {
  const auto call = [](World& w) {
    return folio_select_top(&w.top, w.memory, w.bytes, nullptr, &w.message);
  };
  expect_refused(
      [](World& w) { w.lend(folio_get_select_top_bytes(4, 1)); }, call,
      with_workspace({{invalid, "args->struct_size", [](World& w) { w.top.struct_size = 0; }},
                      {invalid, "folio_select_top: args->scores is null",
                       [](World& w) { w.top.scores = nullptr; }},
                      {invalid, "k is 4097", [](World& w) { w.top.k = 4097; }},
                      {invalid, "lengths[0] is 10", [](World& w) { w.row_lengths[0] = 10; }},
                      {invalid, "indices is null", [](World& w) { w.top.indices = nullptr; }}}));
  EXPECT_EQ(folio_get_select_top_bytes(0, 1), 0);
  EXPECT_EQ(folio_get_select_top_bytes(4, -1), 0);
  World w;
  EXPECT_EQ(folio_select_top(nullptr, nullptr, 0, nullptr, &w.message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(w.message.text, "folio_select_top: args is null");
}

TEST(CSparseErrors, slots_of_keys) {
  const auto call = [](World& w) { return folio_remap(&w.batch, &w.remap, nullptr, &w.message); };
  expect_refused([](World&) {}, call,
                 {{invalid, "args->reserved is 1", [](World& w) { w.remap.reserved = 1; }},
                  {invalid, "is 9, expected", [](World& w) { w.lists[0] = 9; }},
                  {invalid, "count is -1", [](World& w) { w.remap.count = -1; }},
                  {invalid, "slots is null", [](World& w) { w.remap.slots = nullptr; }},
                  {invalid, "page_size is 0", [](World& w) { w.remap.page_size = 0; }}});
}

TEST(CSparseErrors, summaries_of_pages) {
  const auto call = [](World& w) {
    return folio_summarise(&w.key, &w.summaries, &w.filled, 1, nullptr, &w.message);
  };
  expect_refused(
      [](World&) {}, call,
      {{invalid, "summaries->struct_size", [](World& w) { w.summaries.struct_size = 1; }},
       {invalid, "folio_summarise: summaries->rows is null",
        [](World& w) { w.summaries.rows = nullptr; }},
       {invalid, "summaries->kind is 2, expected 0 to 1", [](World& w) { w.summaries.kind = 2; }},
       {invalid, "summaries->kind is 256", [](World& w) { w.summaries.kind = 256; }},
       {invalid, "page_size is 2, expected 1",
        [](World& w) { w.summaries.kind = FOLIO_SUMMARY_MEAN; }},
       {invalid, "page", [](World& w) { w.filled.page = pages; }},
       {invalid, "slots", [](World& w) { w.filled.slots = page_size + 1; }}});
  World w;
  EXPECT_EQ(folio_summarise(nullptr, &w.summaries, &w.filled, 1, nullptr, &w.message), invalid);
  EXPECT_STREQ(w.message.text, "folio_summarise: key is null");
  EXPECT_EQ(folio_summarise(&w.key, nullptr, &w.filled, 1, nullptr, &w.message), invalid);
  EXPECT_STREQ(w.message.text, "folio_summarise: summaries is null");
  EXPECT_EQ(folio_summarise(&w.key, &w.summaries, nullptr, 1, nullptr, &w.message), invalid);
  EXPECT_STREQ(w.message.text, "folio_summarise: pages is null");
  EXPECT_EQ(folio_summarise(&w.key, &w.summaries, &w.filled, -1, nullptr, &w.message), invalid);
}

TEST(CSparseErrors, pages_that_are_selected) {
  const auto call = [](World& w) {
    return folio_select_pages(&w.batch, &w.page, w.memory, w.bytes, nullptr, &w.message);
  };
  expect_refused(
      [](World& w) { w.lend(folio_get_select_pages_bytes(&w.page, context, 1)); }, call,
      with_workspace(
          {{invalid, "folio_select_pages: args->q is null", [](World& w) { w.page.q = nullptr; }},
           {invalid, "args->summaries is null", [](World& w) { w.page.summaries = nullptr; }},
           {invalid, "args->intervals is 2", [](World& w) { w.page.intervals = 2; }},
           {invalid, "args->lists is 256", [](World& w) { w.page.lists = 256; }},
           {invalid, "args->score is -1", [](World& w) { w.page.score = -1; }},
           {invalid, "args->first_pages is -2", [](World& w) { w.page.first_pages = -2; }},
           {invalid, "args->last_pages is -2147483648",
            [](World& w) { w.page.last_pages = INT32_MIN; }},
           {invalid, "k_pages is 1, expected at least 2", [](World& w) { w.page.k_pages = 1; }},
           {invalid, "args->reserved is 1", [](World& w) { w.page.reserved = 1; }},
           {invalid, "selected is null", [](World& w) { w.page.selected = nullptr; }}}));
  World w;
  EXPECT_EQ(folio_get_select_pages_bytes(nullptr, context, 1), 0);
  w.page.lists = 7;
  EXPECT_EQ(folio_get_select_pages_bytes(&w.page, context, 1), 0);
}

}  // namespace
}  // namespace folio::test
