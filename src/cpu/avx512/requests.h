// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/requests.h: lines of memory that a product requests while it computes, so many at
/// each of its steps.
///
/// Requests that come faster than memory answers are dropped, and those of scattered lines open no
/// stream: lines go out evenly and in the order of memory. ISA-safe: always-inline functions and
/// plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::avx512 {

/// Rows of so many lines each.
struct Lines {
  const std::byte* data = nullptr;
  int64_t stride_bytes = 0;
  int32_t lines = 0;
  int32_t rows = 0;
};

/// Rows of a tile, and scales, that are requested one after the other.
class LineList {
 public:
  FOLIO_ALWAYS_INLINE void clear() { count_ = total_ = 0; }
  /// Rows that go on where the last ones end, at their stride, are one with them; so are any two.
  FOLIO_ALWAYS_INLINE void add(const Lines& more) {
    if (more.rows <= 0) return;
    Lines* const last = count_ > 0 ? &lines_[count_ - 1] : nullptr;
    if (last != nullptr && last->lines == more.lines) {
      if (last->rows == 1 && more.rows == 1) last->stride_bytes = more.data - last->data;
      const bool has_stride = more.rows == 1 || last->stride_bytes == more.stride_bytes;
      if (has_stride && more.data == last->data + last->rows * last->stride_bytes) {
        total_ += more.lines * more.rows;
        last->rows += more.rows;
        return;
      }
    }
    if (count_ == capacity) return;
    total_ += more.lines * more.rows;
    lines_[count_++] = more;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE const Lines* begin() const { return lines_; }
  [[nodiscard]] FOLIO_ALWAYS_INLINE const Lines* end() const { return lines_ + count_; }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t total() const { return total_; }

 private:
  static constexpr int capacity = 3 * tile_keys;  // no tile has more rows, nor two planes scales
  Lines lines_[capacity];
  int32_t count_ = 0, total_ = 0;
};

/// What is left of a list, `each` lines at a step, into the first cache or the second.
class Requests {
 public:
  Requests() = default;
  FOLIO_ALWAYS_INLINE Requests(const LineList& list, int64_t steps, bool is_near)
      : next_(list.begin()), end_(list.end()), is_near_(is_near) {
    const int64_t each = steps > 0 ? (list.total() + steps - 1) / steps : 0;
    each_ = static_cast<int16_t>(each < INT16_MAX ? each : INT16_MAX);
    if (each_ > 0) take();
  }
  FOLIO_ALWAYS_INLINE void step() {
    for (int i = 0; i < each_; ++i) next();
  }

 private:
  FOLIO_ALWAYS_INLINE void next() {
    if (at_.rows == 0) return;
    const std::byte* const line = at_.data + int64_t{line_} * 64;
    is_near_ ? __builtin_prefetch(line, 0, 3) : __builtin_prefetch(line, 0, 2);
    if (++line_ < at_.lines) return;
    line_ = 0;
    at_.data += at_.stride_bytes;
    if (--at_.rows == 0) take();
  }
  FOLIO_ALWAYS_INLINE void take() {
    if (next_ != end_) at_ = *next_++;
  }

  Lines at_;
  const Lines* next_ = nullptr;
  const Lines* end_ = nullptr;
  int32_t line_ = 0;
  int16_t each_ = 0;
  bool is_near_ = true;
};

/// What one product requests meanwhile: two lists side by side. A tile keeps a copy in registers.
struct Pace {
  Requests first, second;

  FOLIO_ALWAYS_INLINE void step() {
    first.step();
    second.step();
  }
};

}  // namespace folio::inline v1::avx512
