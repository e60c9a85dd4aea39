// SPDX-License-Identifier: Apache-2.0
/// src/attention/summaries.cpp: rows of a page joined to its summary: where they lie, or as floats,
/// some at a time.
#include "attention/summaries.h"

#include <algorithm>

#include "attention/row_conversions.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1 {
namespace {

/// Rows to floats, as they are stored: neither turned back nor scaled by channels.
rows::Conversion dequantised(const PagedKVView& key) {
  rows::Format stored = format_of(key), read;
  stored.hadamard = {};
  stored.channel_scales = nullptr;
  read.dtype = DType::f32;
  read.head_stride_bytes = int64_t{key.head_size} * int64_t{sizeof(float)};
  return conversion_of(stored, read, 1, key.head_size, false);
}

bool has_packed_heads(const PagedKVView& view) {
  return view.head_stride_bytes == row_bytes(view.dtype, view.head_size);
}

}  // namespace

SummaryMaker::SummaryMaker(const PagedKVView& key, const PageSummaries& summaries) noexcept
    : key_(key),
      summaries_(summaries),
      rows_(rows::kernel()),
      pages_(pages::kernel()),
      conversion_(dequantised(key)) {
  const bool is_mean = summaries.kind == SummaryKind::mean;
  is_read_in_place_ = !is_mean && conversion_.is_plain() && key.dtype == summaries.rows.dtype;
  if (!has_packed_heads(summaries.rows) || (is_read_in_place_ && !has_packed_heads(key))) return;
  const int64_t channels = is_mean ? int64_t{rows::head_size_max} : floats;
  heads_at_once_ = is_read_in_place_
                       ? key.num_heads
                       : static_cast<int32_t>(std::max<int64_t>(1, channels / key.head_size));
}

void SummaryMaker::begin(int64_t page) noexcept {
  if (summaries_.kind == SummaryKind::mean) return;
  for_each_part([&](const Heads& heads) { pages_.begin(bounds_of(page, heads)); });
}

void SummaryMaker::add(int64_t page, int64_t first, int64_t count) noexcept {
  for_each_part([&](const Heads& heads) {
    if (summaries_.kind == SummaryKind::mean) return average(page, heads, first + count);
    widen(page, heads, first, count);
  });
}

template <class Visit>
void SummaryMaker::for_each_part(Visit visit) noexcept {
  for (int32_t head = 0; head < key_.num_heads; head += heads_at_once_) {
    const int32_t count = std::min(heads_at_once_, key_.num_heads - head);
    visit(Heads{head, count, int64_t{count} * key_.head_size});
  }
}

template <class Visit>
void SummaryMaker::read(int64_t page, const Heads& heads, int64_t first, int64_t count,
                        Visit visit) noexcept {
  rows::Conversion conversion = conversion_;
  conversion.heads = heads.count;
  pack_heads(conversion);
  const int64_t at_once = std::min(rows_max, floats / heads.n);
  const ScaleView& scales = key_.scales;
  while (count > 0) {
    rows::TokenRow token_rows[rows_max];
    const int64_t now = std::min(count, at_once);
    for (int64_t i = 0; i < now; ++i) {
      const int64_t slot = first + i;
      token_rows[i].source = detail::row_of(key_, page, slot, heads.first);
      token_rows[i].target = reinterpret_cast<std::byte*>(row_ + i * heads.n);
      if (scales.data != nullptr)
        token_rows[i].source_scales =
            static_cast<const std::byte*>(scales.data) +
            detail::scale_offset_bytes(scales, page, slot, heads.first, 0);
    }
    rows_.write(&conversion, 1, token_rows, now);
    visit(row_, now);
    first += now;
    count -= now;
  }
}

pages::BoundRows SummaryMaker::bounds_of(int64_t page, const Heads& heads) const noexcept {
  const PagedKVView& to = summaries_.rows;
  return {to.dtype, detail::row_of(to, page, 0, heads.first),
          detail::row_of(to, page, 1, heads.first), heads.n};
}

void SummaryMaker::widen(int64_t page, const Heads& heads, int64_t first, int64_t count) noexcept {
  const pages::BoundRows bounds = bounds_of(page, heads);
  if (is_read_in_place_)
    return pages_.widen(bounds, {key_.dtype, detail::row_of(key_, page, first, heads.first),
                                 key_.slot_stride_bytes, count});
  read(page, heads, first, count, [&](const float* rows, int64_t rows_now) {
    pages_.widen(bounds, {DType::f32, reinterpret_cast<const std::byte*>(rows),
                          heads.n * int64_t{sizeof(float)}, rows_now});
  });
}

void SummaryMaker::average(int64_t page, const Heads& heads, int64_t count) noexcept {
  std::fill_n(sums_, heads.n, 0.0f);
  read(page, heads, 0, count,
       [&](const float* rows, int64_t rows_now) { pages_.add(rows, rows_now, heads.n, sums_); });
  for (int64_t d = 0; d < heads.n; ++d) sums_[d] /= static_cast<float>(count);
  pages_.store(summaries_.rows.dtype, sums_, detail::row_of(summaries_.rows, page, 0, heads.first),
               heads.n);
}

}  // namespace folio::inline v1
