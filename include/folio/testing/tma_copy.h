// SPDX-License-Identifier: Apache-2.0
/// folio/testing/tma_copy.h: cp.async.bulk.tensor on a CPU: boxes and four-row gathers between a
/// tensor in global memory and shared memory.
///
///   tma_load      box at these coordinates -> shared memory; out-of-bounds elements are filled
///                 with zeros or NaN
///   tma_store     shared memory -> box; out-of-bounds elements are skipped
///   tma_gather4   four rows of a matrix, one behind the other, at a column
///   tma_scatter4  the way back
///
/// Addresses are computed as the hardware does, modulo 2^64; an element that is in bounds and lies
/// outside the allocation is an error that names the element and where it would be. Shared memory
/// is written at the swizzle of its absolute address. NaN fill writes all ones, which is a NaN of
/// every type; the payload of the hardware is its own.
///
/// All return the bytes of the transaction: the whole box, filled elements included, as the barrier
/// counts them. Errors: invalid_argument for a map that breaks a rule, a wrong number of
/// coordinates or kind of use, a destination that is not at a
///         multiple of 128 or outside shared memory, an access outside the allocation; unsupported
///         for interleaved maps.
/// Nothing allocates, except messages. On an error, rows before the one named may have been copied.
/// Source: PTX ISA 8.7, cp.async.bulk.tensor; tensor maps as in folio/tma/tensor_map.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "folio/core/status.h"
#include "folio/testing/shared_memory.h"
#include "folio/tma/swizzle.h"
#include "folio/tma/tensor_map.h"

namespace folio::inline v1::emulator {
namespace detail {

enum class Direction : uint8_t { load, store };

/// One call, for the functions below.
struct TmaCopy {
  const char* function = "";
  Direction direction = Direction::load;
  const tma::TensorMap& map;
  const GlobalMemory& global;
  SharedMemory& shared;
  int64_t shared_address = 0;
};

inline Status check(const TmaCopy& copy, tma::Use use, size_t num_coordinates,
                    size_t expected) noexcept {
  if (const tma::Fault fault = copy.map.fault(); !fault.is_none())
    return describe(copy.function, fault);
  if (copy.map.interleave != tma::Interleave::none)
    return fail(Errc::unsupported, "{}: interleaved maps are not emulated", copy.function);
  if (copy.map.use != use)
    return fail(Errc::invalid_argument, "{}: the map is made for {}", copy.function,
                use == tma::Use::tiled ? "gather4" : "tiles");
  if (num_coordinates != expected)
    return fail(Errc::invalid_argument, "{}: {} coordinates for a map of rank {}", copy.function,
                num_coordinates, copy.map.rank);
  if (copy.shared_address % 128 != 0)
    return fail(Errc::invalid_argument, "{}: shared address {}, expected a multiple of 128",
                copy.function, copy.shared_address);
  if (!copy.shared.contains(copy.shared_address, copy.map.transaction_bytes()))
    return fail(Errc::invalid_argument,
                "{}: {} bytes at shared address {} leave shared memory of {} bytes", copy.function,
                copy.map.transaction_bytes(), copy.shared_address, copy.shared.size());
  return {};
}

/// The message for bytes [begin, begin + bytes) of the allocation, which are not in it.
inline Status outside(const TmaCopy& copy, const int64_t (&element)[tma::TensorMap::max_rank],
                      int64_t begin, int64_t bytes) noexcept {
  constexpr const char* format =
      "{}: element ({}, {}, {}, {}, {}) of the tensor, fastest first, begins bytes [{}, {}) of {}, "
      "which has {}";
  return fail(Errc::invalid_argument, format, copy.function, element[0], element[1], element[2],
              element[3], element[4], begin, begin + bytes, copy.global.label, copy.global.bytes);
}

/// A row of what a copy moves, along dimension 0.
struct TmaRow {
  int64_t element[tma::TensorMap::max_rank] = {};  ///< its first one; [0] may be out of bounds
  uint64_t address = 0;                            ///< of element 0 of the row
  bool in_bounds = true;                           ///< in all other dimensions
  int64_t offset = 0;                              ///< in the packed box, before the swizzle

  /// The elements that exist, counted from the first of the box.
  struct Part {
    int64_t first = 0;
    int64_t last = 0;
  };
  [[nodiscard]] Part inside(const tma::TensorMap& map) const noexcept {
    if (!in_bounds) return {};
    const int64_t first = std::clamp<int64_t>(-element[0], 0, map.box[0]);
    return {first, std::clamp<int64_t>(map.dim[0] - element[0], first, map.box[0])};
  }
};

/// f(row) for all rows of a box, until it is false.
template <class F>
void for_each_box_row(const tma::TensorMap& map, std::span<const int32_t> coordinates, F f) {
  int32_t index[tma::TensorMap::max_rank] = {};  // of the row in the box; [0] stays 0
  TmaRow row;
  row.element[0] = coordinates[0];
  for (bool more = true; more; row.offset += map.box[0] * element_bytes(map.dtype)) {
    row.address = map.base;
    row.in_bounds = true;
    for (int i = 1; i < map.rank; ++i) {
      row.element[i] =
          int64_t{coordinates[static_cast<size_t>(i)]} + int64_t{index[i]} * map.element_stride[i];
      row.in_bounds = row.in_bounds && row.element[i] >= 0 && row.element[i] < map.dim[i];
      row.address +=
          static_cast<uint64_t>(row.element[i]) * static_cast<uint64_t>(map.stride_bytes[i]);
    }
    if (!f(row)) return;
    more = false;
    for (int i = 1; i < map.rank && !more; ++i) {
      more = ++index[i] < map.box_elements(i);
      if (!more) index[i] = 0;
    }
  }
}
/// f(row) for the four rows of a gather or scatter, until it is false.
template <class F>
void for_each_gathered_row(const tma::TensorMap& map, int32_t column,
                           const std::array<int32_t, 4>& rows, F f) {
  TmaRow row;
  row.element[0] = column;
  for (const int32_t index : rows) {
    row.element[1] = index;
    row.address = map.base + static_cast<uint64_t>(row.element[1]) *
                                 static_cast<uint64_t>(map.stride_bytes[1]);
    row.in_bounds = index >= 0 && index < map.dim[1];
    if (!f(row)) return;
    row.offset += map.box[0] * element_bytes(map.dtype);
  }
}

inline Status copy_row(const TmaCopy& copy, const TmaRow& moved) noexcept {
  const tma::TensorMap& map = copy.map;
  const int64_t size = element_bytes(map.dtype);
  const int64_t row_bytes = map.box[0] * size;
  const auto [first, last] = moved.inside(map);
  const int64_t bytes = (last - first) * size;
  const int64_t to = copy.shared_address + moved.offset;
  std::byte* inside = nullptr;
  if (bytes > 0) {
    const uint64_t begin = moved.address +
                           static_cast<uint64_t>((moved.element[0] + first) * size) -
                           copy.global.address;
    if (begin > static_cast<uint64_t>(copy.global.bytes) ||
        static_cast<uint64_t>(bytes) > static_cast<uint64_t>(copy.global.bytes) - begin) {
      int64_t named[tma::TensorMap::max_rank];
      std::copy(std::begin(moved.element), std::end(moved.element), named);
      named[0] += first;
      return outside(copy, named, static_cast<int64_t>(begin), bytes);
    }
    inside = copy.global.data + begin;
  }
  constexpr int64_t unit = 16;  // what a swizzle moves
  alignas(unit) std::byte row[256 * 8];
  if (copy.direction == Direction::load) {
    if (bytes < row_bytes)
      std::memset(row, map.oob_fill == tma::OobFill::nan ? 0xff : 0,
                  static_cast<size_t>(row_bytes));
    if (bytes > 0) std::memcpy(row + first * size, inside, static_cast<size_t>(bytes));
    for (int64_t at = 0; at < row_bytes; at += unit)
      std::memcpy(copy.shared.at(swizzle(map.swizzle, to + at)), row + at, unit);
  } else if (bytes > 0) {
    for (int64_t at = 0; at < row_bytes; at += unit)
      std::memcpy(row + at, copy.shared.at(swizzle(map.swizzle, to + at)), unit);
    std::memcpy(inside, row + first * size, static_cast<size_t>(bytes));
  }
  return {};
}

inline Result<int64_t> copy_box(const TmaCopy& copy,
                                std::span<const int32_t> coordinates) noexcept {
  const tma::TensorMap& map = copy.map;
  if (Status status =
          check(copy, tma::Use::tiled, coordinates.size(), static_cast<size_t>(map.rank));
      !status.is_ok())
    return status;
  Status status;
  for_each_box_row(map, coordinates, [&](const TmaRow& row) {
    status = copy_row(copy, row);
    return status.is_ok();
  });
  if (!status.is_ok()) return status;
  return map.transaction_bytes();
}

inline Result<int64_t> copy_rows(const TmaCopy& copy, int32_t column,
                                 const std::array<int32_t, 4>& rows) noexcept {
  const tma::TensorMap& map = copy.map;
  Status status = check(copy, tma::Use::gather4, 5, 5);
  if (!status.is_ok()) return status;
  for_each_gathered_row(map, column, rows, [&](const TmaRow& row) {
    status = copy_row(copy, row);
    return status.is_ok();
  });
  if (!status.is_ok()) return status;
  return map.transaction_bytes();
}

}  // namespace detail

/// One coordinate for each dimension of the map, fastest first; any signed values.
[[nodiscard]] inline Result<int64_t> tma_load(const tma::TensorMap& map, const GlobalMemory& from,
                                              SharedMemory& to, int64_t to_address,
                                              std::span<const int32_t> coordinates) noexcept {
  return detail::copy_box({"tma_load", detail::Direction::load, map, from, to, to_address},
                          coordinates);
}
template <int Rank>
[[nodiscard]] Result<int64_t> tma_load(const tma::TensorMap& map, const GlobalMemory& from,
                                       SharedMemory& to, int64_t to_address,
                                       const tma::Coordinates<Rank>& coordinates) noexcept {
  return tma_load(map, from, to, to_address, std::span<const int32_t>(coordinates.at));
}

[[nodiscard]] inline Result<int64_t> tma_store(const tma::TensorMap& map, const GlobalMemory& to,
                                               SharedMemory& from, int64_t from_address,
                                               std::span<const int32_t> coordinates) noexcept {
  return detail::copy_box({"tma_store", detail::Direction::store, map, to, from, from_address},
                          coordinates);
}
template <int Rank>
[[nodiscard]] Result<int64_t> tma_store(const tma::TensorMap& map, const GlobalMemory& to,
                                        SharedMemory& from, int64_t from_address,
                                        const tma::Coordinates<Rank>& coordinates) noexcept {
  return tma_store(map, to, from, from_address, std::span<const int32_t>(coordinates.at));
}

/// Rows `rows` from `column` on; a negative row, or one past the end, is out of bounds.
[[nodiscard]] inline Result<int64_t> tma_gather4(const tma::TensorMap& map,
                                                 const GlobalMemory& from, SharedMemory& to,
                                                 int64_t to_address, int32_t column,
                                                 const std::array<int32_t, 4>& rows) noexcept {
  return detail::copy_rows({"tma_gather4", detail::Direction::load, map, from, to, to_address},
                           column, rows);
}
[[nodiscard]] inline Result<int64_t> tma_scatter4(const tma::TensorMap& map, const GlobalMemory& to,
                                                  SharedMemory& from, int64_t from_address,
                                                  int32_t column,
                                                  const std::array<int32_t, 4>& rows) noexcept {
  return detail::copy_rows({"tma_scatter4", detail::Direction::store, map, to, from, from_address},
                           column, rows);
}

}  // namespace folio::inline v1::emulator
