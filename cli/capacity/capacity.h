// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/capacity.h: `folio plan-capacity`: hit rate and memory against the size of the
/// pool.
///
/// Requests come one after the other and a block of the trace is a page, as in `folio replay
/// --sequential --page-per-block`: what a size finds here, that replay finds with as many --pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capacity/stack_distances.h"
#include "load/options.h"

namespace folio::cli {

struct CapacityOptions {
  TraceOptions trace = {};
  ModelOptions model = {};
  PolicyChoice policy = {};    ///< not all
  OutputOptions output = {};   ///< but for metrics
  std::vector<int64_t> pages;  ///< sizes in trace blocks, rising; or
  std::vector<double> gib;  ///< in GiB, rising; or neither: sizes from the longest request to all
  StepOptions steps = {.max_batch = 1, .sequential = true};  ///< of replays; no option gives them
};

/// What options of any model have to agree in: sizes that rise, one policy; and with the trace:
/// pages that blocks consist of. Errors: invalid_argument naming the option
Status check_sizes(const CapacityOptions& options);
Status check_page_size(int32_t page_size, int32_t tokens_per_block);
/// The replay that says what a size finds, but for the size.
ReplayOptions replay_of(const CapacityOptions& options);

/// Adds the options of `plan-capacity` to the parser, which fills `options`.
void add_capacity_options(CLI::App& app, CapacityOptions& options);

/// Plans what the options ask for, prints the table and writes JSON and page; models with groups:
/// hybrid_capacity.h. Errors: everything that is wrong with the input
Status plan_capacity(CapacityOptions options);

/// One size of the pool.
struct CapacityRow {
  int64_t blocks = 0;  ///< of the trace
  BlockCounts counts = {};
  BlockCounts optimum = {};
};

struct CapacityPlan {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t tokens_per_block = 0;
  int64_t bytes_per_token = 0;  ///< of keys, values and scales over all layers, rounded up
  int64_t bytes_per_block = 0;
  int64_t most_hit_tokens = 0;  ///< of a cache that evicts nothing
  int64_t distinct = 0;         ///< blocks of such a cache
  bool is_exact = false;        ///< all sizes at once, else each size replayed
  std::vector<CapacityRow> rows;
  /// Where the curve stands highest above the line from nothing to everything; 0 where nothing is
  /// ever found.
  int64_t knee = 0;
  struct Share {
    int percent = 0;     ///< of what can be found
    int64_t blocks = 0;  ///< the least that find so much
  };
  std::vector<Share> shares;  ///< under LRU
  struct Point {
    int64_t blocks = 0, hit_tokens = 0;
  };
  std::vector<Point> curve;  ///< some hundred sizes to draw, in no order
};

/// Errors: invalid_argument for sizes that do not hold the longest request; those of page_bytes and
/// of replay_blocks
Result<CapacityPlan> make_capacity_plan(const CapacityOptions& options,
                                        std::span<const TraceRequest> trace);

std::string summary_of(const CapacityOptions& options, const CapacityPlan& plan);
std::string json_of(const CapacityOptions& options, const CapacityPlan& plan);
std::string page_of(const CapacityOptions& options, const CapacityPlan& plan);

}  // namespace folio::cli
