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

/// D = A * B + C in place, for f32 (tf32), f16, bf16, f8_e4m3 and f8_e5m2. `accumulators` is C and
/// becomes D. Errors: unsupported for other types.
[[nodiscard]] inline Status mma_sync(DType dtype, const Registers<4>& a, const Registers<2>& b,
                                     Accumulators& accumulators) noexcept {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 &&
      dtype != DType::f8_e4m3 && dtype != DType::f8_e5m2)
    return fail(Errc::unsupported, "mma_sync: no float product of {}", dtype);
  const int32_t bits = bit_width(dtype);
  for (int32_t lane = 0; lane < warp_lanes; ++lane) {
    for (int32_t reg = 0; reg < 4; ++reg) {
      const MatrixElement d = mma_c_element(lane, reg);
      float& sum = accumulators[static_cast<size_t>(lane)][static_cast<size_t>(reg)];
      double exact = static_cast<double>(sum);
      for (int32_t k = 0; k < mma_k(bits); ++k) {
        const FragmentSlot at = mma_a_slot(bits, {d.row, k});
        const FragmentSlot bt = mma_b_slot(bits, {k, d.column});
        const float x = register_part(
            dtype, a[static_cast<size_t>(at.lane)][static_cast<size_t>(at.reg)], at.part);
        const float y = register_part(
            dtype, b[static_cast<size_t>(bt.lane)][static_cast<size_t>(bt.reg)], bt.part);
        exact += static_cast<double>(x) * static_cast<double>(y);
      }
      sum = static_cast<float>(exact);
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
  Registers<Count> registers{};
  for (int32_t lane = 0; lane < warp_lanes; ++lane) {
    for (int32_t reg = 0; reg < Count; ++reg) {
      for (int32_t part = 0; part < 2; ++part) {
        const MatrixElement unit = ldmatrix_element(trans, {lane, reg, part});
        const int64_t row = row_addresses[static_cast<size_t>(8 * reg + unit.row)];
        const uint32_t value = shared.load<uint16_t>(row + 2 * unit.column);
        registers[static_cast<size_t>(lane)][static_cast<size_t>(reg)] |= value << (16 * part);
      }
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
