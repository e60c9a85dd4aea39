// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/capacity.cpp: sizes, what each finds, and the knee between them.
#include "capacity/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "capacity/hybrid_capacity.h"
#include "parts/numbers.h"
#include "replay/replay.h"
#include "report/outputs.h"

namespace folio::cli {
namespace {

constexpr int64_t usual_sizes = 12;
constexpr int64_t points_to_draw = 400;

Status bad(const std::string& reason) { return {Errc::invalid_argument, reason}; }

/// `count` sizes from `low` to `high`, each about as many times the one before.
std::vector<int64_t> spread(int64_t low, int64_t high, int64_t count) {
  std::vector<int64_t> sizes;
  const double ratio = static_cast<double>(high) / static_cast<double>(low);
  for (int64_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count - 1);
    const double size = static_cast<double>(low) * std::pow(ratio, share);
    sizes.push_back(i + 1 == count ? high : std::llround(size));
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Errors: invalid_argument naming the option
Result<std::vector<int64_t>> sizes_of(const CapacityOptions& options, const Blocks& blocks,
                                      int64_t bytes_per_block) {
  std::vector<int64_t> sizes = options.pages;
  for (const double gib : options.gib) {
    const double size = std::floor(gib * bytes_per_gib / static_cast<double>(bytes_per_block));
    if (size > std::numeric_limits<int32_t>::max()) {
      return bad(fmt::format("--gib: {} GiB are {:.0f} blocks of {} bytes, expected at most {}",
                             gib, size, bytes_per_block, std::numeric_limits<int32_t>::max()));
    }
    sizes.push_back(static_cast<int64_t>(size));
  }
  if (sizes.empty())
    return spread(std::min(std::max(blocks.longest, blocks.distinct / 256), blocks.distinct),
                  blocks.distinct, usual_sizes);
  if (sizes.front() >= blocks.longest) return sizes;
  return bad(fmt::format("{}: {} blocks are fewer than the {} of the request in line {} of {}",
                         options.gib.empty() ? "--pages" : "--gib", sizes.front(), blocks.longest,
                         blocks.longest_line, options.trace.file));
}

/// Errors: those of replay_blocks
Result<BlockCounts> replay_at(const CapacityOptions& options, std::span<const TraceRequest> trace,
                              int64_t blocks) {
  ReplayOptions replay = replay_of(options);
  replay.cache.pages = blocks;
  replay.output.quiet = true;
  const auto figures = replay_blocks(replay, trace);
  if (!figures) return figures.error();
  const PoolStats& pool = figures->pool;
  return BlockCounts{pool.lookup_pages, pool.hit_pages, pool.hit_tokens, pool.evicted_pages,
                     figures->saved_work};
}

int64_t knee_of(std::span<const CapacityPlan::Point> points, int64_t distinct, int64_t most) {
  int64_t knee = 0;
  double highest = 0.0;
  for (const auto& point : points) {
    if (most == 0 || point.blocks > distinct) break;
    const double above = static_cast<double>(point.hit_tokens) / static_cast<double>(most) -
                         static_cast<double>(point.blocks) / static_cast<double>(distinct);
    if (above <= highest) continue;
    highest = above;
    knee = point.blocks;
  }
  return knee;
}

/// What LRU finds at every size. Under another policy only the sizes that were replayed are known.
void add_curve(const Blocks& blocks, const LruCurve& lru, CapacityPlan& plan) {
  std::vector<CapacityPlan::Point> all;
  for (int64_t size = blocks.longest; size <= blocks.distinct; ++size)
    all.push_back({size, lru.at(size).hit_tokens});
  plan.knee = knee_of(all, plan.distinct, plan.most_hit_tokens);
  std::vector<int64_t> drawn = spread(blocks.longest, blocks.distinct, points_to_draw);
  if (plan.knee > 0) drawn.push_back(plan.knee);
  for (const int64_t size : drawn)
    plan.curve.push_back(all[static_cast<size_t>(size - blocks.longest)]);
  if (plan.most_hit_tokens == 0) return;
  for (const int percent : {50, 80, 90, 95, 99, 100}) {
    const int64_t tokens = (plan.most_hit_tokens * percent + 99) / 100;
    plan.shares.push_back({percent, std::max(lru.capacity_for(tokens), blocks.longest)});
  }
}

template <class Size>
Status check_rising(const char* option, const std::vector<Size>& sizes) {
  const auto falls = std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>());
  if (falls == sizes.end()) return {};
  return bad(fmt::format("{}: got '{}' behind '{}', expected sizes that rise", option, falls[1],
                         falls[0]));
}

}  // namespace

Status check_sizes(const CapacityOptions& options) {
  if (!options.pages.empty() && !options.gib.empty())
    return bad("--gib: not with --pages, which says the same in blocks");
  if (options.policy.all) return bad("--policy: got 'all', expected one policy");
  if (Status s = check_rising("--pages", options.pages); !s.is_ok()) return s;
  return check_rising("--gib", options.gib);
}

ReplayOptions replay_of(const CapacityOptions& options) {
  return {.trace = options.trace,
          .model = options.model,
          .cache = {.policy = options.policy},
          .steps = options.steps,
          .compute = Compute::none,
          .output = {.quiet = options.output.quiet}};
}

Status check_page_size(int32_t page_size, int32_t tokens_per_block) {
  if (tokens_per_block % page_size == 0) return {};
  return bad(fmt::format("--page-size: got '{}', expected a divisor of the {} tokens of a block",
                         page_size, tokens_per_block));
}

Result<CapacityPlan> make_capacity_plan(const CapacityOptions& options,
                                        std::span<const TraceRequest> trace) {
  const ModelOptions& model = options.model;
  const int32_t tokens_per_block = trace.front().tokens_per_block;
  if (Status s = check_page_size(model.page_size, tokens_per_block); !s.is_ok()) return s;
  const KVShape shape = kv_shape_of(model.sizes, tokens_per_block, model.kv);
  const auto values = page_bytes(shape);
  if (!values) return values.error();
  const auto scales = scale_page_bytes(shape);
  if (!scales) return scales.error();
  const Blocks blocks = name_blocks(trace);
  CapacityPlan plan;
  plan.tokens_per_block = tokens_per_block;
  plan.bytes_per_block = *values + *scales;
  plan.bytes_per_token = (plan.bytes_per_block + tokens_per_block - 1) / tokens_per_block;
  const auto sizes = sizes_of(options, blocks, plan.bytes_per_block);
  if (!sizes) return sizes.error();
  plan.requests = static_cast<int64_t>(trace.size());
  for (const TraceRequest& request : trace) plan.prompt_tokens += request.input_length;
  const LruCurve lru(blocks);
  plan.distinct = blocks.distinct;
  plan.most_hit_tokens = lru.at(blocks.distinct).hit_tokens;
  plan.is_exact = options.policy.eviction == Eviction::lru;
  for (const int64_t size : *sizes) {
    CapacityRow row{.blocks = size, .optimum = offline_optimum(blocks.trace, size)};
    const auto counts =
        plan.is_exact ? Result<BlockCounts>(lru.at(size)) : replay_at(options, blocks.trace, size);
    if (!counts) return counts.error();
    row.counts = *counts;
    plan.rows.push_back(row);
  }
  if (plan.is_exact) {
    add_curve(blocks, lru, plan);
  } else {
    for (const CapacityRow& row : plan.rows)
      plan.curve.push_back({row.blocks, row.counts.hit_tokens});
    plan.knee = knee_of(plan.curve, plan.distinct, plan.most_hit_tokens);
  }
  return plan;
}

Status plan_capacity(CapacityOptions options) {
  if (const HybridModel* model = find_hybrid_model(options.model.name); model != nullptr)
    return plan_hybrid_capacity(std::move(options), *model);
  if (Status s = check_sizes(options); !s.is_ok()) return s;
  options.steps.page_per_block = true;
  ReplayOptions replay = replay_of(options);
  if (Status s = resolve(replay); !s.is_ok()) return s;
  options.model = replay.model;
  return report_on_trace(options.trace, options.output, {},
                         [&](std::span<const TraceRequest> trace) -> Result<Report> {
                           const auto plan = make_capacity_plan(options, trace);
                           if (!plan) return plan.error();
                           return report_of(!options.output.report.empty(), options, *plan);
                         });
}

}  // namespace folio::cli
