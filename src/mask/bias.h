// SPDX-License-Identifier: Apache-2.0
/// src/mask/bias.h: a mask as the bias of attention: in place, or times slopes.
#pragma once

#include "folio/core/buffer.h"
#include "folio/core/status.h"
#include "mask/shape.h"

namespace folio::inline v1::mask {

/// Of a mask without slopes: its own numbers.
void point_bias(MaskedBatch& masked, const Shape& shape) noexcept;

/// Its numbers times slopes, as f32 in `memory`, which grows as needed; -inf stays -inf.
/// Errors: out_of_memory.
[[nodiscard]] Status write_bias(MaskedBatch& masked, const Shape& shape, const MaskOptions& options,
                                Buffer& memory) noexcept;

}  // namespace folio::inline v1::mask
