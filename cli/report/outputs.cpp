// SPDX-License-Identifier: Apache-2.0
/// cli/report/outputs.cpp: files of options.
#include "report/outputs.h"

#include "parts/output_file.h"
#include "parts/output_place.h"
#include "parts/page.h"
#include "parts/streams.h"
#include "report/metrics.h"

namespace folio::cli {
namespace {

struct Outputs {
  OutputFile json{"--json"}, page{"--report"}, metrics{"--metrics"};

  /// Those that are asked for. Errors: unsupported for what this build cannot make; io
  Status open(const ReplayOptions& options) {
    if (!options.report.empty())
      if (Status s = can_make_pages(); !s.is_ok()) return s;
    if (!options.metrics.empty())
      if (Status s = can_write_metrics(); !s.is_ok()) return s;
    if (Status s = page.open(options.report); !s.is_ok()) return s;
    if (Status s = metrics.open(options.metrics); !s.is_ok()) return s;
    return json.open(options.json);
  }
};

/// Whether these are files of their own, neither the trace nor a tier's, before anything is done.
/// Errors: those of check_outputs
Status check_files(const ReplayOptions& options) {
  const NamedPath outputs[] = {
      {"--json", options.json}, {"--report", options.report}, {"--metrics", options.metrics}};
  const NamedPath inputs[] = {{"the trace", options.trace}};
  const NamedPath directories[] = {{"--disk", options.tiers.disk}};
  return check_outputs(outputs, inputs, directories);
}

}  // namespace

Status report_on_trace(const ReplayOptions& options, const Reporter& make) {
  if (Status s = check_files(options); !s.is_ok()) return s;
  auto trace = read_trace(options.trace, options.limit);
  if (!trace) return trace.error();
  Outputs outputs;
  if (Status s = outputs.open(options); !s.is_ok()) return s;
  const auto report = make(*trace);
  if (!report) return report.error();
  if (!options.quiet) show(report->summary);
  Status status = joined(report->verdict, outputs.json.write(report->json));
  status = joined(status, outputs.metrics.write(report->metrics));
  return joined(status, outputs.page.write(report->page));
}

}  // namespace folio::cli
