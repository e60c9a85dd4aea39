// SPDX-License-Identifier: Apache-2.0
/// tests/support/hidden_keys.h: what folio/attention/attend.h promises of NaN and infinity in a key
/// that some queries of a sequence see and others do not.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/attention_case.h"

namespace folio::test {

/// One key of the first sequence is spoilt, in every head; a second sequence does not know it.
struct HiddenKeyCase {
  std::string name;
  CaseOptions options;
  int64_t key = 0;
  bool in_value = false;  ///< else in K
  bool is_nan = false;    ///< else infinity
  std::function<void(AttentionCase& c)> arrange;
};

/// NaN and infinity, in elements and in scales of K and of V, hidden by causality, by a
/// window, by a bias of -inf, from queries of the same task and of others.
std::vector<HiddenKeyCase> hidden_key_cases();

/// After a kernel ran: queries that see a NaN have lost their outputs, those that do not have
/// theirs, or at least their lse where V is spoilt, and the other sequence has all.
::testing::AssertionResult keeps_hidden_keys_out(AttentionCase& c, const HiddenKeyCase& of);

}  // namespace folio::test
