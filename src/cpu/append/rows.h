// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/rows.h: what append, rotate and the copies ask of an instruction set: rows of one
/// token read, changed and written.
///
/// A conversion is the same for all tokens of a call, a token row is one token. Kernels know no
/// pages, tables or views. All builds write the same bytes, whatever the instruction set (but for
/// the payload of a NaN that has been computed with).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/cache/page_walk.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"
#include "kernel/capability.h"

namespace folio::inline v1 {
namespace rows {

/// Elements of a head that fit the kernels' scratch memory: the limit of whatever is more than a
/// conversion.
inline constexpr int32_t head_size_max = 4096;

/// One token's heads on one side. Scales of head h, granule g: the token row's scales + h *
/// scale_head_stride + g * granule_stride.
struct Format {
  DType dtype = DType::invalid;
  int64_t head_stride_bytes = 0;
  DType scale_dtype = DType::invalid;  ///< invalid: no scales
  int32_t granularity = 0;
  int64_t scale_head_stride_bytes = 0;
  int64_t granule_stride_bytes = 0;
  float tensor_scale = 1.0f;
  Zeros zeros = Zeros::none;
  int64_t zero_offset_bytes = 0;
  Hadamard hadamard = {};
  const float* channel_scales = nullptr;  ///< [heads, head_size] of the conversion's heads

  /// Rows are not stored as they were given.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_turned() const {
    return hadamard.block != 0 || channel_scales != nullptr;
  }
};

/// How the elements of a packed granule are read whose scale lies at `scale`.
FOLIO_ALWAYS_INLINE folio::detail::GranuleReading reading_of(const Format& f,
                                                             const std::byte* scale) {
  ScaleView scales;
  scales.dtype = f.scale_dtype;
  scales.tensor_scale = &f.tensor_scale;
  scales.zeros = f.zeros;
  scales.zero_offset_bytes = f.zero_offset_bytes;
  return folio::detail::reading_at(f.dtype, scales, scale);
}

/// Read (times the source's scales, turned back), normalise, rotate, turn (queries: times their
/// scales first), write (divided by the target's scales).
struct Conversion {
  int32_t heads = 0;
  int64_t head_size = 0;  ///< at most head_size_max, unless `is_plain`
  Format source = {};     ///< f32, bf16 and f16 where the conversion normalises or rotates
  Format target = {};
  /// of the target: written from the largest finite magnitude; otherwise read
  bool computes_scales = false;
  const float* norm = nullptr;  ///< [head_size] weights of the norm, or null
  /// [head_size] shifts of the LayerNorm; null: an RMSNorm. Null where `norm` is
  const float* norm_shift = nullptr;
  float norm_eps = 0.0f;
  int32_t first_dim = 0;
  int32_t rope_dims = 0;  ///< 0: no rotation
  bool interleaved = false;
  /// [heads / heads_per_scale, head_size] or null: the channel scales of keys that queries are for
  const float* query_scales = nullptr;
  int32_t heads_per_scale = 1;
  bool streams = false;  ///< stores bypass the caches
  /// the source of the token so many tokens on is fetched meanwhile; that of the first conversion
  /// counts
  int32_t tokens_ahead = 0;
  bool fetches_near = false;  ///< into the first cache, not only into the second

  /// Columns are divided by the target's scales, or multiplied by those of keys.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool scales_channels() const {
    return target.channel_scales != nullptr || query_scales != nullptr;
  }
  /// A conversion element by element, or a copy.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_plain() const {
    return source.scale_dtype == DType::invalid && target.scale_dtype == DType::invalid &&
           norm == nullptr && rope_dims == 0 && !source.is_turned() && target.hadamard.block == 0 &&
           !scales_channels();
  }
};

struct TokenRow {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;     ///< null: nothing is done
  const float* cos_sin = nullptr;  ///< [rope_dims] of this token
  const std::byte* source_scales = nullptr;
  std::byte* target_scales = nullptr;
};

/// `tokens` tokens of up to two conversions, token by token: K and V of a token are neighbours in
/// memory. [tokens, num_conversions] token rows.
using WriteRows = void(const Conversion* conversions, int num_conversions,
                       const TokenRow* token_rows, int64_t tokens) noexcept;
/// memcpy; with `streams` past the caches, to be followed by fence() before others are told of it.
using MoveBytes = void(std::byte* to, const std::byte* from, int64_t bytes, bool streams) noexcept;

/// One build. Thread safety: pure but for the bytes written; allocates nothing, about 75 KB of
/// stack.
struct Kernel {
  std::string_view name;
  Capabilities needs = {};
  WriteRows* write = nullptr;
  MoveBytes* move = nullptr;
};

/// Every build, best first.
[[nodiscard]] std::span<const Kernel* const> kernels() noexcept;

/// Stores that went past the caches are seen by others before whatever is stored from now on.
void fence() noexcept;

/// The best build that this machine runs.
[[nodiscard]] const Kernel& kernel() noexcept;

}  // namespace rows

/// For any machine of the architecture, without a store past the caches: of a build of the portable
/// kernels alone.
namespace baseline {
extern const rows::Kernel rows_kernel;
}

namespace x86_64 {
extern const rows::Kernel rows_kernel;
}

namespace x86_64_v3 {
extern const rows::Kernel rows_kernel;
}

namespace x86_64_v4 {
extern const rows::Kernel rows_kernel;
}

}  // namespace folio::inline v1
