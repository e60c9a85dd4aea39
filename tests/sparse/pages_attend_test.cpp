// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/pages_attend_test.cpp: attention over the pages that were selected is attention
/// over everything with all other pages hidden, and `missed` bounds how far it is from dense.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/core/buffer.h"
#include "folio/sparse/pages.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

constexpr int32_t heads = 2, q_heads = 4, head_size = 32, page_size = 16, context = 300, tokens = 5,
                  num_pages = 19;

/// One sequence of f32 whose last tokens ask.
struct Model {
  TestPlane key, value, rows;
  std::vector<float> q, out, lse, missed;
  std::vector<uint32_t> entries;
  std::vector<int32_t> lists;
  int32_t offsets[2] = {0, tokens}, lengths[1] = {context};
  Batch batch = {};
  PageArgs pages = {};

  explicit Model(Rng& rng) : key(spec(page_size)), value(spec(page_size)), rows(spec(2)) {
    for (float* at : {floats(key), floats(value)})
      for (int64_t i = 0; i < int64_t{num_pages} * page_size * heads * head_size; ++i)
        at[i] = rng.uniform(-1.0f, 1.0f);
    for (int32_t i = 0; i < tokens * q_heads * head_size; ++i)
      q.push_back(rng.uniform(-3.0f, 3.0f));
    entries.resize(num_pages);
    std::iota(entries.begin(), entries.end(), 0u);
    rng.shuffle(entries);
    std::vector<FilledPage> all;
    for (const uint32_t page : entries) all.push_back({page, page_size});
    batch = {1, offsets, lengths, {entries.data(), num_pages, nullptr}};
    pages.q = dense_tensor<3>(static_cast<const void*>(q.data()), DType::f32,
                              {tokens, q_heads, head_size});
    pages.summaries = {SummaryKind::bounds, rows.view};
    pages.page_size = page_size;
    pages.k_pages = rng.int_between(2, 8);
    summarise(key.view, pages.summaries, all, serial_executor()).or_throw();
    out.resize(q.size());
    lse.resize(tokens * q_heads);
    missed.resize(lse.size());
  }
  static float* floats(const TestPlane& plane) { return static_cast<float*>(plane.view.data); }
  static PlaneSpec spec(int32_t slots) {
    PlaneSpec s;
    s.num_heads = heads;
    s.head_size = head_size;
    s.page_size = slots;
    s.num_pages = num_pages;
    return s;
  }

  [[nodiscard]] AttentionProblem problem() const {
    AttentionProblem p;
    p.key = key.view;
    p.value = value.view;
    p.q_heads = q_heads;
    p.q_dtype = p.out_dtype = DType::f32;
    return p;
  }
  [[nodiscard]] AttentionArgs args() {
    AttentionArgs a;
    a.q = pages.q;
    a.out = dense_tensor<3>(out.data(), DType::f32, {tokens, q_heads, head_size});
    a.key = key.view;
    a.value = value.view;
    a.lse = lse.data();
    return a;
  }
  void select() {
    const int32_t count = pages.k_pages * page_size;
    lists.assign(static_cast<size_t>(tokens * count), -7);
    pages.selected = lists.data();
    pages.stride = count;
    pages.missed = missed.data();
    const Buffer memory = Buffer::allocate(select_pages_bytes(pages, context, 2)).value();
    select_pages(batch, pages, memory.span(), default_executor(2)).or_throw();
  }
  void attend_selected() {
    batch.selected = lists.data();
    batch.selected_stride = static_cast<int32_t>(pages.stride);
    AttentionProblem p = problem();
    p.selection = true;
    const Attention attention =
        Attention::create(p, {.tokens = tokens, .context = context, .parallelism = 2}).value();
    const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
    const Buffer memory = Buffer::allocate(attention.workspace_bytes()).value();
    const AttentionPlan made = plan(attention, batch, plan_memory.span()).value();
    attend(attention, made, args(), memory.span(), default_executor(2)).or_throw();
    batch.selected = nullptr;
  }
  /// Over all keys, those hidden that a list does not have: -infinity is added to them.
  [[nodiscard]] std::vector<float> hidden() const {
    std::vector<float> bias(tokens * context, -std::numeric_limits<float>::infinity());
    for (int32_t t = 0; t < tokens; ++t) {
      for (int32_t j = 0; j < context; ++j) {
        const auto slot =
            static_cast<int32_t>(entries[static_cast<size_t>(j / page_size)]) * page_size +
            j % page_size;
        const auto list = lists.begin() + t * pages.stride;
        if (std::find(list, list + pages.stride, slot) != list + pages.stride)
          bias[static_cast<size_t>(t * context + j)] = 0.0f;
      }
    }
    return bias;
  }
};

TEST(PageAttention, is_that_over_everything_with_all_other_pages_hidden) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    Model m(rng);
    m.select();
    m.attend_selected();
    const std::vector<float> bias = m.hidden();
    AttentionProblem hiding = m.problem();
    hiding.bias = true;
    AttentionArgs args = m.args();
    args.bias =
        dense_tensor<3>(static_cast<const void*>(bias.data()), DType::f32, {1, tokens, context});
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t h = 0; h < q_heads; ++h) {
        const auto expected = reference::attend_query(hiding, m.batch, args, 0, t, h);
        const auto at = static_cast<size_t>(t * q_heads + h);
        ASSERT_NEAR(m.lse[at], expected.lse, 1e-4);
        for (size_t d = 0; d < head_size; ++d)
          ASSERT_NEAR(m.out[at * head_size + d], expected.out[d], 1e-4) << round;
      }
    }
  }
}

TEST(PageAttention, is_no_further_from_dense_than_what_is_missed_allows) {
  Rng rng(test_seed());
  int telling = 0;
  for (int round = 0; round < 20; ++round) {
    Model m(rng);
    m.pages.k_pages = rng.int_between(10, 18);
    for (float& x : m.q) x *= 0.1f;
    m.select();
    m.attend_selected();
    for (int64_t t = 0; t < tokens; ++t) {
      for (int32_t h = 0; h < q_heads; ++h) {
        const auto dense = reference::attend_query(m.problem(), m.batch, m.args(), 0, t, h);
        const auto at = static_cast<size_t>(t * q_heads + h);
        const double missed = std::exp(static_cast<double>(m.missed[at]));
        const double share = missed / (missed + std::exp(static_cast<double>(m.lse[at])));
        const double left_out = 1.0 - std::exp(static_cast<double>(m.lse[at]) - dense.lse);
        ASSERT_LE(left_out, share + 1e-5);
        telling += share < 0.5 ? 1 : 0;
        for (size_t d = 0; d < head_size; ++d)
          ASSERT_NEAR(m.out[at * head_size + d], dense.out[d],
                      2.0 * share * dense.largest_value + 1e-4);
      }
    }
  }
  EXPECT_GT(telling, 100);
}

}  // namespace
}  // namespace folio::test
