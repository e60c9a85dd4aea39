// SPDX-License-Identifier: Apache-2.0
/// src/cache/page_extents.cpp: the byte runs of a page.
#include "folio/cache/page_extents.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cache/check_view.h"
#include "cache/granule_bytes.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1 {
namespace {

/// Appends `count0` x `count1` runs of `bytes`; a stride of 0 repeats an address, so it is visited
/// once.
void add_runs(std::vector<Extent>& runs, std::byte* data, int64_t bytes, int64_t count0,
              int64_t stride0, int64_t count1, int64_t stride1) {
  if (stride0 == 0) count0 = 1;
  if (stride1 == 0) count1 = 1;
  if (count0 > 1 && count1 > 1 && stride0 < stride1) {
    std::swap(count0, count1);
    std::swap(stride0, stride1);
  }
  if (stride1 == bytes) bytes *= std::exchange(count1, 1);  // packed dimensions become longer runs
  if (count1 == 1 && stride0 == bytes) bytes *= std::exchange(count0, 1);
  for (int64_t i = 0; i < count0; ++i) {
    for (int64_t k = 0; k < count1; ++k) runs.push_back({data + i * stride0 + k * stride1, bytes});
  }
}

void add_plane(std::vector<Extent>& runs, const PagedKVView& view, int64_t page) {
  const int64_t slots = slots_per_page(view);
  add_runs(runs, detail::row_of(view, page, 0, 0), row_bytes(view.dtype, view.head_size), slots,
           view.slot_stride_bytes, view.num_heads, view.head_stride_bytes);
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr || scales.page_stride_bytes == 0) return;
  const int64_t granules =
      scales.granule_stride_bytes != 0 ? granules_of(view.head_size, scales.granularity) : 1;
  for (const auto& [offset, bytes] : granule_bytes(scales)) {
    const bool packed = scales.granule_stride_bytes == bytes;
    for (int64_t granule = 0; granule < (packed ? 1 : granules); ++granule) {
      add_runs(runs,
               static_cast<std::byte*>(scales.data) + offset +
                   detail::scale_offset_bytes(scales, page, 0, 0, granule),
               packed ? granules * bytes : bytes, slots, scales.slot_stride_bytes, view.num_heads,
               scales.head_stride_bytes);
    }
  }
}

/// Sorts by address and joins runs that touch or overlap (a view of V inside K's rows names bytes
/// twice).
void join(std::vector<Extent>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Extent& a, const Extent& b) { return std::less<>()(a.data, b.data); });
  size_t last = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    const int64_t distance = runs[i].data - runs[last].data;
    if (distance <= runs[last].bytes) {
      runs[last].bytes = std::max(runs[last].bytes, distance + runs[i].bytes);
    } else {
      runs[++last] = runs[i];
    }
  }
  if (!runs.empty()) runs.resize(last + 1);
}

Status check_extent_plane(const char* name, const PagedKVView& view, uint32_t page) {
  if (Status s = check_view("page_extents", name, view, PlaneTypes::any); !s.is_ok()) return s;
  if (page < view.num_pages) return {};
  return fail(Errc::invalid_argument,
              "page_extents: page is {}, expected less than {} ({} num_pages)", page,
              view.num_pages, name);
}

}  // namespace

Result<std::vector<Extent>> page_extents(std::span<const KVPlanes> planes, uint32_t page) noexcept {
  for (const KVPlanes& p : planes) {
    if (Status s = check_extent_plane("key", p.key, page); !s.is_ok()) return s;
    if (p.value.data == nullptr) continue;
    if (Status s = check_extent_plane("value", p.value, page); !s.is_ok()) return s;
  }
  try {
    std::vector<Extent> runs;
    for (const KVPlanes& p : planes) {
      add_plane(runs, p.key, page);
      if (p.value.data != nullptr) add_plane(runs, p.value, page);
    }
    join(runs);
    return runs;
  } catch (...) {
    return fail(Errc::out_of_memory, "page_extents: no memory for the runs of page {}", page);
  }
}

}  // namespace folio::inline v1
