// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/form.h: rows of four bits an element, or eight, as codes: signed bytes in the
/// order in which registers unpack them.
///
///     value = (code - zero) * unit * scale + minimum
///
///     i4 -8 to 7    u4 the pattern less 8    f4_e2m1 twice the value, unit 1/2    i8 as it is
///
/// A row is chunks of one register of stored bytes; a chunk unpacks to parts of one register of
/// codes: the low halves of its bytes, then the high ones; of i8 there is one part. Codes behind a
/// row's end stand for no element. ISA-safe: always-inline functions and plain structs only.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::packed {

inline constexpr int head_size_max = 256;
inline constexpr int lane_bytes = 16;  // what registers are shuffled within
/// Codes of four bits are above 0 by so much where they are stored unsigned.
inline constexpr int code_bias = 16;

struct Codes {
  alignas(16) int8_t of[16] = {};
};
/// What the patterns of a type stand for, plus `bias`.
constexpr Codes codes_of(DType dtype, int bias) {
  Codes codes;
  for (int p = 0; p < 16; ++p) {
    int code = p - 8;
    if (dtype == DType::i4 || dtype == DType::i4_halves) code = p < 8 ? p : p - 16;
    if (dtype == DType::f4_e2m1) {
      const auto twice = static_cast<int>(2.0f * detail::f4_e2m1_value(p % 8));
      code = p < 8 ? twice : -twice;
    }
    codes.of[p] = static_cast<int8_t>(code + bias);
  }
  return codes;
}

/// Of a plane's rows, in registers of `bytes`.
struct Form {
  /// `has_granules`: scales vary along a row.
  FOLIO_ALWAYS_INLINE static Form of(const PagedKVView& plane, int head_size, bool has_granules,
                                     int bytes) {
    Form f;
    f.bytes = bytes;
    f.is_packed = detail::is_packed(plane.dtype);
    f.is_halves = block_elements(plane.dtype) == 32;
    f.is_e2m1 = plane.dtype == DType::f4_e2m1;
    f.parts = f.is_packed ? 2 : 1;
    f.row = head_size / f.parts;
    f.chunks = (f.row + bytes - 1) / bytes;
    f.granularity = has_granules ? plane.scales.granularity : head_size;
    f.granules = (head_size + f.granularity - 1) / f.granularity;
    f.slots = f.is_packed && f.granularity % 32 != 0 && f.granules > 1 ? 2 : 1;
    for (int slot = 0; slot < f.slots; ++slot)
      for (int lane = 0; lane < f.lanes(); ++lane)
        f.granule_[slot][lane] = f.granule_at(lane * lane_bytes + slot * lane_bytes / 2);
    return f;
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE int codes() const { return chunks * parts * bytes; }
  /// Of four keys of a row of K: those that one number is beside.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int words() const { return chunks * slots * bytes / 4; }
  /// Of 16 bytes, padding included.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int lanes() const { return chunks * bytes / lane_bytes; }
  /// What byte `byte` of a row holds in its part `part`; -1 behind the row.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int element(int byte, int part) const {
    if (byte >= row) return -1;
    if (!is_packed) return byte;
    return is_halves ? byte / 16 * 32 + part * 16 + byte % 16 : 2 * byte + part;
  }
  /// The granule of a slot of a lane.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int granule(int lane, int slot) const {
    return granule_[slot][lane];
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE float unit() const { return is_e2m1 ? 0.5f : 1.0f; }

  bool is_packed = false, is_halves = false, is_e2m1 = false;
  int bytes = 0;   // of a register
  int row = 0;     // bytes of a head's row
  int chunks = 0;  // registers of a row as it is stored
  int parts = 1;   // registers of codes of a chunk
  int granularity = 0, granules = 1;
  int slots = 1;  // granules of a lane

 private:
  /// Of those bytes of a slot that begin with number `byte` of the row.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint8_t granule_at(int byte) const {
    const int first = element(byte, 0);
    return static_cast<uint8_t>(first < 0 ? granules - 1 : first / granularity);
  }
  static constexpr int lanes_max = head_size_max / lane_bytes;
  uint8_t granule_[2][lanes_max] = {};  // divisions are slow
};

}  // namespace folio::inline v1::packed
