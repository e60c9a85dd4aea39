// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_summaries.cpp: the border checks of summaries of pages.
#include "attention/check_summaries.h"

#include "attention/check_rows.h"
#include "cache/check_tensor.h"
#include "cache/check_view.h"

namespace folio::inline v1 {

Status check_summaries(const char* function, const PageSummaries& summaries) noexcept {
  constexpr auto name = "summaries.rows";
  const PagedKVView& rows = summaries.rows;
  if (summaries.kind > SummaryKind::mean)
    return fail(Errc::invalid_argument, "{}: summaries.kind is {}, expected a value of SummaryKind",
                function, static_cast<int>(summaries.kind));
  if (!is_activation_dtype(rows.dtype))
    return fail(Errc::invalid_argument, "{}: {} has dtype {}, expected f32, bf16 or f16", function,
                name, rows.dtype);
  if (rows.scales.data != nullptr || rows.scales.dtype != DType::invalid)
    return fail(Errc::invalid_argument, "{}: {}.scales are given, expected none", function, name);
  if (Status s = check_view(function, name, rows, PlaneTypes::elements); !s.is_ok()) return s;
  if (rows.page_size != summary_rows(summaries.kind))
    return fail(Errc::invalid_argument, "{}: {}.page_size is {}, expected {} (summary_rows)",
                function, name, rows.page_size, summary_rows(summaries.kind));
  return check_head_size(function, name, rows.head_size, "a summary is worked on as a whole");
}

Status check_summaries(const char* function, const PagedKVView& key,
                       const PageSummaries& summaries) noexcept {
  constexpr auto name = "summaries.rows";
  if (key.page_size == unbounded_page_size)
    return fail(Errc::invalid_argument,
                "{}: key has unbounded pages, expected pages of a fixed size (summaries)",
                function);
  if (Status s = check_summaries(function, summaries); !s.is_ok()) return s;
  const PagedKVView& rows = summaries.rows;
  const struct {
    const char* field;
    int64_t given;
    int64_t expected;
  } compared[] = {{"num_heads", rows.num_heads, key.num_heads},
                  {"head_size", rows.head_size, key.head_size},
                  {"num_pages", rows.num_pages, key.num_pages}};
  for (const auto& c : compared) {
    if (c.given == c.expected) continue;
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected {} (from key)", function, name,
                c.field, c.given, c.expected);
  }
  return check_places(function, name, rows);
}

}  // namespace folio::inline v1
