// SPDX-License-Identifier: Apache-2.0
/// cli/replay/replay_blocks.cpp: the page-per-block mode: a prefix cache of whole trace blocks,
/// driven through PagePool itself.
///
/// Requests come one after the other; a hit is the longest leading run of cached ids; all ids of a
/// request are resident afterwards, the partial last block too. The pool's hits are always shorter
/// than the prompt, so a token that is never reserved nor committed stands behind the ids, and all
/// of them can hit.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>

#include "parts/parallel.h"
#include "parts/progress.h"
#include "replay/offline_optimum.h"
#include "replay/replay.h"

namespace folio::cli {
namespace {

constexpr TokenId behind_the_ids = static_cast<TokenId>(max_hash_id + 1);

/// A request that has all its pages, as a recorder wants to know it.
struct Held {
  std::vector<uint32_t> row;
  PoolStats stats;
};

/// The pool, and what is below, if anything.
struct BlockCache {
  PagePool& pool;
  TieredPages* below;

  Result<TieredAdmit> admit(std::span<const TokenId> prompt) const {
    if (below != nullptr) return below->admit(prompt);
    const auto admission = pool.admit(prompt);
    if (!admission) return admission.error();
    return TieredAdmit{.id = admission->id, .memory = admission->cached_tokens};
  }
  Status commit(SequenceId id, std::span<const TokenId> written) const {
    return below != nullptr ? below->commit(id, written) : pool.commit(id, written);
  }
  Status release(SequenceId id) const {
    return below != nullptr ? below->release(id) : pool.release(id);
  }
};

/// Where blocks were found. `held` may be null.
Result<TieredAdmit> replay_request(const BlockCache& cache, const TraceRequest& request,
                                   Held* held) {
  PagePool& pool = cache.pool;
  std::vector<TokenId> prompt(request.hash_ids.begin(), request.hash_ids.end());
  prompt.push_back(behind_the_ids);
  auto admission = cache.admit(prompt);
  if (!admission) return admission.error();
  const std::span<const TokenId> ids(prompt.data(), request.hash_ids.size());
  const auto missed = ids.subspan(static_cast<size_t>(admission->found()));
  if (Status s = pool.reserve(admission->id, static_cast<int32_t>(missed.size())); !s.is_ok())
    return s;
  if (Status s = cache.commit(admission->id, missed); !s.is_ok()) return s;
  if (held != nullptr) {
    const auto start = pool.row_start(admission->id);
    if (!start) return start.error();
    const uint32_t* const first = pool.table().entries + *start;
    held->row.assign(first, first + ids.size());
    held->stats = pool.stats();
  }
  if (Status s = cache.release(admission->id); !s.is_ok()) return s;
  return admission;
}

/// Tokens of the request's first blocks, which are `found`, by where they were.
TokensBySource tokens_of(const TraceRequest& request, const TieredAdmit& found) {
  const int64_t length = request.input_length;
  int64_t blocks = found.memory;
  const auto up_to_here = [&] { return std::min(blocks * request.tokens_per_block, length); };
  TokensBySource tokens{.memory = up_to_here()};
  for (size_t t = 0; t < num_tiers; ++t) {
    const int64_t before = up_to_here();
    blocks += found.tiers[t];
    tokens.tiers[t] = up_to_here() - before;
  }
  tokens.computed = length - up_to_here();
  return tokens;
}

/// What the trace asks of the pool.
struct BlockDemand {
  const TraceRequest& longest;
  int64_t blocks = 0;  ///< of all requests

  [[nodiscard]] int64_t longest_blocks() const { return std::ssize(longest.hash_ids); }
};

BlockDemand block_demand_of(std::span<const TraceRequest> trace) {
  std::unordered_set<int32_t> ids;
  for (const TraceRequest& request : trace)
    ids.insert(request.hash_ids.begin(), request.hash_ids.end());
  const auto by_blocks = [](const TraceRequest& a, const TraceRequest& b) {
    return a.hash_ids.size() < b.hash_ids.size();
  };
  return {*std::max_element(trace.begin(), trace.end(), by_blocks), std::ssize(ids)};
}

/// Errors: invalid_argument for --pages that do not hold the longest request
Result<PoolOptions> pool_options_of(const ReplayOptions& options, const BlockDemand& demand) {
  const int32_t spares = options.tiers.spares();
  const int64_t pages = options.cache.pages != 0 ? options.cache.pages : demand.blocks + spares;
  if (pages < demand.longest_blocks() + spares) {
    const std::string beside = spares != 0 ? fmt::format(" beside {} spare ones", spares) : "";
    return Status(
        Errc::invalid_argument,
        fmt::format("--pages: {} are fewer than the {} blocks of the request in line {} of {}{}",
                    pages, demand.longest_blocks(), demand.longest.line, options.trace.file,
                    beside));
  }
  PoolOptions pool = pool_options_of(options.cache, options.output, 1, 1, demand.longest_blocks());
  pool.num_pages = static_cast<uint32_t>(pages);
  return pool;
}

/// Replays requests and adds them up. `recorder` may be null.
class BlockReplay {
 public:
  BlockReplay(const BlockCache& cache, PageRecorder* recorder)
      : cache_(cache), recorder_(recorder) {}

  Status run(const TraceRequest& request) {
    double& seconds = figures_.step_seconds.emplace_back(0.0);
    Result<TieredAdmit> found = TieredAdmit();
    {
      const Timed step(seconds);
      found = replay_request(cache_, request, recorder_ != nullptr ? &held_ : nullptr);
    }
    if (!found) return found.error();
    const TokensBySource tokens = tokens_of(request, *found);
    all_.add(tokens);
    if (cache_.below != nullptr) sources_.add(tokens);
    figures_.saved_work += work_of(tokens.found());
    figures_.prompt_work += work_of(request.input_length);
    if (recorder_ != nullptr) record(*found, tokens, seconds);
    ++figures_.requests;
    figures_.prompt_tokens += request.input_length;
    return {};
  }

  /// `seconds`: of everything.
  ReplayFigures finish(double seconds) {
    const PagePool& pool = cache_.pool;
    figures_.seconds = seconds;
    figures_.pool_seconds =
        std::accumulate(figures_.step_seconds.begin(), figures_.step_seconds.end(), 0.0);
    figures_.pool = pool.stats();
    figures_.histograms = pool.histograms().value_or(PoolHistograms());
    figures_.pool.hit_tokens = all_.memory;  // the pool's tokens are blocks
    figures_.computed_tokens = all_.computed;
    figures_.pages = pool.num_pages();
    figures_.page_size = pool.page_size();
    if (cache_.below != nullptr) {
      figures_.tiers = cache_.below->figures();
      sources_.give(*figures_.tiers);
    }
    return std::move(figures_);
  }

 private:
  void record(const TieredAdmit& found, const TokensBySource& tokens, double seconds) {
    const AdmittedRequest admitted{figures_.requests, held_.row, found.memory, tokens.memory};
    recorder_->admitted({&admitted, 1}, held_.stats);
    recorder_->releasing(held_.row);
    recorder_->end_step(seconds);
  }

  BlockCache cache_;
  PageRecorder* recorder_;
  Held held_;
  SourceRecorder sources_;
  TokensBySource all_;
  ReplayFigures figures_;
};

}  // namespace

Result<ReplayFigures> replay_blocks(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace,
                                    std::unique_ptr<PageRecorder>* recorder) {
  const BlockDemand demand = block_demand_of(trace);
  auto pool_options = pool_options_of(options, demand);
  if (!pool_options) return pool_options.error();
  auto below = tiers_of(options.tiers, options.model,
                        {.tokens = demand.longest.tokens_per_block,
                         .all_pages = demand.blocks,
                         .longest_pages = demand.longest_blocks(),
                         .page_size = pool_options->page_size});
  if (!below) return below.error();
  const auto made = make_pool(*pool_options, std::move(*below));
  if (!made) return made.error();
  if (recorder != nullptr)
    *recorder = std::make_unique<PageRecorder>(trace, pool_options->num_pages);
  BlockReplay replay({*made->pool, made->tiers.get()}, recorder ? recorder->get() : nullptr);
  ProgressBar progress(!options.output.quiet);
  double seconds = 0.0;
  {
    const Timed timed(seconds);
    int64_t done = 0;
    for (const TraceRequest& request : trace) {
      if (Status s = replay.run(request); !s.is_ok()) return s;
      progress.show(++done, std::ssize(trace));
    }
  }
  return replay.finish(seconds);
}

}  // namespace folio::cli
