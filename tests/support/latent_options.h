// SPDX-License-Identifier: Apache-2.0
/// tests/support/latent_options.h: cases of DeepSeek's latent heads.
#pragma once

#include "support/attention_case.h"

namespace folio::test {

/// One KV head of 576 columns in bf16 whose first 512 are V, in pages of 64.
inline CaseOptions deepseek(int32_t q_heads) {
  CaseOptions options;
  options.q_heads = q_heads;
  options.kv_heads = 1;
  options.head_size = 576;
  options.v_head_size = 512;
  options.value_in_key = true;
  options.q_dtype = options.out_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  options.page_size = 64;
  return options;
}

}  // namespace folio::test
