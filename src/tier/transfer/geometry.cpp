// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/geometry.cpp: pages of two ends, and where their bytes lie.
#include "tier/transfer/geometry.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "folio/cache/page_extents.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t section_alignment = 64;

int64_t granules(int32_t head_size, int32_t granularity) {
  return (int64_t{head_size} + granularity - 1) / granularity;
}

// ---- What planes are like

ScaleKind kind_of(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  if (s.data == nullptr) return ScaleKind::none;
  return s.page_stride_bytes == 0 && s.slot_stride_bytes == 0 ? ScaleKind::shared
                                                              : ScaleKind::slots;
}

/// Whether scales that go with slots are ones whose bytes are runs.
bool is_movable(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  const bool one_granule = granules(view.head_size, s.granularity) == 1;
  return s.page_stride_bytes != 0 && s.slot_stride_bytes != 0 &&
         (s.head_stride_bytes != 0 || view.num_heads == 1) &&
         (one_granule || s.granule_stride_bytes == bit_width(s.dtype) / 8);
}

StorageOrder order_of(const PagedKVView& view) {
  const bool token_major = view.num_heads == 1 || view.page_size == 1 ||
                           view.slot_stride_bytes >= view.head_stride_bytes;
  return token_major ? StorageOrder::token_major : StorageOrder::head_major;
}

uint32_t add_shared(uint32_t crc, const PagedKVView& view, int32_t first_head) {
  const auto add = [&](const void* data, size_t bytes) {
    crc = extend_crc(crc, static_cast<const std::byte*>(data), static_cast<int64_t>(bytes));
  };
  const ScaleView& s = view.scales;
  const float one = 1;
  add(s.tensor_scale != nullptr ? s.tensor_scale : &one, sizeof(float));
  if (kind_of(view) != ScaleKind::shared) return crc;
  const int64_t heads = s.head_stride_bytes == 0 ? 1 : view.num_heads;
  const int64_t count = s.granule_stride_bytes == 0 ? 1 : granules(view.head_size, s.granularity);
  // scales of heads are those of these heads
  if (s.head_stride_bytes != 0) add(&first_head, sizeof(first_head));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t g = 0; g < count; ++g)
      add(static_cast<const std::byte*>(s.data) + h * s.head_stride_bytes +
              g * s.granule_stride_bytes,
          static_cast<size_t>(bit_width(s.dtype) / 8));
  return crc;
}

bool is_alike(const PagedKVView& a, const PagedKVView& b) {
  return a.dtype == b.dtype && a.num_heads == b.num_heads && a.head_size == b.head_size &&
         a.page_size == b.page_size && kind_of(a) == kind_of(b) &&
         a.scales.dtype == b.scales.dtype && a.scales.granularity == b.scales.granularity &&
         order_of(a) == order_of(b);
}

Status check_planes(const char* function, const TransferEnd& end) {
  const KVPlanes& first = end.planes[0];
  // looks at what a view is, for each of them
  if (const auto extents = page_extents(end.planes, 0); !extents) return extents.error();
  const auto unsupported = [&](size_t layer, const char* what) {
    return fail(Errc::unsupported, "{}: planes[{}] {}", function, layer, what);
  };
  for (size_t layer = 0; layer < end.planes.size(); ++layer) {
    const KVPlanes& planes = end.planes[layer];
    const bool has_value = planes.value.data != nullptr;
    if (has_value != (first.value.data != nullptr) || !is_alike(planes.key, first.key) ||
        (has_value && !is_alike(planes.value, first.key)))
      return unsupported(layer, "differs from planes[0].key, expected layers that are alike");
    for (const PagedKVView* view : {&planes.key, has_value ? &planes.value : &planes.key}) {
      if (kind_of(*view) == ScaleKind::slots && !is_movable(*view))
        return unsupported(layer,
                           "has scales of pages, expected those of slots, packed, or shared");
      if (view->num_pages < end.pool->num_pages())
        return fail(Errc::invalid_argument, "{}: planes[{}] has {} pages, expected the pool's {}",
                    function, layer, view->num_pages, end.pool->num_pages());
    }
  }
  if (first.key.page_size == end.pool->page_size()) return {};
  return fail(Errc::invalid_argument, "{}: planes[0].key.page_size is {}, expected the pool's {}",
              function, first.key.page_size, end.pool->page_size());
}

Status check_end(const char* function, const TransferEnd& end) {
  const auto refuse = [&](const char* what, const char* expected) {
    return fail(Errc::invalid_argument, "{}: {} is {}", function, what, expected);
  };
  if (end.transport == nullptr) return refuse("end.transport", "null, expected one");
  if (end.pool == nullptr) return refuse("end.pool", "null, expected one");
  if (end.pool->num_groups() != 1)
    return refuse("end.pool", "one of several groups, expected one group");
  if (end.planes.empty() || end.planes.data() == nullptr)
    return refuse("end.planes", "empty, expected those of all layers");
  if (end.regions.data() == nullptr && !end.regions.empty())
    return refuse("end.regions", "null, expected regions");
  if (end.idle_ms < 1 || end.idle_ms > int64_t{1} << 40)
    return fail(Errc::invalid_argument, "{}: end.idle_ms is {}, expected 1 .. 2^40", function,
                end.idle_ms);
  return {};
}

}  // namespace

int64_t Geometry::row_bytes_of(int section) const noexcept {
  const bool is_value = section % 2 == 1;
  if (is_value && is_mla != 0) return 0;
  if (section < 2) return row_bytes(dtype, head_size);
  if (scale_kind != ScaleKind::slots) return 0;
  return granules(head_size, granularity) * bit_width(scale_dtype) / 8;
}

bool Geometry::has_bytes_of(const Geometry& other) const noexcept {
  return dtype == other.dtype && scale_kind == other.scale_kind &&
         scale_dtype == other.scale_dtype && granularity == other.granularity &&
         shared_crc == other.shared_crc;
}

Result<Geometry> geometry_of(const char* function, const TransferEnd& end) noexcept {
  if (Status s = check_end(function, end); !s.is_ok()) return s;
  if (Status s = check_planes(function, end); !s.is_ok()) return s;
  const PagedKVView& key = end.planes[0].key;
  Geometry g{.model = end.model,
             .num_layers = static_cast<int32_t>(end.planes.size()),
             .page_size = key.page_size,
             .head_size = key.head_size,
             .first_head = end.first_head,
             .num_heads = key.num_heads,
             .total_heads = end.total_heads == 0 ? key.num_heads : end.total_heads,
             .dtype = key.dtype,
             .scale_kind = kind_of(key),
             .order = order_of(key),
             .is_mla = static_cast<uint8_t>(end.planes[0].value.data == nullptr)};
  if (g.scale_kind != ScaleKind::none)
    g.scale_dtype = key.scales.dtype, g.granularity = key.scales.granularity;
  for (const KVPlanes& planes : end.planes) {
    for (const PagedKVView* view : {&planes.key, &planes.value}) {
      if (view->data == nullptr) continue;
      g.shared_crc = add_shared(g.shared_crc, *view, g.first_head);
      if (view->scales.tensor_scale != nullptr) g.has_tensor_scales = 1;
    }
  }
  if (Status s = check_geometry(g); !s.is_ok())
    return fail(Errc::invalid_argument, "{}: {}", function, s.message());
  return g;
}

// ---- Two ends

Status check_geometry(const Geometry& g) noexcept {
  const struct {
    const char* name;
    int64_t is, first, last;
  } ranges[] = {{"num_layers", g.num_layers, 1, 1 << 12},
                {"page_size", g.page_size, 1, 1 << 16},
                {"head_size", g.head_size, 1, 1 << 16},
                {"num_heads", g.num_heads, 1, 1 << 12},
                {"total_heads", g.total_heads, g.num_heads, 1 << 12},
                {"first_head", g.first_head, 0, int64_t{g.total_heads} - g.num_heads},
                {"scale_kind", static_cast<int64_t>(g.scale_kind), 0, 2},
                {"order", static_cast<int64_t>(g.order), 0, 1},
                {"is_mla", g.is_mla, 0, 1},
                {"has_tensor_scales", g.has_tensor_scales, 0, 1}};
  for (const auto& r : ranges)
    if (r.is < r.first || r.is > r.last)
      return fail(Errc::invalid_argument, "{} is {}, expected {} .. {}", r.name, r.is, r.first,
                  r.last);
  const bool is_block = detail::is_block(g.dtype);
  if ((!is_block && (!detail::is_supported(g.dtype) || g.dtype == DType::f8_e8m0)) ||
      g.head_size % block_elements(g.dtype) != 0)
    return fail(Errc::invalid_argument,
                "dtype is {}, expected one that planes have with heads of {}",
                static_cast<int>(g.dtype), g.head_size);
  if (g.scale_kind == ScaleKind::none) return {};
  if (is_block || !detail::is_scale_dtype(g.scale_dtype))
    return fail(Errc::invalid_argument, "scale_dtype is {}, expected one that scales have",
                static_cast<int>(g.scale_dtype));
  if (g.granularity >= 1) return {};
  return fail(Errc::invalid_argument, "granularity is {}, expected 1 or more", g.granularity);
}

HeadRange common_heads(const Geometry& a, const Geometry& b) noexcept {
  const int32_t first = std::max(a.first_head, b.first_head);
  const int32_t end = std::min(a.first_head + a.num_heads, b.first_head + b.num_heads);
  return {first, std::max(end - first, 0)};
}

Status check_pair(const Geometry& s, const Geometry& r) noexcept {
  if (s.model != r.model) return fail(Errc::unsupported, "the models of the two ends differ");
  const struct {
    const char* name;
    int64_t sender, receiver;
  } equal[] = {{"num_layers", s.num_layers, r.num_layers},
               {"head_size", s.head_size, r.head_size},
               {"total_heads", s.total_heads, r.total_heads},
               {"is_mla", s.is_mla, r.is_mla}};
  for (const auto& e : equal)
    if (e.sender != e.receiver)
      return fail(Errc::unsupported, "{} is {}, expected the receiver's {}", e.name, e.sender,
                  e.receiver);
  if (common_heads(s, r).count == 0)
    return fail(Errc::unsupported, "the sender has heads {} .. {}, expected some of {} .. {}",
                s.first_head, s.first_head + s.num_heads - 1, r.first_head,
                r.first_head + r.num_heads - 1);
  const bool shares = s.scale_kind == ScaleKind::shared || s.has_tensor_scales != 0;
  if (shares && !s.has_bytes_of(r))
    return fail(Errc::unsupported,
                "the sender's pages share scales, expected a receiver with equal ones and the same "
                "dtype");
  return {};
}

bool is_direct(const Geometry& s, const Geometry& r) noexcept {
  if (!s.has_bytes_of(r) || s.page_size != r.page_size) return false;
  // Where only some heads come, those of a token-major page are a run for each token: a staged copy
  // costs less than so many small writes.
  const bool all_heads = common_heads(s, r).count == r.num_heads;
  const bool one_head = r.num_heads == 1;
  if (all_heads && one_head) return true;
  return s.order == r.order && (all_heads || r.order == StorageOrder::head_major);
}

// ---- Places

namespace {

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
    const auto first = static_cast<int64_t>(at - begin);
    if (first + low >= 0 && first + high <= std::ssize(r.memory)) return std::pair(r.id, first);
  }
  return {};
}

}  // namespace

Result<std::vector<Place>> places_of(const char* function, const TransferEnd& end,
                                     const Geometry& geometry) noexcept {
  try {
    std::vector<Place> places;
    for (size_t layer = 0; layer < end.planes.size(); ++layer) {
      for (int section = 0; section < num_sections; ++section) {
        const KVPlanes& planes = end.planes[layer];
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
        const auto found = find_region(end.regions, is_scale ? s.data : view.data, low, high);
        if (!found)
          return fail(Errc::invalid_argument,
                      "{}: planes[{}].{}{} lies in no region, expected one of end.regions",
                      function, layer, section % 2 == 0 ? "key" : "value",
                      is_scale ? ".scales" : "");
        place.region = found->first.value;
        place.base = found->second;
      }
    }
    return places;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for places", function);
  }
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

// ---- Planes

KVPlanes with_heads(const KVPlanes& planes, int32_t head, int32_t heads) {
  KVPlanes narrow = planes;
  for (PagedKVView* view : {&narrow.key, &narrow.value}) {
    if (view->data == nullptr) continue;
    view->data = static_cast<std::byte*>(view->data) + head * view->head_stride_bytes;
    view->num_heads = heads;
    if (view->scales.data != nullptr)
      view->scales.data =
          static_cast<std::byte*>(view->scales.data) + head * view->scales.head_stride_bytes;
  }
  return narrow;
}

KVPlanes planes_in_slot(const Geometry& sender, int32_t heads, std::byte* slot,
                        const KVPlanes& receiver, const Geometry& receiver_geometry) {
  const auto places = places_in_slot(sender, heads, 0, 0);
  const bool shares = sender.has_bytes_of(receiver_geometry);
  const auto view_of = [&](size_t k, const PagedKVView& of_receiver) {
    const Place& values = places[k];
    PagedKVView view{.data = slot + values.base,
                     .dtype = sender.dtype,
                     .num_heads = heads,
                     .head_size = sender.head_size,
                     .page_size = sender.page_size,
                     .num_pages = 1,
                     .page_stride_bytes = values.page_stride,
                     .slot_stride_bytes = values.slot_stride,
                     .head_stride_bytes = values.head_stride};
    if (sender.scale_kind == ScaleKind::shared && shares) view.scales = of_receiver.scales;
    if (shares) view.scales.tensor_scale = of_receiver.scales.tensor_scale;
    if (sender.scale_kind != ScaleKind::slots) return view;
    const Place& scales = places[k + 2];
    view.scales.data = slot + scales.base;
    view.scales.dtype = sender.scale_dtype;
    view.scales.granularity = sender.granularity;
    view.scales.page_stride_bytes = scales.page_stride;
    view.scales.slot_stride_bytes = scales.slot_stride;
    view.scales.head_stride_bytes = scales.head_stride;
    view.scales.granule_stride_bytes = bit_width(sender.scale_dtype) / 8;
    return view;
  };
  return {.key = view_of(0, receiver.key),
          .value = sender.is_mla != 0 ? PagedKVView{} : view_of(1, receiver.value)};
}

}  // namespace folio::inline v1::tier
