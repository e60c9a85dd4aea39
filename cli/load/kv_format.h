// SPDX-License-Identifier: Apache-2.0
/// cli/load/kv_format.h: how keys and values are stored, as the command line says it.
#pragma once

#include <cstdint>
#include <string>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"
#include "folio/core/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): of the library that reads options
class App;
}

namespace folio::cli {

/// Of K and V alike.
struct KVFormat {
  DType dtype = DType::bf16;
  DType scale_dtype = DType::invalid;  ///< invalid: what is usual for the dtype
  int32_t granularity = 0;             ///< elements that share a scale; 0: what is usual
  Zeros zeros = Zeros::none;
  Hadamard hadamard = {};

  /// With what is usual: f32 for each head beside 8 bits, f16 for 32 elements beside four, f32
  /// where zero points are in it; none beside more bits.
  [[nodiscard]] DType scales() const;
  [[nodiscard]] int32_t granule() const;  ///< 0: a head
};

/// "bf16", or "i4, f16 scales of 32, zeros patterns, hadamard 128".
std::string describe(const KVFormat& format);

/// Adds `--kv-dtype` and what goes with it.
void add_format_options(CLI::App& app, KVFormat& format);

/// Errors: invalid_argument naming the options, for what does not go together or heads of
/// `head_size` cannot have
Status check_format(const KVFormat& format, int32_t head_size);

}  // namespace folio::cli
