// SPDX-License-Identifier: Apache-2.0
/// folio/attention/append.h: writes this step's keys and values into the cache, converting or quantising them.
#pragma once

#include <cstdint>

#include "folio/cache/batch.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio {
inline namespace v1 {

/// Rotation table; append refuses it until `rotate` exists.
struct Rope {
  const float* cos_sin = nullptr;  ///< [rows, dims]: dims / 2 cosines, then dims / 2 sines
  int64_t rows = 0;
  int32_t dims = 0;
  bool interleaved = false;  ///< pairs (2i, 2i + 1); otherwise (i, i + dims / 2)
  int32_t first_dim = 0;
  const int32_t* positions = nullptr;  ///< [tokens] row of each token; null: its position in the sequence
};

struct AppendArgs {
  AnyTensor<3> k = {};  ///< [tokens, key.num_heads, key.head_size]; any byte strides for tokens and heads
  AnyTensor<3> v = {};  ///< [tokens, value.num_heads, value.head_size]; null data: K only (latent caches)
  PagedKVView key = {};
  PagedKVView value = {};
  /// [tokens] page * page_size + offset (the row number where pages are unbounded), each at most once; negative = skip the token.
  /// Null: new token t of sequence b goes to row index context_length - new tokens + t through the batch's table.
  const int64_t* slots = nullptr;
  const Rope* rope = nullptr;     ///< refused so far
  const float* k_norm = nullptr;  ///< refused so far
  float norm_eps = 1e-6f;
};

/// Converts each token's K and V to the planes' dtypes (round to nearest even, saturating as dtype.h states) and stores them.
///
/// Planes with scales: where the scale's slot stride is 0 the scales are calibrated and read; otherwise they are computed per granule
/// and written: amax over the finite inputs / qmax (127, 448, 57344), rounded toward +infinity to the scale's type but never beyond its
/// largest finite number, 1 for amax 0; with a tensor_scale, amax / (qmax * tensor_scale).
/// Heads or granules that share a computed scale (head or granule stride 0) share the amax.
/// Stored = from_float(x / (scale * tensor_scale)).
/// Tokens of unassigned pages and negative slots write nothing.
///
/// Errors:  invalid_argument for shapes, dtypes, strides, null pointers, a slot >= num_pages * page_size, missing or contradictory
///          arrays of the batch, planes whose heads, slots or pages share bytes (stride 0), computed scales of an unquantised plane or
///          with a page stride of 0; unsupported for rope and k_norm. Nothing is written then.
/// Effects: allocates nothing; tokens run in parallel on `executor`
FOLIO_EXPORT Status append(const Batch& batch, const AppendArgs& args, const Executor& executor) noexcept;

}  // namespace v1
}  // namespace folio
