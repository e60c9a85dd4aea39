// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/select_pages_test.cpp: the best pages of each query, against the definition in
/// double, and what is missed of those that are left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/features.h"
#include "cpu/pages/pages.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "sparse/page_case.h"
#include "support/executors.h"

namespace folio::test {
namespace {

void expect_lists(const PageCase& c, int64_t& listed) {
  for (int64_t t = 0; t < c.tokens(); ++t) {
    for (int32_t list = 0; list < c.lists(); ++list) {
      const int32_t* const got = c.list(t, list);
      const std::vector<int32_t> expected = c.expected(t, list);
      ASSERT_EQ(std::vector<int32_t>(got, got + c.count()), expected) << t << " " << list;
      for (int64_t i = c.count(); i < c.args.stride; ++i) ASSERT_EQ(got[i], -7) << "gaps stay";
      listed += std::ranges::count_if(expected, [](int32_t slot) { return slot >= 0; });
    }
  }
}

TEST(SelectPages, list_the_best_pages_of_every_query) {
  Rng rng(test_seed());
  int64_t listed = 0;
  for (int round = 0; round < 150; ++round) {
    PageCase c(rng, {});
    ShufflingExecutor threads(rng.int_between(1, 4), rng.next());
    c.select(threads.executor(), rng.int_between(1, 4));
    expect_lists(c, listed);
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << round;
  }
  EXPECT_GT(listed, 15000);
}

/// ln(sum) of what is left out, by `log_weight` of a seen page.
template <class LogWeight>
double log_left_out(const PageCase& c, int64_t token, int32_t q_head, LogWeight log_weight) {
  const std::vector<PageCase::Seen> seen = c.seen_by(token);
  const int32_t heads = c.q_heads() / c.lists();
  const int32_t* const list = c.list(token, q_head / heads);
  const std::vector<int32_t> listed(list, list + c.count());
  double sum = 0.0;
  for (const PageCase::Seen& page : seen) {
    const auto slot =
        static_cast<int32_t>(page.page * c.args.page_size + page.keys[0] % c.args.page_size);
    if (std::ranges::find(listed, slot) == listed.end()) sum += std::exp(log_weight(page));
  }
  return std::log(sum);
}

bool has_aliases(const PageCase& c, int64_t token) {
  std::vector<int64_t> pages;
  for (const PageCase::Seen& page : c.seen_by(token)) pages.push_back(page.page);
  std::ranges::sort(pages);
  return std::ranges::adjacent_find(pages) != pages.end();
}

TEST(SelectPages, tell_what_is_missed_and_never_less_than_there_is) {
  Rng rng(test_seed());
  int missed = 0, nothing = 0;
  for (int round = 0; round < 300; ++round) {
    PageCase c(rng, {.is_exact = false});
    if (c.args.summaries.kind == SummaryKind::mean) continue;
    c.select(default_executor(2), 2);
    const int32_t group = c.q_heads() / c.rows.view.num_heads;
    for (int64_t t = 0; t < c.tokens(); ++t) {
      if (has_aliases(c, t)) continue;  // a slot of two pages: nobody knows which was listed
      for (int32_t h = 0; h < c.q_heads(); ++h) {
        const double got = c.missed[static_cast<size_t>(t * c.q_heads() + h)];
        const double bound = log_left_out(c, t, h, [&](const PageCase::Seen& page) {
          return std::log(static_cast<double>(page.keys.size())) + c.score(t, h, page.page);
        });
        const double truth = log_left_out(c, t, h, [&](const PageCase::Seen& page) {
          double sum = 0.0;
          for (const int64_t k : page.keys) {
            const std::vector<double> row =
                reference::row_of(c.key.view, {page.page, k % c.args.page_size}, h / group);
            double s = 0.0;
            for (int32_t d = 0; d < c.key.view.head_size; ++d)
              s += c.scale() * c.q_at(t, h, d) * row[static_cast<size_t>(d)];
            sum += std::exp(s);
          }
          return std::log(sum);
        });
        ++(std::isinf(bound) ? nothing : missed);
        if (std::isinf(bound)) {
          ASSERT_EQ(got, bound);
          continue;
        }
        ASSERT_NEAR(got, bound, 1e-4 * (1.0 + std::fabs(bound))) << round;
        ASSERT_GE(got + 1e-4 * (1.0 + std::fabs(got)), truth) << round;
      }
    }
  }
  EXPECT_GT(missed, 200);
  EXPECT_GT(nothing, 50);
}

TEST(SelectPages, have_bits_that_depend_on_neither_threads_nor_memory) {
  Rng rng(test_seed());
  for (int round = 0; round < 60; ++round) {
    PageCase c(rng, {.is_exact = false});
    c.select(serial_executor(), 1);
    const std::vector<int32_t> lists = c.selected;
    const std::vector<float> missed = c.missed;
    for (const int threads : {2, 5}) {
      ShufflingExecutor executor(threads, rng.next());
      c.select(executor.executor(), rng.int_between(1, 9));
      ASSERT_EQ(c.selected, lists);
      ASSERT_EQ(std::memcmp(c.missed.data(), missed.data(), missed.size() * 4), 0);
    }
  }
}

/// One sequence of `pages` pages of 4 keys of one channel, one query head.
struct Small {
  explicit Small(int32_t pages)
      : rows(spec_of(pages)), entries(static_cast<size_t>(pages)), lengths{4 * pages} {
    for (int32_t p = 0; p < pages; ++p) {
      entries[static_cast<size_t>(p)] = static_cast<uint32_t>(p);
      set(p, 0.0f, 0.0f);
    }
    batch = {1, offsets, lengths, {entries.data(), pages, nullptr}};
    args.q = dense_tensor<3>(static_cast<const void*>(&q), DType::f32, {1, 1, 1});
    args.summaries = {SummaryKind::bounds, rows.view};
    args.page_size = 4;
    args.scale = 1.0f;
    args.k_pages = 2;
    args.first_pages = args.last_pages = 0;
    args.missed = &missed;
  }
  static PlaneSpec spec_of(int32_t pages) {
    PlaneSpec spec;
    spec.num_heads = spec.head_size = 1;
    spec.page_size = 2;
    spec.num_pages = pages;
    return spec;
  }
  void set(int32_t page, float low, float high) const {
    reference::store(rows.element(page, 0, 0, 0), DType::f32, low);
    reference::store(rows.element(page, 1, 0, 0), DType::f32, high);
  }
  /// The pages that are listed.
  std::vector<int32_t> pages() {
    std::vector<int32_t> list(static_cast<size_t>(args.k_pages) * 4, -7), found;
    args.selected = list.data();
    args.stride = std::ssize(list);
    const GuardedMemory memory(select_pages_bytes(args, lengths[0], 1), 64);
    EXPECT_EQ(select_pages(batch, args, memory.span(), serial_executor()).message(), "");
    for (const int32_t slot : list)
      if (slot >= 0 && slot % 4 == 0) found.push_back(slot / 4);
    return found;
  }

  float q = 1.0f, missed = 0.0f;
  TestPlane rows;
  std::vector<uint32_t> entries;
  int32_t offsets[2] = {0, 1}, lengths[1];
  Batch batch = {};
  PageArgs args = {};
};

using Pages = std::vector<int32_t>;

TEST(SelectPages, take_the_bound_on_the_side_of_q) {
  Small s(5);
  s.set(1, -9.0f, 1.0f);
  s.set(3, -1.0f, 5.0f);
  s.set(4, 0.5f, 0.5f);
  EXPECT_EQ(s.pages(), (Pages{1, 3}));
  s.q = -1.0f;
  EXPECT_EQ(s.pages(), (Pages{1, 3}));
  s.set(2, -2.0f, 0.0f);
  EXPECT_EQ(s.pages(), (Pages{1, 2}));
  s.q = 1.0f, s.args.scale = -1.0f;
  EXPECT_EQ(s.pages(), (Pages{1, 2}));
}

TEST(SelectPages, take_the_earlier_of_equal_pages) {
  Small s(9);
  EXPECT_EQ(s.pages(), (Pages{0, 1}));
  s.args.k_pages = 20;
  EXPECT_EQ(s.pages(), (Pages{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(s.missed, -INFINITY);
}

TEST(SelectPages, keep_first_and_last_pages_that_are_seen) {
  Small s(9);
  for (int32_t p = 3; p < 6; ++p) s.set(p, 1.0f, 1.0f);
  s.args.first_pages = s.args.last_pages = 1;
  EXPECT_EQ(s.pages(), (Pages{0, 8}));
  s.args.k_pages = 4;
  EXPECT_EQ(s.pages(), (Pages{0, 3, 4, 8}));
  s.entries[0] = s.entries[8] = 0xffffffffu;  // nobody sees them
  EXPECT_EQ(s.pages(), (Pages{1, 3, 4, 7}));
  s.args.first_pages = 3;
  EXPECT_EQ(s.pages(), (Pages{1, 2, 3, 7}));
}

TEST(SelectPages, take_what_has_no_bound_for_the_best) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  Small s(8);
  s.set(2, 1e30f, 1e30f);
  s.set(4, nan, 1.0f);
  s.set(6, -inf, inf);
  EXPECT_EQ(s.pages(), (Pages{4, 6}));
  s.args.k_pages = 1;
  EXPECT_EQ(s.pages(), (Pages{4}));
  EXPECT_EQ(s.missed, inf);
  s.set(4, 0.0f, 0.0f), s.set(6, -inf, -inf);
  s.args.k_pages = 2;
  EXPECT_EQ(s.pages(), (Pages{2, 6})) << "infinity is no bound";
  s.args.k_pages = 8;
  EXPECT_EQ(s.pages().size(), 8u);
  s.args.k_pages = 2;
  s.q = nan;
  EXPECT_EQ(s.pages(), (Pages{0, 1}));
}

TEST(SelectPages, list_nothing_where_nothing_is_seen) {
  Small s(3);
  s.lengths[0] = 0;
  EXPECT_EQ(s.pages(), Pages{});
  EXPECT_EQ(s.missed, -INFINITY);
  s.lengths[0] = 12;
  const int32_t begin = 5, end = 5;
  s.args.intervals = true;
  s.batch.visible_begin = &begin;
  s.batch.visible_end = &end;
  EXPECT_EQ(s.pages(), Pages{});
  for (uint32_t& entry : s.entries) entry = 3;
  s.args.intervals = false;
  s.batch.visible_begin = s.batch.visible_end = nullptr;
  EXPECT_EQ(s.pages(), Pages{});
}

TEST(SelectPages, score_alike_in_every_build) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    PageCase c(rng, {.is_exact = round % 2 == 0});
    const PagedKVView& view = c.rows.view;
    const int32_t queries = 1 << rng.int_between(0, 2);
    std::vector<uint32_t> entries;
    for (int32_t p = rng.int_between(1, 70); p > 0; --p)
      entries.push_back(static_cast<uint32_t>(rng.between(0, view.num_pages)));
    const auto pages = std::ssize(entries);
    std::vector<float> q(static_cast<size_t>(queries * view.head_size));
    for (float& x : q) x = rng.chance(0.5) ? 2.0f : -1.0f;
    for (const pages::Kernel* kernel : pages::kernels()) {
      if (!machine_has(kernel->needs)) continue;
      std::vector<float> prepared(static_cast<size_t>(pages::prepared_floats(view.head_size))),
          scores(static_cast<size_t>(queries * (pages + 1)), -7.0f);
      for (int32_t r = 0; r < queries; ++r)
        kernel->prepare(DType::f32, c.args.summaries.kind,
                        reinterpret_cast<const std::byte*>(q.data() + r * view.head_size), 0.5f,
                        prepared.data() + r * 2 * pages::padded(view.head_size), view.head_size);
      const pages::Source source{static_cast<const std::byte*>(view.data),
                                 view.dtype,
                                 c.args.summaries.kind,
                                 view.head_size,
                                 view.num_pages,
                                 view.page_stride_bytes,
                                 view.slot_stride_bytes};
      kernel->score(source, prepared.data(), queries, entries.data(), pages, scores.data(),
                    pages + 1);
      for (int32_t r = 0; r < queries; ++r) {
        ASSERT_EQ(scores[static_cast<size_t>(r * (pages + 1) + pages)], -7.0f);
        for (int64_t p = 0; p < pages; ++p) {
          const float got = scores[static_cast<size_t>(r * (pages + 1) + p)];
          if (entries[static_cast<size_t>(p)] >= view.num_pages) {
            ASSERT_EQ(got, -INFINITY);
            continue;
          }
          double sum = 0.0, magnitude = 0.0;
          const int64_t page = entries[static_cast<size_t>(p)];
          const bool is_mean = c.args.summaries.kind == SummaryKind::mean;
          const std::vector<double> lows = reference::row_of(view, {page, 0}, 0),
                                    highs = reference::row_of(view, {page, is_mean ? 0 : 1}, 0);
          for (int32_t d = 0; d < view.head_size; ++d) {
            const double x = 0.5 * q[static_cast<size_t>(r * view.head_size + d)];
            const double low = lows[static_cast<size_t>(d)], high = highs[static_cast<size_t>(d)];
            sum += std::max(x * low, x * high);
            magnitude += std::fabs(x) * std::max(std::fabs(low), std::fabs(high));
          }
          ASSERT_NEAR(got, sum, (view.head_size + 8) * 0x1p-24 * magnitude) << kernel->name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
