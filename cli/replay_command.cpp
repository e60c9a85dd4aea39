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
Status verdict(const VerifyOptions& options, const VerifySummary& verify) {
  if (!options.wanted) return {};
  if (verify.outputs == 0) return {Errc::internal, "--verify: nothing was verified"};
  if (verify.mismatches == 0) return {};
  return {Errc::internal, fmt::format("--verify: {} of {} outputs are wrong; {}", verify.mismatches,
                                      verify.outputs, verify.first_mismatch)};
}

Result<Report> compare(const ReplayOptions& options, std::span<const TraceRequest> trace) {
  const auto comparison = compare_policies(options, trace);
  if (!comparison) return comparison.error();
  return Report{.summary = summary_of(options.trace, *comparison),
                .json = json_of(options.trace, *comparison),
                .page = options.output.report.empty() ? "" : page_of(options, *comparison)};
}

Result<Report> replay_plain(const ReplayOptions& options, std::span<const TraceRequest> trace) {
  if (options.cache.policy.all) return compare(options, trace);
  std::unique_ptr<PageRecorder> recorder;
  std::unique_ptr<PageRecorder>* const wanted = options.output.report.empty() ? nullptr : &recorder;
  const auto figures = options.steps.page_per_block ? replay_blocks(options, trace, wanted)
                                                    : replay_steps(options, trace, wanted);
  if (!figures) return figures.error();
  Report report{summary_of(options, *figures), json_of(options, *figures)};
  if (!options.output.metrics.empty()) report.metrics = metrics_of(*figures);
  if (recorder) report.page = page_of(options, *figures, *recorder);
  report.verdict = verdict(options.verify, figures->verify);
  return report;
}

Result<Report> replay_hybrid(const ReplayOptions& options, const HybridModel& model,
                             std::span<const TraceRequest> trace) {
  const auto tasks = tasks_of(options, model, trace);
  if (!tasks) return tasks.error();
  const auto runs = run_policies(options, *tasks, trace);
  if (!runs) return runs.error();
  const bool has_page = !options.output.report.empty();
  const HybridFigures& first = runs->front().figures;
  Report report = options.cache.policy.all ? report_of(has_page, options, model, *runs)
                                           : report_of(has_page, options, model, first);
  if (!options.output.metrics.empty()) report.metrics = metrics_of(first.groups);
  VerifySummary all;
  for (const HybridPolicy& run : *runs) all.add(run.figures.groups.verify);
  report.verdict = verdict(options.verify, all);
  return report;
}

}  // namespace

Status replay(ReplayOptions options) {
  const HybridModel* const model = find_hybrid_model(options.model.name);
  if (Status s = model != nullptr ? resolve_hybrid(options, *model) : resolve(options); !s.is_ok())
    return s;
  const auto make = [&](std::span<const TraceRequest> trace) {
    return model != nullptr ? replay_hybrid(options, *model, trace) : replay_plain(options, trace);
  };
  return report_on_trace(options.trace, options.output, options.tiers, make);
}

}  // namespace folio::cli
