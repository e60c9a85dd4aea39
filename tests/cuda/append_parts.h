// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/append_parts.h: append and rotate as the border puts them on a device, run through
/// the emulator, and planes compared byte for byte.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/append/append_elements.h"
#include "cuda/append/append_units.h"
#include "cuda/append/kernels.h"
#include "folio/attention/append.h"
#include "folio/testing/cta/grid.h"
#include "reference/elements.h"
#include "support/test_plane.h"

namespace folio::test {

/// Bytes of a strided box of elements, [first, last].
struct Extent {
  const std::byte* first = nullptr;
  int64_t bytes = 0;
};

inline Extent extent_of(const PagedKVView& v) {
  const int64_t slots = v.page_size == unbounded_page_size ? 1 : v.page_size;
  return {static_cast<const std::byte*>(v.data), (v.num_pages - 1) * v.page_stride_bytes +
                                                     (slots - 1) * v.slot_stride_bytes +
                                                     (v.num_heads - 1) * v.head_stride_bytes +
                                                     v.head_size * int64_t{bit_width(v.dtype) / 8}};
}
inline Extent extent_of_scales(const PagedKVView& v) {
  const ScaleView& s = v.scales;
  const int64_t slots = v.page_size == unbounded_page_size ? 1 : v.page_size;
  const int64_t granules = (v.head_size + s.granularity - 1) / s.granularity;
  return {static_cast<const std::byte*>(s.data),
          (v.num_pages - 1) * s.page_stride_bytes + (slots - 1) * s.slot_stride_bytes +
              (v.num_heads - 1) * s.head_stride_bytes + (granules - 1) * s.granule_stride_bytes +
              bit_width(s.dtype) / 8};
}
inline Extent extent_of(const ConstTensor<3>& t) {
  return {static_cast<const std::byte*>(t.data), (t.extent[0] - 1) * t.stride_bytes[0] +
                                                     (t.extent[1] - 1) * t.stride_bytes[1] +
                                                     t.extent[2] * (bit_width(t.dtype) / 8)};
}

/// All that a call may read, and all that it may write.
inline void add_memory(emulator::Grid& grid, const cuda::AppendCall& call) {
  const auto input = [&](const char* name, const void* data, int64_t bytes) {
    if (data != nullptr) grid.add_input(name, data, bytes);
  };
  const auto buffer = [&](const char* name, const Extent& extent) {
    grid.add_buffer(name, const_cast<std::byte*>(extent.first), extent.bytes, true);
  };
  for (int i = 0; i < call.num_planes; ++i) {
    const auto& [source, target, heads, parts] = call.planes[i];
    if (!call.in_place) input("source", source.data, extent_of(source).bytes);
    buffer("plane", extent_of(target));
    if (target.scales.data != nullptr) buffer("scales", extent_of_scales(target));
    input("tensor_scale", target.scales.tensor_scale, 4);
  }
  const int64_t size = call.batch.size;
  input("slots", call.slots, call.tokens * 8);
  input("offsets", call.batch.query_offsets, (size + 1) * 4);
  input("contexts", call.batch.context_lengths, size * 4);
  input("query positions", call.batch.query_positions, size * 4);
  input("key positions", call.batch.key_positions, size * 4);
  input("row starts", call.batch.table.row_starts, size * 8);
  input("cos_sin", call.rope.cos_sin, call.rope.rows * call.rope.dims * 4);
  input("positions", call.rope.positions, call.tokens * 4);
  input("norm", call.norm, call.planes[0].target.head_size * int64_t{4});
}

template <class Kernel>
std::string run_kernel(emulator::Grid& grid, const cuda::AppendCall& call) {
  return grid.run([&](emulator::EmulatedThread& t) { Kernel::run(t, call); });
}

/// The instance by the name that it has in kernels.txt. "" or what went wrong.
inline std::string run_instance(std::string_view name, emulator::Grid& grid,
                                const cuda::AppendCall& call) {
  using namespace cuda;
  if (name == "append_64") return run_kernel<AppendUnits<8, 2, false>>(grid, call);
  if (name == "append_128") return run_kernel<AppendUnits<16, 2, false>>(grid, call);
  if (name == "append_256") return run_kernel<AppendUnits<32, 2, false>>(grid, call);
  if (name == "append_64_general") return run_kernel<AppendUnits<8, 2, true>>(grid, call);
  if (name == "append_128_general") return run_kernel<AppendUnits<16, 2, true>>(grid, call);
  if (name == "append_256_general") return run_kernel<AppendUnits<32, 2, true>>(grid, call);
  if (name == "append_128_general_f32") return run_kernel<AppendUnits<16, 4, true>>(grid, call);
  if (name == "append_256_general_f32") return run_kernel<AppendUnits<32, 4, true>>(grid, call);
  if (name == "append_elements") return run_kernel<AppendElements>(grid, call);
  return "no instance " + std::string(name);
}

/// How a call is emulated.
struct Emulation {
  int32_t processors = 1;
  int resident = 2;
  uint64_t seed = 1;
  int64_t blocks = 0;  ///< 0: as many as the border launches
  const void* entries = nullptr;
  int64_t num_entries = 0;
};

/// The launches of a call, one after the other. `kernels` (may be null) gets their names.
inline std::string emulate(const cuda::AppendCall& call, const Emulation& how,
                           std::vector<std::string>* kernels = nullptr) {
  const cuda::AppendLaunches launches = cuda::append_launches(call, how.processors);
  for (int i = 0; i < launches.count; ++i) {
    const cuda::AppendLaunch& launch = launches.launch[i];
    const int64_t blocks = how.blocks > 0 ? how.blocks : launch.blocks;
    emulator::Grid grid({.blocks = static_cast<int>(blocks),
                         .resident = how.resident,
                         .threads = 256,
                         .shared_bytes = 0,
                         .seed = how.seed});
    add_memory(grid, launch.call);
    if (how.entries != nullptr) grid.add_input("entries", how.entries, how.num_entries * 4);
    if (kernels != nullptr) kernels->emplace_back(launch.kernel);
    const std::string fault = run_instance(launch.kernel, grid, launch.call);
    if (!fault.empty()) return std::string(launch.kernel) + ": " + fault;
  }
  return {};
}

/// Every NaN of the plane's elements becomes one NaN: which one it is, is nobody's promise.
inline void forget_nan_payloads(const TestPlane& plane) {
  const PagedKVView& v = plane.view;
  const int64_t width = bit_width(v.dtype) / 8;
  const int64_t slots = v.page_size == unbounded_page_size ? 1 : v.page_size;
  for (int64_t page = 0; page < v.num_pages; ++page)
    for (int64_t slot = 0; slot < slots; ++slot)
      for (int64_t head = 0; head < v.num_heads; ++head)
        for (int64_t d = 0; d < v.head_size; ++d) {
          std::byte* at = plane.element(page, slot, head, d);
          const double x = reference::load(at, v.dtype);
          if (x != x) std::memset(at, 0xff, static_cast<size_t>(width));
        }
}

}  // namespace folio::test
