// SPDX-License-Identifier: Apache-2.0
/// reference/attention_errors.cpp: with f[j] between e^-error and e^error, the result becomes
///
///     o + sum_j p[j] (f[j] - 1) (v[j] - o) / sum_j p[j] f[j]
///
/// and lies among the values in any case.
#include "reference/attention_errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace folio::reference {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

double sum_of_sizes(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0, [](double sum, double y) { return sum + std::fabs(y); });
}
double largest_size(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0,
                         [](double top, double y) { return std::max(top, std::fabs(y)); });
}

/// log of the sum of e^(x + sign * y), and of e^one.
double log_sum(const std::vector<double>& x, const std::vector<double>& y, double sign,
               double one) {
  double top = one;
  for (size_t j = 0; j < x.size(); ++j) top = std::max(top, x[j] + sign * y[j]);
  if (std::isinf(top)) return top;
  double sum = std::exp(one - top);
  for (size_t j = 0; j < x.size(); ++j) sum += std::exp(x[j] + sign * y[j] - top);
  return top + std::log(sum);
}

/// p (e^error - 1), perhaps infinite.
double growth(double log_weight, double error) {
  const double p = std::exp(log_weight);
  if (error < 1.0) return p * std::expm1(error);
  const double grown = std::exp(log_weight + error);
  return std::isinf(grown) ? grown : grown - p;
}

}  // namespace

LogitErrors::LogitErrors(const Rows& rows, const std::vector<Logit>& logits,
                         const ErrorWeights& weights, double lse)
    : rows_(rows), log_sink_(rows.has_sink ? rows.sink_logit - lse : nothing) {
  const double row = weights.row == 0.0 ? 0.0
                                        : weights.row * std::fabs(rows.scale) *
                                              largest_size(rows.q, rows.head_size);
  for (size_t j = 0; j < logits.size(); ++j) {
    const Logit& logit = logits[j];
    const double* const key = rows.keys + static_cast<int64_t>(j) * rows.key_stride;
    const double of_row = row == 0.0 ? 0.0 : row * sum_of_sizes(key, rows.head_size);
    log_weights_.push_back(logit.value - lse);
    const bool is_hidden = std::exp(log_weights_[j]) == 0.0 && std::isinf(logit.term_magnitude);
    errors_.push_back(
        is_hidden
            ? 0.0
            : error_unit * (weights.dot * logit.dot_magnitude + of_row + weights.constant +
                            weights.term * (logit.term_magnitude + std::fabs(log_weights_[j]))));
  }
  log_least_sum_ = log_sum(log_weights_, errors_, -1.0, log_sink_);
}

void LogitErrors::add_to(QueryResult& result) const {
  std::vector<double> farthest(result.out.size(), 0.0);
  for (size_t i = 0; i < farthest.size() && rows_.has_sink; ++i)
    farthest[i] = std::fabs(result.out[i]);
  for (size_t j = 0; j < errors_.size(); ++j) {
    const double moved = growth(log_weights_[j] - log_least_sum_, errors_[j]);
    const double* const v = rows_.values + static_cast<int64_t>(j) * rows_.value_stride;
    for (size_t i = 0; i < farthest.size(); ++i) {
      const double distance = std::fabs(v[i] - result.out[i]);
      farthest[i] = std::max(farthest[i], distance);
      if (distance != 0.0 && moved != 0.0) result.spread[i] += moved * distance;
    }
  }
  for (size_t i = 0; i < farthest.size(); ++i)
    result.spread[i] = std::min(result.spread[i], farthest[i]) / error_unit;
  const double most = log_sum(log_weights_, errors_, 1.0, log_sink_);
  result.mean_weight = std::max(most, -log_least_sum_) / error_unit;
}

std::vector<double> LogitErrors::largest_weights() const {
  std::vector<double> weights;
  for (size_t j = 0; j < errors_.size(); ++j)
    weights.push_back(std::exp(std::min(log_weights_[j] + errors_[j] - log_least_sum_, 0.0)));
  return weights;
}

}  // namespace folio::reference
