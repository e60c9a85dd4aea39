// SPDX-License-Identifier: Apache-2.0
/// src/sparse/summarise.cpp: summaries of pages that were written without: check, then a range of
/// pages for each task.
#include "attention/check_rows.h"
#include "attention/check_summaries.h"
#include "attention/row_ranges.h"
#include "attention/summaries.h"
#include "cache/check_view.h"
#include "core/run_on.h"
#include "folio/sparse/pages.h"

namespace folio::inline v1 {
namespace {

struct Call {
  const PagedKVView& key;
  const PageSummaries& summaries;
  std::span<const FilledPage> pages;
  RowRanges ranges = {};
};

void summarise_range(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  SummaryMaker maker(call.key, call.summaries);
  for (int64_t i = call.ranges.begin(task); i < call.ranges.end(task); ++i) {
    const FilledPage& filled = call.pages[static_cast<size_t>(i)];
    maker.begin(filled.page);
    maker.add(filled.page, 0, filled.slots);
  }
}

Status check(const PagedKVView& key, const PageSummaries& summaries,
             std::span<const FilledPage> pages) {
  constexpr auto function = "summarise";
  if (Status s = check_view(function, "key", key, PlaneTypes::any); !s.is_ok()) return s;
  if (Status s = check_readable_scales(function, "key", key, Memory::cpu); !s.is_ok()) return s;
  if (Status s = check_summaries(function, key, summaries); !s.is_ok()) return s;
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto& [page, slots] = pages[i];
    if (page >= key.num_pages)
      return fail(Errc::invalid_argument, "{}: pages[{}].page is {}, expected less than {}",
                  function, i, page, key.num_pages);
    if (slots < 1 || slots > key.page_size)
      return fail(Errc::invalid_argument, "{}: pages[{}].slots is {}, expected 1 to {} (page_size)",
                  function, i, slots, key.page_size);
  }
  return {};
}

}  // namespace

Status summarise(const PagedKVView& key, const PageSummaries& summaries,
                 std::span<const FilledPage> pages, const Executor& executor) noexcept {
  if (Status s = check_executor("summarise", executor); !s.is_ok()) return s;
  if (Status s = check(key, summaries, pages); !s.is_ok()) return s;
  if (pages.empty()) return {};
  const Result<int64_t> threads = concurrency_of("summarise", executor);
  if (!threads) return threads.error();
  const int64_t floats = int64_t{key.page_size} * key.num_heads * key.head_size;
  Call call{key, summaries, pages,
            row_ranges(std::ssize(pages), floats * int64_t{sizeof(float)}, *threads)};
  return run_on("summarise", executor, call.ranges.tasks, summarise_range, &call);
}

}  // namespace folio::inline v1
