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
#include <span>
#include <unordered_set>

#include "offline_optimum.h"
#include "parallel.h"
#include "progress.h"
#include "replay.h"

namespace folio::cli {
namespace {

constexpr TokenId behind_the_ids = static_cast<TokenId>(max_hash_id + 1);

/// The tokens of the blocks that were found.
Result<int64_t> replay_request(PagePool& pool, const TraceRequest& request) {
  std::vector<TokenId> prompt(request.hash_ids.begin(), request.hash_ids.end());
  prompt.push_back(behind_the_ids);
  const auto admission = pool.admit(prompt);
  if (!admission) return admission.error();
  const std::span<const TokenId> ids(prompt.data(), request.hash_ids.size());
  const auto missed = ids.subspan(static_cast<size_t>(admission->cached_tokens));
  if (Status s = pool.reserve(admission->id, static_cast<int32_t>(missed.size())); !s.is_ok())
    return s;
  if (Status s = pool.commit(admission->id, missed); !s.is_ok()) return s;
  if (Status s = pool.release(admission->id); !s.is_ok()) return s;
  return std::min(int64_t{admission->cached_tokens} * tokens_per_block,
                  int64_t{request.input_length});
}

int64_t distinct_ids(std::span<const TraceRequest> trace) {
  std::unordered_set<int32_t> ids;
  for (const TraceRequest& request : trace)
    ids.insert(request.hash_ids.begin(), request.hash_ids.end());
  return static_cast<int64_t>(ids.size());
}

}  // namespace

Result<ReplayFigures> replay_blocks(const ReplayOptions& options,
                                    std::span<const TraceRequest> trace) {
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
  if (Status s = check_memory(pool_options, 0.0); !s.is_ok()) return s;
  auto pool = PagePool::create(pool_options);
  if (!pool) return pool.error();

  ReplayFigures figures;
  int64_t hit_tokens = 0;
  ProgressBar progress(!options.quiet);
  {
    const Timed timed(figures.seconds);
    for (const TraceRequest& request : trace) {
      figures.step_seconds.push_back(0.0);
      const Timed step(figures.step_seconds.back());
      const auto found = replay_request(*pool, request);
      if (!found) return found.error();
      hit_tokens += *found;
      figures.saved_work += work_of(*found);
      figures.prompt_work += work_of(request.input_length);
      ++figures.requests;
      figures.prompt_tokens += request.input_length;
      progress.show(figures.requests, static_cast<int64_t>(trace.size()));
    }
  }
  figures.pool_seconds = figures.seconds;
  figures.pool = pool->stats();
  figures.pool.hit_tokens = hit_tokens;  // the pool's tokens are blocks
  figures.computed_tokens = figures.prompt_tokens - hit_tokens;
  figures.pages = pool->num_pages();
  figures.page_size = pool->page_size();
  return figures;
}

}  // namespace folio::cli
