// SPDX-License-Identifier: Apache-2.0
/// src/attention/positions.cpp: positions given, or counted from the lengths of the batch.
#include "attention/positions.h"

#include <algorithm>
#include <limits>

#include "cache/check_alignment.h"

namespace folio::inline v1 {
namespace {

Status check_range(const char* function, const Rope& rope, const char* what, int64_t index,
                   int64_t position) {
  if (position >= 0 && position < rope.rows) return {};
  return fail(Errc::invalid_argument, "{}: {}[{}] is {}, expected 0 to {} (rope.rows is {})",
              function, what, index, position, rope.rows - 1, rope.rows);
}

Status check_lengths(const char* function, const Batch& batch) {
  if (batch.query_positions != nullptr || batch.context_lengths != nullptr) return {};
  return fail(Errc::invalid_argument,
              "{}: batch.context_lengths is null, expected an array (rope has no positions)",
              function);
}

}  // namespace

Status check_ascending(const char* function, const Batch& batch) noexcept {
  if (batch.query_offsets[0] != 0)
    return fail(Errc::invalid_argument, "{}: batch.query_offsets[0] is {}, expected 0", function,
                batch.query_offsets[0]);
  for (int32_t b = 0; b < batch.size; ++b) {
    if (batch.query_offsets[b + 1] >= batch.query_offsets[b]) continue;
    return fail(Errc::invalid_argument,
                "{}: batch.query_offsets[{}] is {}, expected at least {} (they ascend)", function,
                b + 1, batch.query_offsets[b + 1], batch.query_offsets[b]);
  }
  return {};
}

Status check_size(const char* function, const Batch& batch) noexcept {
  if (batch.size < 0)
    return fail(Errc::invalid_argument, "{}: batch.size is {}, expected at least 0", function,
                batch.size);
  // size + 1 offsets are counted in an int32_t
  if (batch.size == std::numeric_limits<int32_t>::max())
    return fail(Errc::invalid_argument, "{}: batch.size is {}, expected at most 2^31 - 2", function,
                batch.size);
  if (batch.query_offsets != nullptr) return {};
  return fail(Errc::invalid_argument, "{}: batch.query_offsets is null, expected an array",
              function);
}

Status check_offsets(const char* function, const Batch& batch, int64_t tokens,
                     const char* of) noexcept {
  if (Status s = check_size(function, batch); !s.is_ok()) return s;
  if (Status s = check_ascending(function, batch); !s.is_ok()) return s;
  if (batch.query_offsets[batch.size] == tokens) return {};
  return fail(Errc::invalid_argument,
              "{}: {} has {} tokens, expected {} (from batch.query_offsets)", function, of, tokens,
              batch.query_offsets[batch.size]);
}

Status check_rope(const char* function, const Rope& rope, int32_t head_size,
                  const char* of) noexcept {
  if (rope.cos_sin == nullptr)
    return fail(Errc::invalid_argument, "{}: rope.cos_sin is null, expected [{}, {}]", function,
                rope.rows, rope.dims);
  if (Status s =
          check_aligned(function, "rope", ".cos_sin", rope.cos_sin, natural_alignment(DType::f32));
      !s.is_ok())
    return s;
  if (rope.rows < 0)
    return fail(Errc::invalid_argument, "{}: rope.rows is {}, expected at least 0", function,
                rope.rows);
  if (rope.dims < 2 || rope.dims % 2 != 0) {
    return fail(Errc::invalid_argument,
                "{}: rope.dims is {}, expected an even number of at least 2", function, rope.dims);
  }
  if (rope.first_dim < 0)
    return fail(Errc::invalid_argument, "{}: rope.first_dim is {}, expected at least 0", function,
                rope.first_dim);
  if (int64_t{rope.first_dim} + rope.dims <= head_size) return {};
  return fail(Errc::invalid_argument,
              "{}: rope.first_dim + rope.dims is {}, expected at most {} (head_size, from {})",
              function, int64_t{rope.first_dim} + rope.dims, head_size, of);
}

Status check_position_arrays(const char* function, const Batch& batch, const Rope& rope) noexcept {
  if (rope.positions != nullptr) return {};
  if (Status s = check_size(function, batch); !s.is_ok()) return s;
  return check_lengths(function, batch);
}

Status check_positions(const char* function, const Batch& batch, const Rope& rope, int64_t tokens,
                       const char* of, const int64_t* skipped) noexcept {
  if (rope.positions != nullptr) {
    for (int64_t t = 0; t < tokens; ++t) {
      if (skipped != nullptr && skipped[t] < 0) continue;
      if (Status s = check_range(function, rope, "rope.positions", t, rope.positions[t]);
          !s.is_ok())
        return s;
    }
    return {};
  }
  if (Status s = check_offsets(function, batch, tokens, of); !s.is_ok()) return s;
  if (Status s = check_lengths(function, batch); !s.is_ok()) return s;
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t shift = first_position(batch, b) - batch.query_offsets[b];
    for (int64_t t = batch.query_offsets[b]; t < batch.query_offsets[b + 1]; ++t) {
      if (skipped != nullptr && skipped[t] < 0) continue;
      if (Status s = check_range(function, rope, "position", t, t + shift); !s.is_ok()) return s;
    }
  }
  return {};
}

int64_t first_position(const Batch& batch, int32_t b) noexcept {
  if (batch.query_positions != nullptr) return batch.query_positions[b];
  const int64_t count = int64_t{batch.query_offsets[b + 1]} - batch.query_offsets[b];
  return (batch.key_positions != nullptr ? batch.key_positions[b] : 0) +
         int64_t{batch.context_lengths[b]} - count;
}

TableRows::TableRows(const Batch& batch, const Rope* rope, int64_t first_token) noexcept
    : batch_(batch), rope_(rope) {
  if (rope == nullptr || rope->positions != nullptr) return;
  const int32_t* offsets = batch.query_offsets;
  sequence_ = static_cast<int32_t>(
      std::upper_bound(offsets, offsets + batch.size + 1, first_token) - offsets - 1);
  position_ = first_position(batch, sequence_);
}

const float* TableRows::row_of(int64_t token) noexcept {
  if (rope_ == nullptr) return nullptr;
  if (rope_->positions != nullptr)
    return rope_->cos_sin + int64_t{rope_->positions[token]} * rope_->dims;
  while (token >= batch_.query_offsets[sequence_ + 1])
    position_ = first_position(batch_, ++sequence_);
  return rope_->cos_sin + (position_ + token - batch_.query_offsets[sequence_]) * rope_->dims;
}

}  // namespace folio::inline v1
