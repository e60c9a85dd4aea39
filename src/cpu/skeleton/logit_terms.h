// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/logit_terms.h: what joins the scaled products of one row in one tile.
///
/// ISA-safe: a plain struct.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::inline v1::skeleton {

/// In natural units. softcap, alibi and whether there is a bias are the same for all rows of a
/// call.
struct LogitTerms {
  float softcap = 0.0f;  // 0: none
  float slope = 0.0f;    // ALiBi
  bool alibi = false;
  float distance = 0.0f;       // position of the query minus position of the tile's first key
  const void* bias = nullptr;  // of the tile's first key
  DType bias_dtype = DType::f32;
  const int32_t* positions = nullptr;  // of the tile's keys; null: they follow one another
  int keys = 0;  // of the tile that the context holds: nothing is read behind them
};

}  // namespace folio::inline v1::skeleton
