// SPDX-License-Identifier: Apache-2.0
/// tests/attention/rope_parts.h: rotation tables at random, and rows of K and Q by the words of
/// folio/attention/rotate.h, in float.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "folio/attention/rotate.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {

/// A table, weights and shifts that end where inaccessible memory begins.
struct RandomRope {
  RandomRope(Rng& rng, int32_t head_size, int64_t rows) {
    rope.rows = rows;
    rope.dims = 2 * rng.int_between(1, head_size / 2);
    if (rng.chance(0.5)) rope.dims = head_size / 2 * 2;
    rope.first_dim = rng.int_between(0, head_size - rope.dims);
    rope.interleaved = rng.chance(0.5);
    table = GuardedMemory(rows * rope.dims * 4, 4);
    // A table scaled as YaRN does has cosines and sines of any magnitude.
    const float scale = rng.chance(0.3) ? rng.uniform(0.1f, 8.0f) : 1.0f;
    for (int64_t row = 0; row < rows; ++row) {
      for (int32_t i = 0; i < rope.dims / 2; ++i) {
        const double angle = static_cast<double>(row) * std::pow(10000.0, -2.0 * i / rope.dims);
        table.as<float>()[row * rope.dims + i] = scale * static_cast<float>(std::cos(angle));
        table.as<float>()[row * rope.dims + rope.dims / 2 + i] =
            scale * static_cast<float>(std::sin(angle));
      }
    }
    rope.cos_sin = table.as<float>();
    weights = GuardedMemory(head_size * int64_t{4}, 4);
    for (int32_t i = 0; i < head_size; ++i) weights.as<float>()[i] = rng.uniform(-2.0f, 2.0f);
    shifts = GuardedMemory(head_size * int64_t{4}, 4);
    for (int32_t i = 0; i < head_size; ++i) shifts.as<float>()[i] = rng.uniform(-2.0f, 2.0f);
  }

  GuardedMemory table, weights, shifts;
  Rope rope;
};

/// The words of rotate.h in float, operation by operation. Not to be compiled with contraction.
template <class Of>
float mean_by_definition(const std::vector<float>& x, Of of) {
  float chains[16] = {};
  for (size_t i = 0; i < x.size(); ++i) chains[i % 16] = chains[i % 16] + of(x[i]);
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) chains[i] = chains[i] + chains[i + half];
  }
  return chains[0] / static_cast<float>(x.size());
}

inline void normalise_by_definition(std::vector<float>& x, const float* weights,
                                    const float* shifts, float eps) {
  if (shifts != nullptr) {
    const float mean = mean_by_definition(x, [](float value) { return value; });
    for (float& value : x) value = value - mean;
  }
  const float squares = mean_by_definition(x, [](float value) { return value * value; });
  const float factor = 1.0f / std::sqrt(squares + eps);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = x[i] * factor * weights[i];
    if (shifts != nullptr) x[i] = x[i] + shifts[i];
  }
}

/// How much a LayerNorm enlarges errors of the size of the row's largest element: what is left of a
/// row that is nearly constant is mostly rounding.
inline double enlargement_of_norm(const std::vector<float>& x, float eps) {
  double mean = 0.0, squares = 0.0, largest = 0.0;
  for (const float value : x) mean += static_cast<double>(value) / static_cast<double>(x.size());
  for (const float value : x) {
    const double centred = static_cast<double>(value) - mean;
    squares += centred * centred / static_cast<double>(x.size());
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  return largest / std::sqrt(squares + static_cast<double>(eps));
}

inline void rotate_by_definition(std::vector<float>& x, const Rope& rope, int64_t position) {
  const float* cosines = rope.cos_sin + position * rope.dims;
  const int32_t pairs = rope.dims / 2;
  for (int32_t i = 0; i < pairs; ++i) {
    const auto first = static_cast<size_t>(rope.first_dim + (rope.interleaved ? 2 * i : i));
    const size_t second = first + static_cast<size_t>(rope.interleaved ? 1 : pairs);
    const float a = x[first], b = x[second];
    x[first] = a * cosines[i] - b * cosines[pairs + i];
    x[second] = b * cosines[i] + a * cosines[pairs + i];
  }
}

}  // namespace folio::test
