// SPDX-License-Identifier: Apache-2.0
/// cli/replay_command.cpp: load, replay, report.
#include "replay_command.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "parts/streams.h"
#include "replay/hybrid.h"
#include "replay/policies.h"
#include "replay/replay.h"
#include "report/hybrid_report.h"
#include "report/metrics.h"
#include "report/outputs.h"
#include "report/policy_report.h"
#include "report/report_page.h"

namespace folio::cli {
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

Status replay_hybrid(ReplayOptions options, const HybridModel& model) {
  if (options.pages != 0 && options.gib != 0.0)
    return {Errc::invalid_argument,
            "--gib: not with --pages, which says the same in pages of all layers"};
  if (Status s = resolve_hybrid(options, model); !s.is_ok()) return s;
  if (Status s = check_files(options); !s.is_ok()) return s;
  const auto trace = read_trace(options.trace, options.limit);
  if (!trace) return trace.error();
  Outputs outputs;
  if (Status s = outputs.open(options); !s.is_ok()) return s;
  const auto tasks = tasks_of(options, model, *trace);
  if (!tasks) return tasks.error();
  const auto runs = run_policies(options, *tasks, *trace);
  if (!runs) return runs.error();
  const bool compares = options.policy.all;
  const HybridFigures& first = runs->front().figures;
  if (!options.quiet) {
    show(compares ? summary_of(options, model, *runs) : summary_of(options, model, first));
  }
  const std::string figures =
      compares ? json_of(options, model, *runs) : json_of(options, model, first);
  Status status;
  if (options.verify) {
    VerifySummary all;
    for (const HybridPolicy& run : *runs) all.add(run.figures.groups.verify);
    status = verdict(all);
  }
  status = joined(status, outputs.json.write(figures));
  if (outputs.metrics.is_open())
    status = joined(status, outputs.metrics.write(metrics_of(first.groups)));
  if (!outputs.page.is_open()) return status;
  return joined(status, outputs.page.write(compares ? page_of(options, model, *runs)
                                                    : page_of(options, model, first)));
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
  if (options.policy.all) return compare(options, *trace, outputs);

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
