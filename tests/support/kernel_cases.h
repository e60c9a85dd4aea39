// SPDX-License-Identifier: Apache-2.0
/// tests/support/kernel_cases.h: every present kernel on every case: as it stands, or adapted until
/// the kernel accepts it.
///
/// refuse() null <=> the result is right. Kernels accept different problems, so a test states the
/// case it is about, and each kernel gets the nearest case that it accepts: the same lengths,
/// masks, terms, tables and pages in other types, alignments or head sizes. Nothing is skipped in
/// silence: each program ends with a line per kernel, cases as given, adapted and refused; a kernel
/// that was offered cases and never ran fails the program.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {

/// What may change about a case that a kernel refuses; each includes what is above it.
enum class Adapt : uint8_t {
  nothing,
  types,   ///< dtypes, scales, alignment of strides
  shapes,  ///< and head sizes, KV heads, value_in_key: down to latent heads of 576/512
};

using CaseBody = std::function<void(AttentionCase& c, const std::string& kernel)>;

struct CaseRules {
  Adapt adapt = Adapt::shapes;
  /// What the test does to a case once it is built, before any kernel runs on it.
  std::function<void(AttentionCase& c)> arrange = nullptr;
};

/// Calls `body` for each present kernel with the case that it accepts, its precision set; kernels
/// that accept the same share it.
void for_each_kernel_case(const CaseOptions& options, const CaseRules& rules, const CaseBody& body);
void for_each_kernel_case(const CaseOptions& options, const CaseBody& body);

/// The case that such a kernel gets, or null if it accepts none; for kernels that are in no list.
std::unique_ptr<AttentionCase> accepted_case(const Kernel& kernel, const CaseOptions& options,
                                             const CaseRules& rules = {});

/// The most usual body: the kernel is right, or the test fails and returns from the body.
void expect_every_kernel_right(const CaseOptions& options, const CaseRules& rules = {});

/// Calls `body` for each present kernel, for tests that need no case.
void for_each_kernel(const std::function<void(const std::string& kernel)>& body);

}  // namespace folio::test
