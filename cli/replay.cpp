// SPDX-License-Identifier: Apache-2.0
/// cli/replay.cpp: from options to figures.
#include "replay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "hybrid.h"
#include "metrics.h"
#include "outputs.h"
#include "policies.h"
#include "report_page.h"
#include "streams.h"

namespace folio::cli {

Status check_memory(const PoolOptions& pool, double more) {
  const auto pool_bytes = PagePool::required_bytes(pool);
  if (!pool_bytes) return pool_bytes.error();
  const double wanted = static_cast<double>(*pool_bytes) + more;
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (wanted <= present) return {};
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  return {Errc::invalid_argument,
          fmt::format("{} pages, their tables and the step need {:.1f} GiB, this machine has "
                      "{:.1f} GiB: give fewer --pages, --layers, "
                      "--max-batch or --step-tokens",
                      pool.num_pages, wanted / gib, present / gib)};
}

namespace {

Status compare(const ReplayOptions& options, std::span<const TraceRequest> trace,
               Outputs& outputs) {
  const auto comparison = compare_policies(options, trace);
  if (!comparison) return comparison.error();
  if (!options.quiet) show(summary_of(options, *comparison));
  Status status = outputs.json.write(json_of(options, *comparison));
  if (outputs.page.is_open())
    status = joined(status, outputs.page.write(page_of(options, *comparison)));
  return status;
}

/// Of --verify.
Status verdict(const VerifySummary& verify) {
  if (verify.outputs == 0) return {Errc::internal, "--verify: nothing was verified"};
  if (verify.mismatches == 0) return {};
  return {Errc::internal, fmt::format("--verify: {} of {} outputs are wrong; {}", verify.mismatches,
                                      verify.outputs, verify.first_mismatch)};
}

}  // namespace

Status replay(ReplayOptions options) {
  if (const HybridModel* const model = find_hybrid_model(options.model_name); model != nullptr)
    return replay_hybrid(std::move(options), *model);
  if (Status s = resolve(options); !s.is_ok()) return s;
  if (Status s = check_files(options); !s.is_ok()) return s;
  const auto trace = read_trace(options.trace, options.limit);
  if (!trace) return trace.error();
  Outputs outputs;
  if (Status s = outputs.open(options); !s.is_ok()) return s;
  if (options.policy == Policy::all) return compare(options, *trace, outputs);

  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Recorder>* const wanted = outputs.page.is_open() ? &recorder : nullptr;
  const auto figures = options.page_per_block ? replay_blocks(options, *trace, wanted)
                                              : replay_steps(options, *trace, wanted);
  if (!figures) return figures.error();
  if (!options.quiet) show(summary_of(options, *figures));
  Status status = options.verify ? verdict(figures->verify) : Status();
  status = joined(status, outputs.json.write(json_of(options, *figures)));
  if (outputs.metrics.is_open())
    status = joined(status, outputs.metrics.write(metrics_of(*figures)));
  if (recorder) status = joined(status, outputs.page.write(page_of(options, *figures, *recorder)));
  return status;
}

}  // namespace folio::cli
