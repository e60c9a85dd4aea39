// SPDX-License-Identifier: Apache-2.0
/// reference/attention_errors.h: what errors of logits may do to a result, be they small or not.
#pragma once

#include <vector>

#include "reference/attention.h"

namespace folio::reference {

struct Logit {
  double value = 0.0;
  double dot_magnitude = 0.0;
  double term_magnitude = 0.0;
};

/// By how much logits may be off, each by itself, so that weights may be e^error times what they
/// should be, or the same part of it.
class LogitErrors {
 public:
  /// lse: of `logits`, and of the sink.
  LogitErrors(const Rows& rows, const std::vector<Logit>& logits, const ErrorWeights& weights,
              double lse);

  /// `spread` and `mean_weight`. Requires `out`.
  void add_to(QueryResult& result) const;
  /// Of each key, the most that its weight may be.
  [[nodiscard]] std::vector<double> largest_weights() const;

 private:
  const Rows& rows_;
  std::vector<double> log_weights_;  // of what p is the exponential
  std::vector<double> errors_;
  double log_sink_;
  double log_least_sum_;  // of all weights, where each is as little as it may be
};

}  // namespace folio::reference
