// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutant_engines.h: every engine of the CPU with what its cases need.
#pragma once

#include "attention/mutant_cases.h"

namespace folio::test {

/// An engine with what its cases need.
struct EngineOfMutants {
  MutantEngine (*make)();
  MutantCases::Adapt* adapt;
};

inline void take_bf16(CaseOptions& o) {
  o.q_dtype = DType::bf16;
  if (o.key_dtype == DType::f32) o.key_dtype = o.value_dtype = DType::bf16;
}

inline void take_i4(CaseOptions& o) {
  o.int8_operands = true;
  if (o.key_dtype != DType::f32) return;  // which it refuses
  o.key_dtype = o.value_dtype = DType::i4;
  o.key_scales = o.value_scales = {ScaleKind::token_and_head, DType::f32, 8, false};
}

inline void take_int8(CaseOptions& o) {
  o.q_dtype = DType::bf16;
  o.head_size = 64;
  o.int8_operands = true;
  if (o.key_dtype == DType::i8 || block_elements(o.key_dtype) > 1) return;
  o.key_dtype = o.value_dtype = DType::i8;
  o.key_scales = o.value_scales = {ScaleKind::token_and_head, DType::f32, 8, false};
}

inline constexpr EngineOfMutants engines_of_mutants[] = {
    {portable_mutants, [](CaseOptions&) {}},
    {avx512_f32_mutants, [](CaseOptions&) {}},
    {avx512_bf16_mutants, take_bf16},
    {avx512_int8_mutants, take_int8},
    {amx_grouped_mutants, take_bf16},
    {amx_latent_mutants,
     [](CaseOptions& o) {
       take_bf16(o);
       o.head_size = 64;
       o.v_head_size = 32;
       o.value_in_key = true;
       o.q_heads = o.kv_heads * 34;  // V is staged beyond 32
     }},
    {packed_mutants, take_i4},
};

}  // namespace folio::test
