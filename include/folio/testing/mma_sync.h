// SPDX-License-Identifier: Apache-2.0
/// folio/testing/mma_sync.h: which lane and register holds which element of ldmatrix and mma.sync,
/// and what the two compute.
///
///   mma.m16n8kK: D[16, 8] = A[16, K] * B[K, 8] + C[16, 8], K = 256 / element bits: 8 tf32, 16 bf16
///   and f16, 32 fp8 and i8
///
/// A register holds `parts` = 32 / bits elements, neighbours along K, the lowest bits first. With
/// group = lane / 4 and quad = lane % 4, in all element widths:
///
///   A register r (of 4)   row group + 8 * (r % 2),
///                         columns quad * parts + part + 4 * parts * (r / 2)
///   B register r (of 2)   rows (of K) quad * parts + part + 4 * parts * r, column group
///   C register r (of 4)   row group + 8 * (r / 2), column quad * 2 + r % 2; float32
///
///   ldmatrix              8x8 matrices of 16-bit units; lane l of register r holds units
///                         (l / 4, 2 * (l % 4)) and the next one of matrix r, or with .trans
///                         (2 * (l % 4), l / 4) and the one below; matrix r's rows are at the
///                         addresses of lanes 8 * r ..
///
/// Products are exact in double, summed in double and rounded once; the hardware rounds in its own
/// ways, so compare sums that are exact in float32 (small integers), or within a tolerance. Nothing
/// allocates. Source: PTX ISA 8.7, 9.7.14.5 (matrix fragments), 9.7.14.5.15 (ldmatrix).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/status.h"
#include "folio/testing/shared_memory.h"

namespace folio::inline v1::emulator {

inline constexpr int32_t warp_lanes = 32;

/// An element of a matrix. Of B: row is along K, column along N.
struct MatrixElement {
  int32_t row = 0;
  int32_t column = 0;
  bool operator==(const MatrixElement&) const = default;
};

/// Where a fragment keeps an element.
struct FragmentSlot {
  int32_t lane = 0;
  int32_t reg = 0;
  int32_t part = 0;  ///< of the register, from its lowest bits
  bool operator==(const FragmentSlot&) const = default;
};

/// Elements of `bits` = 8, 16 or 32 in a register, and along K of one instruction.
[[nodiscard]] constexpr int32_t parts_of(int32_t bits) noexcept { return 32 / bits; }
[[nodiscard]] constexpr int32_t mma_k(int32_t bits) noexcept { return 256 / bits; }

[[nodiscard]] constexpr MatrixElement mma_a_element(int32_t bits,
                                                    const FragmentSlot& slot) noexcept {
  const int32_t parts = parts_of(bits);
  return {slot.lane / 4 + 8 * (slot.reg % 2),
          slot.lane % 4 * parts + slot.part + 4 * parts * (slot.reg / 2)};
}
[[nodiscard]] constexpr MatrixElement mma_b_element(int32_t bits,
                                                    const FragmentSlot& slot) noexcept {
  const int32_t parts = parts_of(bits);
  return {slot.lane % 4 * parts + slot.part + 4 * parts * slot.reg, slot.lane / 4};
}
[[nodiscard]] constexpr MatrixElement mma_c_element(int32_t lane, int32_t reg) noexcept {
  return {lane / 4 + 8 * (reg / 2), lane % 4 * 2 + reg % 2};
}

/// The inverse maps.
[[nodiscard]] constexpr FragmentSlot mma_a_slot(int32_t bits,
                                                const MatrixElement& element) noexcept {
  const int32_t parts = parts_of(bits);
  return {element.row % 8 * 4 + element.column / parts % 4,
          element.row / 8 + 2 * (element.column / (4 * parts)), element.column % parts};
}
[[nodiscard]] constexpr FragmentSlot mma_b_slot(int32_t bits,
                                                const MatrixElement& element) noexcept {
  const int32_t parts = parts_of(bits);
  return {element.column * 4 + element.row / parts % 4, element.row / (4 * parts),
          element.row % parts};
}
[[nodiscard]] constexpr FragmentSlot mma_c_slot(const MatrixElement& element) noexcept {
  return {element.row % 8 * 4 + element.column / 2, element.row / 8 * 2 + element.column % 2, 0};
}

/// The registers of a warp: [lane][register].
template <int Count>
using Registers = std::array<std::array<uint32_t, Count>, warp_lanes>;
/// Float accumulators of a warp.
using Accumulators = std::array<std::array<float, 4>, warp_lanes>;

/// One part of a register as a number. f32 is read as tf32: the lowest 13 bits do not count. Errors
/// of type are the caller's.
[[nodiscard]] constexpr float register_part(DType dtype, uint32_t bits, int32_t part) noexcept {
  switch (dtype) {
    case DType::f32: return __builtin_bit_cast(float, bits & 0xffffe000u);
    case DType::f16: return to_float(f16{static_cast<uint16_t>(bits >> (16 * part))});
    case DType::bf16: return to_float(bf16{static_cast<uint16_t>(bits >> (16 * part))});
    case DType::f8_e4m3: return to_float(f8_e4m3{static_cast<uint8_t>(bits >> (8 * part))});
    case DType::f8_e5m2: return to_float(f8_e5m2{static_cast<uint8_t>(bits >> (8 * part))});
    case DType::i8: return to_float(static_cast<int8_t>(static_cast<uint8_t>(bits >> (8 * part))));
    default: return 0.0f;
  }
}

namespace detail {

/// f16 as float, without a branch on the way: the exponent is rebased by a product, exactly.
[[nodiscard]] inline float float_of_half(uint32_t half) noexcept {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const float rebased = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  const uint32_t sign = (half & 0x8000u) << 16;
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, rebased) | special | sign);
}

/// The parts of a register as numbers, all at once; the same as register_part.
template <class Number>
void unpack_register(DType dtype, uint32_t bits, Number* out) noexcept {
  switch (dtype) {
    case DType::bf16:
      out[0] = static_cast<Number>(__builtin_bit_cast(float, bits << 16));
      out[1] = static_cast<Number>(__builtin_bit_cast(float, bits & 0xffff0000u));
      return;
    case DType::f16:
      out[0] = static_cast<Number>(float_of_half(bits & 0xffffu));
      out[1] = static_cast<Number>(float_of_half(bits >> 16));
      return;
    default:
      for (int32_t part = 0; part < parts_of(bit_width(dtype)); ++part)
        out[part] = static_cast<Number>(register_part(dtype, bits, part));
  }
}

/// Eight numbers that are worked on together.
typedef double Eight __attribute__((vector_size(64), aligned(8), may_alias));

/// sums[row][column] += a[row][k] * b[k][column], k ascending: `rows` x `k_steps` times `k_steps` x
/// `columns`, a multiple of eight. Row lengths are `a_pitch` and `b_pitch`; sums have `columns`.
inline void multiply_unpacked(const double* a, int32_t a_pitch, const double* b, int32_t b_pitch,
                              int32_t rows, int32_t columns, int32_t k_steps,
                              double* sums) noexcept {
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t column = 0; column < columns; column += 8) {
      Eight& out = *reinterpret_cast<Eight*>(sums + row * columns + column);
      Eight sum = out;
      for (int32_t k = 0; k < k_steps; ++k)
        sum += a[row * a_pitch + k] * *reinterpret_cast<const Eight*>(b + k * b_pitch + column);
      out = sum;
    }
  }
}

inline constexpr int32_t most_mma_k = 32;

[[nodiscard]] constexpr bool has_float_product(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

}  // namespace detail

/// D = A * B + C in place, for f32 (tf32), f16, bf16, f8_e4m3 and f8_e5m2. `accumulators` is C and
/// becomes D. Errors: unsupported for other types.
[[nodiscard]] inline Status mma_sync(DType dtype, const Registers<4>& a, const Registers<2>& b,
                                     Accumulators& accumulators) noexcept {
  if (!detail::has_float_product(dtype))
    return fail(Errc::unsupported, "mma_sync: no float product of {}", dtype);
  const int32_t bits = bit_width(dtype), parts = parts_of(bits);
  double rows[16 * detail::most_mma_k], columns[detail::most_mma_k * 8], sums[16 * 8];
  double unpacked[4];
  for (int32_t lane = 0; lane < warp_lanes; ++lane) {
    const auto l = static_cast<size_t>(lane);
    for (int32_t reg = 0; reg < 4; ++reg) {
      const MatrixElement first = mma_a_element(bits, {lane, reg, 0});
      detail::unpack_register(dtype, a[l][static_cast<size_t>(reg)],
                              rows + first.row * detail::most_mma_k + first.column);
      const MatrixElement d = mma_c_element(lane, reg);
      sums[d.row * 8 + d.column] = static_cast<double>(accumulators[l][static_cast<size_t>(reg)]);
    }
    for (int32_t reg = 0; reg < 2; ++reg) {
      const MatrixElement first = mma_b_element(bits, {lane, reg, 0});
      detail::unpack_register(dtype, b[l][static_cast<size_t>(reg)], unpacked);
      for (int32_t part = 0; part < parts; ++part)
        columns[(first.row + part) * 8 + first.column] = unpacked[part];
    }
  }
  detail::multiply_unpacked(rows, detail::most_mma_k, columns, 8, 16, 8, mma_k(bits), sums);
  for (int32_t lane = 0; lane < warp_lanes; ++lane) {
    for (int32_t reg = 0; reg < 4; ++reg) {
      const MatrixElement d = mma_c_element(lane, reg);
      accumulators[static_cast<size_t>(lane)][static_cast<size_t>(reg)] =
          static_cast<float>(sums[d.row * 8 + d.column]);
    }
  }
  return {};
}

/// The unit of matrix `slot.reg` that a lane receives; `slot.part` 0 or 1.
[[nodiscard]] constexpr MatrixElement ldmatrix_element(bool trans,
                                                       const FragmentSlot& slot) noexcept {
  const MatrixElement plain{slot.lane / 4, slot.lane % 4 * 2 + slot.part};
  return trans ? MatrixElement{plain.column, plain.row} : plain;
}

/// ldmatrix.sync.aligned.m8n8.x<Count>[.trans].shared.b16. `row_addresses`: of the first 8 * Count
/// lanes, each a multiple of 16. Errors: invalid_argument for a misaligned address or one outside
/// shared memory, naming the lane.
template <int Count>
[[nodiscard]] Result<Registers<Count>> ldmatrix(
    const SharedMemory& shared, const std::array<int64_t, warp_lanes>& row_addresses,
    bool trans = false) noexcept {
  static_assert(Count == 1 || Count == 2 || Count == 4, "ldmatrix: x1, x2 or x4");
  for (size_t lane = 0; lane < 8 * Count; ++lane) {
    const int64_t address = row_addresses[lane];
    if (address % 16 != 0)
      return fail(Errc::invalid_argument,
                  "ldmatrix: lane {} gives address {}, expected a multiple of 16", lane, address);
    if (!shared.contains(address, 16))
      return fail(Errc::invalid_argument,
                  "ldmatrix: lane {} gives address {}, shared memory has {} bytes", lane, address,
                  shared.size());
  }
  Registers<Count> registers;
  for (size_t matrix = 0; matrix < Count; ++matrix) {
    uint16_t units[8][8];
    for (size_t row = 0; row < 8; ++row)
      std::memcpy(units[row], shared.at(row_addresses[8 * matrix + row]), sizeof units[row]);
    for (int32_t lane = 0; lane < warp_lanes; ++lane) {
      const MatrixElement low = ldmatrix_element(trans, {lane, 0, 0});
      const MatrixElement high = ldmatrix_element(trans, {lane, 0, 1});
      registers[static_cast<size_t>(lane)][matrix] =
          units[low.row][low.column] | uint32_t{units[high.row][high.column]} << 16;
    }
  }
  return registers;
}

/// How many passes over the banks one 8x8 matrix needs: 1 if its eight rows lie in different
/// 16-byte columns of 128 bytes.
[[nodiscard]] inline int32_t ldmatrix_passes(std::span<const int64_t, 8> row_addresses) noexcept {
  int32_t uses[8] = {};
  for (const int64_t address : row_addresses) ++uses[address / 16 % 8];
  return *std::max_element(std::begin(uses), std::end(uses));
}

}  // namespace folio::inline v1::emulator
