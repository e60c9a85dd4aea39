// SPDX-License-Identifier: Apache-2.0
/// tier/manager/runs_apart.cpp: whether pages share bytes.
///
/// A run *reaches* from its first byte in any page to its last one. Runs whose reaches are apart
/// share nothing: layers behind one another. Where they lie in one another with one stride (all
/// layers of a page, then those of the next) their places within a stride tell; only what looks
/// shared then, or has strides that differ, is looked at page by page.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tier/manager/page_runs.h"

namespace folio::inline v1::tier {

struct PageRuns::Reach {
  size_t run = 0;
  uintptr_t begin = 0, end = 0;
  uintptr_t stride = 0;  ///< its size
};

namespace {

struct Bytes {
  uintptr_t begin = 0, end = 0;
  size_t run = 0;
  uint32_t page = 0;
};

/// Those of equal stride share nothing if they do not within one, round as a circle.
bool are_apart_in_stride(auto together, auto bytes_of) {
  const uintptr_t stride = together.front().stride, origin = together.front().begin;
  std::vector<Bytes> places;
  places.reserve(together.size());
  for (const auto& reach : together) {
    if (reach.stride != stride || bytes_of(reach) > stride) return false;
    const uintptr_t place = (reach.begin - origin) % stride;
    places.push_back({place, place + bytes_of(reach)});
  }
  std::ranges::sort(places, {}, &Bytes::begin);
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end) return false;
  return places.back().end <= places.front().begin + stride;
}

}  // namespace

Status PageRuns::check_each_page(const char* call, std::span<const Reach> together,
                                 uint32_t num_pages) const {
  std::vector<Bytes> all;
  all.reserve(together.size() * num_pages);
  for (const Reach& reach : together) {
    const Run& run = runs_[reach.run];
    for (uint32_t page = 0; page < num_pages; ++page) {
      const auto begin = reinterpret_cast<uintptr_t>(run.first.data + run.stride * int64_t{page});
      all.push_back({begin, begin + static_cast<uintptr_t>(run.first.bytes), reach.run, page});
    }
  }
  std::ranges::sort(all, {}, &Bytes::begin);
  for (size_t i = 1; i < all.size(); ++i) {
    const auto [a, b] = std::minmax(all[i - 1], all[i],
                                    [](const Bytes& x, const Bytes& y) { return x.run < y.run; });
    if (all[i].begin < all[i - 1].end)
      return fail(Errc::invalid_argument,
                  "{}: page {} of planes[{}] and page {} of planes[{}] share bytes, expected each "
                  "to have its own",
                  call, a.page, layer_of(a.run), b.page, layer_of(b.run));
  }
  return {};
}

Status PageRuns::check_apart(const char* call, uint32_t num_pages) const {
  std::vector<Reach> reaches;
  reaches.reserve(runs_.size());
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    const auto first = reinterpret_cast<uintptr_t>(run.first.data);
    const auto last =
        reinterpret_cast<uintptr_t>(run.first.data + run.stride * (int64_t{num_pages} - 1));
    reaches.push_back({i, std::min(first, last),
                       std::max(first, last) + static_cast<uintptr_t>(run.first.bytes),
                       static_cast<uintptr_t>(run.stride < 0 ? -run.stride : run.stride)});
  }
  std::ranges::sort(reaches, {}, &Reach::begin);
  const auto bytes_of = [this](const Reach& reach) {
    return static_cast<uintptr_t>(runs_[reach.run].first.bytes);
  };
  for (size_t begin = 0; begin < reaches.size();) {
    uintptr_t reached = reaches[begin].end;
    size_t end = begin + 1;
    for (; end < reaches.size() && reaches[end].begin < reached; ++end)
      reached = std::max(reached, reaches[end].end);
    const auto together = std::span<const Reach>(reaches).subspan(begin, end - begin);
    const bool is_alone = together.size() == 1 && num_pages == 1;
    if (!is_alone && (together.front().stride == 0 || !are_apart_in_stride(together, bytes_of)))
      if (Status s = check_each_page(call, together, num_pages); !s.is_ok()) return s;
    begin = end;
  }
  return {};
}

}  // namespace folio::inline v1::tier
