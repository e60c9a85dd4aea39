// SPDX-License-Identifier: Apache-2.0
/// cli/report/outputs.h: what a command on a trace writes besides its summary.
#pragma once

#include "folio/core/status.h"
#include "load/options.h"
#include "parts/output_file.h"

namespace folio::cli {

struct Outputs {
  OutputFile json{"--json"}, page{"--report"}, metrics{"--metrics"};

  /// Those that are asked for. Errors: unsupported for what this build cannot make; io
  Status open(const ReplayOptions& options);
};

/// Whether these are files of their own, neither the trace nor a tier's, before anything is done.
/// Errors: those of check_outputs
Status check_files(const ReplayOptions& options);

}  // namespace folio::cli
