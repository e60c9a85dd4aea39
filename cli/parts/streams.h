// SPDX-License-Identifier: Apache-2.0
/// cli/parts/streams.h: standard output and standard error. The tool writes to them by these
/// functions alone, so that what is lost is known at its end. One thread.
#pragma once

#include <string_view>

#include "folio/core/status.h"

namespace folio::cli {

/// Before anything else. A stream that is closed stays one that nothing can be written to: the
/// next file that is opened would take its number, and the text. A reader that has gone and a file
/// that may not grow are errors of writing from now on, no signals.
void prepare_streams();

/// To standard output; `finish_output` says whether it came there.
void show(std::string_view text);

/// To standard error. What fails is nobody's loss that could be told.
void tell(std::string_view text);

/// Hands on what has been shown, so that what others write to the same place stands behind it.
void flush_output();

/// Something that was shown is lost: there is no use in showing more.
[[nodiscard]] bool is_output_lost();

/// At the end. Errors: io with the reason where something that was shown is lost
Status finish_output();

}  // namespace folio::cli
