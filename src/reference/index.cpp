// SPDX-License-Identifier: Apache-2.0
/// reference/index.cpp: scores as they are defined, lists by a stable sort, slots by the definition
/// of tables.
#include "reference/index.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/elements.h"

namespace folio::reference {
namespace {

/// Whether a score ranks before another: numbers by size, then NaN.
bool is_before(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a > b;
}

/// Attention that sees the same keys, and reads them alike.
AttentionProblem seen_alike(const IndexProblem& problem) {
  AttentionProblem p;
  p.key = problem.key;
  p.value_in_key = true;
  p.v_head_size = problem.key.head_size;
  p.q_heads = problem.q_heads;
  p.q_dtype = problem.q_dtype;
  p.mask = problem.mask;
  p.intervals = problem.intervals;
  p.scale = problem.scale;
  p.q_is_turned = problem.q_is_turned;
  return p;
}

double weight_of(const IndexProblem& problem, const ScoreArgs& args, int64_t row, int32_t head) {
  if (!problem.has_weights) return 1.0;
  const auto* const at = static_cast<const std::byte*>(args.weights.data) +
                         row * args.weights.stride_bytes[0] + head * args.weights.stride_bytes[1];
  return load(at, problem.weight_dtype);
}

/// A product and the sizes that its error grows with.
struct Dot {
  double value = 0.0;
  double size = 0.0;  // sum_d |q k|
  double q = 0.0;     // sum_d |q|
  double k = 0.0;     // max_d |k|
};

Dot dot(const double* q, const double* k, int64_t n) {
  Dot d;
  for (int64_t i = 0; i < n; ++i) {
    d.value += q[i] * k[i];
    d.size += std::fabs(q[i] * k[i]);
    d.q += std::fabs(q[i]);
    d.k = std::max(d.k, std::fabs(k[i]));
  }
  return d;
}

}  // namespace

IndexScores index_scores(const IndexProblem& problem, const Batch& batch, const ScoreArgs& args,
                         int32_t sequence, int64_t row, DecodedRows* decoded) {
  constexpr double u = error_unit;
  const auto context = static_cast<size_t>(batch.context_lengths[sequence]);
  const double n = problem.key.head_size, block = problem.key.hadamard.block;
  const bool is_turned = block != 0 || problem.key.has_channel_scales;
  const double turning =
      is_turned ? (std::log2(std::max(block, 1.0)) + 4.0) * std::max(block, 1.0) * u : 0.0;
  IndexScores scores{std::vector<double>(context, -std::numeric_limits<double>::infinity()),
                     std::vector<double>(context), std::vector<double>(context)};
  AttentionArgs planes;
  planes.q = args.q;
  planes.key = args.key;
  Fetched fetched;
  for (int32_t h = 0; h < problem.q_heads; ++h) {
    fetch(seen_alike(problem), batch, planes, sequence, row, h, fetched, decoded);
    const double weight = weight_of(problem, args, row, h), scale = fetched.rows.scale;
    for (size_t j = 0; j < fetched.key_indices.size(); ++j) {
      const auto key = static_cast<size_t>(fetched.key_indices[j]);
      const Dot d = dot(fetched.q.data(),
                        fetched.keys.data() + static_cast<int64_t>(j) * fetched.rows.key_stride,
                        problem.key.head_size);
      const double product = scale * d.value;
      const double f = problem.relu && product < 0.0 ? 0.0 : product;
      if (h == 0) scores.score[key] = 0.0;
      scores.score[key] += weight * f;
      const double moved = std::fabs(scale) * ((n + 8.0) * u * d.size + turning * d.q * d.k);
      scores.error[key] += std::fabs(weight) * (moved + problem.q_heads * u * std::fabs(f));
      scores.rounding[key] += std::fabs(weight * scale) * std::ldexp(d.size, -7);
    }
  }
  return scores;
}

std::vector<int32_t> top_of(std::span<const double> scores, int32_t k) {
  std::vector<int32_t> keys;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] != -std::numeric_limits<double>::infinity())
      keys.push_back(static_cast<int32_t>(j));
  }
  std::stable_sort(keys.begin(), keys.end(), [&](int32_t a, int32_t b) {
    return is_before(scores[static_cast<size_t>(a)], scores[static_cast<size_t>(b)]);
  });
  if (keys.size() > static_cast<size_t>(k)) keys.resize(static_cast<size_t>(k));
  std::sort(keys.begin(), keys.end());
  keys.resize(static_cast<size_t>(k), -1);
  return keys;
}

int64_t slot_number(const Batch& batch, int32_t sequence, int64_t key, int32_t page_size,
                    int64_t num_pages) {
  if (key < 0) return -1;
  PagedKVView view;
  view.page_size = page_size;
  view.num_pages = num_pages;
  const Slot place = slot_of(view, batch, sequence, key);
  if (place.page < 0) return -1;
  return page_size == unbounded_page_size ? place.page : place.page * page_size + place.slot;
}

}  // namespace folio::reference
