// SPDX-License-Identifier: Apache-2.0
/// src/mask/rows.h: what each query sees, as bits and as the span that they lie in.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "mask/scan.h"
#include "mask/shape.h"

namespace folio::inline v1::mask {

/// The first key that a query sees and the one behind the last; 0, 0 where it sees none.
struct Span {
  int32_t begin = 0;
  int32_t end = 0;
  bool has_holes = false;  // some key between is hidden
  [[nodiscard]] bool is_empty() const { return begin == end; }
};

class Rows {
 public:
  /// Reads the whole mask; of heads, a key is seen if one of them sees it. Throws std::bad_alloc.
  void scan(const Shape& shape);

  /// Some number that is seen is not 0.
  [[nodiscard]] bool is_weighted() const { return is_weighted_; }
  [[nodiscard]] bool has_holes() const { return has_holes_; }
  /// [queries] of a stream.
  [[nodiscard]] const Span* spans(int64_t stream) const {
    return spans_.data() + stream % streams_ * queries_;
  }
  /// [words_of(keys)]; bits behind the last key are 0
  [[nodiscard]] const uint64_t* bits(int64_t stream, int64_t query) const {
    return bits_.data() + (stream % streams_ * queries_ + query) * words_;
  }

 private:
  void scan_row(const Shape& shape, int64_t stream, int64_t query, uint64_t* bits);

  std::vector<uint64_t> bits_, head_bits_;
  std::vector<Span> spans_;
  int64_t streams_ = 1, queries_ = 0, words_ = 0;
  bool is_weighted_ = false, has_holes_ = false;
};

/// Calls f(key) for every bit of `word`, whose first is that of key 64 * index.
template <class F>
void for_each_key(uint64_t word, int64_t index, F&& f) {
  for (; word != 0; word &= word - 1)
    f(static_cast<int32_t>(index * word_keys + std::countr_zero(word)));
}

}  // namespace folio::inline v1::mask
