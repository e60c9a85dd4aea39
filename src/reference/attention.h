// SPDX-License-Identifier: Apache-2.0
/// reference/attention.h: attention in double, one query and one head at a time: what every kernel
/// is compared with.
///
/// Two faces. `attend_rows` works on plain rows of doubles, all of them visible: for callers who
/// make keys and values themselves. `attend_query` reads one query's visible keys through views,
/// table and scales, and calls it. Besides the result they return the magnitudes that the error of
/// a float32 evaluation grows with; what is made of them is written in tests/support/tolerance.h.
/// Two formulations exist, which tests compare: the direct softmax, and a log-sum-exp merge of
/// single keys. Thread safety: pure functions. Not for speed, but the inner loops are plain sums
/// over contiguous doubles.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "reference/quantise.h"

namespace folio::reference {

/// One query against `count` visible keys.
///
///   s[j] = softcap(scale * q . keys[j]) + alibi[j] + bias[j];
///   p = softmax(s, sink logit in the denominator);  o = sum_j p[j] values[j]
struct Rows {
  const double* q = nullptr;       ///< [head_size]
  const double* keys = nullptr;    ///< [count, head_size], rows key_stride apart
  const double* values = nullptr;  ///< [count, v_head_size], rows value_stride apart
  int64_t count = 0;
  int64_t head_size = 0;
  int64_t v_head_size = 0;
  int64_t key_stride = 0;    ///< elements
  int64_t value_stride = 0;  ///< elements
  double scale = 1.0;
  double softcap = 0.0;           ///< 0: none
  const double* alibi = nullptr;  ///< [count] or null
  const double* bias = nullptr;   ///< [count] or null
  bool has_sink = false;
  double sink_logit = 0.0;
  const int64_t* key_indices = nullptr;   ///< [count] or null; see QueryResult::tiles
  const double* value_scales = nullptr;   ///< as values, contiguous, or null: 1
  const double* value_offsets = nullptr;  ///< as value_scales, or null: 0
};

/// In what errors of logits are counted: float32's roundoff.
inline constexpr double error_unit = 0x1p-24;

/// How strongly each magnitude counts in the error of a logit. All 0: no errors are computed.
struct ErrorWeights {
  double dot = 0.0;  ///< scale * sum_d |q[d] k[d]|: rounding inside the dot product
  /// |scaled dot| + |s| + |alibi| + |bias| + softcap + |s - lse|: rounding of single logits
  double term = 0.0;
  double constant = 0.0;  ///< rounding of a weight, whatever its logit
  /// scale * max_d |q[d]| * sum_d |k[d]|: rounding of q to steps that a row has in common
  double row = 0.0;
  bool operator==(const ErrorWeights&) const = default;
};

struct QueryResult {
  std::vector<double> out;  ///< [v_head_size]; 0 without visible keys
  double lse = 0.0;         ///< natural; -infinity (or the sink logit) without visible keys
  int64_t keys = 0;         ///< visible keys
  /// keys whose logit exceeds all before: how often a running maximum changes
  int64_t records = 0;
  double largest_value = 0.0;     ///< max |v| over visible keys
  std::vector<double> magnitude;  ///< [v_head_size] sum_j p[j] |v[j]|
  /// [v_head_size] how far errors of logits, w[j] units each, move the result, in these units: of
  /// small ones sum_j p[j] w[j] |v[j] - o|, never farther than a value
  std::vector<double> spread;
  double mean_weight = 0.0;  ///< and the lse: of small ones sum_j p[j] w[j]
  /// [v_head_size] where key_indices are given: the sum over tiles of 64 keys (by their indices) of
  /// max_j p[j] |scale[j]| * sum_j |(v[j] - offset[j]) / scale[j]|, p[j] being the most that w
  /// makes of it
  std::vector<double> tiles;
};

/// Direct softmax over the rows.
QueryResult attend_rows(const Rows& rows, const ErrorWeights& weights = {});

/// The same by merging one key after the other. Gives out, lse and keys only.
QueryResult attend_rows_by_merging(const Rows& rows);

/// Rows that were decoded already, by their place in the pool: for callers who ask for many queries
/// over memory that does not change.
struct DecodedRows {
  std::unordered_map<int64_t, std::vector<double>> keys, values;
};

/// The visible keys of one (query row, q head), fetched through views and table, and the terms that
/// go with them: rows as they are stored, of turned planes the query turned as K is.
struct Fetched {
  std::vector<double> q, keys, values, alibi, bias;
  std::vector<int64_t> key_indices;
  std::vector<double> value_scales, value_offsets;
  Rows rows;  ///< points into the vectors
};

/// `row` counts all query rows of the batch and belongs to `sequence`. Keys of unassigned pages are
/// left out; only table entries of visible keys are read. The arguments are as checked by
/// folio::check.
void fetch(const AttentionProblem& problem, const Batch& batch, const AttentionArgs& args,
           int32_t sequence, int64_t row, int32_t q_head, Fetched& fetched,
           DecodedRows* decoded = nullptr);

/// fetch, then attend_rows, and where V is turned the result turned back: its magnitudes are those
/// of stored rows, spread over their blocks.
QueryResult attend_query(const AttentionProblem& problem, const Batch& batch,
                         const AttentionArgs& args, int32_t sequence, int64_t row, int32_t q_head,
                         const ErrorWeights& weights = {}, DecodedRows* decoded = nullptr);

/// One head of one token of a plane as it was given, but for rounding. `place` is assigned.
std::vector<double> row_of(const PagedKVView& view, Slot place, int64_t head);

/// One element of it.
double element(const PagedKVView& view, int64_t page, int64_t slot, int64_t head, int32_t dim);

/// Where token `token` of a table row lies; unbounded pages: page = row number, slot = 0.
Slot slot_of(const PagedKVView& view, const Batch& batch, int32_t sequence, int64_t token);

}  // namespace folio::reference
