// SPDX-License-Identifier: Apache-2.0
/// cli/replay_command.cpp: load, replay, report.
#include "replay_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

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

/// What a replay says of itself, and of --verify.
struct Report {
  std::string summary, json;
  std::string metrics = {}, page = {};  ///< where they are asked for
  Status verdict = {};
};

/// Of --verify.
Status verdict(const ReplayOptions& options, const VerifySummary& verify) {
  if (!options.verify) return {};
  if (verify.outputs == 0) return {Errc::internal, "--verify: nothing was verified"};
  if (verify.mismatches == 0) return {};
  return {Errc::internal, fmt::format("--verify: {} of {} outputs are wrong; {}", verify.mismatches,
                                      verify.outputs, verify.first_mismatch)};
}

Result<Report> compare(const ReplayOptions& options, std::span<const TraceRequest> trace) {
  const auto comparison = compare_policies(options, trace);
  if (!comparison) return comparison.error();
  Report report{summary_of(options, *comparison), json_of(options, *comparison)};
  if (!options.report.empty()) report.page = page_of(options, *comparison);
  return report;
}

Result<Report> replay_plain(const ReplayOptions& options, std::span<const TraceRequest> trace) {
  if (options.policy.all) return compare(options, trace);
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Recorder>* const wanted = options.report.empty() ? nullptr : &recorder;
  const auto figures = options.page_per_block ? replay_blocks(options, trace, wanted)
                                              : replay_steps(options, trace, wanted);
  if (!figures) return figures.error();
  Report report{summary_of(options, *figures), json_of(options, *figures)};
  if (!options.metrics.empty()) report.metrics = metrics_of(*figures);
  if (recorder) report.page = page_of(options, *figures, *recorder);
  report.verdict = verdict(options, figures->verify);
  return report;
}

Result<Report> replay_hybrid(const ReplayOptions& options, const HybridModel& model,
                             std::span<const TraceRequest> trace) {
  const auto tasks = tasks_of(options, model, trace);
  if (!tasks) return tasks.error();
  const auto runs = run_policies(options, *tasks, trace);
  if (!runs) return runs.error();
  const auto report_of = [&](const auto& figures) {
    Report report{summary_of(options, model, figures), json_of(options, model, figures)};
    if (!options.report.empty()) report.page = page_of(options, model, figures);
    return report;
  };
  const HybridFigures& first = runs->front().figures;
  Report report = options.policy.all ? report_of(*runs) : report_of(first);
  if (!options.metrics.empty()) report.metrics = metrics_of(first.groups);
  VerifySummary all;
  for (const HybridPolicy& run : *runs) all.add(run.figures.groups.verify);
  report.verdict = verdict(options, all);
  return report;
}

}  // namespace

Status replay(ReplayOptions options) {
  const HybridModel* const model = find_hybrid_model(options.model_name);
  if (Status s = model != nullptr ? resolve_hybrid(options, *model) : resolve(options); !s.is_ok())
    return s;
  if (Status s = check_files(options); !s.is_ok()) return s;
  const auto trace = read_trace(options.trace, options.limit);
  if (!trace) return trace.error();
  Outputs outputs;
  if (Status s = outputs.open(options); !s.is_ok()) return s;
  const auto report =
      model != nullptr ? replay_hybrid(options, *model, *trace) : replay_plain(options, *trace);
  if (!report) return report.error();
  if (!options.quiet) show(report->summary);
  Status status = joined(report->verdict, outputs.json.write(report->json));
  status = joined(status, outputs.metrics.write(report->metrics));
  return joined(status, outputs.page.write(report->page));
}

}  // namespace folio::cli
