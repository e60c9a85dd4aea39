// SPDX-License-Identifier: Apache-2.0
/// src/c/problem.h: problems of the C interface as those of folio, and their options back again.
#pragma once

#include "folio/attention/problem.h"
#include "folio/c/folio.h"
#include "folio/core/status.h"

namespace folio::inline v1::c {

/// The caller's struct with its defaults, causal among them, and what it says.
/// Errors: as read and convert of convert.h; invalid_argument for a null key or a `reproducible`
/// that is none; unsupported for options that are not known.
Status read_problem(const char* function, const folio_problem* problem, folio_problem& whole,
                    AttentionProblem& to) noexcept;

/// folio_problem::options of what `problem` asks for.
[[nodiscard]] int32_t options_of(const AttentionProblem& problem) noexcept;

}  // namespace folio::inline v1::c
