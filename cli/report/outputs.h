// SPDX-License-Identifier: Apache-2.0
/// cli/report/outputs.h: a command on a trace, from its file to what is shown and written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "folio/core/status.h"
#include "load/options.h"
#include "load/trace.h"

namespace folio::cli {

/// What a command says of a trace.
struct Report {
  std::string summary, json;
  std::string metrics = {}, page = {};  ///< where they are asked for
  Status verdict = {};                  ///< of --verify
};
template <class... Figures>
Report report_of(bool has_page, const Figures&... figures) {
  return {summary_of(figures...), json_of(figures...), {}, has_page ? page_of(figures...) : ""};
}
using Reporter = std::function<Result<Report>(std::vector<TraceRequest>& trace)>;

/// Reads the trace, opens the outputs before `make` works, shows the summary and writes the files,
/// which lie in no tier's directory. Errors: those of check_outputs and read_trace; unsupported for
/// what this build cannot make; those of `make`, its verdict; io
Status report_on_trace(const TraceOptions& trace, const OutputOptions& files,
                       const TierChoice& tiers, const Reporter& make);

}  // namespace folio::cli
