// SPDX-License-Identifier: Apache-2.0
/// tests/support/bias_cases.h: biases, and what else is added to logits, at both ends of float32:
/// what is finite stays so, a bias of -inf hides a key.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/attention_case.h"

namespace folio::test {

struct BiasCase {
  std::string name;
  CaseOptions options;
  std::function<void(AttentionCase& c)> arrange;
};

/// Every kernel is right on each of them, as far as it accepts their types and shapes.
std::vector<BiasCase> bias_cases();

/// Likewise, without a bias: ALiBi beyond float32, queries further from their keys than 32 bits
/// tell, the smallest softcap. Few queries and keys, whose positions are given.
std::vector<BiasCase> term_cases();

/// q of zeros and a bias that steps through two ranges below 0: logits are exact, so that what is
/// off are exps, rounded weights and elements (folio/attention/problem.h, *How exact*). Of f32 with
/// bf16_operands, bf16, and i8 with int8_operands.
std::vector<BiasCase> exact_logit_cases();

/// Bias of every (head, row, key of the row's sequence), those that the mask hides too.
void set_bias(AttentionCase& c, const std::function<float(int64_t row, int64_t key)>& bias);

/// K and V of the keys that `is_poisoned`, in every sequence and head, become `value`.
void poison_keys(AttentionCase& c, const std::function<bool(int64_t key)>& is_poisoned,
                 double value);

}  // namespace folio::test
