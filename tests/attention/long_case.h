// SPDX-License-Identifier: Apache-2.0
/// tests/attention/long_case.h: the case of the tests that compare bits.
#pragma once

#include "support/attention_case.h"

namespace folio::test {

/// Long enough that work is cut: several spans, several row tiles, one sequence that outweighs the
/// rest.
inline CaseOptions long_options(Reproducible level, int32_t parallelism) {
  CaseOptions options;
  options.reproducible = level;
  options.parallelism = parallelism;
  options.q_heads = 4;
  options.kv_heads = 2;
  options.head_size = 16;
  options.page_size = 32;
  options.key_dtype = options.value_dtype = DType::bf16;
  options.sink_logits = true;
  options.sequences = {{1, 9000}, {40, 300}, {1, 17}, {70, 4500}, {0, 50}};
  return options;
}

}  // namespace folio::test
