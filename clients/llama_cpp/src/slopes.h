// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/slopes.h: ALiBi's slopes as ggml has them.
#pragma once

#include <cstdint>
#include <vector>

namespace ggml_folio {

/// The factor of the mask for each of `heads` heads: with n the largest power of two up to heads,
/// 2^(-max_bias (h + 1) / n) for the first n heads and 2^(-max_bias / 2 (2 (h - n) + 1) / n) for
/// the others. max_bias > 0, heads > 0.
[[nodiscard]] std::vector<float> alibi_slopes(int64_t heads, float max_bias);

}  // namespace ggml_folio
