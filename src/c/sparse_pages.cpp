// SPDX-License-Identifier: Apache-2.0
/// src/c/sparse_pages.cpp: summaries of pages through the C interface, and the pages that they
/// choose.
#include <span>

#include "c/convert.h"
#include "folio/sparse/pages.h"

namespace folio::inline v1::c {
namespace {

static_assert(sizeof(folio_filled_page) == sizeof(FilledPage));
static_assert(static_cast<int32_t>(PageLists::per_query) == FOLIO_PAGE_LISTS_PER_QUERY &&
              static_cast<int32_t>(PageLists::per_kv_head) == FOLIO_PAGE_LISTS_PER_KV_HEAD &&
              static_cast<int32_t>(PageScore::greatest) == FOLIO_PAGE_SCORE_GREATEST &&
              static_cast<int32_t>(PageScore::sum) == FOLIO_PAGE_SCORE_SUM);

Status make_summaries(const folio_kv_view* key, const folio_page_summaries* summaries,
                      const folio_filled_page* pages, int64_t num_pages,
                      const folio_executor* executor) {
  constexpr auto function = "folio_summarise";
  if (key == nullptr) return null_argument(function, "key");
  PagedKVView k;
  if (Status s = convert(function, "key", key, k); !s.is_ok()) return s;
  PageSummaries to;
  if (Status s = convert(function, "summaries", summaries, to); !s.is_ok()) return s;
  if (Status s = check_array(function, "pages", pages, "num_pages", num_pages, sizeof *pages);
      !s.is_ok())
    return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  // the same words
  return summarise(k, to,
                   {reinterpret_cast<const FilledPage*>(pages), static_cast<size_t>(num_pages)},
                   adapter.get());
}

/// Pages that every list has: 0 is the default, -1 none.
Status read_kept(const char* function, const char* field, int32_t value, int32_t& to) {
  if (value < -1)
    return fail(Errc::invalid_argument, "{}: {} is {}, expected at least -1", function, field,
                value);
  if (value != 0) to = value > 0 ? value : 0;
  return {};
}

Status read_choices(const char* function, const folio_page_args& a, PageArgs& to) {
  if (Status s = read_flag(function, "args->intervals", a.intervals, to.intervals); !s.is_ok())
    return s;
  if (Status s = read_choice(function, "args->lists", a.lists, PageLists::per_kv_head, to.lists);
      !s.is_ok())
    return s;
  if (Status s = read_choice(function, "args->score", a.score, PageScore::sum, to.score);
      !s.is_ok())
    return s;
  if (Status s = read_kept(function, "args->first_pages", a.first_pages, to.first_pages);
      !s.is_ok())
    return s;
  return read_kept(function, "args->last_pages", a.last_pages, to.last_pages);
}

Status read_args(const char* function, const folio_page_args* args, PageArgs& to) {
  folio_page_args a = {};
  a.mask_left = -1;
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (a.q == nullptr) return null_argument(function, "args->q");
  if (Status s = convert(function, "args->q", a.q, to.q); !s.is_ok()) return s;
  if (Status s = convert(function, "args->summaries", a.summaries, to.summaries); !s.is_ok())
    return s;
  to.page_size = a.page_size;
  to.mask = {a.mask_left, a.mask_right, a.mask_chunk, a.mask_sink_tokens};
  to.scale = a.scale;
  to.k_pages = a.k_pages;
  to.selected = a.selected;
  to.stride = a.stride;
  to.missed = a.missed;
  return read_choices(function, a, to);
}

Status select(const folio_batch* batch, const folio_page_args* args, MemorySpan workspace,
              const folio_executor* executor) {
  constexpr auto function = "folio_select_pages";
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  PageArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return select_pages(b, a, workspace, adapter.get());
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_summarise(const folio_kv_view* key, const folio_page_summaries* summaries,
                           const folio_filled_page* pages, int64_t num_pages,
                           const folio_executor* executor, folio_message* message) {
  return c::report(c::make_summaries(key, summaries, pages, num_pages, executor), message);
}

int64_t folio_get_select_pages_bytes(const folio_page_args* args, int32_t context,
                                     int32_t parallelism) {
  PageArgs a;
  if (!c::read_args("folio_get_select_pages_bytes", args, a).is_ok()) return 0;
  return select_pages_bytes(a, context, parallelism);
}

folio_code folio_select_pages(const folio_batch* batch, const folio_page_args* args,
                              void* workspace, int64_t bytes, const folio_executor* executor,
                              folio_message* message) {
  return c::report(c::select(batch, args, {workspace, bytes}, executor), message);
}
