// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_rotate_cases.h: rotate on a GPU, compared byte for byte with the CPU's.
#pragma once

#include <cstring>
#include <vector>

#include "cuda/gpu_mirror.h"
#include "folio/attention/rotate.h"
#include "folio/core/element.h"
#include "support/cuda_device.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {

struct GpuRotateCase {
  const char* name;
  DType from;
  DType to;
  int32_t head_size = 128;
  int32_t dims = 128;
  bool interleaved = false;
  bool normalises = false;
  bool is_in_place = false;
  bool has_positions = false;  ///< of the table's rows; else from the batch
};

inline std::vector<GpuRotateCase> gpu_rotate_cases(bool only_smallest) {
  std::vector<GpuRotateCase> cases = {
      {"bf16", DType::bf16, DType::bf16},
      {"bf16 in place, normalised", DType::bf16, DType::bf16, 128, 128, false, true, true},
      {"f16, pairs side by side", DType::f16, DType::f16, 64, 64, true},
      {"f32 to bf16, a part of 256", DType::f32, DType::bf16, 256, 128, false, true},
      {"bf16 to f32, positions given", DType::bf16, DType::f32, 128, 128, false, true, false, true},
      {"bf16, heads of 64, normalised", DType::bf16, DType::bf16, 64, 64, false, true},
      {"bf16, heads of 256", DType::bf16, DType::bf16, 256, 256},
      {"f16, heads of 256, normalised", DType::f16, DType::f16, 256, 256, false, true},
      {"bf16, heads of 41", DType::bf16, DType::bf16, 41, 20, true}};
  if (only_smallest) cases.resize(1);
  return cases;
}

/// 3 sequences, 21 tokens.
class GpuRotate {
 public:
  explicit GpuRotate(const GpuRotateCase& c) : case_(c) {
    Rng rng(23);
    const int64_t width = bit_width(c.from) / 8;
    for (int64_t i = 0; i < q_.bytes() / width; ++i) {
      const float x = rng.uniform(-4.0f, 4.0f);
      const uint16_t half =
          c.from == DType::bf16 ? from_float<bf16>(x).bits : from_float<f16>(x).bits;
      if (c.from == DType::f32)
        std::memcpy(q_.data() + i * 4, &x, 4);
      else
        std::memcpy(q_.data() + i * 2, &half, 2);
    }
    for (int64_t i = 0; i < rope_.bytes() / 4; ++i) rope_.as<float>()[i] = rng.uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < norm_.bytes() / 4; ++i) norm_.as<float>()[i] = rng.uniform(0.5f, 1.5f);
    const int32_t offsets[] = {0, 1, 9, tokens}, contexts[] = {33, 8, 40};
    std::memcpy(offsets_.data(), offsets, sizeof offsets);
    std::memcpy(contexts_.data(), contexts, sizeof contexts);
    for (int32_t i = 0; i < tokens; ++i)
      positions_.as<int32_t>()[i] = rng.int_between(0, max_position - 1);
    batch_.size = 3;
    batch_.query_offsets = offsets_.as<int32_t>();
    batch_.context_lengths = contexts_.as<int32_t>();
    rope_args_ = {rope_.as<float>(),
                  max_position,
                  c.dims,
                  c.interleaved,
                  0,
                  c.has_positions ? positions_.as<int32_t>() : nullptr};
    args_.q = dense_tensor<3>(q_.data(), c.from, {tokens, heads, c.head_size});
    args_.out = dense_tensor<3>(out().data(), c.to, {tokens, heads, c.head_size});
    args_.rope = &rope_args_;
    if (c.normalises) args_.q_norm = norm_.as<float>();
  }
  GpuRotate(const GpuRotate&) = delete;
  GpuRotate& operator=(const GpuRotate&) = delete;

  /// Also a status that names what differs.
  Status run(const CudaDevice& device) const {
    const GpuMirror mirror(device);
    const Rope rope_there = mirror.translated(rope_args_);
    RotateArgs there = mirror.translated(args_);
    there.rope = &rope_there;
    if (Status s = rotate(batch_, args_, serial_executor()); !s.is_ok()) return s;
    if (Status s = rotate_async(mirror.translated(batch_), there, device.device(), Stream());
        !s.is_ok())
      return s;
    device.synchronise();
    return mirror.compare(out(), "rows");
  }

 private:
  static constexpr int32_t heads = 3, tokens = 21;
  static constexpr int64_t max_position = 48;

  [[nodiscard]] const GuardedMemory& out() const { return case_.is_in_place ? q_ : out_; }
  [[nodiscard]] int64_t bytes_of(DType dtype) const {
    return int64_t{tokens} * heads * case_.head_size * bit_width(dtype) / 8;
  }

  GpuRotateCase case_;
  GuardedMemory q_{bytes_of(case_.from), 64}, out_{bytes_of(case_.to), 64};
  GuardedMemory rope_{max_position * case_.dims * 4, 64}, norm_{int64_t{case_.head_size} * 4, 64};
  GuardedMemory offsets_{4 * 4, 4}, contexts_{3 * 4, 4}, positions_{tokens * 4, 4};
  Rope rope_args_;
  Batch batch_;
  RotateArgs args_;
};

}  // namespace folio::test
