// SPDX-License-Identifier: Apache-2.0
/// src/mask/shape.h: a mask that has been checked: where its rows are, whatever its elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/mask_matrix.h"
#include "folio/core/status.h"

namespace folio::inline v1::mask {

struct Shape {
  const std::byte* data = nullptr;
  DType dtype = DType::invalid;  // of numbers; invalid: bits
  int64_t streams = 0, heads = 0, queries = 0, keys = 0;
  int64_t stream_stride = 0, head_stride = 0, query_stride = 0;  // bytes

  [[nodiscard]] const std::byte* row(int64_t stream, int64_t head, int64_t query) const {
    return data + stream * stream_stride + head * head_stride + query * query_stride;
  }
  [[nodiscard]] int64_t tokens() const { return streams * queries; }
  /// Streams that share one matrix are read once.
  [[nodiscard]] int64_t distinct_streams() const { return stream_stride == 0 ? 1 : streams; }
};

/// Errors: as MaskReader::read.
[[nodiscard]] Result<Shape> check_matrix(const MaskMatrix& mask,
                                         const MaskOptions& options) noexcept;
[[nodiscard]] Result<Shape> check_bits(const MaskBits& mask, const MaskOptions& options) noexcept;

/// Row of the plane of key 0 of a stream of a mask that has been checked.
[[nodiscard]] inline uint32_t first_row(const Shape& shape, const MaskOptions& options,
                                        int64_t stream) noexcept {
  return static_cast<uint32_t>(options.first_rows != nullptr ? options.first_rows[stream]
                                                             : stream * shape.keys);
}

}  // namespace folio::inline v1::mask
