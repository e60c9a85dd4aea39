// SPDX-License-Identifier: Apache-2.0
/// reference/rotate.cpp: one row of one head of one token at a time.
#include "reference/rotate.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "reference/elements.h"
#include "reference/hadamard.h"

namespace folio::reference {

void normalise(std::span<double> row, const float* weights, const float* shifts, double eps) {
  const auto size = static_cast<double>(row.size());
  const double mean = shifts != nullptr ? std::accumulate(row.begin(), row.end(), 0.0) / size : 0.0;
  double sum = 0.0;
  for (const double x : row) sum += (x - mean) * (x - mean);
  const double root = std::sqrt(sum / size + eps);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = (row[i] - mean) / root * static_cast<double>(weights[i]);
    if (shifts != nullptr) row[i] += static_cast<double>(shifts[i]);
  }
}

void rotate_row(std::span<double> row, const Rope& rope, int64_t position) {
  const float* angles = rope.cos_sin + position * rope.dims;
  const int32_t pairs = rope.dims / 2;
  for (int32_t i = 0; i < pairs; ++i) {
    const int32_t first = rope.first_dim + (rope.interleaved ? 2 * i : i);
    const int32_t second = first + (rope.interleaved ? 1 : pairs);
    double& x = row[static_cast<size_t>(first)];
    double& y = row[static_cast<size_t>(second)];
    const std::complex<double> turn(static_cast<double>(angles[i]),
                                    static_cast<double>(angles[pairs + i]));
    const std::complex<double> turned = std::complex<double>(x, y) * turn;
    x = turned.real();
    y = turned.imag();
  }
}

int64_t position_of(const Batch& batch, const Rope& rope, int64_t token) {
  if (rope.positions != nullptr) return rope.positions[token];
  int32_t b = 0;
  while (token >= batch.query_offsets[b + 1]) ++b;
  const int64_t t = token - batch.query_offsets[b];
  if (batch.query_positions != nullptr) return batch.query_positions[b] + t;
  const int64_t new_tokens = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
  const int64_t key_position = batch.key_positions != nullptr ? batch.key_positions[b] : 0;
  return key_position + batch.context_lengths[b] - new_tokens + t;
}

void turn_query(const PagedKVView& key, int64_t head, std::span<double> row) {
  for (size_t d = 0; d < row.size() && key.has_channel_scales; ++d)
    row[d] *= static_cast<double>(key.channel_scales[static_cast<size_t>(head) * row.size() + d]);
  std::ranges::copy(turned(row, key.hadamard), row.begin());
}

std::vector<double> rotated(const Batch& batch, const RotateArgs& args) {
  const int64_t tokens = args.q.extent[0], heads = args.q.extent[1], head_size = args.q.extent[2];
  std::vector<double> all(static_cast<size_t>(tokens * heads * head_size));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const std::span<double> row(all.data() + (t * heads + h) * head_size,
                                  static_cast<size_t>(head_size));
      const auto* at = static_cast<const std::byte*>(args.q.data) + t * args.q.stride_bytes[0] +
                       h * args.q.stride_bytes[1];
      load_row(at, args.q.dtype, head_size, row.data());
      if (args.q_norm != nullptr)
        normalise(row, args.q_norm, args.q_norm_shift, static_cast<double>(args.norm_eps));
      if (args.rope != nullptr) rotate_row(row, *args.rope, position_of(batch, *args.rope, t));
      if (args.key != nullptr) turn_query(*args.key, h / (heads / args.key->num_heads), row);
    }
  }
  return all;
}

}  // namespace folio::reference
