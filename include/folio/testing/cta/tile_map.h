// SPDX-License-Identifier: Apache-2.0
/// folio/testing/cta/tile_map.h: tensor maps as the emulator encodes them: the 128 bytes that a
/// kernel is given hold the description itself.
///
/// So one struct of arguments serves a GPU, where the driver has encoded its maps, and the
/// emulator, and nothing has to be looked up. The bits are the emulator's own. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "folio/tma/encode.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::emulator {

namespace detail {

inline constexpr uint64_t tile_map_mark = 0x70616d5f6f6c6f66u;  // "folo_map"

/// Small numbers side by side in one word, from its lowest bits.
class WordWriter {
 public:
  explicit constexpr WordWriter(uint64_t& word) noexcept : word_(word) {}
  constexpr void put(uint64_t value, int bits) noexcept {
    word_ |= (value & ((uint64_t{1} << bits) - 1)) << at_;
    at_ += bits;
  }

 private:
  uint64_t& word_;
  int at_ = 0;
};
class WordReader {
 public:
  explicit constexpr WordReader(uint64_t word) noexcept : word_(word) {}
  constexpr uint64_t get(int bits) noexcept {
    const uint64_t value = word_ & ((uint64_t{1} << bits) - 1);
    word_ >>= bits;
    return value;
  }

 private:
  uint64_t word_;
};

}  // namespace detail

/// The map's description as bytes. Requires that the map breaks no rule: values that no map can
/// have do not fit.
[[nodiscard]] constexpr tma::EncodedTensorMap encode(const tma::TensorMap& map) noexcept {
  tma::EncodedTensorMap out;
  out.words[0] = detail::tile_map_mark;
  out.words[1] = map.base;
  detail::WordWriter kinds(out.words[2]);
  for (const uint64_t value :
       {static_cast<uint64_t>(map.rank), static_cast<uint64_t>(map.dtype),
        static_cast<uint64_t>(map.interleave), static_cast<uint64_t>(map.swizzle),
        static_cast<uint64_t>(map.l2_promotion), static_cast<uint64_t>(map.oob_fill),
        static_cast<uint64_t>(map.use)})
    kinds.put(value, 8);
  detail::WordWriter boxes(out.words[3]), steps(out.words[4]);
  for (int i = 0; i < tma::TensorMap::max_rank; ++i) {
    boxes.put(static_cast<uint64_t>(map.box[i]), 12);
    steps.put(static_cast<uint64_t>(map.element_stride[i]), 12);
    out.words[5 + i] = static_cast<uint64_t>(map.dim[i]);
    out.words[10 + i] = static_cast<uint64_t>(map.stride_bytes[i]);
  }
  return out;
}

/// Nothing for bytes that `encode` has not written.
[[nodiscard]] constexpr std::optional<tma::TensorMap> decode_tile_map(
    const tma::EncodedTensorMap& encoded) noexcept {
  if (encoded.words[0] != detail::tile_map_mark) return std::nullopt;
  tma::TensorMap map;
  map.base = encoded.words[1];
  detail::WordReader kinds(encoded.words[2]);
  map.rank = static_cast<int32_t>(kinds.get(8));
  map.dtype = static_cast<tma::DataType>(kinds.get(8));
  map.interleave = static_cast<tma::Interleave>(kinds.get(8));
  map.swizzle = static_cast<tma::Swizzle>(kinds.get(8));
  map.l2_promotion = static_cast<tma::L2Promotion>(kinds.get(8));
  map.oob_fill = static_cast<tma::OobFill>(kinds.get(8));
  map.use = static_cast<tma::Use>(kinds.get(8));
  detail::WordReader boxes(encoded.words[3]), steps(encoded.words[4]);
  for (int i = 0; i < tma::TensorMap::max_rank; ++i) {
    map.box[i] = static_cast<int32_t>(boxes.get(12));
    map.element_stride[i] = static_cast<int32_t>(steps.get(12));
    map.dim[i] = static_cast<int64_t>(encoded.words[5 + i]);
    map.stride_bytes[i] = static_cast<int64_t>(encoded.words[10 + i]);
  }
  return map;
}

}  // namespace folio::inline v1::emulator
