// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_retention.h: levels and deadlines once more, by searching. Of contents, not of
/// pages. A tick is a millisecond.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

/// What a sequence said when it was admitted.
struct NaiveWish {
  std::vector<RetentionRange> ranges;
  DecodeRetention decode;
  int32_t prompt = 0;
};

class NaiveRetention {
 public:
  explicit NaiveRetention(int64_t max_ms) : max_ms_(max_ms) {}

  [[nodiscard]] int level(int content) const;
  [[nodiscard]] int64_t now() const { return now_; }

  /// A sequence with these contents, `page_size` tokens each, is about to be released.
  void give_up(const std::vector<int>& contents, int64_t page_size, const NaiveWish& wish);
  /// Returns the contents whose level has changed, last first.
  std::vector<int> retain(const std::vector<int>& contents, int64_t page_size,
                          const std::vector<RetentionRange>& ranges);
  /// Returns the contents whose time has come, in the order in which it did.
  std::vector<int> advance(int64_t now);

  /// Nobody holds `page` any more, whose level is not the normal one.
  void add(uint32_t page);
  /// The page that was added first of those.
  [[nodiscard]] uint32_t first(const std::function<bool(uint32_t)>& of_these) const;

 private:
  struct Kept {
    int level = retention_level::normal;
    int64_t deadline = 0;  ///< 0 at the normal level
    int64_t order = 0;
    bool spoken_for = false;
  };
  using Wanted = std::pair<int, int64_t>;  ///< level, deadline
  [[nodiscard]] Wanted wanted(int level, int64_t ms) const;
  void put(Kept& kept, Wanted wanted);

  int64_t max_ms_;
  int64_t now_ = 0, clock_ = 0;
  bool has_started_ = false;
  std::map<int, Kept> kept_;
  std::vector<uint32_t> waiting_;
};

}  // namespace folio::test
