// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/geometry.cpp: what the pages of two ends are like.
#include "tier/transfer/geometry.h"

#include <algorithm>
#include <cstddef>
#include <new>

#include "cache/granule_bytes.h"
#include "folio/cache/page_extents.h"
#include "tier/checks.h"
#include "tier/manager/page_runs.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {
namespace {

// ---- What planes are like

ScaleKind kind_of(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  if (s.data == nullptr) return ScaleKind::none;
  return s.page_stride_bytes == 0 && s.slot_stride_bytes == 0 ? ScaleKind::shared
                                                              : ScaleKind::slots;
}

/// Whether scales that go with slots are ones whose bytes are runs. Zero points beside them are
/// those of pairs.
bool is_movable(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  const bool one_granule = granules(view.head_size, s.granularity) == 1;
  const bool is_packed = zero_point_bytes(s) != 0
                             ? has_pairs(s)
                             : one_granule || s.granule_stride_bytes == bit_width(s.dtype) / 8;
  return s.page_stride_bytes != 0 && s.slot_stride_bytes != 0 &&
         (s.head_stride_bytes != 0 || view.num_heads == 1) && is_packed;
}

RowForm form_of(const PagedKVView& view) {
  RowForm form{.dtype = view.dtype,
               .scale_kind = kind_of(view),
               .hadamard = view.hadamard,
               .has_channel_scales = static_cast<uint8_t>(view.has_channel_scales)};
  if (form.scale_kind == ScaleKind::none) return form;
  form.scale_dtype = view.scales.dtype;
  form.zeros = view.scales.zeros;
  form.granularity = view.scales.granularity;
  return form;
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
  if (view.has_channel_scales) {  // of these heads
    add(&first_head, sizeof(first_head));
    add(view.channel_scales,
        static_cast<size_t>(view.num_heads) * static_cast<size_t>(view.head_size) * sizeof(float));
  }
  if (kind_of(view) != ScaleKind::shared) return crc;
  const int64_t heads = s.head_stride_bytes == 0 ? 1 : view.num_heads;
  const int64_t count = s.granule_stride_bytes == 0 ? 1 : granules(view.head_size, s.granularity);
  // scales of heads are those of these heads
  if (s.head_stride_bytes != 0) add(&first_head, sizeof(first_head));
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t g = 0; g < count; ++g) {
      const auto* const at = static_cast<const std::byte*>(s.data) + h * s.head_stride_bytes +
                             g * s.granule_stride_bytes;
      add(at, static_cast<size_t>(bit_width(s.dtype) / 8));
      add(at + s.zero_offset_bytes, static_cast<size_t>(zero_point_bytes(s)));
    }
  }
  return crc;
}

/// Rows that are alike, in planes of the same extents.
bool is_alike(const PagedKVView& a, const PagedKVView& b) {
  return form_of(a) == form_of(b) && a.num_heads == b.num_heads && a.head_size == b.head_size &&
         a.page_size == b.page_size && order_of(a) == order_of(b);
}

/// V may have other rows than K.
Status check_value(const char* function, const AlikeLayers& of) {
  const auto& [key, value] = of.planes[0];
  if (value.data == nullptr) return {};
  const struct {
    const char* name;
    int64_t value, key;
  } equal[] = {{"num_heads", value.num_heads, key.num_heads},
               {"head_size", value.head_size, key.head_size},
               {"page_size", value.page_size, key.page_size},
               {"storage order", static_cast<int64_t>(order_of(value)),
                static_cast<int64_t>(order_of(key))}};
  for (const auto& e : equal)
    if (e.value != e.key)
      return fail(Errc::unsupported, "{}: {}planes[0].value has {} {}, expected the key's {}",
                  function, of.name, e.name, e.value, e.key);
  return {};
}

Status check_planes(const char* function, const AlikeLayers& of) {
  const KVPlanes& first = of.planes[0];
  // looks at what a view is, for each of them
  if (const auto extents = page_extents(of.planes, 0); !extents)
    return fail(extents.error().code(), "{}: {}{}", function, of.name, extents.error().message());
  const auto unsupported = [&](size_t layer, const char* what) {
    return fail(Errc::unsupported, "{}: {}planes[{}] {}", function, of.name, layer, what);
  };
  if (Status s = check_value(function, of); !s.is_ok()) return s;
  for (size_t layer = 0; layer < of.planes.size(); ++layer) {
    const KVPlanes& planes = of.planes[layer];
    const bool has_value = planes.value.data != nullptr;
    if (has_value != (first.value.data != nullptr) || !is_alike(planes.key, first.key) ||
        (has_value && !is_alike(planes.value, first.value)))
      return unsupported(layer, "differs from planes[0], expected layers that are alike");
    for (const PagedKVView* view : {&planes.key, has_value ? &planes.value : &planes.key}) {
      if (kind_of(*view) == ScaleKind::slots && !is_movable(*view))
        return unsupported(layer,
                           zero_point_bytes(view->scales) != 0
                               ? "has zero points that are no pairs with scales of slots, expected "
                                 "them as make_planes has them, or shared"
                               : "has scales of pages, expected those of slots, packed, or shared");
      if (view->num_pages < of.num_pages)
        return fail(Errc::invalid_argument, "{}: {}planes[{}] has {} pages, expected the pool's {}",
                    function, of.name, layer, view->num_pages, of.num_pages);
    }
  }
  if (first.key.page_size != of.page_size)
    return fail(Errc::invalid_argument,
                "{}: {}planes[0].key.page_size is {}, expected the pool's {}", function, of.name,
                first.key.page_size, of.page_size);
  const auto runs = PageRuns::create(function, of.planes, static_cast<uint32_t>(of.num_pages));
  return runs ? Status() : runs.error();
}

Status check_regions(const char* function, std::span<const TransferRegion> regions) {
  if (regions.data() == nullptr && !regions.empty())
    return fail(Errc::invalid_argument, "{}: end.regions is null, expected regions", function);
  for (size_t i = 0; i < regions.size(); ++i) {
    const TransferRegion& r = regions[i];
    if (r.id == RegionId{} || r.memory.data() == nullptr || r.memory.empty())
      return fail(Errc::invalid_argument,
                  "{}: end.regions[{}] is region {} with {} bytes at {}, expected one that "
                  "add_region has given, and its memory",
                  function, i, r.id.value, r.memory.size(),
                  r.memory.data() == nullptr ? "null" : "an address");
  }
  return {};
}

}  // namespace

Status check_end(const char* function, const TransferEnd& end) noexcept {
  const PoolGroups groups = end.groups.empty() ? PoolGroups::one : PoolGroups::any;
  if (end.transport == nullptr)
    return fail(Errc::invalid_argument, "{}: end.transport is null, expected one", function);
  if (Status s = check_pool(function, "end.pool", end.pool, groups); !s.is_ok()) return s;
  if (end.device != nullptr)
    return fail(Errc::unsupported,
                "{}: end.device is given, expected pages in the host's memory: checksums and "
                "copies read them there",
                function);
  if (Status s = check_regions(function, end.regions); !s.is_ok()) return s;
  if (end.idle_ms < 1 || end.idle_ms > int64_t{1} << 40)
    return fail(Errc::invalid_argument, "{}: end.idle_ms is {}, expected 1 .. 2^40", function,
                end.idle_ms);
  return {};
}

uint32_t shared_crc_of(const KVPlanes& planes, int32_t first_head) noexcept {
  uint32_t crc = 0;
  for (const PagedKVView* view : {&planes.key, &planes.value})
    if (view->data != nullptr) crc = add_shared(crc, *view, first_head);
  return crc;
}

Result<Geometry> geometry_of(const char* function, const AlikeLayers& layers,
                             const Digest256& model) {
  if (Status s = check_planes(function, layers); !s.is_ok()) return s;
  const PagedKVView& key = layers.planes[0].key;
  Geometry g{.model = model,
             .num_layers = static_cast<int32_t>(layers.planes.size()),
             .page_size = key.page_size,
             .head_size = key.head_size,
             .first_head = layers.first_head,
             .num_heads = key.num_heads,
             .total_heads = layers.total_heads == 0 ? key.num_heads : layers.total_heads,
             .key = form_of(key),
             .order = order_of(key),
             .is_mla = static_cast<uint8_t>(layers.planes[0].value.data == nullptr)};
  if (g.is_mla == 0) g.value = form_of(layers.planes[0].value);
  for (const KVPlanes& planes : layers.planes) {
    for (const PagedKVView* view : {&planes.key, &planes.value}) {
      if (view->data == nullptr) continue;
      g.shared_crc = add_shared(g.shared_crc, *view, g.first_head);
      if (view->scales.tensor_scale != nullptr) g.has_tensor_scales = 1;
    }
  }
  if (Status s = check_geometry(g); !s.is_ok())
    return fail(Errc::invalid_argument, "{}: {}{}", function, layers.name, s.message());
  return g;
}

Result<Geometry> geometry_of(const char* function, const TransferEnd& end) noexcept {
  if (Status s = check_end(function, end); !s.is_ok()) return s;
  if (end.planes.empty() || end.planes.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: end.planes is empty, expected those of all layers",
                function);
  try {
    return geometry_of(function,
                       {.planes = end.planes,
                        .first_head = end.first_head,
                        .total_heads = end.total_heads,
                        .num_pages = end.pool->num_pages(),
                        .page_size = end.pool->page_size()},
                       end.model);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for the runs of pages", function);
  }
}

}  // namespace folio::inline v1::tier
