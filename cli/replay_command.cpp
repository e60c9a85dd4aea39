// SPDX-License-Identifier: Apache-2.0
/// cli/replay_command.cpp: options, replay, report.
#include "replay_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

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
  return report_of(!options.report.empty(), options, *comparison);
}

Result<Report> replay_plain(const ReplayOptions& options, std::span<const TraceRequest> trace) {
  if (options.policy.all) return compare(options, trace);
  std::unique_ptr<PageRecorder> recorder;
  std::unique_ptr<PageRecorder>* const wanted = options.report.empty() ? nullptr : &recorder;
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
  const bool has_page = !options.report.empty();
  const HybridFigures& first = runs->front().figures;
  Report report = options.policy.all ? report_of(has_page, options, model, *runs)
                                     : report_of(has_page, options, model, first);
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
  return report_on_trace(options, [&](std::span<const TraceRequest> trace) {
    return model != nullptr ? replay_hybrid(options, *model, trace) : replay_plain(options, trace);
  });
}

}  // namespace folio::cli
