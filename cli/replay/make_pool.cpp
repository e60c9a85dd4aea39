// SPDX-License-Identifier: Apache-2.0
/// cli/replay/make_pool.cpp: a pool, where this machine has the memory for it.
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "replay/replay.h"

namespace folio::cli {

Status check_memory(const PoolOptions& pool, double more) {
  const auto pool_bytes = PagePool::required_bytes(pool);
  if (!pool_bytes) return pool_bytes.error();
  const double wanted = static_cast<double>(*pool_bytes) + more;
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (wanted <= present) return {};
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  const std::string sizes =
      fmt::format("{:.1f} GiB, this machine has {:.1f} GiB: give", wanted / gib, present / gib);
  if (pool.arena_bytes == 0) {
    return {Errc::invalid_argument,
            fmt::format("{} pages, their tables and the step need {} fewer --pages, --layers, "
                        "--max-batch or --step-tokens",
                        pool.num_pages, sizes)};
  }
  return {Errc::invalid_argument,
          fmt::format("{} {} bytes of pages need {} less, or a larger --page-size",
                      more > 0.0 ? "the step and" : "the tables of", pool.arena_bytes, sizes)};
}

Result<TieredPool> make_pool(PoolOptions options, std::unique_ptr<TieredPages> tiers, double more) {
  if (tiers) {
    tiers->prepare(options);
    more += tiers->required_bytes(options.num_pages);
  }
  if (Status s = check_memory(options, more); !s.is_ok()) return s;
  auto created = PagePool::create(options);
  if (!created) return created.error();
  TieredPool made{std::make_unique<PagePool>(std::move(*created)), std::move(tiers)};
  if (made.tiers) {
    if (Status s = made.tiers->attach(*made.pool); !s.is_ok()) return s;
  }
  return made;
}

}  // namespace folio::cli
