// SPDX-License-Identifier: Apache-2.0
/// tests/support/hidden_keys.h: what folio/attention/attend.h promises of NaN, infinity and large
/// numbers in a key that some queries of a sequence see and others do not.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/attention_case.h"

namespace folio::test {

/// One key of the first sequence is spoilt, in every head; a second sequence does not see it.
struct HiddenKeyCase {
  std::string name;
  CaseOptions options;
  int64_t key = 0;
  bool in_value = false;  ///< else in K
  double value = 0.0;     ///< NaN, infinity or a large number
  std::function<void(AttentionCase& c)> arrange;
};

/// In elements and in scales of K and of V, hidden by causality, by a window, by a bias of -inf, by
/// intervals, a tree and lists, from queries of the same task, of others, of another sequence.
std::vector<HiddenKeyCase> hidden_key_cases();

/// After a kernel ran: queries that see a NaN have lost their outputs, those that do not have
/// theirs, or at least their lse where V is not finite, and the other sequence has all.
::testing::AssertionResult keeps_hidden_keys_out(AttentionCase& c, const HiddenKeyCase& of);

}  // namespace folio::test
