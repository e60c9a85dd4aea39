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
  Status open(const OutputOptions& files) {
    if (!files.report.empty())
      if (Status s = can_make_pages(); !s.is_ok()) return s;
    if (!files.metrics.empty())
      if (Status s = can_write_metrics(); !s.is_ok()) return s;
    if (Status s = page.open(files.report); !s.is_ok()) return s;
    if (Status s = metrics.open(files.metrics); !s.is_ok()) return s;
    return json.open(files.json);
  }
};

/// Whether these are files of their own, neither the trace nor a tier's, before anything is done.
/// Errors: those of check_outputs
Status check_files(const TraceOptions& trace, const OutputOptions& files, const TierChoice& tiers) {
  const NamedPath outputs[] = {
      {"--json", files.json}, {"--report", files.report}, {"--metrics", files.metrics}};
  const NamedPath inputs[] = {{"the trace", trace.file}};
  const NamedPath directories[] = {{"--disk", tiers.disk}};
  return check_outputs(outputs, inputs, directories);
}

}  // namespace

Status report_on_trace(const TraceOptions& trace, const OutputOptions& files,
                       const TierChoice& tiers, const Reporter& make) {
  if (Status s = check_files(trace, files, tiers); !s.is_ok()) return s;
  auto requests = read_trace(trace.file, trace.limit);
  if (!requests) return requests.error();
  Outputs outputs;
  if (Status s = outputs.open(files); !s.is_ok()) return s;
  const auto report = make(*requests);
  if (!report) return report.error();
  if (!files.quiet) show(report->summary);
  Status status = joined(report->verdict, outputs.json.write(report->json));
  status = joined(status, outputs.metrics.write(report->metrics));
  return joined(status, outputs.page.write(report->page));
}

}  // namespace folio::cli
