// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/geometry.cpp: what the pages of two ends are like.
#include "tier/transfer/geometry.h"

#include <algorithm>
#include <cstddef>
#include <new>

#include "folio/cache/page_extents.h"
#include "tier/checks.h"
#include "tier/manager/page_runs.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {
namespace {

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
  if (const auto extents = page_extents(end.planes, 0); !extents)
    return fail(extents.error().code(), "{}: {}", function, extents.error().message());
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
  if (first.key.page_size != end.pool->page_size())
    return fail(Errc::invalid_argument, "{}: planes[0].key.page_size is {}, expected the pool's {}",
                function, first.key.page_size, end.pool->page_size());
  const auto runs = PageRuns::create(function, end.planes, end.pool->num_pages());
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

Status check_end(const char* function, const TransferEnd& end) {
  const auto refuse = [&](const char* what, const char* expected) {
    return fail(Errc::invalid_argument, "{}: {} is {}", function, what, expected);
  };
  if (end.transport == nullptr) return refuse("end.transport", "null, expected one");
  if (Status s = check_pool(function, "end.pool", end.pool); !s.is_ok()) return s;
  if (end.planes.empty() || end.planes.data() == nullptr)
    return refuse("end.planes", "empty, expected those of all layers");
  if (Status s = check_regions(function, end.regions); !s.is_ok()) return s;
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
  try {
    if (Status s = check_planes(function, end); !s.is_ok()) return s;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory for the runs of pages", function);
  }
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
  if ((!is_block && !detail::is_plane_dtype(g.dtype)) || g.head_size % block_elements(g.dtype) != 0)
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

}  // namespace folio::inline v1::tier
