// SPDX-License-Identifier: Apache-2.0
/// folio/attention/append.h: writes this step's keys and values into the cache: split, normalise,
/// rotate, convert or quantise, store.
///
/// One pass over the fused row that a QKV projection leaves: K and V are strided slices of it, so
/// nothing is split beforehand.
#pragma once

#include <cstdint>

#include "folio/attention/rotate.h"
#include "folio/cache/batch.h"
#include "folio/cache/page_summaries.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

struct AppendArgs {
  /// [tokens, key.num_heads, key.head_size]; f32, bf16 or f16; any byte strides for tokens and
  /// heads
  ConstTensor<3> k = {};
  /// [tokens, value.num_heads, value.head_size]; null data: K only (latent caches)
  ConstTensor<3> v = {};
  PagedKVView key = {};
  PagedKVView value = {};
  /// [tokens] page * page_size + offset (the row number where pages are unbounded), each at most
  /// once; negative = skip the token. Null: new token t of sequence b goes to row index
  /// context_length - new tokens + t through the batch's table.
  const int64_t* slots = nullptr;
  const Rope* rope = nullptr;  ///< rotates K (rotate.h); null: K stays as it is
  /// [key.head_size] weights of K's norm, which precedes the rotation (rotate.h); null: none
  const float* k_norm = nullptr;
  float norm_eps = 1e-6f;
  /// [key.head_size] shifts: with them K's norm, whose weights are given too, is a LayerNorm; null:
  /// an RMSNorm
  const float* k_norm_shift = nullptr;
  /// of the pages of `key`, brought up to date with what is written; null: there are none
  const PageSummaries* summaries = nullptr;
};

/// Normalises and rotates K where asked for, converts each token's K and V to the planes' dtypes
/// (round to nearest even, saturating as dtype.h states) and stores them. All in float32, rounded
/// once: K as stored has the bits that `rotate` gives for the same row.
///
/// Planes with scales: where the scale's slot stride is 0 the scales are calibrated and read;
/// otherwise they are computed per granule and written: amax over the finite inputs / qmax (127,
/// 448, 57344), rounded toward +infinity to the scale's type but never beyond its largest finite
/// number, 1 for amax 0; with a tensor_scale, amax / (qmax * tensor_scale). The inputs are the
/// rotated ones. Heads or granules that share a computed scale (head or granule stride 0) share the
/// amax. Stored = from_float(x / (scale * tensor_scale)). Tokens of unassigned pages and negative
/// slots write nothing.
///
/// Planes of packed formats (core/dtype.h) always have scales, by the same words but for what
/// follows, hi and lo being the largest and the smallest finite input of the granule:
///
///     format             scale * tensor_scale              pattern
///     i4, i4_halves      -hi / 8 where hi > -lo,           x / scale, -8 to 7
///                        -lo / 8 elsewhere
///       .. f8_e8m0       amax / 7                          x / scale, -8 to 7
///     u4, u4_halves      amax / 7                          x / scale + 8, 0 to 15
///       .. patterns,     (max(hi, 0) - min(lo, 0)) / 15    x / scale + z, 0 to 15;
///          in_scale                                        z = -min(lo, 0) / scale
///       .. minimum       (hi - m) / 15                     (x - m) / scale, 0 to 15; m = lo
///     f4_e2m1            amax / 6                          x / scale, -6 to 6
///
/// So a computed scale of i4 makes -8 of the input of the largest magnitude, of a negative one
/// where both signs have it (-7 where f8_e4m3 is that coarse); f8_e8m0 has no sign. x / scale, z
/// and m are rounded to the nearest, ties to even, patterns then limited as said; a NaN is stored
/// as 0 is, as m under a minimum. Scales are rounded away from 0, those of in_scale to a number of
/// 28 high bits, as for an amax of 0 where a range is 0. No scale, range or m is beyond the largest
/// finite number of its type: what is further out saturates.
///
/// Planes of a block format (core/dtype.h) are quantised in blocks of 32 elements by the rules of
/// ggml's reference quantisers, each operation one of float32. amax is the largest magnitude,
/// extreme the element that has it, with its sign, the first of several; d and m are rounded to f16
/// (nearest even) when they are stored, patterns are made before:
///
///     format  d                 pattern q                                   off by at most
///     q8_0    amax / 127        x / d, nearest, halves away from 0          amax / 225
///     q4_0    extreme / -8      x / d + 8.5, cut to an integer, 15 at most  amax / 7.9
///     q5_0    extreme / -16     x / d + 16.5, cut, 31 at most               amax / 15.8
///     q4_1    (max - min) / 15  (x - m) / d + 0.5, cut; m = min             (max - min) / 29.5
///     q5_1    (max - min) / 31  as q4_1                                     (max - min) / 60
///     iq4_nl  extreme / -127,   the value nearest to a = x / d, of two      amax / 4
///             then fitted       the larger
///
/// x / d is x * (1 / d). To what q4_1 and q5_1 are off by, |m| / 2000 is added. The fit of iq4_nl
/// multiplies d by sum(a^3 value) / sum(a^2 value^2), which minimises the squared errors weighted
/// by x^2 (elements i and i + 16 are added first, then i and i + 8, and so on: ggml's order is
/// another, so the last place of its d may be). amax, extreme, min and max are those of the finite
/// elements, of none 0; a NaN is stored as 0 is, an infinity as far out as patterns go; d and m are
/// limited to +-65504 first, so larger elements saturate; where |d| < 2^-126, 1 / d counts as 0.
///
/// Summaries are brought up to date behind the rows, from these as they are stored. Bounds are
/// widened by each row that is written; with slot 0 of a page, whichever token of the call that is,
/// they begin anew: what the page had is taken for dead. So rows that are given up later (trimmed,
/// written again) stay within them: bounds hold for every row, they are the closest for pages that
/// were filled from the front. A mean is made of all slots up to the page's last one that the call
/// names; those in front of it count whoever wrote them. Pages are bounded (page_size), and the
/// summaries agree with `key` in heads, head_size and num_pages.
///
/// `batch` gives the places where there are no slots, and the positions where rope has none (see
/// Rope); where neither is needed it is not looked at. The position of a token with a negative slot
/// is not looked at either.
///
/// Errors:  invalid_argument for shapes, dtypes, strides, null pointers, a slot >= num_pages *
///          page_size, missing or contradictory arrays of the batch, a rope or eps that `rotate`
///          refuses, a position outside [0, rope.rows), planes whose heads, slots or pages share
///          bytes (stride 0), computed scales of an unquantised plane or with a page stride of 0,
///          a k_norm_shift without k_norm, summaries of another geometry; unsupported for a
///          head_size above 4096 where the plane has scales or summaries, or K is normalised or
///          rotated. Nothing is written then; internal if the
///          executor throws or leaves out tasks: the output is undefined then
/// Effects: allocates nothing; tokens run in parallel on `executor`. The bytes written are the same
/// on every machine, but for the
///          payload of a NaN
FOLIO_EXPORT Status append(const Batch& batch, const AppendArgs& args,
                           const Executor& executor) noexcept;

/// As `append`, on `device`, where all arrays lie, tensor scales too, but for planes of block
/// formats, which are refused: the work is put on `stream`
/// and nothing waits for it. The bytes written are those of `append`, but for the payload of a NaN.
///
/// What the arrays hold the host does not know. On the device a token is skipped, K and V, whose
/// slot is out of range, whose position is outside [0, rope.rows), or that no sequence holds
/// (offsets that do not ascend to it, a context shorter than the new tokens). Rows of the table are
/// taken on trust, as is that no two tokens have one place; a tensor_scale that is not positive and
/// finite makes values without meaning. K and V go to their places by kernels of 16 bytes an access
/// where data, strides, head sizes, granules and rope are multiples of a unit of 8 elements,
/// element by element elsewhere: slower, but the same bytes.
///
/// Errors: as append, of what the host knows; invalid_argument for arrays that are not memory of
///         `device`; unsupported for a k_norm_shift or summaries, on the CPU, which has no streams,
///         and where
///         folio is built without that device; device: the driver's own. Nothing is written then
/// Effects: allocates nothing (once kernels are loaded), waits for nothing, can be captured in a
///          graph; what is replayed reads the arrays anew
FOLIO_EXPORT Status append_async(const Batch& batch, const AppendArgs& args, Device device,
                                 Stream stream) noexcept;

}  // namespace folio::inline v1
