// SPDX-License-Identifier: Apache-2.0
/// cli/parts/bounded_series.h: a history of any length in a bounded number of samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace folio::cli {

/// Each sample stands for `stride` values in order, the last one for those that are left. Where one
/// sample more than `most` would be needed, neighbours are merged and the stride doubles, so that
/// what is kept depends on the values alone. `T` has `void merge(const T& later)`.
template <class T>
class BoundedSeries {
 public:
  /// `most`: even, at least 2.
  explicit BoundedSeries(size_t most) : most_(most) {}

  void add(T value) {
    if (in_last_ != 0 && in_last_ < stride_) {
      samples_.back().merge(value);
      ++in_last_;
      return;
    }
    if (samples_.size() == most_) halve();
    samples_.push_back(std::move(value));
    in_last_ = 1;
  }

  [[nodiscard]] const std::vector<T>& samples() const { return samples_; }
  /// Values of each sample but the last.
  [[nodiscard]] int64_t stride() const { return stride_; }

 private:
  void halve() {
    for (size_t i = 0; i < most_ / 2; ++i) {
      T merged = std::move(samples_[2 * i]);
      merged.merge(samples_[2 * i + 1]);
      samples_[i] = std::move(merged);
    }
    samples_.resize(most_ / 2);
    stride_ *= 2;
  }

  size_t most_;
  int64_t stride_ = 1;
  int64_t in_last_ = 0;  // values of the last sample
  std::vector<T> samples_;
};

}  // namespace folio::cli
