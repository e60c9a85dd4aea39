// SPDX-License-Identifier: Apache-2.0
/// tier/host/planes_in.cpp: planes over pages as their payloads have them.
#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include "cache/granule_bytes.h"
#include "folio/tier/host_pages.h"
#include "tier/manager/page_runs.h"
#include "tier/page_parts.h"

namespace folio::inline v1::tier {
namespace {

/// Where each run of page 0 lies in its payload.
class PayloadRuns {
 public:
  explicit PayloadRuns(std::vector<Extent> runs) : runs_(std::move(runs)) {}

  /// Bytes from the payload's first to the part's first; -1 where no run has all of the part.
  [[nodiscard]] int64_t offset_of(const PagePart& part) const {
    const std::less_equal<> reaches;
    int64_t offset = 0;
    for (const Extent& run : runs_) {
      const std::byte* const begin = run.data;
      if (reaches(begin, part.begin) && reaches(part.end, begin + run.bytes))
        return offset + (part.begin - begin);
      offset += run.bytes;
    }
    return -1;
  }

 private:
  std::vector<Extent> runs_;
};

/// Planes of page 0 become planes of the slab, one after the other.
class SlabPlanes {
 public:
  SlabPlanes(const HostSlab& slab, std::vector<Extent> runs)
      : slab_(slab), runs_(std::move(runs)) {}

  Status move(const std::string& name, PagedKVView& view) const {
    if (view.data == nullptr) return {};
    const PagedKVView pools = view;
    view.data = moved(pools.data, part_of_rows(pools, 0));
    if (view.data == nullptr) return scattered(name, "elements");
    view.num_pages = slab_.pages;
    view.page_stride_bytes = slab_.page_stride_bytes;
    if (Status s = move_scales(name, pools, view.scales); !s.is_ok()) return s;
    return check_moved(name, view);
  }

 private:
  /// That it can be read there: places aligned to their elements, within what can be addressed.
  Status check_moved(const std::string& name, const PagedKVView& view) const {
    const KVPlanes alone{.key = view, .value = {}};
    const auto last = static_cast<uint32_t>(slab_.pages - 1);
    const Result<std::vector<Extent>> found = page_extents({&alone, 1}, last);
    if (found) return {};
    return fail(found.error().code(), "planes_in: {} in the slab: {}", name.c_str(),
                found.error().message());
  }

  /// Those that pages share lie in no page, and stay where they are.
  Status move_scales(const std::string& name, const PagedKVView& pools, ScaleView& scales) const {
    if (scales.data == nullptr || scales.page_stride_bytes == 0) return {};
    const GranuleBytes granule = granule_bytes(scales);
    scales.data = moved(pools.scales.data, part_of_granules(pools, 0, granule.runs[0]));
    if (scales.data == nullptr) return scattered(name, "scales");
    scales.page_stride_bytes = slab_.page_stride_bytes;
    if (granule.count == 1) return {};
    std::byte* const zero = static_cast<std::byte*>(pools.scales.data) + scales.zero_offset_bytes;
    std::byte* const moved_zero = moved(zero, part_of_granules(pools, 0, granule.runs[1]));
    if (moved_zero == nullptr) return scattered(name, "zero points");
    scales.zero_offset_bytes = moved_zero - static_cast<std::byte*>(scales.data);
    return {};
  }

  /// Where a byte of the part lies in page 0 of the slab; null where its payload scatters the part.
  [[nodiscard]] std::byte* moved(const void* byte, const PagePart& part) const {
    const int64_t offset = runs_.offset_of(part);
    if (offset < 0) return nullptr;
    return slab_.data + offset + (static_cast<const std::byte*>(byte) - part.begin);
  }

  static Status scattered(const std::string& name, const char* what) {
    return fail(Errc::invalid_argument,
                "planes_in: {} of a page of {} lie in several runs of bytes, expected one: bytes "
                "between them are not the page's, and a payload leaves them out",
                what, name.c_str());
  }

  const HostSlab slab_;
  const PayloadRuns runs_;
};

Status check_slab(const HostSlab& slab) {
  const auto refuse = [](const char* what, int64_t is, const char* expected) {
    return fail(Errc::invalid_argument, "planes_in: slab.{} is {}, expected {}", what, is,
                expected);
  };
  if (slab.data == nullptr)
    return fail(Errc::invalid_argument, "planes_in: slab.data is null, expected a host tier's");
  if (slab.pages < 1 || slab.pages > std::numeric_limits<int32_t>::max())
    return refuse("pages", slab.pages, "1 .. 2147483647");
  if (slab.page_bytes < 1 || slab.page_bytes > slab.page_stride_bytes)
    return refuse("page_bytes", slab.page_bytes, "1 .. page_stride_bytes");
  return {};
}

/// Of all planes; those of a pool have as many each.
Result<uint32_t> num_pages_of(const char* call, std::span<const KVPlanes> planes) {
  if (planes.empty() || planes.data() == nullptr)
    return fail(Errc::invalid_argument, "{}: planes are {}, expected 1 or more", call,
                planes.size());
  const int64_t pages = planes[0].key.num_pages;
  if (pages >= 1 && pages <= std::numeric_limits<uint32_t>::max())
    return static_cast<uint32_t>(pages);
  return fail(Errc::invalid_argument, "{}: planes[0].key.num_pages is {}, expected 1 .. 4294967295",
              call, pages);
}

Result<PageRuns> runs_of(const char* call, std::span<const KVPlanes> planes) {
  const Result<uint32_t> pages = num_pages_of(call, planes);
  if (!pages) return pages.error();
  return PageRuns::create(call, planes, *pages);
}

Result<std::vector<KVPlanes>> moved_planes(const HostSlab& slab, std::span<const KVPlanes> planes) {
  if (Status s = check_slab(slab); !s.is_ok()) return s;
  const Result<PageRuns> runs = runs_of("planes_in", planes);
  if (!runs) return runs.error();
  if (runs->page_bytes() != slab.page_bytes)
    return fail(Errc::invalid_argument,
                "planes_in: a page of planes has {} bytes, expected slab.page_bytes, {}",
                runs->page_bytes(), slab.page_bytes);
  const SlabPlanes slabs(slab, runs->of(0));
  std::vector<KVPlanes> moved(planes.begin(), planes.end());
  for (size_t layer = 0; layer < moved.size(); ++layer) {
    const std::string name = "planes[" + std::to_string(layer) + "]";
    if (Status s = slabs.move(name + ".key", moved[layer].key); !s.is_ok()) return s;
    if (Status s = slabs.move(name + ".value", moved[layer].value); !s.is_ok()) return s;
  }
  return moved;
}

}  // namespace

Result<std::vector<KVPlanes>> planes_in(const HostSlab& slab,
                                        std::span<const KVPlanes> planes) noexcept {
  try {
    return moved_planes(slab, planes);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "planes_in: no memory for the views of {} layers",
                planes.size());
  }
}

Result<std::vector<Extent>> payload_extents(std::span<const KVPlanes> planes,
                                            uint32_t page) noexcept {
  try {
    const Result<PageRuns> runs = runs_of("payload_extents", planes);
    if (!runs) return runs.error();
    if (page < planes[0].key.num_pages) return runs->of(page);
    return fail(Errc::invalid_argument, "payload_extents: page is {}, expected less than {}", page,
                planes[0].key.num_pages);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "payload_extents: no memory for the runs of page {}", page);
  }
}

}  // namespace folio::inline v1::tier
