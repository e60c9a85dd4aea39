// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_append_cases.h: append on a GPU, compared byte for byte with the CPU's.
#pragma once

#include <cstring>
#include <vector>

#include "cuda/gpu_mirror.h"
#include "folio/attention/append.h"
#include "folio/core/element.h"
#include "support/cuda_device.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {

struct GpuAppendCase {
  const char* name;
  DType from;
  DType to;
  bool has_scales = false;  ///< computed, one per token and head
  bool rotates = false;
  bool normalises = false;
};

inline std::vector<GpuAppendCase> gpu_append_cases(bool only_smallest) {
  std::vector<GpuAppendCase> cases = {
      {"bf16", DType::bf16, DType::bf16},
      {"f32 to bf16, rotated", DType::f32, DType::bf16, false, true},
      {"bf16, normalised and rotated", DType::bf16, DType::bf16, false, true, true},
      {"f16", DType::f16, DType::f16},
      {"bf16 to e4m3", DType::bf16, DType::f8_e4m3},
      {"bf16 to e4m3, scales", DType::bf16, DType::f8_e4m3, true, true},
      {"bf16 to e5m2, scales", DType::bf16, DType::f8_e5m2, true},
      {"bf16 to i8, scales, rotated", DType::bf16, DType::i8, true, true}};
  if (only_smallest) cases.resize(1);
  return cases;
}

/// The arrays of one case; 3 sequences, 37 tokens, some of them to no page.
class GpuAppend {
 public:
  explicit GpuAppend(const GpuAppendCase& c) : case_(c) {
    Rng rng(17);
    fill(source_, [&] { return rng.uniform(-4.0f, 4.0f); });
    float* const rope = rope_.as<float>();
    for (int64_t i = 0; i < max_position * head_size; ++i) rope[i] = rng.uniform(-1.0f, 1.0f);
    for (int64_t i = 0; i < head_size; ++i) norm_.as<float>()[i] = rng.uniform(0.5f, 1.5f);
    const int32_t offsets[] = {0, 1, 20, tokens}, contexts[] = {33, 19, 40};
    std::memcpy(offsets_.data(), offsets, sizeof offsets);
    std::memcpy(contexts_.data(), contexts, sizeof contexts);
    std::vector<uint32_t> pages(num_pages);
    for (uint32_t i = 0; i < num_pages; ++i) pages[i] = i;
    rng.shuffle(pages);
    for (size_t i = 0; i < 3 * columns; ++i) table_.as<uint32_t>()[i] = pages[i];
    table_.as<uint32_t>()[2 * columns + 1] = ~0u;  // no page
    batch_.size = 3;
    batch_.query_offsets = offsets_.as<int32_t>();
    batch_.context_lengths = contexts_.as<int32_t>();
    batch_.table.entries = table_.as<uint32_t>();
    batch_.table.row_stride = columns;
    rotation_.cos_sin = rope;
    rotation_.rows = max_position;
    rotation_.dims = head_size;
    args_.k = slice(0);
    args_.v = slice(heads);
    args_.key = plane(0);
    args_.value = plane(1);
    if (c.rotates) args_.rope = &rotation_;
    if (c.normalises) args_.k_norm = norm_.as<float>();
  }
  GpuAppend(const GpuAppend&) = delete;
  GpuAppend& operator=(const GpuAppend&) = delete;

  /// Also a status that names what differs.
  Status run(const CudaDevice& device) {
    const GpuMirror mirror(device);
    AppendArgs there = mirror.translated(args_);
    const Rope rotation = mirror.translated(rotation_);
    if (case_.rotates) there.rope = &rotation;
    if (Status s = append(batch_, args_, serial_executor()); !s.is_ok()) return s;
    if (Status s = append_async(mirror.translated(batch_), there, device.device(), Stream());
        !s.is_ok())
      return s;
    device.synchronise();
    if (Status s = mirror.compare(planes_, "values"); !s.is_ok()) return s;
    return mirror.compare(scales_, "scales");
  }

 private:
  static constexpr int32_t heads = 2, head_size = 128, page_size = 16, tokens = 37;
  static constexpr int64_t num_pages = 12, columns = 3, max_position = 48;

  template <class Draw>
  void fill(const GuardedMemory& memory, Draw draw) const {
    const int64_t width = bit_width(case_.from) / 8;
    for (int64_t i = 0; i < memory.bytes() / width; ++i) {
      const float x = draw();
      std::byte* const to = memory.data() + i * width;
      if (case_.from == DType::f32) std::memcpy(to, &x, 4);
      const uint16_t half =
          case_.from == DType::bf16 ? from_float<bf16>(x).bits : from_float<f16>(x).bits;
      if (width == 2) std::memcpy(to, &half, 2);
    }
  }
  [[nodiscard]] ConstTensor<3> slice(int64_t first_head) const {
    const int64_t width = bit_width(case_.from) / 8;
    AnyTensor<3> t = dense_tensor<3>(source_.data() + first_head * head_size * width, case_.from,
                                     {tokens, heads, head_size});
    t.stride_bytes[0] = 2 * heads * head_size * width;
    return t;
  }
  [[nodiscard]] PagedKVView plane(int64_t which) const {
    const int64_t row = int64_t{head_size} * bit_width(case_.to) / 8;
    PagedKVView v;
    v.data = planes_.data() + which * num_pages * page_size * heads * row;
    v.dtype = case_.to;
    v.num_heads = heads;
    v.head_size = head_size;
    v.page_size = page_size;
    v.num_pages = num_pages;
    v.head_stride_bytes = row;
    v.slot_stride_bytes = heads * row;
    v.page_stride_bytes = page_size * heads * row;
    if (case_.has_scales)
      v.scales = {scales_.data() + which * num_pages * page_size * heads * 4,
                  DType::f32,
                  head_size,
                  page_size * heads * 4,
                  heads * 4,
                  4,
                  0,
                  nullptr};
    return v;
  }

  GpuAppendCase case_;
  GuardedMemory source_{int64_t{tokens} * 2 * heads * head_size * bit_width(case_.from) / 8, 64};
  GuardedMemory planes_{2 * num_pages * page_size * heads * head_size * bit_width(case_.to) / 8,
                        64};
  GuardedMemory scales_{2 * num_pages * page_size * heads * 4, 64};
  GuardedMemory rope_{max_position * head_size * 4, 64}, norm_{head_size * 4, 64};
  GuardedMemory offsets_{4 * 4, 4}, contexts_{3 * 4, 4}, table_{3 * columns * 4, 4};
  Rope rotation_;
  Batch batch_;
  AppendArgs args_;
};

}  // namespace folio::test
