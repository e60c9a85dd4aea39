// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/state.h: the online softmax state of a task's rows, and how it lies in scratch
/// memory and in partials.
///
/// ISA-safe: always-inline functions and plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1::skeleton {

// keys of a span, a multiple of the tile, the same for every problem, kernel and machine: bits
// depend on it
inline constexpr int span_keys = 2048;

/// State of `state_rows` rows: output / denominator is the result; `maximum` is the logit, in the
/// engine's base, that both are relative to. A row that saw nothing has maximum -inf and
/// denominator 0; its output is anything, and nobody reads it.
struct State {
  // [state_rows][width]; the order of a row's columns is the engine's own
  float* output = nullptr;
  float* maximum = nullptr;      // [state_rows]
  float* denominator = nullptr;  // [state_rows]
};

FOLIO_ALWAYS_INLINE constexpr int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Bytes of a State, a multiple of 64.
FOLIO_ALWAYS_INLINE constexpr int64_t state_bytes(int64_t state_rows, int64_t width) {
  return round_up(state_rows * width * 4, 64) + 2 * round_up(state_rows * 4, 64);
}

/// The State at `memory`, which is aligned to 64 bytes.
FOLIO_ALWAYS_INLINE State state_at(void* memory, int64_t state_rows, int64_t width) {
  auto* const at = static_cast<std::byte*>(memory);
  State state;
  state.output = reinterpret_cast<float*>(at);
  state.maximum = reinterpret_cast<float*>(at + round_up(state_rows * width * 4, 64));
  state.denominator = reinterpret_cast<float*>(at + round_up(state_rows * width * 4, 64) +
                                               round_up(state_rows * 4, 64));
  return state;
}

/// Hands out consecutive 64-byte aligned parts of a task's scratch memory; from null it only counts
/// bytes.
class Parts {
 public:
  FOLIO_ALWAYS_INLINE explicit Parts(void* memory) : base_(static_cast<std::byte*>(memory)) {}
  template <class T>
  FOLIO_ALWAYS_INLINE T* take(int64_t count) {
    std::byte* const part = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return reinterpret_cast<T*>(part);
  }
  FOLIO_ALWAYS_INLINE State take_state(int64_t state_rows, int64_t width) {
    std::byte* const part = take<std::byte>(state_bytes(state_rows, width));
    return part == nullptr ? State() : state_at(part, state_rows, width);
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace folio::inline v1::skeleton
