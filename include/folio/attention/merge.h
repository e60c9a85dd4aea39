// SPDX-License-Identifier: Apache-2.0
/// folio/attention/merge.h: joins attention results over disjoint sets of keys: cascades, context
/// parallelism.
#pragma once

#include <span>

#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// One part: outputs [tokens, q_heads, v_head_size] (f32, bf16 or f16) and lse [tokens, q_heads].
struct Partial {
  ConstTensor<3> out = {};
  const float* lse = nullptr;
};

/// out = sum_i exp(lse_i - lse) * out_i with lse = log(sum_i exp(lse_i)), in the order given, in
/// float32.
///
/// (0, -inf) is neutral: where lse_i = -inf, out_i is not read (it may be NaN). So is lse_i = +inf,
/// which flash-attn 2 gives a query that sees no key. All parts neutral: out = 0, lse = -inf. A
/// sink logit enters once: whoever computes the parts passes it to exactly one of them. `out` may
/// be one of the parts, and `lse` its lse. Otherwise `out` shares no byte with them; slices of one
/// buffer, at the same strides, lie between one another and share none.
///
/// Errors:  invalid_argument for no parts, shapes or dtypes that do not agree, null data, an `out`
///          that overlaps a part without being it; nothing is written then; internal if the
///          executor throws or leaves out tasks: the output is undefined then
/// Effects: allocates nothing; `lse` [tokens, q_heads] is written if not null
FOLIO_EXPORT Status merge(std::span<const Partial> parts, const AnyTensor<3>& out, float* lse,
                          const Executor& executor) noexcept;

}  // namespace folio::inline v1
