// SPDX-License-Identifier: Apache-2.0
/// folio/testing/wgmma.h: wgmma.m64nNkK: who holds which element, and where its descriptors find
/// operands in shared memory.
///
///   D[64, N] += A[64, K] * B[K, N] by 128 threads, K = 256 / element bits; A in registers or in
///   shared memory, B in shared memory
///
/// Warp w of the four has rows 16 * w ..; inside, A is held as in mma.sync m16n8kK and D as its n /
/// 8 accumulator tiles.
///
/// **Operands in shared memory** are made of core matrices: 8 rows of 16 bytes. Of A, `mn` counts
/// rows (M); of B columns (N). In units of 16 bytes u, before the swizzle, relative to the start
/// address:
///
///   | major | swizzle | u | address |
///   | --- | --- | --- | --- |
///   | K | none | k / per 16 | mn % 8 * 16 + mn / 8 * stride + u * leading |
///   | K | w bytes | k / per 16 | mn % 8 * w + mn / 8 * stride + u * 16 (leading not read) |
///   | MN | none | mn / per 16 | k % 8 * 16 + k / 8 * leading + u * stride |
///   | MN | w bytes | mn / per 16 | k % 8 * w + k / 8 * stride + u % (w / 16) * 16 |
///   | | | | + u / (w / 16) * leading |
///
/// The swizzle acts on the absolute address, as TMA's does; so the next K of a K-major tile is the
/// start address plus 32 bytes. MN-major operands exist for 16-bit elements only.
///
/// **Descriptor**, 64 bits: 0-13 start address / 16, 16-29 leading byte offset / 16, 32-45 stride
/// byte offset / 16, 49-51 base offset, 62-63 swizzle: 0 none, 1 b128, 2 b64, 3 b32.
/// Source: PTX ISA 8.7, 9.7.15.5 (wgmma), and the canonical layouts that CUTLASS states for its
/// descriptors. Not compared with hardware.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "folio/core/dtype.h"
#include "folio/core/status.h"
#include "folio/testing/mma_sync.h"
#include "folio/testing/shared_memory.h"
#include "folio/tma/swizzle.h"

namespace folio::inline v1::emulator {

inline constexpr int32_t warpgroup_threads = 128;
inline constexpr int32_t wgmma_rows = 64;

/// Along which dimension neighbours lie in shared memory.
enum class Major : uint8_t { k = 0, mn = 1 };

/// `slot.lane` is the thread of the warpgroup. Of D, register r of n / 2.
[[nodiscard]] constexpr MatrixElement wgmma_d_element(int32_t thread, int32_t reg) noexcept {
  const MatrixElement tile = mma_c_element(thread % warp_lanes, reg % 4);
  return {thread / warp_lanes * 16 + tile.row, reg / 4 * 8 + tile.column};
}
[[nodiscard]] constexpr FragmentSlot wgmma_d_slot(const MatrixElement& element) noexcept {
  const FragmentSlot tile = mma_c_slot({element.row % 16, element.column % 8});
  return {element.row / 16 * warp_lanes + tile.lane, element.column / 8 * 4 + tile.reg, 0};
}
/// Of A in registers, four per thread.
[[nodiscard]] constexpr MatrixElement wgmma_a_element(int32_t bits,
                                                      const FragmentSlot& slot) noexcept {
  const MatrixElement tile = mma_a_element(bits, {slot.lane % warp_lanes, slot.reg, slot.part});
  return {slot.lane / warp_lanes * 16 + tile.row, tile.column};
}
[[nodiscard]] constexpr FragmentSlot wgmma_a_slot(int32_t bits,
                                                  const MatrixElement& element) noexcept {
  const FragmentSlot tile = mma_a_slot(bits, {element.row % 16, element.column});
  return {element.row / 16 * warp_lanes + tile.lane, tile.reg, tile.part};
}

struct WgmmaDescriptor {
  /// of shared memory; a multiple of 16 below 2^18, as all offsets
  int64_t start_address = 0;
  int64_t leading_byte_offset = 0;  ///< not read by swizzled K-major operands
  int64_t stride_byte_offset = 0;
  int32_t base_offset = 0;  ///< 0 where tiles begin at whole periods of the swizzle
  tma::Swizzle swizzle = tma::Swizzle::none;
  bool operator==(const WgmmaDescriptor&) const = default;
};

/// Errors: invalid_argument for an address or an offset that is negative, not a multiple of 16, or
/// 2^18 and more; for base_offset > 7.
[[nodiscard]] inline Result<uint64_t> encode(const WgmmaDescriptor& descriptor) noexcept {
  constexpr const char* names[] = {"start_address", "leading_byte_offset", "stride_byte_offset"};
  const int64_t values[] = {descriptor.start_address, descriptor.leading_byte_offset,
                            descriptor.stride_byte_offset};
  for (int i = 0; i < 3; ++i) {
    if (values[i] < 0 || values[i] % 16 != 0 || values[i] >= int64_t{1} << 18)
      return fail(Errc::invalid_argument,
                  "encode: {} is {}, expected a multiple of 16 in [0, 2^18)", names[i], values[i]);
  }
  if (descriptor.base_offset < 0 || descriptor.base_offset > 7)
    return fail(Errc::invalid_argument, "encode: base_offset is {}, expected 0 to 7",
                descriptor.base_offset);
  const auto mode = static_cast<uint64_t>(4 - static_cast<int32_t>(descriptor.swizzle)) % 4;
  return static_cast<uint64_t>(values[0]) / 16 | static_cast<uint64_t>(values[1]) / 16 << 16 |
         static_cast<uint64_t>(values[2]) / 16 << 32 |
         static_cast<uint64_t>(descriptor.base_offset) << 49 | mode << 62;
}

[[nodiscard]] constexpr WgmmaDescriptor decode_wgmma_descriptor(uint64_t bits) noexcept {
  const auto field = [bits](int at) { return static_cast<int64_t>(bits >> at & 0x3fff) * 16; };
  return {field(0), field(16), field(32), static_cast<int32_t>(bits >> 49 & 7),
          static_cast<tma::Swizzle>((4 - (bits >> 62)) % 4)};
}

/// Where the descriptor finds element (mn, k) of an operand of `bits` wide elements.
[[nodiscard]] constexpr int64_t wgmma_operand_address(const WgmmaDescriptor& descriptor,
                                                      Major major, int32_t bits, int32_t mn,
                                                      int32_t k) noexcept {
  const int32_t per_unit = 128 / bits;
  const int32_t along = major == Major::k ? k : mn;   // inside a row of the core matrix
  const int32_t across = major == Major::k ? mn : k;  // from row to row
  const int64_t unit = along / per_unit;
  const int64_t width = swizzle_bytes(descriptor.swizzle);
  int64_t at = descriptor.start_address + across % 8 * width + along % per_unit * bits / 8;
  if (descriptor.swizzle == tma::Swizzle::none) {
    const bool is_k = major == Major::k;
    at += across / 8 * (is_k ? descriptor.stride_byte_offset : descriptor.leading_byte_offset);
    at += unit * (is_k ? descriptor.leading_byte_offset : descriptor.stride_byte_offset);
  } else if (major == Major::k) {
    at += across / 8 * descriptor.stride_byte_offset + unit * 16;
  } else {
    const int64_t units = width / 16;
    at += across / 8 * descriptor.stride_byte_offset + unit % units * 16 +
          unit / units * descriptor.leading_byte_offset;
  }
  return swizzle(descriptor.swizzle, at);
}

/// One operand of an instruction: rows mn in [0, extent) and all K.
struct WgmmaOperand {
  WgmmaDescriptor descriptor;
  Major major = Major::k;
};

/// Whether all elements of an operand lie in shared memory, and the operand exists.
/// Errors: invalid_argument naming the element, or the field that `encode` refuses; unsupported for
/// MN-major elements that are not
///         16 bits wide, and for a base_offset.
[[nodiscard]] inline Status check_operand(const WgmmaOperand& operand, DType dtype, int32_t extent,
                                          const SharedMemory& shared) noexcept {
  if (Result<uint64_t> encoded = encode(operand.descriptor); !encoded) return encoded.error();
  const int32_t bits = bit_width(dtype);
  if (operand.descriptor.base_offset != 0)
    return fail(Errc::unsupported, "wgmma: a base_offset is not emulated");
  if (operand.major == Major::mn && bits != 16)
    return fail(Errc::unsupported, "wgmma: {} has no MN-major operands, 16-bit types have", dtype);
  for (int32_t mn = 0; mn < extent; ++mn) {
    for (int32_t k = 0; k < mma_k(bits); ++k) {
      const int64_t at = wgmma_operand_address(operand.descriptor, operand.major, bits, mn, k);
      if (!shared.contains(at, bits / 8))
        return fail(
            Errc::invalid_argument,
            "wgmma: element (mn {}, k {}) is at shared address {}, shared memory has {} bytes", mn,
            k, at, shared.size());
    }
  }
  return {};
}

namespace detail {

/// Elements (mn, k) of an operand with mn in [begin, end), multiples of eight, where `place(mn, k)`
/// says. A unit of 16 bytes stays together.
template <class Place>
void unpack_operand(const WgmmaOperand& operand, DType dtype, int32_t begin, int32_t end,
                    const SharedMemory& shared, Place place) noexcept {
  const int32_t bits = bit_width(dtype), per_unit = 128 / bits;
  const bool is_k = operand.major == Major::k;
  for (int32_t mn = begin; mn < end; mn += is_k ? 1 : per_unit) {
    for (int32_t k = 0; k < mma_k(bits); k += is_k ? per_unit : 1) {
      const int64_t at = wgmma_operand_address(operand.descriptor, operand.major, bits, mn, k);
      double numbers[16];
      for (int32_t word = 0; word < 4; ++word)
        unpack_register(dtype, shared.load<uint32_t>(at + 4 * word),
                        numbers + word * parts_of(bits));
      for (int32_t i = 0; i < per_unit; ++i)
        place(is_k ? mn : mn + i, is_k ? k + i : k) = numbers[i];
    }
  }
}

}  // namespace detail

/// Operands of one instruction: both in shared memory, or A in registers: `a_registers` of
/// [thread][4], empty if A has a descriptor.
struct WgmmaArguments {
  DType dtype = DType::bf16;
  int32_t n = 8;
  WgmmaOperand a = {};
  WgmmaOperand b = {};
  std::span<const uint32_t> a_registers = {};
};

namespace detail {

inline constexpr int32_t wgmma_strip = 64;  // columns that are worked on together

/// Columns [begin, end) of D += A * B. `a` is [row][most_mma_k].
inline void multiply_strip(const WgmmaArguments& args, const double* a, int32_t begin, int32_t end,
                           const SharedMemory& shared, std::span<float> accumulators) noexcept {
  const int32_t columns = end - begin, steps = mma_k(bit_width(args.dtype));
  double b[most_mma_k * wgmma_strip], sums[16 * wgmma_strip];
  unpack_operand(args.b, args.dtype, begin, end, shared, [&](int32_t column, int32_t k) -> double& {
    return b[k * columns + column - begin];
  });
  for (int32_t warp = 0; warp < 4; ++warp) {  // sixteen rows each
    const auto for_each_sum = [&](auto f) {
      for (int32_t thread = warp * warp_lanes; thread < (warp + 1) * warp_lanes; ++thread) {
        for (int32_t reg = begin / 2; reg < end / 2; ++reg) {
          const MatrixElement d = wgmma_d_element(thread, reg);
          f(accumulators[static_cast<size_t>(thread * (args.n / 2) + reg)],
            sums[(d.row - 16 * warp) * columns + d.column - begin]);
        }
      }
    };
    for_each_sum([](const float& c, double& sum) { sum = static_cast<double>(c); });
    multiply_unpacked(a + 16 * warp * most_mma_k, most_mma_k, b, columns, 16, columns, steps, sums);
    for_each_sum([](float& d, const double& sum) { d = static_cast<float>(sum); });
  }
}

}  // namespace detail

/// D += A * B. `accumulators` is [thread][n / 2]. Types and rounding as mma_sync. Errors: as
/// check_operand; invalid_argument for n that is no multiple of 8 up to 256, or spans of other
/// sizes; unsupported types.
[[nodiscard]] inline Status wgmma(const WgmmaArguments& args, const SharedMemory& shared,
                                  std::span<float> accumulators) noexcept {
  const bool from_registers = !args.a_registers.empty();
  if (args.n < 8 || args.n > 256 || args.n % 8 != 0)
    return fail(Errc::invalid_argument, "wgmma: n is {}, expected a multiple of 8 up to 256",
                args.n);
  if (accumulators.size() != static_cast<size_t>(warpgroup_threads * args.n / 2))
    return fail(Errc::invalid_argument, "wgmma: {} accumulators, expected [128, {}]",
                accumulators.size(), args.n / 2);
  if (from_registers && args.a_registers.size() != warpgroup_threads * 4)
    return fail(Errc::invalid_argument, "wgmma: {} registers of A, expected [128, 4]",
                args.a_registers.size());
  if (!detail::has_float_product(args.dtype))
    return fail(Errc::unsupported, "wgmma: no float product of {}", args.dtype);
  if (!from_registers) {
    if (Status status = check_operand(args.a, args.dtype, wgmma_rows, shared); !status.is_ok())
      return status;
  }
  if (Status status = check_operand(args.b, args.dtype, args.n, shared); !status.is_ok())
    return status;
  constexpr int32_t pitch = detail::most_mma_k;
  double a[wgmma_rows * pitch];
  if (from_registers) {
    for (int32_t thread = 0; thread < warpgroup_threads; ++thread) {
      for (int32_t reg = 0; reg < 4; ++reg) {
        const MatrixElement first = wgmma_a_element(bit_width(args.dtype), {thread, reg, 0});
        detail::unpack_register(args.dtype, args.a_registers[static_cast<size_t>(thread * 4 + reg)],
                                a + first.row * pitch + first.column);
      }
    }
  } else {
    detail::unpack_operand(args.a, args.dtype, 0, wgmma_rows, shared,
                           [&](int32_t row, int32_t k) -> double& { return a[row * pitch + k]; });
  }
  for (int32_t begin = 0; begin < args.n; begin += detail::wgmma_strip)
    detail::multiply_strip(args, a, begin, std::min(args.n, begin + detail::wgmma_strip), shared,
                           accumulators);
  return {};
}

}  // namespace folio::inline v1::emulator
