// SPDX-License-Identifier: Apache-2.0
/// cli/replay/verify.h: recomputes attention outputs in double from the tokens of a request, never
/// from the cache.
///
/// Verified are the first and the last query that a request computes (the first sees the whole
/// prefix that was found, if there was one) with all heads, and a share of all other (layer, query,
/// head) pairs chosen by seed. Keys and values are invented anew from the token history, converted
/// and scaled as the reference says the cache stores them, and attended with the reference's direct
/// softmax; each element must lie inside the bound of tests/support/tolerance.h. Rows that are
/// rotated are attended as they are stored, since that is where errors arise, and the output and
/// its bounds turned back. A wrong page, a
/// lost append or a wrong length therefore shows, whoever made it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "folio/attention/mask.h"
#include "folio/core/execution.h"
#include "load/model.h"
#include "replay/scheduler.h"

namespace folio::cli {

struct VerifierOptions {
  ModelShape model = {};
  KVShape shape = {};
  Mask mask = Mask::causal();
  double scale = 1.0;  ///< of the logits
  double share = 0.0;
  uint64_t seed = 0;
};

struct VerifySummary {
  int64_t outputs = 0;              ///< (layer, query, head) rows that were compared
  int64_t mismatches = 0;           ///< of these, with an element beyond its bound
  double max_relative_rms = 0.0;    ///< over rows: |actual - exact| / |exact|
  double max_share_of_bound = 0.0;  ///< over elements
  std::string first_mismatch;
  double seconds = 0.0;
  void add(const VerifySummary& more);
};

class Verifier {
 public:
  Verifier(const VerifierOptions& options, const Executor& executor)
      : options_(options), executor_(executor) {}

  /// Keeps the chosen rows of this layer's outputs [step tokens, q_heads, v_head_size].
  void capture(const Step& step, int32_t layer, const float* out);
  /// Compares and drops what has been kept of the request, if it is complete or takes much memory.
  void check(const Running& sequence);

  /// Bytes that checking a request of `tokens` takes.
  [[nodiscard]] double required_bytes(int64_t tokens) const;
  [[nodiscard]] const VerifySummary& summary() const { return summary_; }

 private:
  struct Sample {
    int32_t layer = 0;
    int32_t head = 0;
    int32_t position = 0;
    int64_t row = 0;  // of Kept::outputs
  };
  struct Kept {
    std::vector<Sample> samples;
    std::vector<float> outputs;  // [samples, v_head_size]
  };
  /// How one row compares.
  struct Finding {
    double relative_rms = 0.0;
    double share_of_bound = 0.0;  // > 1: a mismatch
  };

  [[nodiscard]] bool is_chosen(int64_t request, int32_t position, int32_t layer,
                               int32_t head) const;
  void invent_cache(const Running& sequence, int32_t layer, int32_t kv_head, int64_t tokens);
  [[nodiscard]] Finding compare(const Running& sequence, const Sample& sample,
                                const float* actual) const;
  [[nodiscard]] static Finding compare(const std::vector<double>& exact,
                                       const std::vector<double>& bounds, const float* actual);
  void record(const Running& sequence, const Sample& sample, const Finding& finding);

  VerifierOptions options_;
  Executor executor_;
  std::unordered_map<int64_t, Kept> kept_;  // by request
  std::vector<double> keys_, values_;       // [tokens, head size] of one layer and KV head
  std::vector<Finding> findings_;
  VerifySummary summary_;
};

}  // namespace folio::cli
