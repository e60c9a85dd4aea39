// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_copy_cases.h: copies of pages and of slots on a GPU, compared byte for byte with
/// the CPU's.
#pragma once

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "cuda/gpu_mirror.h"
#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/element.h"
#include "support/cuda_device.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {

struct GpuCopyCase {
  const char* name;
  DType from;
  DType to;
  bool of_slots = false;
  bool has_scales = false;  ///< of 8 bits: f32, one per token and head
  bool to_rows = false;     ///< of a tensor: unbounded pages
  int32_t granularity = 0;  ///< of scales, where there are more
  bool swaps = false;       ///< out to pinned host memory, and back
};

inline std::vector<GpuCopyCase> gpu_copy_cases(bool only_smallest) {
  std::vector<GpuCopyCase> cases = {
      {"pages of bf16", DType::bf16, DType::bf16},
      {"slots of bf16", DType::bf16, DType::bf16, true},
      {"pages of f32 to f16", DType::f32, DType::f16},
      {"pages of e4m3 with scales", DType::f8_e4m3, DType::f8_e4m3, false, true},
      {"pages of bf16 to e4m3 with scales", DType::bf16, DType::f8_e4m3, false, true},
      {"pages of i8 with a scale per 32 columns", DType::i8, DType::i8, false, true, false, 32},
      {"slots of bf16 to i8 with scales", DType::bf16, DType::i8, true, true},
      {"slots of bf16 to rows", DType::bf16, DType::bf16, true, false, true},
      {"slots of e4m3 with scales to rows", DType::f8_e4m3, DType::f8_e4m3, true, true, true},
      {"pages of bf16 to pinned memory and back", DType::bf16, DType::bf16, false, false, false, 0,
       true}};
  if (only_smallest) cases.resize(2);
  return cases;
}

/// Planes of two layers on either side, and a list whose entries read what earlier ones write.
class GpuCopy {
 public:
  explicit GpuCopy(const GpuCopyCase& c) : case_(c) {
    Rng rng(19);
    const int64_t width = bit_width(c.from) / 8;
    for (int64_t i = 0; i < from_blocks_.bytes() / width; ++i)
      put(c.from, from_blocks_.data() + i * width, rng.uniform(-4.0f, 4.0f), rng);
    for (int64_t i = 0; i < from_scales_.bytes() / 4; ++i)
      put(DType::f32, from_scales_.data() + i * 4, rng.uniform(0.01f, 1.0f), rng);
    for (const GuardedMemory* const memory : {&to_blocks_, &to_scales_})
      std::memset(memory->data(), 0, static_cast<size_t>(memory->bytes()));
    const PageCopy pages[] = {{0, 3, page_size}, {5, 1, 3}, {2, 3, 9}, {4, 4, 0}, {1, 0, 16}};
    std::memcpy(pages_.data(), pages, sizeof pages);
    const SlotCopy slots[] = {{40, 0}, {3, 17}, {40, 63}, {95, 17}, {0, 1}};
    std::memcpy(slots_.data(), slots, sizeof slots);
    for (uint32_t i = 0; i < num_pages; ++i) whole_.as<PageCopy>()[i] = {i, i, page_size};
  }

  /// Also a status that names what differs.
  Status run(const CudaDevice& device) const {
    const GpuMirror mirror(device);
    const Planes from = planes(case_.from, false, from_blocks_.span(), from_scales_.span()),
                 to = planes(case_.to, case_.to_rows, to_blocks_.span(), to_scales_.span());
    const Planes from_there = translated(mirror, from), to_there = translated(mirror, to);
    const auto copy = [&](auto on_cpu, auto on_device, auto* list) -> Status {
      if (Status s = on_cpu(from, to, std::span(list, entries), serial_executor()); !s.is_ok())
        return s;
      return on_device(from_there, to_there, std::span(mirror.at(list), entries), device.device(),
                       Stream());
    };
    if (Status s = case_.of_slots ? copy(copy_slots, copy_slots_async, slots_.as<const SlotCopy>())
                                  : copy(copy_pages, copy_pages_async, pages_.as<const PageCopy>());
        !s.is_ok())
      return s;
    if (case_.swaps) {
      if (Status s = swap(device, mirror, to_there, from_there); !s.is_ok()) return s;
      if (Status s =
              copy_pages(to, from, {whole_.as<const PageCopy>(), num_pages}, serial_executor());
          !s.is_ok())
        return s;
    }
    device.synchronise();
    for (const auto& [memory, name] : {std::pair{&to_blocks_, "values"},
                                       {&to_scales_, "scales"},
                                       {&from_blocks_, "values that were read"}})
      if (Status s = mirror.compare(*memory, name); !s.is_ok()) return s;
    return {};
  }

 private:
  using Planes = std::vector<KVPlanes>;
  static constexpr int32_t layers = 2, heads = 2, head_size = 64, page_size = 16, num_pages = 6;
  static constexpr size_t entries = 5;
  static constexpr int64_t rows = layers * 2 * num_pages * page_size * heads;

  [[nodiscard]] int64_t scale_bytes() const {
    return rows * 4 * (case_.granularity == 0 ? 1 : head_size / case_.granularity);
  }
  static void put(DType dtype, std::byte* at, float x, Rng& rng) {
    if (dtype == DType::f32) {
      std::memcpy(at, &x, 4);
    } else if (dtype == DType::bf16) {
      const uint16_t bits = from_float<bf16>(x).bits;
      std::memcpy(at, &bits, 2);
    } else {
      *at = static_cast<std::byte>(rng.next());
    }
  }
  static Planes translated(const GpuMirror& mirror, Planes planes) {
    for (KVPlanes& layer : planes) layer = mirror.translated(layer);
    return planes;
  }
  /// All pages of `from`, by way of the host, to `to`.
  [[nodiscard]] Status swap(const CudaDevice& device, const GpuMirror& mirror, const Planes& from,
                            const Planes& to) const {
    const PinnedMemory pinned(device, to_blocks_.bytes());
    const Planes there = planes(case_.to, false, pinned.span(), {});
    const std::span<const PageCopy> list(mirror.at(whole_.as<const PageCopy>()), num_pages);
    for (const auto& [source, target] : {std::pair{&from, &there}, {&there, &to}})
      if (Status s = copy_pages_async(*source, *target, list, device.device(), Stream());
          !s.is_ok())
        return s;
    device.synchronise();
    return {};
  }
  [[nodiscard]] Planes planes(DType dtype, bool as_rows, MemorySpan blocks,
                              MemorySpan scales) const {
    const bool has_scales = case_.has_scales && bit_width(dtype) == 8;
    KVShape shape{layers, heads, head_size, page_size, dtype};
    if (as_rows) shape.page_size = unbounded_page_size;
    if (has_scales) shape.scale_dtype = DType::f32;
    if (has_scales) shape.quantization_granularity = case_.granularity;
    return make_planes(shape, as_rows ? num_pages * page_size : num_pages, blocks,
                       has_scales ? scales : MemorySpan{})
        .value();
  }

  GpuCopyCase case_;
  GuardedMemory from_blocks_{rows * head_size * bit_width(case_.from) / 8, 64};
  GuardedMemory to_blocks_{rows * head_size * bit_width(case_.to) / 8, 64};
  GuardedMemory from_scales_{scale_bytes(), 64}, to_scales_{scale_bytes(), 64};
  GuardedMemory pages_{entries * sizeof(PageCopy), 64}, slots_{entries * sizeof(SlotCopy), 64};
  GuardedMemory whole_{num_pages * sizeof(PageCopy), 64};
};

}  // namespace folio::test
