// SPDX-License-Identifier: Apache-2.0
/// reference/attention.cpp: both formulations, and the fetching of keys through views.
#include "reference/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/elements.h"
#include "reference/merge.h"
#include "reference/visibility.h"

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
double largest_size(const double* x, int64_t n) {
  return std::accumulate(x, x + n, 0.0,
                         [](double top, double y) { return std::max(top, std::fabs(y)); });
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

struct Logit {
  double value = 0.0;
  double dot_magnitude = 0.0;
  double term_magnitude = 0.0;
};

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

/// QueryResult::tiles. weights: p of each key.
std::vector<double> magnitudes_of_tiles(const Rows& rows, const std::vector<double>& weights) {
  constexpr int64_t tile_keys = 64;
  const auto size = static_cast<size_t>(rows.v_head_size);
  std::vector<double> all(size, 0.0), sums(size);
  const auto tile_of = [&](int64_t j) { return rows.key_indices[j] / tile_keys; };
  for (int64_t j = 0; j < rows.count;) {
    double top = 0.0;
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const int64_t tile = tile_of(j); j < rows.count && tile_of(j) == tile; ++j) {
      const double scale = rows.value_scales != nullptr ? std::fabs(rows.value_scales[j]) : 1.0;
      if (scale == 0.0) continue;
      top = std::max(top, weights[static_cast<size_t>(j)] * scale);
      const double* v = rows.values + j * rows.value_stride;
      for (size_t d = 0; d < size; ++d) sums[d] += std::fabs(v[d]) / scale;
    }
    for (size_t d = 0; d < size; ++d) all[d] += top * sums[d];
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

double scale_of_problem(const AttentionProblem& problem) {
  // The default is a float32 in folio; here it is exact, and the difference is inside the bound of
  // the dot product.
  return problem.scale != 0.0f ? static_cast<double>(problem.scale)
                               : 1.0 / std::sqrt(static_cast<double>(problem.key.head_size));
}

int32_t v_head_size_of(const AttentionProblem& problem) {
  return problem.value_in_key || problem.v_head_size != 0 ? problem.v_head_size
                                                          : problem.value.head_size;
}

double scale_of_element(const ScaleView& scales, int64_t page, int64_t slot, int64_t head,
                        int32_t dim) {
  if (scales.data == nullptr) return 1.0;
  const int64_t granule = dim / scales.granularity;
  const auto* at = static_cast<const std::byte*>(scales.data) + page * scales.page_stride_bytes +
                   slot * scales.slot_stride_bytes + head * scales.head_stride_bytes +
                   granule * scales.granule_stride_bytes;
  const double tensor =
      scales.tensor_scale != nullptr ? static_cast<double>(*scales.tensor_scale) : 1.0;
  return load(at, scales.dtype) * tensor;
}

/// The first `count` elements of one head of one token, scaled.
void fetch_row(const PagedKVView& view, Slot place, int64_t head, int32_t count, double* out) {
  const auto* at = static_cast<const std::byte*>(view.data) + place.page * view.page_stride_bytes +
                   place.slot * view.slot_stride_bytes + head * view.head_stride_bytes;
  load_row(at, view.dtype, count, out);
  if (view.scales.data == nullptr) return;
  double scale = 1.0;
  for (int32_t d = 0; d < count; ++d) {
    if (d % view.scales.granularity == 0)
      scale = scale_of_element(view.scales, place.page, place.slot, head, d);
    out[d] *= scale;
  }
}

/// The same, decoded at most once per place if there is something to keep it in.
void fetch_row(const PagedKVView& view, Slot place, int64_t head, int32_t count, double* out,
               std::unordered_map<int64_t, std::vector<double>>* decoded) {
  if (decoded == nullptr) return fetch_row(view, place, head, count, out);
  const int64_t slots = view.page_size == unbounded_page_size ? 1 : view.page_size;
  std::vector<double>& row = (*decoded)[(place.page * slots + place.slot) * view.num_heads + head];
  if (row.empty()) {
    row.resize(static_cast<size_t>(count));
    fetch_row(view, place, head, count, row.data());
  }
  std::copy(row.begin(), row.end(), out);
}

const std::byte* at(const ConstTensor<3>& tensor, int64_t i, int64_t j, int64_t k) {
  return static_cast<const std::byte*>(tensor.data) + i * tensor.stride_bytes[0] +
         j * tensor.stride_bytes[1] + k * tensor.stride_bytes[2];
}

/// -infinity hides the key.
double bias_of(const AttentionProblem& problem, const Batch& batch, const AttentionArgs& args,
               int32_t sequence, int64_t row, int32_t q_head, int64_t key) {
  int64_t start = 0;
  if (problem.bias_per_sequence) {
    row -= batch.query_offsets[sequence];
    start = sequence * args.bias_sequence_stride_bytes;
  }
  return load(at(args.bias, args.bias.extent[0] == 1 ? 0 : q_head, row, key) + start,
              problem.bias_dtype);
}

double sink_of(const AttentionProblem& problem, const AttentionArgs& args, int64_t row,
               int32_t q_head) {
  const int64_t stride = args.sink_stride != 0 ? args.sink_stride : problem.q_heads;
  const int64_t index = (problem.sink_per_query ? row * stride : 0) + q_head;
  return load(
      static_cast<const std::byte*>(args.sink_logits) + index * bit_width(problem.sink_dtype) / 8,
      problem.sink_dtype);
}

/// alibi and bias of the fetched keys.
void fetch_terms(const AttentionProblem& problem, const Batch& batch, const AttentionArgs& args,
                 int32_t sequence, int64_t row, int32_t q_head, Fetched& fetched) {
  const int64_t first = batch.key_positions != nullptr ? batch.key_positions[sequence] : 0;
  const int64_t position = query_position(batch, sequence, row);
  fetched.alibi.clear();
  fetched.bias.clear();
  for (const int64_t key : fetched.key_indices) {
    if (problem.alibi) {
      const int64_t of_key =
          problem.alibi_positions
              ? batch.alibi_positions[sequence * batch.alibi_positions_stride + key]
              : first + key;
      const double distance = std::fabs(static_cast<double>(position - of_key));
      fetched.alibi.push_back(-static_cast<double>(args.alibi_slopes[q_head]) * distance);
    }
    if (problem.bias)
      fetched.bias.push_back(bias_of(problem, batch, args, sequence, row, q_head, key));
  }
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
  if (rows.key_indices != nullptr) result.tiles = magnitudes_of_tiles(rows, of_keys);
  if (weights.dot == 0.0 && weights.term == 0.0 && weights.constant == 0.0) return result;

  const double largest_q = largest_size(rows.q, rows.head_size);
  for (int64_t j = 0; j < rows.count; ++j) {
    const Logit& logit = logits[static_cast<size_t>(j)];
    const double row_magnitude =
        weights.row == 0.0 ? 0.0
                           : std::fabs(rows.scale) * largest_q *
                                 sum_of_sizes(rows.keys + j * rows.key_stride, rows.head_size);
    const double p = std::exp(logit.value - largest) / sum;
    if (p == 0.0) continue;  // its magnitudes may be infinite
    const double weight =
        p * (weights.dot * logit.dot_magnitude + weights.row * row_magnitude + weights.constant +
             weights.term * (logit.term_magnitude + std::fabs(logit.value - result.lse)));
    const double* v = rows.values + j * rows.value_stride;
    for (int64_t d = 0; d < rows.v_head_size; ++d) {
      result.spread[static_cast<size_t>(d)] +=
          weight * std::fabs(v[d] - result.out[static_cast<size_t>(d)]);
    }
    result.mean_weight += weight;
  }
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

double element(const PagedKVView& view, int64_t page, int64_t slot, int64_t head, int32_t dim) {
  const auto* row = static_cast<const std::byte*>(view.data) + page * view.page_stride_bytes +
                    slot * view.slot_stride_bytes + head * view.head_stride_bytes;
  std::vector<double> values(static_cast<size_t>(dim % block_elements(view.dtype)) + 1);
  load_row(row + row_bytes(view.dtype, dim - dim % block_elements(view.dtype)), view.dtype,
           static_cast<int64_t>(values.size()), values.data());
  return values.back() * scale_of_element(view.scales, page, slot, head, dim);
}

Slot slot_of(const PagedKVView& view, const Batch& batch, int32_t sequence, int64_t token) {
  const int64_t row = batch.table.row_starts != nullptr ? batch.table.row_starts[sequence]
                                                        : sequence * batch.table.row_stride;
  const int64_t entry = batch.table.entries[row + token / view.page_size];
  if (view.page_size == unbounded_page_size)
    return entry + token < view.num_pages ? Slot{entry + token, 0} : Slot{};
  return entry < view.num_pages ? Slot{entry, token % view.page_size} : Slot{};
}

void fetch(const AttentionProblem& problem, const Batch& batch, const AttentionArgs& args,
           int32_t sequence, int64_t row, int32_t q_head, Fetched& fetched, DecodedRows* decoded) {
  const int32_t head_size = problem.key.head_size;
  const int32_t v_head_size = v_head_size_of(problem);
  const int32_t kv_head = q_head / (problem.q_heads / problem.key.num_heads);
  fetched.key_indices.clear();
  std::vector<Slot> places;
  if (problem.selection) {
    for (int32_t i = 0; i < batch.selected_stride; ++i) {
      const int64_t place = batch.selected[row * batch.selected_stride + i];
      if (place < 0) continue;
      fetched.key_indices.push_back(i);
      const bool has_pages = args.key.page_size != unbounded_page_size;
      places.push_back(has_pages ? Slot{place / args.key.page_size, place % args.key.page_size}
                                 : Slot{place, 0});
    }
  }
  const int64_t context = problem.selection ? 0 : batch.context_lengths[sequence];
  for (int64_t key = 0; key < context; ++key) {
    if (!is_visible(problem, batch, sequence, row, key)) continue;
    if (problem.bias && bias_of(problem, batch, args, sequence, row, q_head, key) == nothing)
      continue;
    const Slot place = slot_of(args.key, batch, sequence, key);
    if (place.page < 0) continue;
    fetched.key_indices.push_back(key);
    places.push_back(place);
  }

  const size_t count = places.size();
  fetched.q.resize(static_cast<size_t>(head_size));
  load_row(at(args.q, row, q_head, 0), args.q.dtype, head_size, fetched.q.data());
  fetched.keys.resize(count * static_cast<size_t>(head_size));
  fetched.values.resize(problem.value_in_key ? 0 : count * static_cast<size_t>(v_head_size));
  for (size_t j = 0; j < count; ++j) {
    fetch_row(args.key, places[j], kv_head, head_size,
              fetched.keys.data() + j * static_cast<size_t>(head_size),
              decoded != nullptr ? &decoded->keys : nullptr);
    if (problem.value_in_key) continue;
    fetch_row(args.value, places[j], kv_head, v_head_size,
              fetched.values.data() + j * static_cast<size_t>(v_head_size),
              decoded != nullptr ? &decoded->values : nullptr);
  }
  fetch_terms(problem, batch, args, sequence, row, q_head, fetched);
  const ScaleView& scales = args.value.scales;
  const bool is_per_row = !problem.value_in_key && (scales.granularity >= args.value.head_size ||
                                                    scales.granule_stride_bytes == 0);
  fetched.value_scales.clear();
  for (const Slot& place : places)
    fetched.value_scales.push_back(
        is_per_row ? scale_of_element(scales, place.page, place.slot, kv_head, 0) : 1.0);

  Rows& rows = fetched.rows = {};
  rows.q = fetched.q.data();
  rows.keys = fetched.keys.data();
  rows.values = problem.value_in_key ? fetched.keys.data() : fetched.values.data();
  rows.count = static_cast<int64_t>(count);
  rows.head_size = rows.key_stride = head_size;
  rows.v_head_size = rows.value_stride = v_head_size;
  if (problem.value_in_key) rows.value_stride = head_size;
  rows.scale = scale_of_problem(problem);
  rows.softcap = static_cast<double>(problem.softcap);
  rows.alibi = problem.alibi ? fetched.alibi.data() : nullptr;
  rows.bias = problem.bias ? fetched.bias.data() : nullptr;
  rows.has_sink = problem.sink_logits;
  rows.key_indices = fetched.key_indices.data();
  rows.value_scales = fetched.value_scales.data();
  rows.sink_logit = problem.sink_logits ? sink_of(problem, args, row, q_head) : 0.0;
}

QueryResult attend_query(const AttentionProblem& problem, const Batch& batch,
                         const AttentionArgs& args, int32_t sequence, int64_t row, int32_t q_head,
                         const ErrorWeights& weights, DecodedRows* decoded) {
  Fetched fetched;
  fetch(problem, batch, args, sequence, row, q_head, fetched, decoded);
  return attend_rows(fetched.rows, weights);
}

}  // namespace folio::reference
