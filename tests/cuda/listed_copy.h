// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/listed_copy.h: one copy by a tensor map, made on the host and done by a kernel or by
/// the emulator.
#pragma once

#include <cstdint>

#include "folio/tma/tensor_map.h"

namespace folio::test {

struct ListedCopy {
  tma::Coordinates<5> at = {};  ///< fastest dimension first; a gather's: column, then four rows
  int32_t shared = 0;           ///< byte of the tile in shared memory
};

}  // namespace folio::test
