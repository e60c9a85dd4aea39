// SPDX-License-Identifier: Apache-2.0
/// folio/attention/rotate.h: RMSNorm or LayerNorm and rotary position embedding of queries, with
/// the instructions that `append` uses for keys.
///
/// Both work in float32 and round once, at the end. For the row x of one head of one token:
///
///     normalised   y = x * (1 / sqrt(mean(x^2) + eps)) * weight    where weights are given
///                  c = x - mean(x),                                and where shifts are, too
///                  y = c * (1 / sqrt(mean(c^2) + eps)) * weight + shift
///     rotated      a' = a * cos - b * sin,  b' = b * cos + a * sin where a table is given;
///                                                                  (a, b) is a pair of y
///
///     turned       z = H (y * channel_scales)                      where a plane of keys is given
///
/// Every product, sum, quotient and root is one IEEE operation, none is fused, and what a mean is
/// of is summed in 16 interleaved chains that are folded by halves: the bits are the same on every
/// machine and whichever thread does the work. (Of a NaN, only that it is one.) YaRN, Llama-3
/// scaling, linear scaling and M-RoPE are tables and positions, not code: a scaled table may hold
/// any finite numbers, of any magnitude.
#pragma once

#include <cstdint>

#include "folio/cache/batch.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Rotation by table. Dimensions outside [first_dim, first_dim + dims) pass through.
///
/// Pair i of dims / 2 is turned by angle i of the token's row of the table:
///   half-split (GPT-NeoX, Llama)    (first_dim + i, first_dim + i + dims / 2)
///   interleaved (GPT-J)             (first_dim + 2 i, first_dim + 2 i + 1)
struct Rope {
  const float* cos_sin = nullptr;  ///< [rows, dims]: dims / 2 cosines, then dims / 2 sines
  int64_t rows = 0;
  int32_t dims = 0;  ///< even, at least 2; may be less than the head size
  bool interleaved = false;
  int32_t first_dim = 0;
  /// [tokens] row of the table of each token. Null: the token's position, which for new token t of
  /// sequence b is query_positions[b] + t or, where the batch has none, key position + context
  /// length - new tokens + t.
  const int32_t* positions = nullptr;
};

struct RotateArgs {
  /// [tokens, heads, head_size]; f32, bf16 or f16; any byte strides for tokens and heads
  ConstTensor<3> q = {};
  /// q's shape; f32, bf16 or f16. q itself (same memory, strides and dtype), or no memory of q
  AnyTensor<3> out = {};
  const Rope* rope = nullptr;     ///< null: normalised only
  const float* q_norm = nullptr;  ///< [head_size] weights; null: rotated only
  float norm_eps = 1e-6f;
  /// Keys that q is for: q is turned, last of all, as `attend` would turn it for them, which is
  /// told so (AttentionProblem::q_is_turned). Of this view count head_size, num_heads (of which
  /// that of q is a multiple), hadamard and channel_scales. Null: q is not turned
  const PagedKVView* key = nullptr;
  /// [head_size] shifts: the norm, whose weights are given too, is a LayerNorm; null: an RMSNorm
  const float* q_norm_shift = nullptr;
};

/// Normalises, rotates and turns each head of each token of q into `out`, rounding to nearest even;
/// without any of it it converts. A query and a key with the same bits at the same position get the
/// same bits, where `out` and the cache have the same dtype, and K is not turned. Of q that is only
/// turned the numbers are those that `attend` would have made of it, which it keeps in float32,
/// and which are rounded to the dtype of `out` here.
///
/// `batch` gives the positions where rope has none (query_offsets, context_lengths and, if present,
/// query_positions and key_positions; the table is not read); otherwise it is not looked at.
///
/// Errors:  invalid_argument for shapes, dtypes, strides, alignment, null pointers, a table that
///          does not fit the head (dims odd, or first_dim + dims > head_size), a key that does not
///          fit q, or whose rotation or channel scales there cannot be, an eps that is
///          negative or not finite, a q_norm_shift without q_norm, missing or contradictory arrays
///          of the batch, a position outside [0, rows), `out` in memory of q with another place,
///          dtype or strides;
///          unsupported for a head_size above 4096. Nothing is written then; internal if the
///          executor throws or leaves out tasks: the output is undefined then
/// Effects: allocates nothing; tokens run in parallel on `executor`
/// Sources: Su et al. 2021 (arXiv:2104.09864); Zhang and Sennrich 2019 (arXiv:1910.07467); Ba et
/// al. 2016 (arXiv:1607.06450)
FOLIO_EXPORT Status rotate(const Batch& batch, const RotateArgs& args,
                           const Executor& executor) noexcept;

/// As `rotate`, on `device`, where all arrays lie: the work is put on `stream` and nothing waits
/// for it. The bits are those of `rotate`. A token whose position is outside [0, rope.rows), or
/// that no sequence of the batch holds, is skipped there: its rows of `out` stay as they are.
///
/// Errors: as rotate, of what the host knows; invalid_argument for a key that is turned, and for
///         arrays that are not memory of `device`; unsupported for a q_norm_shift, on the CPU,
///         which has no streams, and where folio is built without that device; device: the
///         driver's own. Nothing is written then
/// Effects: allocates nothing (once kernels are loaded), waits for nothing, can be captured in a
///          graph
FOLIO_EXPORT Status rotate_async(const Batch& batch, const RotateArgs& args, Device device,
                                 Stream stream) noexcept;

}  // namespace folio::inline v1
