// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/descriptor_bits.h: what is known of the bits of the driver's tensor map on compute
/// capability 9.x.
///
/// Read off the code that ptxas makes of every tensormap.replace. A test oracle only: folio never
/// writes these bits itself.
///
///   bytes       bits                  content
///   0x00-0x07                         base address
///   0x08        4-6                   rank - 1
///               7-10                  element type, numbered anew
///               11-12, 13-14, 15      interleave, swizzle, out-of-bounds fill
///   0x0c-0x18                         strides of dimensions 1 ... 4, low 32 bits of stride / 16
///   0x1c        4 per stride          bits 32-35 of stride / 16
///   0x20-0x30                         dimensions - 1
///   0x34        3 per dimension       element strides - 1
///               24-31                 box[0] - 1
///   0x38        8 per dimension       box[1 ... 4] - 1
///
/// L2 promotion and the rest are unknown. Fields of dimensions at and past the rank are not
/// compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/tma/encode.h"
#include "folio/tma/tensor_map.h"

namespace folio::test {

/// The 32-bit word at byte `at`.
inline uint64_t word_at(const tma::EncodedTensorMap& encoded, int at) {
  return encoded.words[at / 8] >> (at % 8 * 8) & 0xffff'ffffu;
}
inline uint64_t bits_at(const tma::EncodedTensorMap& encoded, int at, int first, int count) {
  return word_at(encoded, at) >> first & ((uint64_t{1} << count) - 1);
}

/// -1 for types whose number is not known.
inline int64_t element_type_bits(tma::DataType dtype) {
  switch (dtype) {
    case tma::DataType::u8: return 0;
    case tma::DataType::u16: return 1;
    case tma::DataType::u32: return 2;
    case tma::DataType::i32: return 3;
    case tma::DataType::i64: return 5;
    case tma::DataType::f16: return 6;
    case tma::DataType::f64: return 9;
    case tma::DataType::bf16: return 10;
    default: return -1;
  }
}

/// The known fields in which the bits differ from the description: "field: bits say A, the map B".
inline std::vector<std::string> differing_fields(const tma::EncodedTensorMap& encoded,
                                                 const tma::TensorMap& map) {
  std::vector<std::string> out;
  const auto compare = [&](const std::string& field, uint64_t bits, auto expected) {
    if (bits == static_cast<uint64_t>(expected)) return;
    out.push_back(field + ": bits say " + std::to_string(bits) + ", the map " +
                  std::to_string(static_cast<uint64_t>(expected)));
  };
  compare("base", encoded.words[0], map.base);
  compare("rank", bits_at(encoded, 0x08, 4, 3) + 1, map.rank);
  if (const int64_t type = element_type_bits(map.dtype); type >= 0)
    compare("dtype", bits_at(encoded, 0x08, 7, 4), type);
  compare("interleave", bits_at(encoded, 0x08, 11, 2), map.interleave);
  compare("swizzle", bits_at(encoded, 0x08, 13, 2), map.swizzle);
  compare("oob_fill", bits_at(encoded, 0x08, 15, 1), map.oob_fill);
  for (int i = 0; i < map.rank; ++i) {
    const std::string index = std::string("[").append(std::to_string(i)).append("]");
    compare("dim" + index, word_at(encoded, 0x20 + 4 * i) + 1, map.dim[i]);
    compare("box" + index,
            i == 0 ? bits_at(encoded, 0x34, 24, 8) + 1 : bits_at(encoded, 0x38, 8 * (i - 1), 8) + 1,
            map.box[i]);
    if (i == 0) continue;  // the driver ignores what it was given for these
    compare("element_stride" + index, bits_at(encoded, 0x34, 3 * i, 3) + 1, map.element_stride[i]);
    const uint64_t stride =
        word_at(encoded, 0x0c + 4 * (i - 1)) | bits_at(encoded, 0x1c, 4 * (i - 1), 4) << 32;
    compare("stride_bytes" + index, stride * 16, map.stride_bytes[i]);
  }
  return out;
}

}  // namespace folio::test
