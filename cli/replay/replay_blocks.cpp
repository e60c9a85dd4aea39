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
#include <optional>
#include <span>
#include <unordered_set>

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

int64_t distinct_ids(std::span<const TraceRequest> trace) {
  std::unordered_set<int32_t> ids;
  for (const TraceRequest& request : trace)
    ids.insert(request.hash_ids.begin(), request.hash_ids.end());
  return static_cast<int64_t>(ids.size());
}

}  // namespace

Result<ReplayFigures> replay_blocks(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace,
                                    std::unique_ptr<Recorder>* recorder) {
  const auto longest = std::max_element(trace.begin(), trace.end(),
                                        [](const TraceRequest& a, const TraceRequest& b) {
                                          return a.hash_ids.size() < b.hash_ids.size();
                                        });
  const int64_t pages = options.pages != 0 ? options.pages : distinct_ids(trace);
  if (pages < static_cast<int64_t>(longest->hash_ids.size())) {
    return Status(
        Errc::invalid_argument,
        fmt::format("--pages: {} are fewer than the {} blocks of the request in line {} of {}",
                    pages, longest->hash_ids.size(), longest->line, options.trace));
  }
  PoolOptions pool_options;
  pool_options.num_pages = static_cast<uint32_t>(pages);
  pool_options.page_size = 1;
  pool_options.max_sequences = 1;
  pool_options.max_pages_per_sequence = static_cast<uint32_t>(longest->hash_ids.size());
  pool_options.eviction = options.policy.eviction;
  pool_options.histograms = !options.metrics.empty();
  std::optional<PagePool> pool;  // outlives what is below
  const auto below = tiers_of(options, longest->tokens_per_block,
                              {.all_pages = distinct_ids(trace),
                               .longest_pages = pool_options.max_pages_per_sequence,
                               .page_size = pool_options.page_size});
  if (!below) return below.error();
  TieredPages* const tiers = below->get();
  if (tiers != nullptr) tiers->prepare(pool_options);
  const double more = tiers != nullptr ? tiers->required_bytes(pages) : 0.0;
  if (Status s = check_memory(pool_options, more); !s.is_ok()) return s;
  auto created = PagePool::create(pool_options);
  if (!created) return created.error();
  pool.emplace(std::move(*created));
  if (tiers != nullptr) {
    if (Status s = tiers->attach(*pool); !s.is_ok()) return s;
  }

  ReplayFigures figures;
  const BlockCache cache{*pool, tiers};
  SourceRecorder sources;
  TokensBySource all;
  Held held;
  Recorder* record = nullptr;
  if (recorder != nullptr) {
    *recorder = std::make_unique<Recorder>(trace, pool_options.num_pages);
    record = recorder->get();
  }
  ProgressBar progress(!options.quiet);
  {
    const Timed timed(figures.seconds);
    for (const TraceRequest& request : trace) {
      figures.step_seconds.push_back(0.0);
      Result<TieredAdmit> found = TieredAdmit();
      {
        const Timed step(figures.step_seconds.back());
        found = replay_request(cache, request, record != nullptr ? &held : nullptr);
      }
      if (!found) return found.error();
      const TokensBySource tokens = tokens_of(request, *found);
      all.add(tokens);
      if (tiers != nullptr) sources.add(tokens);
      figures.saved_work += work_of(tokens.found());
      figures.prompt_work += work_of(request.input_length);
      if (record != nullptr) {
        const AdmittedRequest admitted{figures.requests, held.row, found->memory, tokens.memory};
        record->admitted({&admitted, 1}, held.stats);
        record->releasing(held.row);
        record->end_step(figures.step_seconds.back());
      }
      ++figures.requests;
      figures.prompt_tokens += request.input_length;
      progress.show(figures.requests, static_cast<int64_t>(trace.size()));
    }
  }
  figures.pool_seconds =
      std::accumulate(figures.step_seconds.begin(), figures.step_seconds.end(), 0.0);
  figures.pool = pool->stats();
  figures.histograms = pool->histograms().value_or(PoolHistograms());
  figures.pool.hit_tokens = all.memory;  // the pool's tokens are blocks
  figures.computed_tokens = all.computed;
  if (tiers != nullptr) {
    figures.tiers = tiers->figures();
    sources.give(*figures.tiers);
  }
  figures.pages = pool->num_pages();
  figures.page_size = pool->page_size();
  return figures;
}

}  // namespace folio::cli
