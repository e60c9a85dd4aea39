// SPDX-License-Identifier: Apache-2.0
/// cli/report/outputs.cpp: files of options.
#include "report/outputs.h"

#include "parts/output_place.h"
#include "parts/page.h"
#include "report/metrics.h"

namespace folio::cli {

Status Outputs::open(const ReplayOptions& options) {
  if (!options.report.empty())
    if (Status s = can_make_pages(); !s.is_ok()) return s;
  if (!options.metrics.empty())
    if (Status s = can_write_metrics(); !s.is_ok()) return s;
  if (Status s = page.open(options.report); !s.is_ok()) return s;
  if (Status s = metrics.open(options.metrics); !s.is_ok()) return s;
  return json.open(options.json);
}

Status check_files(const ReplayOptions& options) {
  const NamedPath outputs[] = {
      {"--json", options.json}, {"--report", options.report}, {"--metrics", options.metrics}};
  const NamedPath inputs[] = {{"the trace", options.trace}};
  const NamedPath directories[] = {{"--disk", options.tiers.disk}};
  return check_outputs(outputs, inputs, directories);
}

}  // namespace folio::cli
