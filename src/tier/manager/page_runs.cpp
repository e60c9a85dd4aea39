// SPDX-License-Identifier: Apache-2.0
/// tier/manager/page_runs.cpp: runs of the first page, and how far apart pages are.
#include "tier/manager/page_runs.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "cache/granule_bytes.h"
#include "tier/page_parts.h"

namespace folio::inline v1::tier {
namespace {

/// A page's part is one with those that it lies among, at the place of the first of them.
void add_part(std::vector<PagePart>& parts, PagePart part) {
  const auto meets = [&](const PagePart& other) { return part.meets(other); };
  const auto first = std::ranges::find_if(parts, meets);
  if (first == parts.end()) return parts.push_back(part);
  for (auto other = first; other != parts.end(); ++other)
    if (part.meets(*other))
      part = {std::min(part.begin, other->begin, std::less<>()),
              std::max(part.end, other->end, std::less<>())};
  *first = part;
  parts.erase(std::remove_if(first + 1, parts.end(), meets), parts.end());
}

/// K, V, the scales of K, those of V, then zero points likewise, as far as they lie apart.
std::vector<PagePart> parts_of(const KVPlanes& layer, int64_t page) {
  std::vector<PagePart> parts;
  const PagedKVView* const views[] = {&layer.key, &layer.value};
  for (const PagedKVView* view : views)
    if (view->data != nullptr) add_part(parts, part_of_rows(*view, page));
  for (size_t run = 0; run < 2; ++run) {
    for (const PagedKVView* view : views) {
      const ScaleView& scales = view->scales;
      if (view->data == nullptr || scales.data == nullptr || scales.page_stride_bytes == 0)
        continue;
      const GranuleBytes granule = granule_bytes(scales);
      if (run < granule.count) add_part(parts, part_of_granules(*view, page, granule.runs[run]));
    }
  }
  return parts;
}

/// Runs of a page, part after part: allocations have no order that another process would share.
Result<std::vector<Extent>> runs_of(const KVPlanes& layer, uint32_t page) {
  const Result<std::vector<Extent>> all = page_extents({&layer, 1}, page);
  if (!all) return all.error();
  std::vector<Extent> runs;
  for (const PagePart& part : parts_of(layer, page)) {
    for (const Extent& extent : *all) {
      const PagePart inside{std::max(part.begin, extent.data, std::less<>()),
                            std::min(part.end, extent.data + extent.bytes, std::less<>())};
      if (!std::less<>()(inside.begin, inside.end)) continue;
      const int64_t bytes = inside.end - inside.begin;
      if (!runs.empty() && runs.back().data + runs.back().bytes == inside.begin) {
        runs.back().bytes += bytes;
      } else {
        runs.push_back({inside.begin, bytes});
      }
    }
  }
  return runs;
}

Status no_stride(const char* call, size_t layer) {
  return fail(Errc::invalid_argument,
              "{}: pages of planes[{}] differ in their runs of bytes, expected equal ones at a "
              "stride",
              call, layer);
}

}  // namespace

Status PageRuns::add_layer(const char* call, const KVPlanes& layer, uint32_t num_pages) {
  const Result<std::vector<Extent>> last = runs_of(layer, num_pages - 1);
  if (!last)
    return fail(Errc::invalid_argument,
                "{}: planes[{}] have no page {}, expected the pool's {}: {}", call, ends_.size(),
                num_pages - 1, num_pages, last.error().message());
  const std::vector<Extent> first = runs_of(layer, 0).value();
  const std::vector<Extent> second = runs_of(layer, std::min(1U, num_pages - 1)).value();
  if (first.size() != second.size() || first.size() != last->size())
    return no_stride(call, ends_.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const Run run{.first = first[i], .stride = second[i].data - first[i].data};
    if (second[i].bytes != run.first.bytes || (*last)[i].bytes != run.first.bytes ||
        (*last)[i].data != run.first.data + run.stride * int64_t{num_pages - 1})
      return no_stride(call, ends_.size());
    bytes_ += run.first.bytes;
    runs_.push_back(run);
  }
  ends_.push_back(static_cast<uint32_t>(runs_.size()));
  return {};
}

Result<PageRuns> PageRuns::create(const char* call, std::span<const KVPlanes> planes,
                                  uint32_t num_pages) {
  PageRuns runs;
  for (const KVPlanes& layer : planes)
    if (Status s = runs.add_layer(call, layer, num_pages); !s.is_ok()) return s;
  if (Status s = runs.check_apart(call, num_pages); !s.is_ok()) return s;
  return runs;
}

Result<PageRuns> PageRuns::create(const char* call, std::span<const StatePages> states,
                                  uint32_t num_pages) {
  PageRuns runs;
  for (const StatePages& layer : states) {
    runs.runs_.push_back({.first = {layer.data, layer.bytes}, .stride = layer.page_stride_bytes});
    runs.ends_.push_back(static_cast<uint32_t>(runs.runs_.size()));
    runs.bytes_ += layer.bytes;
  }
  if (Status s = runs.check_apart(call, num_pages); !s.is_ok()) return s;
  return runs;
}

std::vector<Extent> PageRuns::of(uint32_t page) const {
  std::vector<Extent> extents;
  extents.reserve(runs_.size());
  for (const Run& run : runs_)
    extents.push_back({run.first.data + run.stride * int64_t{page}, run.first.bytes});
  return extents;
}

void PageRuns::copy(uint32_t from, uint32_t to) const noexcept {
  for (const Run& run : runs_)
    std::memcpy(run.first.data + run.stride * int64_t{to},
                run.first.data + run.stride * int64_t{from}, static_cast<size_t>(run.first.bytes));
}

size_t PageRuns::layer_of(size_t run) const {
  return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), run) - ends_.begin());
}

int32_t PageRuns::layers_of(uint32_t extents) const {
  return static_cast<int32_t>(std::upper_bound(ends_.begin(), ends_.end(), extents) -
                              ends_.begin());
}

}  // namespace folio::inline v1::tier
