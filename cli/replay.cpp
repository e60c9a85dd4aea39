// SPDX-License-Identifier: Apache-2.0
/// cli/replay.cpp: from options to figures.
#include "replay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "hybrid.h"
#include "metrics.h"
#include "output_file.h"
#include "page.h"
#include "policies.h"
#include "report_page.h"

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

Status check_files(const ReplayOptions& options) {
  std::error_code unknown;  // a file that is not there is no other file's name
  for (const auto& [option, path] :
       {std::pair{"--json", &options.json}, std::pair{"--report", &options.report},
        std::pair{"--metrics", &options.metrics}}) {
    if (path->empty() || !std::filesystem::is_regular_file(options.trace, unknown) ||
        !std::filesystem::equivalent(options.trace, *path, unknown))
      continue;
    return {Errc::invalid_argument,
            fmt::format("{}: {} is the trace, expected another file", option, *path)};
  }
  if (!options.report.empty() &&
      (options.report == options.json ||
       (std::filesystem::is_regular_file(options.json, unknown) &&
        std::filesystem::equivalent(options.json, options.report, unknown))))
    return {Errc::invalid_argument,
            fmt::format("--report: {} is the file of --json, expected another", options.report)};
  return {};
}

namespace {

/// Where the figures go.
struct Outputs {
  JsonFile json;
  OutputFile page{"--report"};
  OutputFile metrics{"--metrics"};
};

Status open(const ReplayOptions& options, Outputs& outputs) {
  if (Status s = open_page(outputs.page, options.report); !s.is_ok()) return s;
  if (!options.metrics.empty()) {
    if (Status s = can_write_metrics(); !s.is_ok()) return s;
    if (Status s = outputs.metrics.open(options.metrics); !s.is_ok()) return s;
  }
  return outputs.json.open(options.json);
}

Status compare(const ReplayOptions& options, std::span<const TraceRequest> trace,
               Outputs& outputs) {
  const auto comparison = compare_policies(options, trace);
  if (!comparison) return comparison.error();
  if (!options.quiet) fmt::print("{}", summary_of(options, *comparison));
  if (Status s = outputs.json.write(json_of(options, *comparison)); !s.is_ok()) return s;
  if (!outputs.page.is_open()) return {};
  return outputs.page.write(page_of(options, *comparison));
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
  if (Status s = open(options, outputs); !s.is_ok()) return s;

  if (options.policy == Policy::all) return compare(options, *trace, outputs);

  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Recorder>* const wanted = outputs.page.is_open() ? &recorder : nullptr;
  const auto figures = options.page_per_block ? replay_blocks(options, *trace, wanted)
                                              : replay_steps(options, *trace, wanted);
  if (!figures) return figures.error();
  if (!options.quiet) fmt::print("{}", summary_of(options, *figures));
  if (Status s = outputs.json.write(json_of(options, *figures)); !s.is_ok()) return s;
  if (outputs.metrics.is_open()) {
    if (Status s = outputs.metrics.write(metrics_of(*figures)); !s.is_ok()) return s;
  }
  if (wanted != nullptr) {
    if (Status s = outputs.page.write(page_of(options, *figures, *recorder)); !s.is_ok()) return s;
  }

  if (!options.verify) return {};
  if (figures->verify.outputs == 0) return {Errc::internal, "--verify: nothing was verified"};
  if (figures->verify.mismatches == 0) return {};
  return {Errc::internal,
          fmt::format("--verify: {} of {} outputs are wrong; {}", figures->verify.mismatches,
                      figures->verify.outputs, figures->verify.first_mismatch)};
}

}  // namespace folio::cli
