// SPDX-License-Identifier: Apache-2.0
/// src/attention/summaries.cpp: rows of a page and head to floats, some at a time, and joined.
#include "attention/summaries.h"

#include <algorithm>
#include <limits>

#include "attention/row_conversions.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1 {
namespace {

/// Rows of one head to floats, as they are stored: neither turned back nor scaled by channels.
rows::Conversion dequantised(const PagedKVView& key) {
  rows::Format stored = format_of(key), read;
  stored.hadamard = {};
  stored.channel_scales = nullptr;
  read.dtype = DType::f32;
  read.head_stride_bytes = int64_t{key.head_size} * int64_t{sizeof(float)};
  return conversion_of(stored, read, 1, key.head_size, false);
}

}  // namespace

SummaryMaker::SummaryMaker(const PagedKVView& key, const PageSummaries& summaries) noexcept
    : key_(key),
      summaries_(summaries),
      rows_(rows::kernel()),
      pages_(pages::kernel()),
      conversion_(dequantised(key)) {}

void SummaryMaker::begin(int64_t page, int64_t first, int64_t count) noexcept {
  for (int32_t head = 0; head < key_.num_heads; ++head) {
    if (summaries_.kind == SummaryKind::mean) {
      average_head(page, head, first, count);
    } else {
      widen_head(page, head, first, count, true);
    }
  }
}

void SummaryMaker::widen(int64_t page, int64_t first, int64_t count) noexcept {
  for (int32_t head = 0; head < key_.num_heads; ++head) widen_head(page, head, first, count, false);
}

template <class Read>
void SummaryMaker::read(int64_t page, int64_t head, int64_t first, int64_t count,
                        Read read) noexcept {
  const int64_t at_once = std::min(rows_max, floats / key_.head_size);
  const ScaleView& scales = key_.scales;
  while (count > 0) {
    rows::TokenRow token_rows[rows_max];
    const int64_t now = std::min(count, at_once);
    for (int64_t i = 0; i < now; ++i) {
      const int64_t slot = first + i;
      token_rows[i].source = detail::row_of(key_, page, slot, head);
      token_rows[i].target = reinterpret_cast<std::byte*>(row_ + i * key_.head_size);
      if (scales.data != nullptr)
        token_rows[i].source_scales = static_cast<const std::byte*>(scales.data) +
                                      detail::scale_offset_bytes(scales, page, slot, head, 0);
    }
    rows_.write(&conversion_, 1, token_rows, now);
    read(row_, now);
    first += now;
    count -= now;
  }
}

void SummaryMaker::widen_head(int64_t page, int64_t head, int64_t first, int64_t count,
                              bool anew) noexcept {
  const PagedKVView& to = summaries_.rows;
  const int64_t n = key_.head_size;
  std::byte* const low = detail::row_of(to, page, 0, head);
  std::byte* const high = detail::row_of(to, page, 1, head);
  if (anew) {
    std::fill_n(low_, n, std::numeric_limits<float>::infinity());
    std::fill_n(high_, n, -std::numeric_limits<float>::infinity());
  } else {
    pages_.load(to.dtype, low, low_, n);
    pages_.load(to.dtype, high, high_, n);
  }
  read(page, head, first, count,
       [&](const float* rows, int64_t rows_now) { pages_.widen(rows, rows_now, n, low_, high_); });
  pages_.store(to.dtype, pages::Rounding::down, low_, low, n);
  pages_.store(to.dtype, pages::Rounding::up, high_, high, n);
}

void SummaryMaker::average_head(int64_t page, int64_t head, int64_t first, int64_t count) noexcept {
  const int64_t n = key_.head_size;
  std::fill_n(low_, n, 0.0f);
  read(page, head, first, count,
       [&](const float* rows, int64_t rows_now) { pages_.add(rows, rows_now, n, low_); });
  for (int64_t d = 0; d < n; ++d) low_[d] /= static_cast<float>(count);
  pages_.store(summaries_.rows.dtype, pages::Rounding::nearest, low_,
               detail::row_of(summaries_.rows, page, 0, head), n);
}

}  // namespace folio::inline v1
