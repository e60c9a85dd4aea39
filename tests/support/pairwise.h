// SPDX-License-Identifier: Apache-2.0
/// tests/support/pairwise.h: a covering design of strength two: every value of a factor meets every
/// value of every other factor.
///
/// Greedy: each row starts from a pair that is not covered yet and takes, factor by factor, the
/// value that covers the most new pairs. Source: Cohen, Dalal, Fredman and Patton 1997, The AETG
/// system.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "support/random.h"

namespace folio::test {

class PairwiseDesign {
 public:
  /// `levels[f]`: number of values of factor f.
  PairwiseDesign(std::span<const int> levels, uint64_t seed)
      : levels_(levels.begin(), levels.end()), rng_(seed) {
    for (size_t f = 0; f < levels_.size(); ++f) {
      first_.push_back(total_);
      total_ += static_cast<size_t>(levels_[f]);
    }
    covered_.assign(total_ * total_, false);
    for (size_t f = 0; f < levels_.size(); ++f) {
      for (size_t g = f + 1; g < levels_.size(); ++g) left_ += levels_[f] * levels_[g];
    }
    while (left_ > 0) add_row();
  }

  [[nodiscard]] const std::vector<std::vector<int>>& rows() const { return rows_; }

 private:
  [[nodiscard]] size_t index(size_t f, int a, size_t g, int b) const {
    return (first_[f] + static_cast<size_t>(a)) * total_ + first_[g] + static_cast<size_t>(b);
  }

  /// New pairs of value `a` of factor f with the values that `row` has already (-1: none yet).
  [[nodiscard]] int gain(const std::vector<int>& row, size_t f, int a) const {
    int pairs = 0;
    for (size_t g = 0; g < row.size(); ++g) {
      if (g != f && row[g] >= 0 && !covered_[index(f, a, g, row[g])]) ++pairs;
    }
    return pairs;
  }

  void start_from_uncovered_pair(std::vector<int>& row) {
    for (size_t f = 0; f < row.size(); ++f)
      for (size_t g = f + 1; g < row.size(); ++g)
        for (int a = 0; a < levels_[f]; ++a)
          for (int b = 0; b < levels_[g]; ++b)
            if (!covered_[index(f, a, g, b)]) {
              row[f] = a;
              row[g] = b;
              return;
            }
  }

  void add_row() {
    std::vector<int> row(levels_.size(), -1);
    start_from_uncovered_pair(row);
    std::vector<size_t> order(levels_.size());
    for (size_t f = 0; f < order.size(); ++f) order[f] = f;
    rng_.shuffle(order);
    for (const size_t f : order) {
      if (row[f] >= 0) continue;
      const int start = rng_.int_between(0, levels_[f] - 1);  // ties go to a random value
      int best = start;
      for (int i = 0; i < levels_[f]; ++i) {
        const int a = (start + i) % levels_[f];
        if (gain(row, f, a) > gain(row, f, best)) best = a;
      }
      row[f] = best;
    }
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) {
        if (!covered_[index(f, row[f], g, row[g])]) --left_;
        covered_[index(f, row[f], g, row[g])] = covered_[index(g, row[g], f, row[f])] = true;
      }
    }
    rows_.push_back(std::move(row));
  }

  std::vector<int> levels_;
  Rng rng_;
  std::vector<size_t> first_;
  size_t total_ = 0;
  std::vector<bool> covered_;
  int left_ = 0;
  std::vector<std::vector<int>> rows_;
};

}  // namespace folio::test
