// SPDX-License-Identifier: Apache-2.0
/// tests/tma/map_walk.h: which addresses a copy touches and where in shared memory their elements
/// land, on numbers alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "folio/tma/tensor_map.h"

namespace folio::test {

struct Landed {
  bool in_bounds = false;
  uint64_t address = 0;  ///< of an element in bounds
};

/// Every element of a box: shared-memory byte -> what it came from. `destination` is where the box
/// goes, before the swizzle.
template <int Rank>
std::map<int64_t, Landed> walk(const tma::TensorMap& map, const tma::Coordinates<Rank>& at,
                               int64_t destination = 0) {
  std::map<int64_t, Landed> out;
  const int32_t bytes = element_bytes(map.dtype);
  std::array<int32_t, 5> i = {};
  int64_t packed = destination;
  for (;;) {
    Landed landed{true, map.base};
    for (size_t d = 0; d < static_cast<size_t>(map.rank); ++d) {
      const int64_t x = int64_t{at.at[d]} + i[d];
      landed.in_bounds &= x >= 0 && x < map.dim[d];
      landed.address +=
          static_cast<uint64_t>(x) * static_cast<uint64_t>(d == 0 ? bytes : map.stride_bytes[d]);
    }
    out[folio::tma::swizzle(map.swizzle, packed)] = landed;
    packed += bytes;
    size_t d = 0;
    while (d < static_cast<size_t>(map.rank) && ++i[d] == map.box[d]) i[d++] = 0;
    if (d == static_cast<size_t>(map.rank)) return out;
  }
}

}  // namespace folio::test
