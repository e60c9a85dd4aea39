// SPDX-License-Identifier: Apache-2.0
/// cli/replay/verify.cpp: choosing, keeping and recomputing outputs.
#include "replay/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "folio/attention/visible_keys.h"
#include "load/synthetic.h"
#include "parts/parallel.h"
#include "reference/attention.h"
#include "reference/hadamard.h"
#include "replay/stored_row.h"
#include "support/tolerance.h"

namespace folio::cli {
namespace {

// What is kept of a request is checked early when it reaches this size.
constexpr size_t most_kept_bytes = size_t{64} << 20;
constexpr int64_t tokens_per_task = 64;

/// Rounding of one element that is turned, in units of u of the largest that its block can give.
double turns_of(const Hadamard& hadamard) { return std::log2(hadamard.block) + 2.0; }

/// A query that is turned has errors of its own: of the root of a block times its largest element.
reference::ErrorWeights weights_of(const KVShape& shape) {
  reference::ErrorWeights weights = test::error_weights(shape.head_size);
  const Hadamard& hadamard = shape.hadamard;
  if (hadamard.block != 0)
    weights.row += turns_of(hadamard) * std::sqrt(static_cast<double>(hadamard.block));
  return weights;
}

/// Of each element of the output. What is turned back is a sum over its block, of the errors too.
std::vector<double> bounds_of(const reference::QueryResult& exact, const Hadamard& hadamard) {
  std::vector<double> bounds(exact.out.size());
  for (size_t d = 0; d < bounds.size(); ++d)
    bounds[d] = test::out_bound(exact, static_cast<int64_t>(d), DType::f32);
  const auto block = static_cast<size_t>(hadamard.block);
  for (size_t first = 0; block != 0 && first < bounds.size(); first += block) {
    double sum = 0.0;
    for (size_t d = first; d < first + block; ++d)
      sum += bounds[d] + turns_of(hadamard) * test::f32_roundoff * std::fabs(exact.out[d]);
    std::fill_n(bounds.begin() + static_cast<std::ptrdiff_t>(first), block,
                sum / std::sqrt(static_cast<double>(block)));
  }
  return bounds;
}

}  // namespace

bool Verifier::is_chosen(int64_t request, int32_t position, int32_t layer, int32_t head) const {
  const uint64_t query = mix(
      options_.seed ^ mix(static_cast<uint64_t>(request) << 32 | static_cast<uint64_t>(position)));
  const uint64_t pair =
      mix(query ^ (static_cast<uint64_t>(layer) << 32 | static_cast<uint64_t>(head)));
  return static_cast<double>(pair >> 11) * 0x1p-53 < options_.share;
}

void Verifier::capture(const Step& step, int32_t layer, const float* out) {
  const Timed timed(summary_.seconds);
  const ModelShape& m = options_.model;
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const StepEntry& entry = step.entries[i];
    const Running& sequence = *entry.sequence;
    Kept& kept = kept_[sequence.request];
    const auto last = static_cast<int32_t>(sequence.tokens.size()) - 1;
    for (int32_t t = 0; t < entry.new_tokens; ++t) {
      const int32_t position = sequence.done + t;
      const bool all_heads = position == sequence.first || position == last;
      for (int32_t head = 0; head < m.q_heads; ++head) {
        if (!all_heads && !is_chosen(sequence.request, position, layer, head)) continue;
        const float* row =
            out + ((int64_t{step.query_offsets[i]} + t) * m.q_heads + head) * m.v_head_size;
        kept.samples.push_back({layer, head, position, static_cast<int64_t>(kept.samples.size())});
        kept.outputs.insert(kept.outputs.end(), row, row + m.v_head_size);
      }
    }
  }
}

void Verifier::check(const Running& sequence) {
  const Timed timed(summary_.seconds);
  const auto found = kept_.find(sequence.request);
  if (found == kept_.end()) return;
  Kept& kept = found->second;
  const bool is_complete = sequence.left() == 0;
  if (!is_complete && kept.outputs.size() * sizeof(float) < most_kept_bytes) return;

  const int32_t group = options_.model.q_heads / options_.model.kv_heads;
  const auto cache_of = [&](const Sample& s) { return std::pair(s.layer, s.head / group); };
  std::sort(kept.samples.begin(), kept.samples.end(), [&](const Sample& a, const Sample& b) {
    return std::tuple(cache_of(a), a.position, a.head) <
           std::tuple(cache_of(b), b.position, b.head);
  });
  findings_.resize(kept.samples.size());
  for (size_t begin = 0; begin < kept.samples.size();) {
    size_t end = begin;
    while (end < kept.samples.size() &&
           cache_of(kept.samples[end]) == cache_of(kept.samples[begin]))
      ++end;
    const auto [layer, kv_head] = cache_of(kept.samples[begin]);
    invent_cache(sequence, layer, kv_head, int64_t{kept.samples[end - 1].position} + 1);
    parallel_for(executor_, static_cast<int64_t>(end - begin), [&, first = begin](int64_t i) {
      const size_t s = first + static_cast<size_t>(i);
      const Sample& sample = kept.samples[s];
      findings_[s] =
          compare(sequence, sample, kept.outputs.data() + sample.row * options_.model.v_head_size);
    });
    begin = end;
  }
  for (size_t s = 0; s < kept.samples.size(); ++s) record(sequence, kept.samples[s], findings_[s]);
  kept.samples.clear();
  kept.outputs.clear();
  if (is_complete) kept_.erase(found);
}

// The keys and values of one layer and KV head as the cache should have them: rotated, if it has
// them so.
void Verifier::invent_cache(const Running& sequence, int32_t layer, int32_t kv_head,
                            int64_t tokens) {
  const ModelShape& m = options_.model;
  const KVShape& shape = options_.shape;
  const auto size_of = [&](int32_t head_size) { return static_cast<size_t>(tokens * head_size); };
  keys_.resize(size_of(m.head_size));
  if (!m.is_mla) values_.resize(size_of(m.v_head_size));
  parallel_for(executor_, (tokens + tokens_per_task - 1) / tokens_per_task, [&](int64_t task) {
    std::vector<float> row(static_cast<size_t>(m.head_size));
    StoredRow stored(shape);
    const auto store = [&](RowName name, Role role, double* out) {
      name.role = role;
      fill_row(name, row);
      std::ranges::copy(stored.of(row), out);
    };
    const int64_t end = std::min(tokens, (task + 1) * tokens_per_task);
    for (int64_t position = task * tokens_per_task; position < end; ++position) {
      const TokenId token = sequence.tokens[static_cast<size_t>(position)];
      const RowName name{.token = token, .position = position, .layer = layer, .head = kv_head};
      store(name, Role::key, keys_.data() + position * m.head_size);
      if (!m.is_mla) store(name, Role::value, values_.data() + position * m.v_head_size);
    }
  });
}

Verifier::Finding Verifier::compare(const Running& sequence, const Sample& sample,
                                    const float* actual) const {
  const ModelShape& m = options_.model;
  std::vector<float> q(static_cast<size_t>(m.head_size));
  const TokenId token = sequence.tokens[static_cast<size_t>(sample.position)];
  fill_row({token, sample.position, Role::query, sample.layer, sample.head}, q);
  const Hadamard& hadamard = options_.shape.hadamard;
  const std::vector<double> exact_q =
      reference::turned(std::vector<double>(q.begin(), q.end()), hadamard);

  // The query's own token is the last it sees.
  const int64_t count = int64_t{sample.position} + 1;
  const int64_t begin = visible_keys(options_.mask, sample.position, 0, count).keys.begin;
  reference::Rows rows;
  rows.q = exact_q.data();
  rows.keys = keys_.data() + begin * m.head_size;
  rows.values = m.is_mla ? rows.keys : values_.data() + begin * m.v_head_size;
  rows.count = count - begin;
  rows.head_size = rows.key_stride = m.head_size;
  rows.v_head_size = m.v_head_size;
  rows.value_stride = m.is_mla ? m.head_size : m.v_head_size;
  rows.scale = options_.scale;
  const reference::QueryResult exact = reference::attend_rows(rows, weights_of(options_.shape));

  return compare(reference::turned_back(exact.out, hadamard), bounds_of(exact, hadamard), actual);
}

Verifier::Finding Verifier::compare(const std::vector<double>& exact,
                                    const std::vector<double>& bounds, const float* actual) {
  Finding finding;
  test::RelativeRms rms;
  for (size_t d = 0; d < exact.size(); ++d) {
    // NaN is infinitely wrong: it would hide from comparisons.
    const double got = std::isfinite(actual[d]) ? static_cast<double>(actual[d]) : HUGE_VAL;
    finding.share_of_bound =
        std::max(finding.share_of_bound, std::fabs(got - exact[d]) / bounds[d]);
    rms.add(got, exact[d]);
  }
  finding.relative_rms = rms.value();
  return finding;
}

void VerifySummary::add(const VerifySummary& more) {
  outputs += more.outputs;
  mismatches += more.mismatches;
  max_relative_rms = std::max(max_relative_rms, more.max_relative_rms);
  max_share_of_bound = std::max(max_share_of_bound, more.max_share_of_bound);
  if (first_mismatch.empty()) first_mismatch = more.first_mismatch;
  seconds += more.seconds;
}

void Verifier::record(const Running& sequence, const Sample& sample, const Finding& finding) {
  ++summary_.outputs;
  summary_.max_relative_rms = std::max(summary_.max_relative_rms, finding.relative_rms);
  summary_.max_share_of_bound = std::max(summary_.max_share_of_bound, finding.share_of_bound);
  if (finding.share_of_bound <= 1.0 || summary_.mismatches++ > 0) return;
  summary_.first_mismatch = fmt::format(
      "request {}, position {} of {}, layer {}, head {}: {:.3g} times the bound, relative rms "
      "{:.3g}",
      sequence.request, sample.position, sequence.tokens.size(), sample.layer, sample.head,
      finding.share_of_bound, finding.relative_rms);
}

double Verifier::required_bytes(int64_t tokens) const {
  const ModelShape& m = options_.model;
  const int64_t row = m.head_size + (m.is_mla ? 0 : m.v_head_size);
  return static_cast<double>(tokens) * static_cast<double>(row) * sizeof(double) +
         2.0 * most_kept_bytes;
}

}  // namespace folio::cli
