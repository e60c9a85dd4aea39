// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/kernels.cpp: rows that are whole units of aligned vectors go to append_units.h,
/// the rest element by element.
#include "cuda/append/kernels.h"

#include <algorithm>

namespace folio::cuda {
namespace {

constexpr int32_t unit_size = 8;      // elements
constexpr int64_t vector_bytes = 16;  // of a source, and of targets of more than 8 bits
constexpr int32_t lanes_min = 8, lanes_max = 32;
constexpr int64_t warps_of_block = 8;
constexpr int64_t blocks_per_processor = 4;

/// The instance that a plane's rows need; it serves another plane if both are of `units` and have
/// the same `bytes`.
struct Way {
  bool units = false;
  bool general = false;
  int64_t bytes = 0;  ///< of an element of the source
  int32_t lanes = lanes_max;
};

bool is_multiple(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

bool has_vectors(const ConstTensor<3>& source) {
  return is_multiple(source.data, vector_bytes) && source.stride_bytes[0] % vector_bytes == 0 &&
         (source.extent[1] == 1 || source.stride_bytes[1] % vector_bytes == 0);
}
bool has_vectors(const PagedKVView& target) {
  const int64_t bytes = std::min<int64_t>(vector_bytes, bit_width(target.dtype) / 8 * unit_size);
  return is_multiple(target.data, bytes) && target.page_stride_bytes % bytes == 0 &&
         target.slot_stride_bytes % bytes == 0 &&
         (target.num_heads == 1 || target.head_stride_bytes % bytes == 0);
}

/// Pairs and angles in whole units.
bool has_units(const Rope& rope) {
  if (rope.cos_sin == nullptr) return true;
  const int32_t period = rope.interleaved ? unit_size : 2 * unit_size;
  return rope.first_dim % unit_size == 0 && rope.dims % period == 0 &&
         is_multiple(rope.cos_sin, vector_bytes);
}

/// Elements of 8 bits; granules that a power of two of threads share, or that are heads.
bool has_units(const PagedKVView& target, int32_t lanes) {
  const ScaleView& scales = target.scales;
  if (scales.data == nullptr) return true;
  if (bit_width(target.dtype) != 8) return false;
  if (has_computed_scales(target) && scales.tensor_scale != nullptr) return false;
  const int32_t granule = granule_size_of(target), units = granule / unit_size;
  if (granule >= target.head_size) return true;
  return granule % unit_size == 0 && (units & (units - 1)) == 0 && units <= lanes &&
         !heads_share_scales(target);
}

Way way_of(const AppendCall& call, int plane) {
  const auto& [source, target, heads_per_part, parts] = call.planes[plane];
  const bool is_key = plane == 0;
  Way way;
  way.bytes = bit_width(source.dtype) / 8;
  way.general = target.scales.data != nullptr || (is_key && call.norm != nullptr);
  while (way.lanes > lanes_min && target.head_size <= way.lanes / 2 * unit_size) way.lanes /= 2;
  if (way.bytes == 4) {  // rare: fewer instances
    way.general = true;
    way.lanes = std::max(way.lanes, 16);
  }
  way.units = target.head_size % unit_size == 0 && has_vectors(source) && has_vectors(target) &&
              has_units(target, way.lanes);
  if (!is_key) return way;
  const bool fits = !call.in_place || target.head_size <= way.lanes * unit_size;
  way.units = way.units && fits && has_units(call.rope) && is_multiple(call.norm, vector_bytes);
  return way;
}

const char* kernel_of(const Way& way) {
  if (!way.units) return "append_elements";
  if (way.bytes == 4) return way.lanes == 16 ? "append_128_general_f32" : "append_256_general_f32";
  switch (way.lanes) {
    case 8: return way.general ? "append_64_general" : "append_64";
    case 16: return way.general ? "append_128_general" : "append_128";
    default: return way.general ? "append_256_general" : "append_256";
  }
}

/// Few tokens are cut by heads, so that every multiprocessor gets some; of many, a warp takes all
/// heads and reads angles once.
void cut(AppendPlane& plane, const Way& way, int64_t tokens, int32_t processors) {
  const int32_t heads = plane.target.num_heads;
  const int32_t step = way.units ? 32 / way.lanes : 1;
  const int64_t warps = 4 * processors * blocks_per_processor * warps_of_block;
  const int64_t wanted = std::clamp<int64_t>(warps / tokens, 1, (heads + step - 1) / step);
  const auto per_part = static_cast<int32_t>((heads + wanted - 1) / wanted);
  plane.heads_per_part =
      heads_share_scales(plane.target) ? heads : (per_part + step - 1) / step * step;
  plane.parts = (heads + plane.heads_per_part - 1) / plane.heads_per_part;
}

int64_t blocks_of(const AppendCall& call, int32_t processors) {
  const int64_t parts = call.planes[0].parts + call.planes[1].parts;
  const int64_t most = processors * blocks_per_processor;
  if (call.tokens >= most * warps_of_block) return most;
  return std::min(most, (call.tokens * parts + warps_of_block - 1) / warps_of_block);
}

}  // namespace

AppendLaunches append_launches(const AppendCall& call, int32_t processors) noexcept {
  Way ways[2] = {way_of(call, 0), call.num_planes > 1 ? way_of(call, 1) : Way{}};
  const bool is_together = call.num_planes == 1 || ways[0].units == ways[1].units;
  const bool is_one = is_together && (!ways[0].units || call.num_planes == 1 ||
                                      (ways[0].bytes == ways[1].bytes &&
                                       has_units(call.planes[0].target, lanes_max) &&
                                       has_units(call.planes[1].target, lanes_max)));
  AppendLaunches all;
  all.count = is_one ? 1 : 2;
  if (is_one && call.num_planes > 1 && ways[0].units) {
    ways[0].lanes = ways[1].lanes = std::max(ways[0].lanes, ways[1].lanes);
    ways[0].general = ways[1].general = ways[0].general || ways[1].general;
  }
  for (int i = 0; i < all.count; ++i) {
    AppendLaunch& launch = all.launch[i];
    launch.kernel = kernel_of(ways[i]);
    launch.call = call;
    for (int plane = 0; plane < call.num_planes; ++plane) {
      if (is_one || plane == i)
        cut(launch.call.planes[plane], ways[plane], call.tokens, processors);
    }
    launch.blocks = blocks_of(launch.call, processors);
  }
  return all;
}

}  // namespace folio::cuda
