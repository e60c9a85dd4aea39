// SPDX-License-Identifier: Apache-2.0
/// cli/replay_blocks.cpp: the page-per-block mode: a prefix cache of whole trace blocks, driven
/// through PagePool itself.
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

#include "offline_optimum.h"
#include "parallel.h"
#include "progress.h"
#include "replay.h"

namespace folio::cli {
namespace {

constexpr TokenId behind_the_ids = static_cast<TokenId>(max_hash_id + 1);

/// A request that has all its pages, as a recorder wants to know it.
struct Held {
  std::vector<uint32_t> row;
  PoolStats stats;
};

/// The blocks that were found. `held` may be null.
Result<int64_t> replay_request(PagePool& pool, const TraceRequest& request, Held* held) {
  std::vector<TokenId> prompt(request.hash_ids.begin(), request.hash_ids.end());
  prompt.push_back(behind_the_ids);
  const auto admission = pool.admit(prompt);
  if (!admission) return admission.error();
  const std::span<const TokenId> ids(prompt.data(), request.hash_ids.size());
  const auto missed = ids.subspan(static_cast<size_t>(admission->cached_tokens));
  if (Status s = pool.reserve(admission->id, static_cast<int32_t>(missed.size())); !s.is_ok())
    return s;
  if (Status s = pool.commit(admission->id, missed); !s.is_ok()) return s;
  if (held != nullptr) {
    const auto start = pool.row_start(admission->id);
    if (!start) return start.error();
    const uint32_t* const first = pool.table().entries + *start;
    held->row.assign(first, first + ids.size());
    held->stats = pool.stats();
  }
  if (Status s = pool.release(admission->id); !s.is_ok()) return s;
  return int64_t{admission->cached_tokens};
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
  pool_options.eviction = eviction_of(options.policy);
  pool_options.histograms = !options.metrics.empty();
  if (Status s = check_memory(pool_options, 0.0); !s.is_ok()) return s;
  auto pool = PagePool::create(pool_options);
  if (!pool) return pool.error();

  ReplayFigures figures;
  int64_t hit_tokens = 0;
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
      Result<int64_t> found = 0;
      {
        const Timed step(figures.step_seconds.back());
        found = replay_request(*pool, request, record != nullptr ? &held : nullptr);
      }
      if (!found) return found.error();
      const int64_t found_tokens =
          std::min(*found * tokens_per_block, int64_t{request.input_length});
      hit_tokens += found_tokens;
      figures.saved_work += work_of(found_tokens);
      figures.prompt_work += work_of(request.input_length);
      if (record != nullptr) {
        const AdmittedRequest admitted{figures.requests, held.row, *found, found_tokens};
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
  figures.pool.hit_tokens = hit_tokens;  // the pool's tokens are blocks
  figures.computed_tokens = figures.prompt_tokens - hit_tokens;
  figures.pages = pool->num_pages();
  figures.page_size = pool->page_size();
  return figures;
}

}  // namespace folio::cli
