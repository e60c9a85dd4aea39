// SPDX-License-Identifier: Apache-2.0
/// reference/attention.cpp: both formulations.
#include "reference/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/attention_errors.h"
#include "reference/hadamard.h"
#include "reference/merge.h"

namespace folio::reference {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

struct Dot {
  double sum = 0.0;
  double magnitude = 0.0;
};

double sum_of_sizes(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0, [](double sum, double y) { return sum + std::fabs(y); });
}

/// sum x y and sum |x y|. Four partial sums, so that additions overlap.
Dot dot(const double* x, const double* y, int64_t n) {
  std::array<double, 4> sum = {}, magnitude = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) {
      const double product = x[i + static_cast<int64_t>(lane)] * y[i + static_cast<int64_t>(lane)];
      sum[lane] += product;
      magnitude[lane] += std::fabs(product);
    }
  }
  for (; i < n; ++i) {
    sum[0] += x[i] * y[i];
    magnitude[0] += std::fabs(x[i] * y[i]);
  }
  return {(sum[0] + sum[1]) + (sum[2] + sum[3]),
          (magnitude[0] + magnitude[1]) + (magnitude[2] + magnitude[3])};
}

/// s[j], and the magnitudes of what it is made of.
Logit logit_of(const Rows& rows, int64_t j) {
  const Dot product = dot(rows.q, rows.keys + j * rows.key_stride, rows.head_size);
  const double scaled = rows.scale * product.sum;
  Logit logit{scaled, std::fabs(rows.scale) * product.magnitude, std::fabs(scaled)};
  if (rows.softcap > 0.0) {
    logit.value = rows.softcap * std::tanh(scaled / rows.softcap);
    logit.term_magnitude += rows.softcap;
  }
  if (rows.alibi != nullptr) {
    logit.value += rows.alibi[j];
    logit.term_magnitude += std::fabs(rows.alibi[j]);
  }
  if (rows.bias != nullptr) {
    logit.value += rows.bias[j];
    logit.term_magnitude += std::fabs(rows.bias[j]);
  }
  logit.term_magnitude += std::fabs(logit.value);
  return logit;
}

/// QueryResult::tiles. weights: p of each key, or the most that it may be.
std::vector<double> magnitudes_of_tiles(const Rows& rows, const std::vector<double>& weights) {
  constexpr int64_t tile_keys = 64;
  const auto size = static_cast<size_t>(rows.v_head_size);
  std::vector<double> all(size, 0.0), sums(size), tops(size);
  const auto tile_of = [&](int64_t j) { return rows.key_indices[j] / tile_keys; };
  const auto n = static_cast<int64_t>(size);
  for (int64_t j = 0; j < rows.count;) {
    std::fill(tops.begin(), tops.end(), 0.0);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const int64_t tile = tile_of(j); j < rows.count && tile_of(j) == tile; ++j) {
      const double* v = rows.values + j * rows.value_stride;
      for (int64_t d = 0; d < n; ++d) {
        const auto i = static_cast<size_t>(d);
        const double scale =
            rows.value_scales != nullptr ? std::fabs(rows.value_scales[j * n + d]) : 1.0;
        const double offset = rows.value_offsets != nullptr ? rows.value_offsets[j * n + d] : 0.0;
        if (scale == 0.0) continue;
        tops[i] = std::max(tops[i], weights[static_cast<size_t>(j)] * scale);
        sums[i] += std::fabs(v[d] - offset) / scale;
      }
    }
    for (size_t d = 0; d < size; ++d) all[d] += tops[d] * sums[d];
  }
  return all;
}

QueryResult empty_result(const Rows& rows) {
  QueryResult result;
  const auto size = static_cast<size_t>(rows.v_head_size);
  result.out.assign(size, 0.0);
  result.magnitude.assign(size, 0.0);
  result.spread.assign(size, 0.0);
  result.lse = rows.has_sink ? rows.sink_logit : nothing;
  result.keys = rows.count;
  return result;
}

/// Each element of a block becomes what all may add to one.
void spread_over_blocks(const PagedKVView& plane, int64_t head, std::vector<double>& magnitudes) {
  const auto block = static_cast<size_t>(std::max(plane.hadamard.block, 1));
  const double factor = 1.0 / std::sqrt(static_cast<double>(block));
  for (size_t first = 0; first < magnitudes.size(); first += block) {
    const double sum = sum_of_sizes(magnitudes.data() + first, static_cast<int64_t>(block));
    for (size_t d = first; d < first + block; ++d) {
      magnitudes[d] = sum * factor;
      if (plane.has_channel_scales)
        magnitudes[d] *= static_cast<double>(
            plane.channel_scales[head * plane.head_size + static_cast<int64_t>(d)]);
    }
  }
}

void turn_back(const PagedKVView& plane, int64_t head, QueryResult& result) {
  if (plane.hadamard.block == 0 && !plane.has_channel_scales) return;
  result.out = turned_back(result.out, plane.hadamard);
  for (size_t d = 0; d < result.out.size() && plane.has_channel_scales; ++d)
    result.out[d] *=
        static_cast<double>(plane.channel_scales[head * plane.head_size + static_cast<int64_t>(d)]);
  for (std::vector<double>* const magnitudes : {&result.magnitude, &result.spread, &result.tiles})
    spread_over_blocks(plane, head, *magnitudes);
  result.largest_value *= std::sqrt(static_cast<double>(std::max(plane.hadamard.block, 1)));
}

}  // namespace

QueryResult attend_rows(const Rows& rows, const ErrorWeights& weights) {
  QueryResult result = empty_result(rows);
  if (rows.count == 0) return result;

  std::vector<Logit> logits(static_cast<size_t>(rows.count));
  double largest = nothing;
  for (int64_t j = 0; j < rows.count; ++j) {
    const Logit logit = logits[static_cast<size_t>(j)] = logit_of(rows, j);
    if (logit.value > largest) ++result.records;
    largest = logit.value > largest || std::isnan(logit.value) ? logit.value : largest;
  }
  if (rows.has_sink) largest = std::max(largest, rows.sink_logit);
  if (largest == nothing) return result;  // every key has a bias of -infinity

  double sum = rows.has_sink ? std::exp(rows.sink_logit - largest) : 0.0;
  for (const Logit& logit : logits) sum += std::exp(logit.value - largest);
  result.lse = largest + std::log(sum);

  // The largest value is kept per element: one maximum over all would make the loop wait for
  // itself.
  std::vector<double> largest_values(result.out.size()), of_keys;
  for (int64_t j = 0; j < rows.count; ++j) {
    const double p = std::exp(logits[static_cast<size_t>(j)].value - largest) / sum;
    of_keys.push_back(p);
    const double* v = rows.values + j * rows.value_stride;
    for (int64_t d = 0; d < rows.v_head_size; ++d) {
      const auto i = static_cast<size_t>(d);
      result.out[i] += p * v[d];
      result.magnitude[i] += p * std::fabs(v[d]);
      largest_values[i] = std::max(largest_values[i], std::fabs(v[d]));
    }
  }
  for (const double value : largest_values)
    result.largest_value = std::max(result.largest_value, value);
  if (weights != ErrorWeights{}) {
    const LogitErrors errors(rows, logits, weights, result.lse);
    errors.add_to(result);
    of_keys = errors.largest_weights();
  }
  if (rows.key_indices != nullptr) result.tiles = magnitudes_of_tiles(rows, of_keys);
  return result;
}

QueryResult attend_rows_by_merging(const Rows& rows) {
  const auto size = static_cast<size_t>(rows.v_head_size);
  QueryResult result = empty_result(rows);
  // of the sink logit alone: a key whose value is 0
  Part total{std::vector<double>(size, 0.0), result.lse};
  for (int64_t j = 0; j < rows.count; ++j) {
    const double* v = rows.values + j * rows.value_stride;
    const std::array<Part, 2> parts = {
        total, Part{std::vector<double>(v, v + size), logit_of(rows, j).value}};
    total = merge(parts, size);
  }
  result.out = total.out;
  result.lse = total.lse;
  return result;
}

QueryResult attend_query(const AttentionProblem& problem, const Batch& batch,
                         const AttentionArgs& args, int32_t sequence, int64_t row, int32_t q_head,
                         const ErrorWeights& weights, DecodedRows* decoded) {
  Fetched fetched;
  fetch(problem, batch, args, sequence, row, q_head, fetched, decoded);
  QueryResult result = attend_rows(fetched.rows, weights);
  const PagedKVView& value = problem.value_in_key ? args.key : args.value;
  turn_back(value, q_head / (problem.q_heads / problem.key.num_heads), result);
  return result;
}

}  // namespace folio::reference
