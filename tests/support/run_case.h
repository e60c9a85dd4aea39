// SPDX-License-Identifier: Apache-2.0
/// tests/support/run_case.h: runs kernels on an AttentionCase and compares with the reference.
///
/// `matches_reference` is an assertion that does not fail the test by itself, so that the mutant
/// tests can demand a failure. Running a kernel on a case, or preparing it, sets the case's
/// precision to the kernel's.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/core/execution.h"
#include "kernel/kernel.h"
#include "support/attention_case.h"

namespace folio::test {

/// Names of all kernels of the list for the tests' device (test_device.h), best first, and those
/// that it lacks the instructions for. Absent ones are named on the console once per program, so
/// that a skip is seen.
std::vector<std::string> kernel_names();
std::vector<std::string> absent_kernel_names();
/// The entry of that name: null where the build has none, or std::out_of_range is thrown.
const Kernel* find_kernel(std::string_view name);
const Kernel& kernel_of(std::string_view name);

/// An Attention with its plan and exactly as much plan memory and workspace as it asks for, both
/// ended by inaccessible memory.
struct PreparedCase {
  Attention attention;
  AttentionPlan plan;
  GuardedMemory plan_memory;
  GuardedMemory workspace;
};
Result<PreparedCase> prepare_case(AttentionCase& c, std::string_view kernel,
                                  const AttentionLimits& limits);

/// attend, or on a device prepare_async, attend_async and the end of both.
Status attend_prepared(AttentionCase& c, const PreparedCase& prepared, const Executor& executor);

/// create, plan, attend through the public functions; the output is poisoned first.
Status run_case(AttentionCase& c, std::string_view kernel,
                const Executor& executor = serial_executor());

/// The tasks of the case, run one by one on a kernel that is in no list (a mutant, say).
Status run_kernel(AttentionCase& c, const Kernel& kernel);

struct Accuracy {
  double worst = 0.0;  ///< largest error as a share of its bound; > 1 is a failure
  double relative_rms = 0.0;
  double lse = 0.0;  ///< largest |lse - exact|
};
/// Which outputs to look at: rows [first_row, end_row), of those every so many-th (row, head), but
/// for one if that is named.
struct Scope {
  int64_t first_row = 0;
  int64_t end_row = std::numeric_limits<int64_t>::max();
  int64_t every = 1;
  int64_t except_row = -1;
  int32_t except_head = 0;
};
/// Every output and lse in scope against the reference and its bound, and the gaps of the output
/// against their poison.
::testing::AssertionResult matches_reference(AttentionCase& c, const Scope& scope = {},
                                             Accuracy* accuracy = nullptr);

/// run_case, then matches_reference, with the options of the case in the message. Under a sanitizer
/// every fifth output is compared.
::testing::AssertionResult kernel_is_right(AttentionCase& c, std::string_view kernel);

/// Cases of both options give the same bits, each by the kernel that is chosen for it.
::testing::AssertionResult give_the_same_bits(const CaseOptions& a, const CaseOptions& b);

/// What the kernel rounds on the way through this problem.
Precision precision_of(const Kernel& kernel, const AttentionProblem& problem);

}  // namespace folio::test
