// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/summaries_test.cpp: summaries of pages: what append makes of them whatever becomes
/// of sequences, and what summarise makes of pages as they lie there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "folio/attention/append.h"
#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/core/convert.h"
#include "folio/core/element.h"
#include "folio/sparse/pages.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "support/executors.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

constexpr DType summary_dtypes[] = {DType::f32, DType::bf16, DType::f16};

PlaneSpec summary_spec(const PlaneSpec& key, SummaryKind kind, DType dtype) {
  PlaneSpec spec;
  spec.dtype = dtype;
  spec.num_heads = key.num_heads;
  spec.head_size = key.head_size;
  spec.page_size = summary_rows(kind);
  spec.num_pages = key.num_pages;
  spec.order = key.order;
  spec.gap = key.gap;
  return spec;
}

/// K of any type, and its summaries.
struct Cache {
  TestPlane key;
  TestPlane rows;
  std::vector<float> channel_scales;
  PageSummaries summaries = {};

  Cache(const PlaneSpec& spec, SummaryKind kind, DType dtype)
      : key(spec), rows(summary_spec(spec, kind, dtype)), summaries{kind, rows.view} {}

  static PlaneSpec random_spec(Rng& rng) {
    constexpr DType dtypes[] = {DType::f32,     DType::bf16, DType::f16, DType::i8,
                                DType::f8_e4m3, DType::i4,   DType::q8_0};
    PlaneSpec spec;
    spec.dtype = rng.pick(dtypes);
    spec.num_heads = rng.int_between(1, 3);
    spec.head_size = rng.pick(head_sizes);
    if (folio::detail::is_block(spec.dtype) || folio::detail::is_packed(spec.dtype))
      spec.head_size = 32 * rng.int_between(1, 5);
    spec.page_size = rng.pick(page_sizes);
    spec.num_pages = 9;
    spec.order = rng.chance(0.5) ? StorageOrder::head_major : StorageOrder::token_major;
    spec.gap = rng.between(0, 2);
    const bool has_scales =
        folio::detail::is_packed(spec.dtype) || (bit_width(spec.dtype) == 8 && rng.chance(0.8));
    if (has_scales)
      spec.scales = {DType::f32, rng.chance(0.5) ? 32 : spec.head_size, true, true, true, true};
    return spec;
  }
  /// As it is stored, not turned back.
  [[nodiscard]] std::vector<double> stored(int64_t page, int64_t slot, int64_t head) const {
    PagedKVView view = key.view;
    view.hadamard = {};
    view.has_channel_scales = false;
    view.channel_scales = nullptr;
    return reference::row_of(view, {page, slot}, head);
  }
  [[nodiscard]] double summary(int64_t page, int32_t row, int64_t head, int32_t d) const {
    return reference::element(rows.view, page, row, head, d);
  }
  void turn(Rng& rng) {
    if (key.view.head_size % 32 == 0 && rng.chance(0.7)) key.view.hadamard = {32, 7};
    if (!rng.chance(0.5)) return;
    for (int32_t i = 0; i < key.view.num_heads * key.view.head_size; ++i)
      channel_scales.push_back(rng.uniform(0.25f, 4.0f));
    key.view.has_channel_scales = true;
    key.view.channel_scales = channel_scales.data();
  }

 private:
  static constexpr int32_t head_sizes[] = {1, 5, 16, 24, 32, 64, 100, 128};
  static constexpr int32_t page_sizes[] = {1, 2, 4, 7, 16};
};

/// Sequences that grow, are cut, forked and given up, over the pages of one cache.
class Sequences {
 public:
  Sequences(Cache& cache, Rng& rng) : cache_(cache), rng_(rng), users_(9) {}

  void step() {
    const int32_t what = rng_.int_between(0, 9);
    if (what < 6) return grow();
    if (what < 8 && !all_.empty()) return trim(rng_.pick(all_));
    if (what < 9) return fork();
    give_up();
  }

  void expect_bounds() const {
    for (const Sequence& s : all_)
      for (int64_t t = 0; t < s.length; ++t)
        expect_slot_within(s.pages[static_cast<size_t>(t / page_size())], t % page_size());
  }
  [[nodiscard]] int64_t checked() const { return checked_; }

 private:
  struct Sequence {
    std::vector<uint32_t> pages;
    int64_t length = 0;
  };

  [[nodiscard]] int64_t page_size() const { return cache_.key.view.page_size; }

  void expect_slot_within(int64_t page, int64_t slot) const {
    for (int32_t h = 0; h < cache_.key.view.num_heads; ++h) {
      const std::vector<double> row = cache_.stored(page, slot, h),
                                low = reference::row_of(cache_.rows.view, {page, 0}, h),
                                high = reference::row_of(cache_.rows.view, {page, 1}, h);
      for (size_t d = 0; d < row.size(); ++d) {
        const double u = std::fabs(row[d]) * 0x1p-23;  // dequantised in float32
        ASSERT_LE(low[d], row[d] + u) << page << " " << slot << " " << h << " " << d;
        ASSERT_GE(high[d], row[d] - u) << page << " " << slot << " " << h << " " << d;
      }
    }
    ++checked_;
  }

  int64_t take_page() {
    for (size_t p = 0; p < users_.size(); ++p)
      if (users_[p] == 0) return users_[p] = 1, static_cast<int64_t>(p);
    return -1;
  }
  void release(Sequence& s, int64_t pages) {
    while (std::ssize(s.pages) > pages) --users_[s.pages.back()], s.pages.pop_back();
  }
  /// A page of its own behind the sequence's end: what others share is copied first.
  bool make_room(Sequence& s) {
    const int64_t slot = s.length % page_size();
    if (slot == 0) {
      const int64_t page = take_page();
      if (page >= 0) s.pages.push_back(static_cast<uint32_t>(page));
      return page >= 0;
    }
    if (users_[s.pages.back()] == 1) return true;
    const int64_t page = take_page();
    if (page < 0) return false;
    copy(s.pages.back(), static_cast<uint32_t>(page), static_cast<int32_t>(slot));
    --users_[s.pages.back()];
    s.pages.back() = static_cast<uint32_t>(page);
    return true;
  }
  void copy(uint32_t from, uint32_t to, int32_t tokens) {
    PageCopy copies[] = {{from, to, tokens}};
    const KVPlanes key[] = {{cache_.key.view, {}}}, rows[] = {{cache_.rows.view, {}}};
    ASSERT_EQ(copy_pages(key, key, copies, serial_executor()).message(), "");
    make_summary_copies(copies, cache_.summaries.kind);
    ASSERT_EQ(copy_pages(rows, rows, copies, serial_executor()).message(), "");
  }

  void grow() {
    if (all_.size() < 3) all_.emplace_back();
    std::vector<int32_t> offsets = {0}, lengths;
    std::vector<int64_t> starts, slots;
    std::vector<uint32_t> entries;
    for (Sequence& s : all_) {
      const int32_t wanted = rng_.int_between(0, page_size() + 2);
      int32_t made = 0;
      for (; made < wanted && make_room(s); ++made, ++s.length)
        slots.push_back(int64_t{s.pages.back()} * page_size() + s.length % page_size());
      offsets.push_back(offsets.back() + made);
      lengths.push_back(static_cast<int32_t>(s.length));
      starts.push_back(std::ssize(entries));
      entries.insert(entries.end(), s.pages.begin(), s.pages.end());
    }
    entries.push_back(0);
    const PagedKVView& view = cache_.key.view;
    const int64_t tokens = offsets.back();
    std::vector<float> rows(static_cast<size_t>(tokens * view.num_heads * view.head_size + 1));
    for (float& x : rows) x = rng_.uniform(-3.0f, 3.0f) * (rng_.chance(0.1) ? 20.0f : 1.0f);
    const Batch batch{static_cast<int32_t>(all_.size()),
                      offsets.data(),
                      lengths.data(),
                      {entries.data(), 0, starts.data()}};
    AppendArgs args{
        .k = dense_tensor<3>(rows.data(), DType::f32, {tokens, view.num_heads, view.head_size}),
        .key = view,
        .summaries = &cache_.summaries};
    if (rng_.chance(0.5)) args.slots = slots.data();
    ShufflingExecutor threads(3, rng_.next());
    const Status status = append(batch, args, threads.executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  void trim(Sequence& s) {
    s.length = rng_.between(0, s.length);
    release(s, (s.length + page_size() - 1) / page_size());
  }
  void fork() {
    if (all_.empty()) return;
    Sequence copy = rng_.pick(all_);
    for (const uint32_t page : copy.pages) ++users_[page];
    all_.push_back(copy);
    if (rng_.chance(0.5)) trim(all_.back());
  }
  void give_up() {
    if (all_.empty()) return;
    release(all_.back(), 0);
    all_.pop_back();
  }

  Cache& cache_;
  Rng& rng_;
  std::vector<int32_t> users_;
  std::vector<Sequence> all_;
  mutable int64_t checked_ = 0;
};

TEST(Summaries, bound_what_is_stored_whatever_became_of_sequences) {
  Rng rng(test_seed());
  int64_t checked = 0;
  for (int round = 0; round < 40; ++round) {
    Cache cache(Cache::random_spec(rng), SummaryKind::bounds, rng.pick(summary_dtypes));
    cache.turn(rng);
    Sequences sequences(cache, rng);
    for (int step = 0; step < 15 && !::testing::Test::HasFailure(); ++step) {
      sequences.step();
      if (step % 3 == 2) sequences.expect_bounds();
    }
    checked += sequences.checked();
    ASSERT_TRUE(cache.rows.slack_untouched());
    ASSERT_FALSE(::testing::Test::HasFailure()) << name(cache.key.view.dtype);
  }
  EXPECT_GT(checked, 1500);
}

/// Appends the tokens of some pages in chunks, one sequence, pages in any order.
struct Filled {
  std::vector<uint32_t> pages;
  int64_t tokens = 0;

  Filled(Cache& cache, Rng& rng, const Executor& executor, bool by_slots = false) {
    const PagedKVView& view = cache.key.view;
    for (uint32_t p = 0; p < static_cast<uint32_t>(view.num_pages); ++p) pages.push_back(p);
    rng.shuffle(pages);
    tokens = rng.between(1, view.num_pages * view.page_size);
    std::vector<float> rows(static_cast<size_t>(tokens * view.num_heads * view.head_size));
    for (float& x : rows) x = rng.uniform(-2.0f, 2.0f);
    for (int64_t begin = 0, end = 0; begin < tokens; begin = end) {
      end = rng.between(begin + 1, tokens);
      const int32_t offsets[] = {0, static_cast<int32_t>(end - begin)};
      const int32_t lengths[] = {static_cast<int32_t>(end)};
      const Batch batch{1, offsets, lengths, {pages.data(), std::ssize(pages), nullptr}};
      std::vector<int64_t> slots;
      for (int64_t t = begin; t < end; ++t)
        slots.push_back(int64_t{pages[static_cast<size_t>(t / view.page_size)]} * view.page_size +
                        t % view.page_size);
      AppendArgs args{
          .k = dense_tensor<3>(rows.data() + begin * view.num_heads * view.head_size, DType::f32,
                               {end - begin, view.num_heads, view.head_size}),
          .key = view,
          .slots = by_slots ? slots.data() : nullptr,
          .summaries = &cache.summaries};
      EXPECT_EQ(append(batch, args, executor).message(), "");
    }
  }
  [[nodiscard]] std::vector<FilledPage> filled(int32_t page_size) const {
    std::vector<FilledPage> all;
    for (int64_t t = 0; t < tokens; t += page_size)
      all.push_back({pages[static_cast<size_t>(t / page_size)],
                     static_cast<int32_t>(std::min<int64_t>(page_size, tokens - t))});
    return all;
  }
};

TEST(Summaries, of_pages_filled_from_the_front_are_those_of_summarise_bit_for_bit) {
  Rng rng(test_seed());
  for (int round = 0; round < 120; ++round) {
    const PlaneSpec spec = Cache::random_spec(rng);
    const SummaryKind kind = rng.chance(0.5) ? SummaryKind::bounds : SummaryKind::mean;
    Cache cache(spec, kind, rng.pick(summary_dtypes));
    cache.turn(rng);
    ShufflingExecutor threads(3, rng.next());
    const Filled filled(cache, rng, threads.executor(), rng.chance(0.5));
    const std::vector<std::byte> by_append = cache.rows.bytes();
    TestPlane again(summary_spec(spec, kind, cache.rows.view.dtype));
    const std::vector<FilledPage> pages = filled.filled(spec.page_size);
    const Status status = summarise(cache.key.view, {kind, again.view}, pages, threads.executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
    ASSERT_EQ(again.bytes(), by_append) << name(spec.dtype) << " " << round;
    ASSERT_TRUE(again.slack_untouched());
  }
}

TEST(Summaries, are_the_same_on_any_number_of_threads) {
  Rng rng(test_seed());
  for (int round = 0; round < 6; ++round) {
    const uint64_t seed = rng.next();
    std::vector<std::byte> expected;
    for (const int threads : {1, 2, 5}) {
      Rng same(seed);
      PlaneSpec spec;
      spec.head_size = 128;
      spec.page_size = 16;
      spec.num_heads = 4;
      spec.num_pages = 40;
      Cache own(spec, round % 2 == 0 ? SummaryKind::bounds : SummaryKind::mean, DType::bf16);
      ShufflingExecutor executor(threads, seed);
      const Filled filled(own, same, executor.executor(), round % 3 == 0);
      if (expected.empty()) expected = own.rows.bytes();
      ASSERT_EQ(own.rows.bytes(), expected) << threads;
    }
  }
}

/// One slot of one page of f32 rows.
struct OneRow {
  Cache cache;
  explicit OneRow(DType dtype, int32_t head_size, SummaryKind kind = SummaryKind::bounds)
      : cache(spec_of(head_size), kind, dtype) {}
  static PlaneSpec spec_of(int32_t head_size) {
    PlaneSpec spec;
    spec.num_heads = 1;
    spec.head_size = head_size;
    return spec;
  }
  void write(int64_t slot, std::vector<float> row) {
    const Batch none;
    const AppendArgs args{.k = dense_tensor<3>(row.data(), DType::f32, {1, 1, std::ssize(row)}),
                          .key = cache.key.view,
                          .slots = &slot,
                          .summaries = &cache.summaries};
    ASSERT_EQ(append(none, args, serial_executor()).message(), "");
  }
  [[nodiscard]] double low(int32_t d) const { return cache.summary(0, 0, 0, d); }
  [[nodiscard]] double high(int32_t d) const { return cache.summary(0, 1, 0, d); }
};

TEST(Summaries, are_the_closest_bounds_of_their_type) {
  Rng rng(test_seed());
  constexpr float chosen[] = {0.0f,      -0.0f,       1e-30f,       -1e-30f, 1e-45f,   -1e-45f,
                              6e-8f,     -6e-8f,      3e-8f,        -3e-8f,  65504.0f, 65505.0f,
                              -65505.0f, 65520.0f,    -65520.0f,    1e9f,    3.4e38f,  -3.4e38f,
                              1.0f,      1.00390625f, -1.00390625f, 2.9e-3f};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (int round = 0; round < 200; ++round) {
      const int32_t n = rng.int_between(1, 40);
      std::vector<float> row;
      for (int32_t d = 0; d < n; ++d) {
        const float any = std::ldexp(rng.uniform(-1.0f, 1.0f), rng.int_between(-30, 20));
        row.push_back(rng.chance(0.5) ? rng.pick(chosen) : any);
      }
      OneRow one(dtype, n);
      one.write(0, row);
      // all patterns of the type that are neighbours of the value
      for (int32_t d = 0; d < n; ++d) {
        const double x = row[static_cast<size_t>(d)];
        ASSERT_LE(one.low(d), x);
        ASSERT_GE(one.high(d), x);
        const double nearest = reference::round_to(dtype, x);
        ASSERT_TRUE(one.low(d) == nearest || one.high(d) == nearest) << x;
        if (nearest == x) {
          ASSERT_EQ(one.low(d), x);
          ASSERT_EQ(one.high(d), x);
        } else if (std::isfinite(one.low(d)) && std::isfinite(one.high(d))) {
          const double middle = (one.low(d) + one.high(d)) / 2;  // nothing of the type between
          const double there = reference::round_to(dtype, middle);
          ASSERT_TRUE(there == one.low(d) || there == one.high(d)) << x;
        }
      }
    }
  }
}

TEST(Summaries, keep_a_NaN_until_the_page_begins_anew) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : summary_dtypes) {
    OneRow one(dtype, 11);
    std::vector<float> row(11, 1.0f);
    one.write(0, row);
    row[3] = nan, row[10] = nan;
    one.write(1, row);
    row.assign(11, 2.0f);
    one.write(2, row);
    for (int32_t d = 0; d < 11; ++d) {
      EXPECT_EQ(std::isnan(one.low(d)), d == 3 || d == 10) << d;
      EXPECT_EQ(std::isnan(one.high(d)), d == 3 || d == 10) << d;
    }
    EXPECT_EQ(one.low(0), 1.0);
    EXPECT_EQ(one.high(0), 2.0);
    one.write(0, row);
    EXPECT_EQ(one.low(3), 2.0);
    EXPECT_EQ(one.high(10), 2.0);
  }
}

TEST(Summaries, begin_anew_with_slot_0_whichever_token_comes_first) {
  OneRow one(DType::f32, 2);
  one.write(0, {100.0f, -100.0f});
  std::vector<float> rows = {5.0f, 1.0f, 2.0f, 9.0f, 3.0f, 4.0f};
  const int64_t slots[] = {3, 0, 2};
  const AppendArgs args{.k = dense_tensor<3>(rows.data(), DType::f32, {3, 1, 2}),
                        .key = one.cache.key.view,
                        .slots = slots,
                        .summaries = &one.cache.summaries};
  ASSERT_EQ(append(Batch{}, args, default_executor(2)).message(), "");
  EXPECT_EQ(one.low(0), 2.0);
  EXPECT_EQ(one.high(0), 5.0);
  EXPECT_EQ(one.low(1), 1.0);
  EXPECT_EQ(one.high(1), 9.0);
}

TEST(Summaries, are_means_of_all_slots_up_to_the_last_that_is_written) {
  OneRow one(DType::f32, 1, SummaryKind::mean);
  const auto mean = [&one] { return one.cache.summary(0, 0, 0, 0); };
  one.write(0, {3.0f});
  EXPECT_EQ(mean(), 3.0);
  one.write(1, {5.0f});
  EXPECT_EQ(mean(), 4.0);
  one.write(2, {10.0f});
  EXPECT_EQ(mean(), 6.0);
  one.write(1, {9.0f});  // trimmed to one row, and written again
  EXPECT_EQ(mean(), 6.0);
  one.write(2, {0.0f});
  EXPECT_EQ(mean(), 4.0);
}

TEST(Summaries, leave_K_as_it_is_without_them) {
  Rng rng(test_seed());
  for (int round = 0; round < 10; ++round) {
    const PlaneSpec spec = Cache::random_spec(rng);
    const uint64_t seed = rng.next();
    Rng a(seed), b(seed);
    Cache with(spec, SummaryKind::bounds, DType::f32),
        without(spec, SummaryKind::bounds, DType::f32);
    const Filled first(with, a, serial_executor());
    const std::vector<std::byte> untouched = without.rows.bytes();
    std::vector<float> rows(static_cast<size_t>(first.tokens * spec.num_heads * spec.head_size));
    b = Rng(seed);
    std::vector<uint32_t> order(first.pages.size());
    b.shuffle(order);
    ASSERT_EQ(b.between(1, spec.num_pages * spec.page_size), first.tokens);
    for (float& x : rows) x = b.uniform(-2.0f, 2.0f);
    const int32_t offsets[] = {0, static_cast<int32_t>(first.tokens)};
    const Batch batch{
        1, offsets, offsets + 1, {first.pages.data(), std::ssize(first.pages), nullptr}};
    const AppendArgs args{.k = dense_tensor<3>(rows.data(), DType::f32,
                                               {first.tokens, spec.num_heads, spec.head_size}),
                          .key = without.key.view};
    ASSERT_EQ(append(batch, args, serial_executor()).message(), "");
    EXPECT_EQ(with.key.bytes(), without.key.bytes());
    EXPECT_EQ(without.rows.bytes(), untouched);
  }
}

TEST(Summaries, are_part_of_the_bytes_of_a_page) {
  PlaneSpec spec;
  spec.num_heads = 3;
  Cache cache(spec, SummaryKind::bounds, DType::bf16);
  const KVPlanes planes[] = {{cache.key.view, {}}, {cache.rows.view, {}}};
  int64_t bytes = 0;
  const std::vector<Extent> extents = page_extents(planes, 2).value();
  for (const Extent& e : extents) bytes += e.bytes;
  EXPECT_EQ(bytes, 3 * 16 * (4 * 4 + 2 * 2));
}

}  // namespace
}  // namespace folio::test
