// SPDX-License-Identifier: Apache-2.0
/// reference/hadamard.cpp: by the definition, and step by step.
#include "reference/hadamard.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

namespace folio::reference {
namespace {

/// Element (i, j) of Sylvester's matrix.
double entry(size_t i, size_t j) { return std::popcount(i & j) % 2 == 0 ? 1.0 : -1.0; }

}  // namespace

std::vector<double> signs_of(const Hadamard& hadamard) {
  std::vector<double> signs(static_cast<size_t>(hadamard.block), 1.0);
  if (hadamard.sign_seed == 0) return signs;
  std::mt19937 twister(hadamard.sign_seed);
  for (double& sign : signs) sign = (twister() >> 23 & 1u) == 0 ? 1.0 : -1.0;
  return signs;
}

std::vector<double> turned(std::span<const double> row, const Hadamard& hadamard) {
  std::vector<double> out(row.begin(), row.end());
  const auto block = static_cast<size_t>(hadamard.block);
  if (block == 0) return out;
  const std::vector<double> signs = signs_of(hadamard);
  for (size_t i = 0; i < row.size(); ++i) {
    const size_t first = i / block * block;
    double sum = 0.0;
    for (size_t j = 0; j < block; ++j) sum += entry(i - first, j) * signs[j] * row[first + j];
    out[i] = sum / std::sqrt(static_cast<double>(block));
  }
  return out;
}

std::vector<double> turned_back(std::span<const double> row, const Hadamard& hadamard) {
  std::vector<double> out =
      turned(row, {.block = hadamard.block});  // the matrix is its own inverse
  if (hadamard.block == 0) return out;
  const std::vector<double> signs = signs_of(hadamard);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= signs[i % signs.size()];
  return out;
}

void turn(std::span<float> row, const Hadamard& hadamard) {
  const auto block = static_cast<size_t>(hadamard.block);
  if (block == 0) return;
  const std::vector<double> signs = signs_of(hadamard);
  const float factor = 1.0f / std::sqrt(static_cast<float>(block));
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>(signs[i % block]) * row[i] * factor;
  for (size_t distance = 1; distance < block; distance *= 2) {
    for (size_t i = 0; i < row.size(); ++i) {
      if ((i & distance) != 0) continue;
      const float a = row[i], b = row[i + distance];
      row[i] = a + b;
      row[i + distance] = a - b;
    }
  }
}

}  // namespace folio::reference
