// SPDX-License-Identifier: Apache-2.0
/// src/c/problem.cpp: problems of the C interface.
#include "c/problem.h"

#include "c/convert.h"

namespace folio::inline v1::c {
namespace {

constexpr struct {
  int32_t bit;
  bool AttentionProblem::*field;
} options[] = {{FOLIO_VALUE_IN_KEY, &AttentionProblem::value_in_key},
               {FOLIO_SINK_LOGITS, &AttentionProblem::sink_logits},
               {FOLIO_ALIBI, &AttentionProblem::alibi},
               {FOLIO_BIAS, &AttentionProblem::bias},
               {FOLIO_INTERVALS, &AttentionProblem::intervals},
               {FOLIO_TREE, &AttentionProblem::tree},
               {FOLIO_SELECTION, &AttentionProblem::selection},
               {FOLIO_SINK_PER_QUERY, &AttentionProblem::sink_per_query},
               {FOLIO_BIAS_PER_SEQUENCE, &AttentionProblem::bias_per_sequence},
               {FOLIO_ALIBI_POSITIONS, &AttentionProblem::alibi_positions},
               {FOLIO_BF16_OPERANDS, &AttentionProblem::bf16_operands},
               {FOLIO_INT8_OPERANDS, &AttentionProblem::int8_operands},
               {FOLIO_Q_IS_TURNED, &AttentionProblem::q_is_turned},
               {FOLIO_SELECTION_PER_HEAD, &AttentionProblem::selection_per_head}};

constexpr int32_t known_options = [] {
  int32_t known = 0;
  for (const auto& option : options) known |= option.bit;
  return known;
}();
static_assert(known_options == 2 * FOLIO_SELECTION_PER_HEAD - 1);  // the last: none is missing

Status check_known(const char* function, const folio_problem& p) noexcept {
  if (p.key == nullptr) return null_argument(function, "problem->key");
  if ((p.options & ~known_options) != 0)
    return fail(Errc::unsupported, "{}: problem->options is {}, expected bits of {} only", function,
                p.options, known_options);
  if (p.reproducible < 0 || p.reproducible > FOLIO_PER_QUERY)
    return fail(Errc::invalid_argument, "{}: problem->reproducible is {}, expected 0 to 2",
                function, p.reproducible);
  return {};
}

}  // namespace

Status read_problem(const char* function, const folio_problem* problem, folio_problem& whole,
                    AttentionProblem& to) noexcept {
  folio_problem& p = whole;
  p = {};
  p.mask_left = -1;
  if (Status s = read(function, "problem", problem, p); !s.is_ok()) return s;
  if (Status s = check_known(function, p); !s.is_ok()) return s;
  if (Status s = convert(function, "problem->key", p.key, to.key); !s.is_ok()) return s;
  if (Status s = convert(function, "problem->value", p.value, to.value); !s.is_ok()) return s;
  to.q_dtype = dtype_of(p.q_dtype);
  to.out_dtype = dtype_of(p.out_dtype);
  to.q_heads = p.q_heads;
  to.v_head_size = p.v_head_size;
  to.mask = {p.mask_left, p.mask_right, p.mask_chunk, p.mask_sink_tokens};
  for (const auto& [bit, field] : options) to.*field = (p.options & bit) != 0;
  to.sink_dtype = p.sink_dtype == 0 ? DType::f32 : dtype_of(p.sink_dtype);
  to.bias_dtype = p.bias_dtype == 0 ? DType::f32 : dtype_of(p.bias_dtype);
  to.scale = p.scale;
  to.softcap = p.softcap;
  to.reproducible = static_cast<Reproducible>(p.reproducible);
  return {};
}

int32_t options_of(const AttentionProblem& problem) noexcept {
  int32_t joined = 0;
  for (const auto& [bit, field] : options) joined |= problem.*field ? bit : 0;
  return joined;
}

}  // namespace folio::inline v1::c
