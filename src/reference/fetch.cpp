// SPDX-License-Identifier: Apache-2.0
/// reference/fetch.cpp: a query, its keys and its terms, fetched through views.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/attention.h"
#include "reference/elements.h"
#include "reference/hadamard.h"
#include "reference/quantise.h"
#include "reference/visibility.h"

namespace folio::reference {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();

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

/// What is stored of one head of one token, as numbers: before it is turned back.
std::vector<double> stored_row(const PagedKVView& view, Slot place, int64_t head) {
  std::vector<double> row(static_cast<size_t>(view.head_size));
  const auto* at = static_cast<const std::byte*>(view.data) + place.page * view.page_stride_bytes +
                   place.slot * view.slot_stride_bytes + head * view.head_stride_bytes;
  load_row(at, view.dtype, view.head_size, row.data());
  if (view.scales.data == nullptr) return row;
  Reading reading;
  for (int32_t d = 0; d < view.head_size; ++d) {
    if (d % view.scales.granularity == 0) reading = reading_of(view, place, head, d);
    double& x = row[static_cast<size_t>(d)];
    x = (x - reading.zero) * reading.scale + reading.minimum;
  }
  return row;
}

double channel_scale(const PagedKVView& view, int64_t head, size_t d) {
  if (!view.has_channel_scales) return 1.0;
  return static_cast<double>(view.channel_scales[head * view.head_size + static_cast<int64_t>(d)]);
}

/// The first `count` elements of a stored row, decoded at most once per place if there is something
/// to keep it in.
void fetch_row(const PagedKVView& view, Slot place, int64_t head, int32_t count, double* out,
               std::unordered_map<int64_t, std::vector<double>>* decoded) {
  if (decoded == nullptr) {
    const std::vector<double> row = stored_row(view, place, head);
    std::copy_n(row.begin(), count, out);
    return;
  }
  const int64_t slots = view.page_size == unbounded_page_size ? 1 : view.page_size;
  std::vector<double>& row = (*decoded)[(place.page * slots + place.slot) * view.num_heads + head];
  if (row.empty()) row = stored_row(view, place, head);
  std::copy_n(row.begin(), count, out);
}

/// What the elements of a value row are made of: code * scale + offset, in `out`, so many each.
void fetch_codes(const PagedKVView& view, Slot place, int64_t head, int32_t count, double* scales,
                 double* offsets) {
  Reading reading;
  const bool is_unsigned = view.dtype == DType::u4 || view.dtype == DType::u4_halves;
  for (int32_t d = 0; d < count; ++d) {
    if (d % view.scales.granularity == 0) reading = reading_of(view, place, head, d);
    scales[d] = reading.scale;
    offsets[d] = is_unsigned ? reading.minimum + (8.0 - reading.zero) * reading.scale : 0.0;
  }
}

/// A query as its head of K is stored.
void turn_query(const PagedKVView& key, int64_t head, std::vector<double>& q) {
  for (size_t d = 0; d < q.size(); ++d) q[d] *= channel_scale(key, head, d);
  q = turned(q, key.hadamard);
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

double element(const PagedKVView& view, int64_t page, int64_t slot, int64_t head, int32_t dim) {
  return row_of(view, {page, slot}, head)[static_cast<size_t>(dim)];
}

std::vector<double> row_of(const PagedKVView& view, Slot place, int64_t head) {
  std::vector<double> row = turned_back(stored_row(view, place, head), view.hadamard);
  for (size_t d = 0; d < row.size(); ++d) row[d] *= channel_scale(view, head, d);
  return row;
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
    const int64_t list = problem.selection_per_head ? row * problem.key.num_heads + kv_head : row;
    for (int32_t i = 0; i < batch.selected_stride; ++i) {
      const int64_t place = batch.selected[list * batch.selected_stride + i];
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
  if (!problem.q_is_turned) turn_query(args.key, kv_head, fetched.q);
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
  const bool has_scales = !problem.value_in_key && args.value.scales.data != nullptr;
  fetched.value_scales.resize(has_scales ? fetched.values.size() : 0);
  fetched.value_offsets.resize(fetched.value_scales.size());
  for (size_t j = 0; j < count && has_scales; ++j) {
    const size_t first = j * static_cast<size_t>(v_head_size);
    fetch_codes(args.value, places[j], kv_head, v_head_size, fetched.value_scales.data() + first,
                fetched.value_offsets.data() + first);
  }

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
  if (has_scales) rows.value_scales = fetched.value_scales.data();
  if (has_scales) rows.value_offsets = fetched.value_offsets.data();
  rows.sink_logit = problem.sink_logits ? sink_of(problem, args, row, q_head) : 0.0;
}

}  // namespace folio::reference
