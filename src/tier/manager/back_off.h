// SPDX-License-Identifier: Apache-2.0
/// tier/manager/back_off.h: when a tier whose loads, or stores, fail is left alone with them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace folio::inline v1::tier {

/// After so many faults in a row it rests, twice as long each time. After a rest one fault more is
/// enough, until something succeeds.
class BackOff {
 public:
  BackOff(int32_t faults_to_rest, int64_t first_us, int64_t longest_us)
      : most_(faults_to_rest), first_us_(first_us), longest_us_(longest_us), next_us_(first_us) {}

  [[nodiscard]] bool is_resting(int64_t now_us) const { return now_us < until_us_; }
  void succeed() {
    faults_ = 0;
    next_us_ = first_us_;
  }
  /// Whether a rest begins. What fails during a rest began before it, and does not count.
  bool fail(int64_t now_us) {
    if (is_resting(now_us) || ++faults_ < most_) return false;
    faults_ = most_ - 1;
    until_us_ = now_us + next_us_;
    next_us_ = std::min(2 * next_us_, longest_us_);
    return true;
  }

 private:
  int32_t most_, faults_ = 0;
  int64_t first_us_, longest_us_, next_us_, until_us_ = 0;
};

}  // namespace folio::inline v1::tier
