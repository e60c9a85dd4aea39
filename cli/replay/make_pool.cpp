// SPDX-License-Identifier: Apache-2.0
/// cli/replay/make_pool.cpp: a pool and an engine, where this machine has the memory for them.
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "parts/numbers.h"
#include "replay/replay.h"

namespace folio::cli {

Status check_memory(const PoolOptions& pool, double more, const char* what) {
  const auto pool_bytes = PagePool::required_bytes(pool);
  if (!pool_bytes) return pool_bytes.error();
  const double wanted = static_cast<double>(*pool_bytes) + more;
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (wanted <= present) return {};
  const std::string sizes = fmt::format("{:.1f} GiB, this machine has {:.1f} GiB: give",
                                        wanted / bytes_per_gib, present / bytes_per_gib);
  if (pool.arena_bytes == 0) {
    return {Errc::invalid_argument,
            fmt::format("{} pages, their tables and the step need {} fewer --pages, --layers, "
                        "--max-batch or --step-tokens",
                        pool.num_pages, sizes)};
  }
  return {Errc::invalid_argument,
          fmt::format("{} {} bytes of pages need {} less, or a larger --page-size", what,
                      pool.arena_bytes, sizes)};
}

PoolOptions pool_options_of(const CacheChoice& cache, const OutputOptions& output,
                            int32_t max_batch, int32_t page_size, int64_t longest_tokens) {
  PoolOptions pool;
  pool.page_size = page_size;
  pool.max_sequences = static_cast<uint32_t>(max_batch);
  pool.max_pages_per_sequence = static_cast<uint32_t>((longest_tokens + page_size - 1) / page_size);
  pool.eviction = cache.policy.eviction;
  pool.min_partial_tokens = cache.partial;
  pool.histograms = !output.metrics.empty();
  return pool;
}

Result<std::unique_ptr<Engine>> make_engine(EngineOptions options, const StepOptions& steps,
                                            const PoolOptions& pool, double bytes,
                                            int64_t longest_tokens, const Executor& executor) {
  if (options.groups.empty()) return std::unique_ptr<Engine>();
  // before the planes of so many pages are described
  if (Status s = check_memory(pool, bytes); !s.is_ok()) return s;
  for (LayerRunnerOptions& one : options.groups) {
    one.limits = {.batch = steps.max_batch,
                  .tokens = steps.step_tokens,
                  .context = static_cast<int32_t>(longest_tokens),
                  .parallelism = executor.concurrency(executor.context)};
  }
  auto engine = Engine::create(options, executor);
  if (!engine) return engine.error();
  return std::make_unique<Engine>(std::move(*engine));
}

Result<TieredPool> make_pool(PoolOptions options, std::unique_ptr<TieredPages> tiers, double more) {
  if (tiers) {
    tiers->prepare(options);
    more += tiers->required_bytes(options);
  }
  const char* const what = tiers ? "the payloads and tables of" : "the tables of";
  if (Status s = check_memory(options, more, what); !s.is_ok()) return s;
  auto created = PagePool::create(options);
  if (!created) return created.error();
  TieredPool made{std::make_unique<PagePool>(std::move(*created)), std::move(tiers)};
  if (made.tiers) {
    if (Status s = made.tiers->attach(*made.pool); !s.is_ok()) return s;
  }
  return made;
}

}  // namespace folio::cli
