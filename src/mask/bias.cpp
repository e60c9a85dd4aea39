// SPDX-License-Identifier: Apache-2.0
/// src/mask/bias.cpp: where the numbers of a mask are, as a bias.
#include "mask/bias.h"

#include <limits>
#include <utility>

#include "core/checked.h"
#include "folio/core/element.h"

namespace folio::inline v1::mask {
namespace {

/// Tokens lie at one stride: the queries of a stream, and the streams one behind the other.
bool is_even(const Shape& shape) {
  return shape.streams == 1 || shape.queries == 1 ||
         shape.stream_stride == shape.queries * shape.query_stride;
}

template <class T>
void write_row(float* to, const T* from, int64_t keys, float slope) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    const float x = to_float(from[j]);
    to[j] = x == hidden ? hidden : x * slope;
  }
}

void write_all(float* to, const Shape& shape, const MaskOptions& options) {
  detail::visit_dtype(shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (Element<T>) {
      for (int64_t h = 0; h < options.q_heads; ++h)
        for (int64_t s = 0; s < shape.streams; ++s)
          for (int64_t q = 0; q < shape.queries; ++q, to += shape.keys)
            write_row(to, reinterpret_cast<const T*>(shape.row(s, shape.heads > 1 ? h : 0, q)),
                      shape.keys, options.slopes[h]);
    }
  });
}

}  // namespace

void point_bias(MaskedBatch& masked, const Shape& shape) noexcept {
  ConstTensor<3>& bias = masked.bias;
  bias.data = shape.data;
  bias.dtype = shape.dtype;
  masked.bias_per_sequence = !is_even(shape);
  bias.extent[0] = shape.heads;
  bias.extent[1] = masked.bias_per_sequence ? shape.queries : shape.tokens();
  bias.extent[2] = shape.keys;
  bias.stride_bytes[0] = shape.head_stride;
  bias.stride_bytes[1] = shape.queries == 1 ? shape.stream_stride : shape.query_stride;
  bias.stride_bytes[2] = bit_width(shape.dtype) / 8;
  if (masked.bias_per_sequence) masked.bias_sequence_stride_bytes = shape.stream_stride;
}

Status write_bias(MaskedBatch& masked, const Shape& shape, const MaskOptions& options,
                  Buffer& memory) noexcept {
  const CheckedSize bytes =
      CheckedSize(options.q_heads) * shape.tokens() * shape.keys * int64_t{sizeof(float)};
  if (!bytes.is_at_most(memory_bytes_max))
    return fail(
        Errc::out_of_memory,
        "MaskReader::read: a bias of {} heads, {} tokens and {} keys is more than 2^56 bytes",
        options.q_heads, shape.tokens(), shape.keys);
  if (memory.bytes() < bytes.value()) {
    memory = Buffer();
    auto grown = Buffer::allocate(bytes.value());
    if (!grown) return grown.error();
    memory = std::move(*grown);
  }
  write_all(reinterpret_cast<float*>(memory.data()), shape, options);
  const void* const data = memory.data();
  masked.bias = dense_tensor<3>(data, DType::f32, {options.q_heads, shape.tokens(), shape.keys});
  return {};
}

}  // namespace folio::inline v1::mask
