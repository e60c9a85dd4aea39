// SPDX-License-Identifier: Apache-2.0
/// tier/peer/pieces.h: two lists of runs that have as many bytes, cut where either one is cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "folio/cache/page_extents.h"

namespace folio::inline v1::tier {

struct Piece {
  std::byte* here = nullptr;
  std::byte* there = nullptr;
  int64_t bytes = 0;
};

/// Walks both; the lists must stay.
class Pieces {
 public:
  Pieces(std::span<const Extent> here, std::span<const Extent> there)
      : here_(here), there_(there) {}
  [[nodiscard]] bool is_at_end() const noexcept {
    return i_ == here_.size() || j_ == there_.size();
  }
  /// The next bytes, 1 .. most.
  [[nodiscard]] Piece next(int64_t most) noexcept {
    const Extent &a = here_[i_], &b = there_[j_];
    const int64_t bytes = std::min({a.bytes - a_done_, b.bytes - b_done_, most});
    const Piece piece{a.data + a_done_, b.data + b_done_, bytes};
    a_done_ += bytes;
    b_done_ += bytes;
    if (a_done_ == a.bytes) {
      ++i_;
      a_done_ = 0;
    }
    if (b_done_ == b.bytes) {
      ++j_;
      b_done_ = 0;
    }
    return piece;
  }

 private:
  std::span<const Extent> here_, there_;
  size_t i_ = 0, j_ = 0;
  int64_t a_done_ = 0, b_done_ = 0;
};

}  // namespace folio::inline v1::tier
