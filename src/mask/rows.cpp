// SPDX-License-Identifier: Apache-2.0
/// src/mask/rows.cpp: scans a mask.
#include "mask/rows.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/checked.h"

namespace folio::inline v1::mask {
namespace {

Span span_of(const uint64_t* bits, int64_t words) {
  int64_t first = 0, last = words - 1;
  while (first < words && bits[first] == 0) ++first;
  if (first == words) return {};
  while (bits[last] == 0) --last;
  Span span;
  span.begin = static_cast<int32_t>(first * word_keys + std::countr_zero(bits[first]));
  span.end = static_cast<int32_t>(last * word_keys + 64 - std::countl_zero(bits[last]));
  uint64_t hidden = 0;  // a run of ones: the first word's end in it, the last one's begin with it
  for (int64_t w = first + 1; w < last; ++w) hidden |= ~bits[w];
  const uint64_t from_begin = ~uint64_t{0} << (span.begin % 64);
  const uint64_t to_end = ~uint64_t{0} >> ((64 - span.end % 64) % 64);
  if (first == last) {
    hidden |= ~bits[first] & from_begin & to_end;
  } else {
    hidden |= (~bits[first] & from_begin) | (~bits[last] & to_end);
  }
  span.has_holes = hidden != 0;
  return span;
}

void copy_bits(const std::byte* row, int64_t keys, uint64_t* bits) {
  const int64_t words = words_of(keys);
  if (words == 0) return;
  bits[words - 1] = 0;
  std::memcpy(bits, row, static_cast<size_t>(keys / 8 + (keys % 8 != 0 ? 1 : 0)));
  if constexpr (std::endian::native == std::endian::big) {
    for (int64_t w = 0; w < words; ++w) bits[w] = __builtin_bswap64(bits[w]);
  }
  if (keys % 64 != 0) bits[words - 1] &= ~(~uint64_t{0} << (keys % 64));
}

}  // namespace

void Rows::scan_row(const Shape& shape, int64_t stream, int64_t query, uint64_t* bits) {
  if (shape.dtype == DType::invalid)
    return copy_bits(shape.row(stream, 0, query), shape.keys, bits);
  ScanRow* const scan_keys = scanner().of(shape.dtype);
  is_weighted_ |= scan_keys(shape.row(stream, 0, query), shape.keys, bits);
  for (int64_t h = 1; h < shape.heads; ++h) {
    is_weighted_ |= scan_keys(shape.row(stream, h, query), shape.keys, head_bits_.data());
    for (int64_t w = 0; w < words_; ++w) bits[w] |= head_bits_[static_cast<size_t>(w)];
  }
}

void Rows::scan(const Shape& shape) {
  streams_ = shape.distinct_streams();
  queries_ = shape.queries;
  words_ = words_of(shape.keys);
  is_weighted_ = has_holes_ = false;
  const CheckedSize words = CheckedSize(streams_ * queries_) * words_;
  if (!(words * int64_t{sizeof(uint64_t)}).is_at_most(memory_bytes_max)) throw std::bad_alloc();
  // grown only: what is there is written over
  bits_.resize(std::max(bits_.size(), static_cast<size_t>(words.value())));
  spans_.resize(std::max(spans_.size(), static_cast<size_t>(streams_ * queries_)));
  if (shape.heads > 1) head_bits_.resize(std::max(head_bits_.size(), static_cast<size_t>(words_)));
  uint64_t* bits = bits_.data();
  Span* span = spans_.data();
  for (int64_t s = 0; s < streams_; ++s) {
    for (int64_t q = 0; q < queries_; ++q, bits += words_, ++span) {
      if (words_ > 0) scan_row(shape, s, q, bits);
      *span = span_of(bits, words_);
      has_holes_ |= span->has_holes;
    }
  }
}

}  // namespace folio::inline v1::mask
