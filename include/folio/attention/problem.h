// SPDX-License-Identifier: Apache-2.0
/// folio/attention/problem.h: what selects an attention kernel, once at model load, and the bounds
/// that fix all memory.
#pragma once

#include <cstdint>

#include "folio/attention/mask.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"

namespace folio::inline v1 {

/// Which inputs determine the bits of a result.
enum class Reproducible : uint8_t {
  per_plan = 0,  ///< same inputs and plan: same bits, whatever threads run it in whatever order
  /// and free of the other sequences, the place in the batch, limits and parallelism
  per_sequence = 1,
  per_query = 2,  ///< and free of chunking: whole prefill = chunked = decode, prefix hit = cold
};

/// Attention of q over one kind of cache:
///
///   o[t, h, :] = sum_j softmax_j(s[t, h, j]) * v[j, h / group, :]
///   s[t, h, j] = softcap(scale * q[t, h, :] . k[j, h / group, :]) + alibi + bias,
///                  -inf where j is not visible
///
/// in float32, where terms are given no further from 0 than its largest number: a finite bias stays
/// finite, -inf hides the key. scale * q . k is finite as long as its exact value, and q . k, stay
/// within +-2^127; beyond that the query's own output is unspecified.
///
/// How exact: float32 rounds, in an order of the kernel's own. Where K and V have 16 bits or fewer,
/// or bf16_operands or int8_operands let it, a kernel may give up more for faster products; with p
/// the weights over their sum,
///
///   each exp            2^-13 of itself: lse moves by 2^-13, o by 2^-13 * (sum_j p |v| + |o|),
///                       also where every logit is exact, as with q = 0
///   each weight         rounded to bf16 (or f16) as it multiplies V: o moves by 2^-8 (2^-11) *
///                       sum_j p |v|, lse not at all
///   K and V whose scales vary along a row, blocks too: scaled, then rounded likewise, K's moving a
///                       logit by 2^-8 (2^-11) * |scale| * sum_d |q k|
///
/// with softcap(x) = softcap * tanh(x / softcap), alibi = -slope[h] * |position of t - position of
/// j|, and a sink logit per head in the denominator where given.
///
/// Of the views, what selects: dtypes, heads, head sizes, page size, whether there are scales,
/// their dtype and granularity. Their pointers and num_pages are ignored. Their strides are those
/// to expect: a kernel that could not take them is not selected (scales with a granule stride of 0
/// are one per head, whatever their granularity), and work is cut so that they are read fastest. A
/// call may bring others (AttentionArgs).
struct AttentionProblem {
  PagedKVView key = {};
  PagedKVView value = {};  ///< ignored with value_in_key
  /// further key columns with a dtype of their own; refused by every kernel so far
  PagedKVView key_tail = {};
  int32_t q_heads = 0;  ///< a multiple of key.num_heads
  /// with value_in_key: columns of K's row that are V; otherwise value.head_size (or 0 for that)
  int32_t v_head_size = 0;
  DType q_dtype = DType::bf16;
  DType out_dtype = DType::bf16;
  bool value_in_key = false;  ///< MLA: V is the first v_head_size columns of K's row
  Mask mask = Mask::causal();
  float scale = 0.0f;        ///< 0: 1 / sqrt(key.head_size)
  float softcap = 0.0f;      ///< 0: none
  bool sink_logits = false;  ///< which optional inputs will come with every call
  bool alibi = false;
  bool bias = false;
  bool intervals = false;  ///< Batch::visible_begin / visible_end replace the mask
  /// Batch::tree restricts, within the mask or interval, which new tokens a query sees
  bool tree = false;
  /// Batch::selected lists the only keys that each query sees, by their slots in the plane: no
  /// mask but causal or full, intervals, tree, ALiBi or bias with it; they are refused
  bool selection = false;
  /// with selection: each KV head has lists of its own (Batch::selected)
  bool selection_per_head = false;
  /// with sink_logits: every query has its own, not one row for all
  bool sink_per_query = false;
  DType sink_dtype = DType::f32;  ///< of the sink logits: f32, bf16 or f16
  /// with bias: rows are counted within each sequence (AttentionArgs::bias)
  bool bias_per_sequence = false;
  DType bias_dtype = DType::f32;  ///< of the bias: f32, bf16 or f16
  /// with alibi: Batch::alibi_positions gives each key its position
  bool alibi_positions = false;
  Reproducible reproducible = Reproducible::per_plan;
  /// q, K and V of f32 or f16 may be rounded to bf16 before they are multiplied, where that is
  /// faster: each element moves by 2^-8 of itself at the most (subnormals of bf16 to 0, what is
  /// beyond its largest number to infinity), a logit by 2^-7 * |scale| * sum_d |q k|, an output by
  /// 2^-8 * sum_j p |v|, both beside what exps and weights may move (above). Without effect under
  /// per_query, whose results are those of the types as given, and for types that need it not
  bool bf16_operands = false;
  /// where K and V are i8 or of four bits, q and the softmax weights may be rounded to 8 bits,
  /// where that is faster: an element of q, turned as K is, moves by 1/254 of the greatest of its
  /// row at most, a logit by |scale| * max_d |q| / 254 * sum_d |k|; a weight times its key's scale
  /// of V by 1/510 (over i8 1/254) of the greatest such product of the granule among the 64 keys of
  /// its tile (below 2^-120 it counts as 0), an output by the sum of that times the stored |v|,
  /// over the sum of all weights; exps are those of above. Without effect under per_query, whose
  /// results are those of the types as given
  bool int8_operands = false;
  /// q comes turned as K is (RotateArgs::key): attend leaves it as it is. Without effect where K is
  /// neither rotated nor scaled by channels
  bool q_is_turned = false;
  bool operator==(const AttentionProblem&) const = default;
};

/// Upper bounds over all batches of an Attention's life.
struct AttentionLimits {
  int32_t batch = 1;    ///< sequences in a step
  int32_t tokens = 1;   ///< query rows in a step
  int32_t context = 1;  ///< keys of one sequence
  /// tasks that run at once, at most 16384; how finely long sequences are cut. 0: as many as
  /// default_executor() runs at once when Attention::create is called; give a number where memory
  /// sizes must not depend on the machine
  int32_t parallelism = 0;
  /// Sequences of a step whose table rows begin alike have what they share computed together, where
  /// that saves time: K and V of those pages are read once. Prefixes of prefixes (a prompt, its
  /// forks, theirs) count as levels, at most so many and 8. 0: never, without memory for it. On
  /// CPUs, without selection and alibi_positions
  int32_t shared_levels = 2;
  bool operator==(const AttentionLimits&) const = default;
};

}  // namespace folio::inline v1
