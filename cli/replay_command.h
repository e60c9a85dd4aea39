// SPDX-License-Identifier: Apache-2.0
/// cli/replay_command.h: `folio replay`.
#pragma once

#include "folio/core/status.h"
#include "load/options.h"

namespace folio::cli {

/// Replays what the options ask for, prints the summary and writes the JSON.
/// Errors: everything that is wrong with the input, sizes that this machine cannot hold, a failed
/// verification (Errc::internal)
Status replay(ReplayOptions options);

}  // namespace folio::cli
