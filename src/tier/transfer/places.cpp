// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/places.cpp: where the bytes of a piece lie, in planes and in staging slots.
#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "tier/transfer/geometry.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t section_alignment = 64;

/// Lowest and highest + 1 of a section's bytes, from its first row on.
std::pair<int64_t, int64_t> reach(const PagedKVView& view, const Place& p, int64_t row) {
  int64_t low = 0, high = row;
  const std::pair<int64_t, int64_t> steps[] = {{view.num_pages - 1, p.page_stride},
                                               {view.page_size - 1, p.slot_stride},
                                               {view.num_heads - 1, p.head_stride}};
  for (const auto& [last, stride] : steps) (stride < 0 ? low : high) += last * stride;
  return {low, high};
}

/// The region that has bytes [data + low, data + high), and where `data` lies in it.
std::optional<std::pair<RegionId, int64_t>> find_region(std::span<const TransferRegion> regions,
                                                        const void* data, int64_t low,
                                                        int64_t high) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  for (const TransferRegion& r : regions) {
    const auto begin = reinterpret_cast<uintptr_t>(r.memory.data());
    if (at < begin || at - begin >= r.memory.size()) continue;
    const auto first = static_cast<int64_t>(at - begin);
    if (first + low >= 0 && high <= std::ssize(r.memory) - first) return std::pair(r.id, first);
  }
  return {};
}

}  // namespace

Status add_places(const char* function, std::span<const TransferRegion> regions,
                  const Geometry& geometry, const KVPlanes& planes, size_t layer,
                  std::vector<Place>& places) {
  for (int section = 0; section < num_sections; ++section) {
    const PagedKVView& view = section % 2 == 0 ? planes.key : planes.value;
    const ScaleView& s = view.scales;
    Place& place = places.emplace_back();
    const int64_t row = geometry.row_bytes_of(section);
    if (row == 0) continue;
    const bool is_scale = section >= 2;
    place.page_stride = is_scale ? s.page_stride_bytes : view.page_stride_bytes;
    place.slot_stride = is_scale ? s.slot_stride_bytes : view.slot_stride_bytes;
    place.head_stride = is_scale ? s.head_stride_bytes : view.head_stride_bytes;
    const auto [low, high] = reach(view, place, row);
    const auto found = find_region(regions, is_scale ? s.data : view.data, low, high);
    if (!found)
      return fail(Errc::invalid_argument,
                  "{}: planes[{}].{}{} lies in no region, expected one of end.regions", function,
                  layer, section % 2 == 0 ? "key" : "value", is_scale ? ".scales" : "");
    place.region = found->first.value;
    place.base = found->second;
  }
  return {};
}

Status add_places(const char* function, std::span<const TransferRegion> regions,
                  const Geometry& geometry, const StatePages& state, int64_t num_pages,
                  size_t layer, std::vector<Place>& places) {
  const int64_t last = (num_pages - 1) * state.page_stride_bytes;
  const auto found = find_region(regions, state.data, std::min<int64_t>(last, 0),
                                 std::max<int64_t>(last, 0) + state.bytes);
  if (!found)
    return fail(Errc::invalid_argument,
                "{}: the state of layer {} lies in no region, expected one of end.regions",
                function, layer);
  int64_t before = 0;
  for (const int64_t row : geometry.state_rows) {
    Place& place = places.emplace_back();
    if (row == 0) continue;
    place = {.region = found->first.value,
             .base = found->second + before,
             .page_stride = state.page_stride_bytes,
             .slot_stride = row,
             .head_stride = row};
    before += row * geometry.num_heads;
  }
  return {};
}

SlotLayout slot_layout(const Geometry& sender, int32_t heads) noexcept {
  SlotLayout layout;
  for (int section = 0; section < num_sections; ++section) {
    layout.offset[static_cast<size_t>(section)] = layout.bytes;
    const int64_t bytes = sender.row_bytes_of(section) * heads * sender.page_size;
    layout.bytes += (bytes + section_alignment - 1) / section_alignment * section_alignment;
  }
  return layout;
}

std::array<Place, num_sections> places_in_slot(const Geometry& sender, int32_t heads,
                                               uint32_t region, int64_t base) noexcept {
  const SlotLayout layout = slot_layout(sender, heads);
  std::array<Place, num_sections> places;
  for (size_t section = 0; section < num_sections; ++section) {
    const int64_t row = sender.row_bytes_of(static_cast<int>(section));
    const bool token_major = sender.order == StorageOrder::token_major;
    // unsigned: a peer may have told any base
    const uint64_t first =
        static_cast<uint64_t>(base) + static_cast<uint64_t>(layout.offset[section]);
    places[section] = {.region = region,
                       .base = static_cast<int64_t>(first),
                       .page_stride = row * heads * sender.page_size,
                       .slot_stride = token_major ? row * heads : row,
                       .head_stride = token_major ? row : row * sender.page_size};
  }
  return places;
}

void add_piece_runs(const Geometry& sender, std::span<const Place> places, const PieceBox& box,
                    std::vector<RegionRun>& runs) {
  const bool token_major = sender.order == StorageOrder::token_major;
  const int32_t outer = token_major ? box.tokens : box.heads;
  const int32_t inner = token_major ? box.heads : box.tokens;
  for (int section = 0; section < num_sections; ++section) {
    const int64_t row = sender.row_bytes_of(section);
    if (row == 0) continue;
    const Place& p = places[static_cast<size_t>(section)];
    // Unsigned: a peer may have told any numbers. The transport refuses what lies outside.
    const auto u = [](auto number) { return static_cast<uint64_t>(number); };
    const uint64_t outer_stride = u(token_major ? p.slot_stride : p.head_stride);
    const uint64_t inner_stride = u(token_major ? p.head_stride : p.slot_stride);
    const uint64_t first =
        u(p.base) + u(box.page) * u(p.page_stride) + u(box.head) * u(p.head_stride);
    for (int32_t o = 0; o < outer; ++o) {
      for (int32_t i = 0; i < inner; ++i) {
        const uint64_t offset = first + u(o) * outer_stride + u(i) * inner_stride;
        RegionRun* const last = runs.empty() ? nullptr : &runs.back();
        if (last != nullptr && last->region.value == p.region &&
            u(last->offset) + u(last->bytes) == offset)
          last->bytes += row;
        else
          runs.push_back({{p.region}, static_cast<int64_t>(offset), row});
      }
    }
  }
}

// ---- Planes over places

KVPlanes with_heads(const KVPlanes& planes, int32_t head, int32_t heads) {
  KVPlanes narrow = planes;
  for (PagedKVView* view : {&narrow.key, &narrow.value}) {
    if (view->data == nullptr) continue;
    view->data = static_cast<std::byte*>(view->data) + head * view->head_stride_bytes;
    view->num_heads = heads;
    if (view->scales.data != nullptr)
      view->scales.data =
          static_cast<std::byte*>(view->scales.data) + head * view->scales.head_stride_bytes;
    if (view->channel_scales != nullptr) view->channel_scales += int64_t{head} * view->head_size;
  }
  return narrow;
}

KVPlanes planes_in_slot(const Geometry& sender, int32_t heads, std::byte* slot,
                        const KVPlanes& receiver, const Geometry& receiver_geometry) {
  const auto places = places_in_slot(sender, heads, 0, 0);
  const bool shares = sender.has_bytes_of(receiver_geometry);
  const auto view_of = [&](size_t k, const RowForm& form, const PagedKVView& of_receiver) {
    const Place& values = places[k];
    PagedKVView view{.data = slot + values.base,
                     .dtype = form.dtype,
                     .num_heads = heads,
                     .head_size = sender.head_size,
                     .page_size = sender.page_size,
                     .num_pages = 1,
                     .page_stride_bytes = values.page_stride,
                     .slot_stride_bytes = values.slot_stride,
                     .head_stride_bytes = values.head_stride,
                     .hadamard = form.hadamard,
                     .has_channel_scales = form.has_channel_scales != 0};
    if (form.scale_kind == ScaleKind::shared && shares) view.scales = of_receiver.scales;
    if (shares) view.scales.tensor_scale = of_receiver.scales.tensor_scale;
    if (shares) view.channel_scales = of_receiver.channel_scales;
    if (form.scale_kind != ScaleKind::slots) return view;
    const Place& scales = places[k + 2];
    const int64_t element = bit_width(form.scale_dtype) / 8;
    view.scales.data = slot + scales.base;
    view.scales.dtype = form.scale_dtype;
    view.scales.granularity = form.granularity;
    view.scales.page_stride_bytes = scales.page_stride;
    view.scales.slot_stride_bytes = scales.slot_stride;
    view.scales.head_stride_bytes = scales.head_stride;
    view.scales.granule_stride_bytes = form.granule_bytes();
    view.scales.zeros = form.zeros;
    if (form.granule_bytes() != element) view.scales.zero_offset_bytes = element;
    return view;
  };
  return {.key = view_of(0, sender.key, receiver.key),
          .value = sender.is_mla != 0 ? PagedKVView{} : view_of(1, sender.value, receiver.value)};
}

}  // namespace folio::inline v1::tier
