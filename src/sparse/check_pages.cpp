// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_pages.cpp: what select_pages refuses.
#include "sparse/check_pages.h"

#include <cmath>

#include "attention/check.h"
#include "attention/check_rows.h"
#include "attention/check_summaries.h"
#include "cache/check_alignment.h"
#include "cache/check_tensor.h"
#include "sparse/check_lists.h"

namespace folio::inline v1 {
namespace {

constexpr Alignment of_int32{4, DType::invalid, "the size of int32"};

Status check_choices(const char* function, const PageArgs& args) {
  if (args.lists > PageLists::per_kv_head)
    return fail(Errc::invalid_argument, "{}: lists is {}, expected a value of PageLists", function,
                static_cast<int>(args.lists));
  if (args.score > PageScore::sum)
    return fail(Errc::invalid_argument, "{}: score is {}, expected a value of PageScore", function,
                static_cast<int>(args.score));
  if (!std::isfinite(args.scale))
    return fail(Errc::invalid_argument, "{}: scale is {}, expected a finite number", function,
                static_cast<double>(args.scale));
  if (args.missed == nullptr) return {};
  if (args.summaries.kind != SummaryKind::bounds)
    return fail(Errc::invalid_argument,
                "{}: missed is given, expected null: means bound nothing (summaries.kind)",
                function);
  return check_aligned(function, "missed", "", args.missed, natural_alignment(DType::f32));
}

Status check_kept(const char* function, const PageArgs& args) {
  if (args.first_pages < 0 || args.last_pages < 0)
    return fail(Errc::invalid_argument,
                "{}: first_pages is {} and last_pages {}, expected at least 0", function,
                args.first_pages, args.last_pages);
  const int64_t kept = int64_t{args.first_pages} + args.last_pages;
  if (args.k_pages >= kept) return {};
  return fail(Errc::invalid_argument,
              "{}: k_pages is {}, expected at least {} (first_pages + last_pages)", function,
              args.k_pages, kept);
}

Status check_intervals(const char* function, const Batch& batch, const PageArgs& args) {
  const struct {
    const char* name;
    const int32_t* data;
  } arrays[] = {{"batch.visible_begin", batch.visible_begin},
                {"batch.visible_end", batch.visible_end}};
  for (const auto& array : arrays) {
    if ((array.data != nullptr) != args.intervals)
      return fail(Errc::invalid_argument,
                  args.intervals ? "{}: {} is null, expected an array (intervals)"
                                 : "{}: {} is given, expected null (no intervals)",
                  function, array.name);
    if (Status s = check_aligned(function, array.name, "", array.data, of_int32); !s.is_ok())
      return s;
  }
  return {};
}

Status check_lists_of(const char* function, const PageArgs& args, int64_t tokens) {
  const Lists lists{
      "selected", args.selected, tokens * lists_of(args), int64_t{args.k_pages} * args.page_size,
      "stride",   args.stride};
  return check_lists(function, lists);
}

Status check_batch(const char* function, const Batch& batch, const PageArgs& args) {
  if (Status s = check_sequences(function, batch, INT32_MAX, "int32"); !s.is_ok()) return s;
  if (batch.tree != nullptr)
    return fail(Errc::unsupported,
                "{}: batch.tree is given, expected null: trees of new tokens are unsupported",
                function);
  const int64_t tokens = batch.size > 0 ? batch.query_offsets[batch.size] : 0;
  const PagedKVView& rows = args.summaries.rows;
  const ExpectedTensor q{{tokens, args.q.extent[1], rows.head_size}, "the batch and summaries"};
  if (Status s = check_tensor(function, "q", args.q, q); !s.is_ok()) return s;
  if (tokens == 0) return {};
  if (Status s = check_intervals(function, batch, args); !s.is_ok()) return s;
  return check_lists_of(function, args, tokens);
}

}  // namespace

Status check_page_sizes(const char* function, const PageArgs& args) noexcept {
  constexpr int64_t heads_max = 65536;
  if (args.k_pages < 1 || args.k_pages > pages_max)
    return fail(Errc::invalid_argument, "{}: k_pages is {}, expected 1 to {}", function,
                args.k_pages, pages_max);
  if (args.page_size < 1 || args.page_size == unbounded_page_size)
    return fail(Errc::invalid_argument,
                "{}: page_size is {}, expected at least 1, of pages of a fixed size", function,
                args.page_size);
  const int64_t q_heads = args.q.extent[1];
  if (q_heads < 1 || q_heads > heads_max)
    return fail(Errc::invalid_argument, "{}: q has {} heads, expected 1 to {}", function, q_heads,
                heads_max);
  const int32_t head_size = args.summaries.rows.head_size;
  if (head_size < 1)
    return fail(Errc::invalid_argument, "{}: summaries.rows.head_size is {}, expected at least 1",
                function, head_size);
  return check_head_size(function, "summaries.rows", head_size,
                         "a summary is worked on as a whole");
}

Status check_pages(const char* function, const Batch& batch, const PageArgs& args) noexcept {
  if (Status s = check_page_sizes(function, args); !s.is_ok()) return s;
  if (Status s = check_summaries(function, args.summaries); !s.is_ok()) return s;
  const PagedKVView& rows = args.summaries.rows;
  if (args.q.extent[1] % rows.num_heads != 0)
    return fail(Errc::invalid_argument,
                "{}: q has {} heads, expected a multiple of {} (summaries.rows.num_heads)",
                function, args.q.extent[1], rows.num_heads);
  if (Status s = check_slots(function, args.page_size, rows.num_pages); !s.is_ok()) return s;
  if (Status s = check_mask(function, args.mask); !s.is_ok()) return s;
  if (Status s = check_choices(function, args); !s.is_ok()) return s;
  if (Status s = check_kept(function, args); !s.is_ok()) return s;
  return check_batch(function, batch, args);
}

}  // namespace folio::inline v1
