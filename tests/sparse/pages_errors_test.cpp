// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/pages_errors_test.cpp: broken calls of append with summaries, of summarise and of
/// select_pages are refused by the name of what is broken, and nothing is written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "attention/check_append.h"
#include "folio/attention/append.h"
#include "folio/sparse/pages.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

PlaneSpec rows_spec(int32_t page_size = 2) {
  PlaneSpec spec;
  spec.dtype = DType::bf16;
  spec.page_size = page_size;
  return spec;
}

/// What any call refuses of summaries.
template <class Call>
std::vector<Broken<Call>> broken_summaries() {
  using B = Broken<Call>;
  return {
      B{"kind", [](Call& c) { c.summaries().kind = SummaryKind(2); }, {"summaries.kind is 2"}},
      B{"dtype",
        [](Call& c) { c.summaries().rows.dtype = DType::i8; },
        {"summaries.rows has dtype i8"}},
      B{"scales",
        [](Call& c) { c.summaries().rows.scales.dtype = DType::f32; },
        {"summaries.rows.scales"}},
      B{"null",
        [](Call& c) { c.summaries().rows.data = nullptr; },
        {"summaries.rows.data is null"}},
      B{"turned",
        [](Call& c) {
          c.summaries().rows.hadamard = {16, 0};
        },
        {"summaries.rows has a hadamard"}},
      B{"page_size",
        [](Call& c) { c.summaries().rows.page_size = 1; },
        {"summaries.rows.page_size is 1", "2 (summary_rows)"}},
      B{"page_size of a mean",
        [](Call& c) { c.summaries().kind = SummaryKind::mean; },
        {"summaries.rows.page_size is 2", "expected 1"}},
      B{"misaligned",
        [](Call& c) { c.summaries().rows.page_stride_bytes += 1; },
        {"summaries.rows.page_stride_bytes"}},
  };
}

/// And those that make them.
template <class Call>
std::vector<Broken<Call>> broken_beside_key() {
  using B = Broken<Call>;
  std::vector<B> all = broken_summaries<Call>();
  all.insert(all.end(), {B{"heads",
                           [](Call& c) { c.summaries().rows.num_heads = 1; },
                           {"summaries.rows.num_heads is 1", "2 (from key)"}},
                         B{"head_size",
                           [](Call& c) { c.summaries().rows.head_size = 8; },
                           {"summaries.rows.head_size is 8", "16 (from key)"}},
                         B{"pages",
                           [](Call& c) { c.summaries().rows.num_pages = 4; },
                           {"summaries.rows.num_pages is 4", "5 (from key)"}},
                         B{"one place",
                           [](Call& c) { c.summaries().rows.slot_stride_bytes = 0; },
                           {"summaries.rows.slot_stride_bytes is 0"}}});
  return all;
}

struct AppendCall {
  TestPlane key{scaled_spec()}, rows{rows_spec()};
  std::vector<float> k = std::vector<float>(2 * 2 * 16, 1.0f);
  std::vector<int64_t> slots{0, 5};
  PageSummaries made{SummaryKind::bounds, rows.view};
  Executor executor = serial_executor();
  AppendArgs args{.k = dense_tensor<3>(k.data(), DType::f32, {2, 2, 16}),
                  .key = key.view,
                  .slots = slots.data()};

  PageSummaries& summaries() { return made; }
  Status run() {
    args.summaries = &made;
    return append(Batch{}, args, executor);
  }
  [[nodiscard]] std::vector<std::byte> written() const {
    std::vector<std::byte> all = key.bytes(), more = rows.bytes();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST(SummaryErrors, of_append_name_what_is_broken) {
  expect_refused<AppendCall>("append", broken_beside_key<AppendCall>());
  expect_refused<AppendCall>(
      "append", {{"unbounded pages",
                  [](AppendCall& c) {
                    c.args.key.page_size = unbounded_page_size;
                    c.args.key.num_pages = 20;
                    c.args.key.page_stride_bytes = c.args.key.slot_stride_bytes;
                    c.args.key.scales.page_stride_bytes = c.args.key.scales.slot_stride_bytes;
                  },
                  {"key has unbounded pages"}}});
}

TEST(SummaryErrors, on_devices_say_that_only_CPUs_make_them) {
  AppendCall c;
  c.key.view.scales = {};
  c.args.key = c.key.view;
  c.args.summaries = &c.made;
  const Status status = check_append("append_async", Batch{}, c.args, Memory::cuda);
  EXPECT_EQ(status.code(), Errc::unsupported);
  EXPECT_NE(std::string(status.message()).find("summaries are given"), std::string::npos);
}

struct SummariseCall {
  TestPlane key{scaled_spec()}, rows{rows_spec()};
  PageSummaries made{SummaryKind::bounds, rows.view};
  std::vector<FilledPage> pages{{4, 4}, {0, 1}};
  Executor executor = serial_executor();

  SummariseCall() {
    for (int64_t p = 0; p < 5; ++p)  // scales of 1
      for (int64_t s = 0; s < 4; ++s)
        for (int64_t i = 0; i < 4; ++i)
          *reinterpret_cast<float*>(key.scale(p, s, i / 2, i % 2 * 8)) = 1.0f;
  }
  PageSummaries& summaries() { return made; }
  Status run() { return summarise(key.view, made, pages, executor); }
  [[nodiscard]] std::vector<std::byte> written() const { return rows.bytes(); }
};

TEST(SummaryErrors, of_summarise_name_what_is_broken) {
  using Call = SummariseCall;
  using B = Broken<Call>;
  std::vector<B> all = broken_beside_key<Call>();
  all.insert(
      all.end(),
      {B{"page", [](Call& c) { c.pages[1].page = 5; }, {"pages[1].page is 5", "less than 5"}},
       B{"slots 0", [](Call& c) { c.pages[0].slots = 0; }, {"pages[0].slots is 0", "1 to 4"}},
       B{"slots", [](Call& c) { c.pages[0].slots = 5; }, {"pages[0].slots is 5", "1 to 4"}},
       B{"slots negative", [](Call& c) { c.pages[0].slots = INT32_MIN; }, {"pages[0].slots"}},
       B{"key", [](Call& c) { c.key.view.data = nullptr; }, {"key.data is null"}},
       B{"key dtype", [](Call& c) { c.key.view.dtype = DType::invalid; }, {"key has dtype"}},
       B{"head_size",
         [](Call& c) { c.key.view.head_size = c.made.rows.head_size = 5000; },
         {"4096"},
         Errc::unsupported},
       B{"executor", [](Call& c) { c.executor = {}; }, {"executor"}}});
  expect_refused<Call>("summarise", all);
}

struct PagesCall {
  TestPlane rows{rows_spec()};
  std::vector<float> q = std::vector<float>(3 * 4 * 16, 1.0f),
                     missed = std::vector<float>(12, 9.0f);
  std::vector<int32_t> offsets{0, 1, 3}, contexts{4, 7}, begins{0, 0, 0}, ends{9, 9, 9};
  std::vector<uint32_t> entries{3, 9, 1, 0};
  std::vector<int32_t> lists = std::vector<int32_t>(3 * 2 * 8, 99);
  std::vector<uint64_t> tree{1, 1, 3};
  Batch batch{2, offsets.data(), contexts.data(), {entries.data(), 2, nullptr}};
  PageArgs args = {};
  GuardedMemory memory;
  MemorySpan workspace;
  Executor executor = serial_executor();

  PagesCall() {
    rows.set_bytes(std::vector<std::byte>(rows.bytes().size()));
    args.q = dense_tensor<3>(static_cast<const void*>(q.data()), DType::f32, {3, 4, 16});
    args.summaries = {SummaryKind::bounds, rows.view};
    args.page_size = 4;
    args.k_pages = 2;
    args.lists = PageLists::per_kv_head;
    args.selected = lists.data();
    args.stride = 8;
    args.missed = missed.data();
    memory = GuardedMemory(select_pages_bytes(args, 7, 1), 64);
    workspace = memory.span();
  }
  PageSummaries& summaries() { return args.summaries; }
  Status run() { return select_pages(batch, args, workspace, executor); }
  [[nodiscard]] std::vector<std::byte> written() const {
    const auto* at = reinterpret_cast<const std::byte*>(lists.data());
    std::vector<std::byte> all(at, at + lists.size() * 4);
    at = reinterpret_cast<const std::byte*>(missed.data());
    all.insert(all.end(), at, at + missed.size() * 4);
    return all;
  }
};

TEST(SelectPagesErrors, name_what_is_broken) {
  using B = Broken<PagesCall>;
  expect_refused<PagesCall>("select_pages", broken_summaries<PagesCall>());
  expect_refused<PagesCall>(
      "select_pages",
      {B{"k 0", [](PagesCall& c) { c.args.k_pages = 0; }, {"k_pages is 0", "1 to 4096"}},
       B{"k negative",
         [](PagesCall& c) { c.args.k_pages = INT32_MIN; },
         {"k_pages is -2147483648"}},
       B{"k beyond", [](PagesCall& c) { c.args.k_pages = 4097; }, {"k_pages is 4097"}},
       B{"k too few", [](PagesCall& c) { c.args.k_pages = 1; }, {"at least 2", "last_pages"}},
       B{"first", [](PagesCall& c) { c.args.first_pages = -1; }, {"first_pages is -1"}},
       B{"last", [](PagesCall& c) { c.args.last_pages = INT32_MAX; }, {"k_pages is 2"}},
       B{"page_size", [](PagesCall& c) { c.args.page_size = 0; }, {"page_size is 0"}},
       B{"unbounded",
         [](PagesCall& c) { c.args.page_size = unbounded_page_size; },
         {"page_size", "fixed"}},
       B{"slots beyond int32",
         [](PagesCall& c) { c.args.page_size = 1 << 30; },
         {"num_pages is 5"}},
       B{"q dtype", [](PagesCall& c) { c.args.q.dtype = DType::i8; }, {"q has dtype"}},
       B{"q null", [](PagesCall& c) { c.args.q.data = nullptr; }, {"q"}},
       B{"q tokens", [](PagesCall& c) { c.args.q.extent[0] = 2; }, {"q has shape [2, 4, 16]"}},
       B{"q heads", [](PagesCall& c) { c.args.q.extent[1] = 3; }, {"q has 3 heads"}},
       B{"no q heads", [](PagesCall& c) { c.args.q.extent[1] = 0; }, {"q has 0 heads"}},
       B{"head size", [](PagesCall& c) { c.args.q.extent[2] = 8; }, {"q has shape [3, 4, 8]"}},
       B{"mask", [](PagesCall& c) { c.args.mask.chunk = -1; }, {"mask"}},
       B{"scale", [](PagesCall& c) { c.args.scale = NAN; }, {"scale is"}},
       B{"lists", [](PagesCall& c) { c.args.lists = PageLists(2); }, {"lists is 2"}},
       B{"score", [](PagesCall& c) { c.args.score = PageScore(2); }, {"score is 2"}},
       B{"missed of means",
         [](PagesCall& c) {
           c.args.summaries.kind = SummaryKind::mean;
           c.args.summaries.rows.page_size = 1;
         },
         {"missed is given"}},
       B{"missed misaligned",
         [](PagesCall& c) {
           c.args.missed =
               reinterpret_cast<float*>(reinterpret_cast<std::byte*>(c.missed.data()) + 1);
         },
         {"missed is not aligned"}},
       B{"selected", [](PagesCall& c) { c.args.selected = nullptr; }, {"selected is null"}},
       B{"stride", [](PagesCall& c) { c.args.stride = 7; }, {"stride is 7", "at least 8"}},
       B{"stride huge",
         [](PagesCall& c) { c.args.stride = std::numeric_limits<int64_t>::max(); },
         {"stride", "2^56"}},
       B{"intervals missing",
         [](PagesCall& c) { c.args.intervals = true; },
         {"batch.visible_begin is null"}},
       B{"intervals unasked",
         [](PagesCall& c) { c.batch.visible_end = c.ends.data(); },
         {"batch.visible_end is given"}},
       B{"tree",
         [](PagesCall& c) { c.batch.tree = c.tree.data(); },
         {"batch.tree"},
         Errc::unsupported},
       B{"offsets", [](PagesCall& c) { c.offsets[1] = 4; }, {"batch.query_offsets"}},
       B{"context", [](PagesCall& c) { c.contexts[0] = -1; }, {"batch.context_lengths[0] is -1"}},
       B{"table", [](PagesCall& c) { c.batch.table.entries = nullptr; }, {"batch.table.entries"}},
       B{"workspace", [](PagesCall& c) { c.workspace.bytes -= 1; }, {"workspace"}},
       B{"workspace null", [](PagesCall& c) { c.workspace.data = nullptr; }, {"workspace"}},
       B{"workspace misaligned",
         [](PagesCall& c) { c.workspace.data = c.memory.data() + 4; },
         {"workspace"}},
       B{"executor", [](PagesCall& c) { c.executor = {}; }, {"executor"}}});
}

TEST(SelectPagesErrors, have_no_size_of_memory) {
  const PagesCall sound;
  EXPECT_GT(select_pages_bytes(sound.args, 0, 1), 0);
  EXPECT_GT(select_pages_bytes(sound.args, INT32_MAX, 16384), 0);
  EXPECT_EQ(select_pages_bytes(sound.args, -1, 1), 0);
  EXPECT_EQ(select_pages_bytes(sound.args, 1, 0), 0);
  EXPECT_EQ(select_pages_bytes(sound.args, 1, 16385), 0);
  PageArgs args = sound.args;
  args.page_size = 0;
  EXPECT_EQ(select_pages_bytes(args, 1, 1), 0);
  args = sound.args, args.q.extent[1] = int64_t{1} << 60;
  EXPECT_EQ(select_pages_bytes(args, 1, 1), 0);
}

TEST(SelectPagesErrors, are_none_of_an_empty_batch) {
  PagesCall c;
  c.batch = {};
  c.args.q.extent[0] = 0;
  c.args.selected = nullptr;
  c.workspace = {};
  EXPECT_EQ(c.run().message(), "");
}

}  // namespace
}  // namespace folio::test
