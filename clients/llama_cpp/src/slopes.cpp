// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/slopes.cpp: the formula, in ggml's order of rounding.
#include "slopes.h"

#include <bit>
#include <cmath>

namespace ggml_folio {

std::vector<float> alibi_slopes(int64_t heads, float max_bias) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const float first = std::pow(2.0f, -max_bias / static_cast<float>(power));
  const float second = std::pow(2.0f, -(max_bias / 2.0f) / static_cast<float>(power));
  std::vector<float> slopes(static_cast<size_t>(heads));
  for (int64_t h = 0; h < heads; ++h)
    slopes[static_cast<size_t>(h)] =
        h < power ? std::pow(first, static_cast<float>(h + 1))
                  : std::pow(second, static_cast<float>(2 * (h - power) + 1));
  return slopes;
}

}  // namespace ggml_folio
