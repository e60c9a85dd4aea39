// SPDX-License-Identifier: Apache-2.0
/// src/cache/copy.cpp: check, then one task per plane, which runs the whole list of copies in order.
#include "folio/cache/copy.h"

#include <algorithm>
#include <cstring>

#include "cache/check_view.h"
#include "folio/cache/page_walk.h"

namespace folio {
inline namespace v1 {
namespace {

/// A strided box of byte runs, [slots, heads, granules], on both sides.
struct Box {
  int64_t bytes = 0;  ///< of one run
  int64_t extent[3] = {1, 1, 1};
  int64_t from_stride[3] = {};
  int64_t to_stride[3] = {};
};

/// Dimensions that are packed on both sides become longer runs.
void pack(Box& box) {
  for (int pass = 0; pass < 3; ++pass) {
    for (int d = 2; d >= 0; --d) {
      if (box.from_stride[d] != box.bytes || box.to_stride[d] != box.bytes) continue;
      box.bytes *= box.extent[d];
      box.extent[d] = 1;
    }
  }
}

void copy_box(Box box, const std::byte* from, std::byte* to) {
  if (from == to) return;
  pack(box);
  for (int64_t i = 0; i < box.extent[0]; ++i) {
    for (int64_t k = 0; k < box.extent[1]; ++k) {
      for (int64_t g = 0; g < box.extent[2]; ++g) {
        std::memcpy(to + i * box.to_stride[0] + k * box.to_stride[1] + g * box.to_stride[2],
                    from + i * box.from_stride[0] + k * box.from_stride[1] + g * box.from_stride[2],
                    static_cast<size_t>(box.bytes));
      }
    }
  }
}

void copy_values(const PagedKVView& from, const PagedKVView& to, const PageCopy& copy) {
  Box box;
  box.bytes = int64_t{from.head_size} * bit_width(from.dtype) / 8;
  box.extent[0] = copy.tokens;
  box.extent[1] = from.num_heads;
  box.from_stride[0] = from.slot_stride_bytes;
  box.from_stride[1] = from.head_stride_bytes;
  box.to_stride[0] = to.slot_stride_bytes;
  box.to_stride[1] = to.head_stride_bytes;
  copy_box(box, row_of(from, copy.from, 0, 0), row_of(to, copy.to, 0, 0));
}

void copy_scales(const PagedKVView& from, const PagedKVView& to, const PageCopy& copy) {
  const ScaleView& source = from.scales;
  const ScaleView& target = to.scales;
  if (source.data == nullptr || source.page_stride_bytes == 0) return;
  Box box;
  box.bytes = bit_width(source.dtype) / 8;
  box.extent[0] = source.slot_stride_bytes != 0 ? copy.tokens : 1;
  box.extent[1] = source.head_stride_bytes != 0 ? from.num_heads : 1;
  box.extent[2] = source.granule_stride_bytes != 0 ? granules_of(from.head_size, source.granularity) : 1;
  box.from_stride[0] = source.slot_stride_bytes;
  box.from_stride[1] = source.head_stride_bytes;
  box.from_stride[2] = source.granule_stride_bytes;
  box.to_stride[0] = target.slot_stride_bytes;
  box.to_stride[1] = target.head_stride_bytes;
  box.to_stride[2] = target.granule_stride_bytes;
  copy_box(box, static_cast<const std::byte*>(source.data) + scale_offset_bytes(source, copy.from, 0, 0, 0),
           static_cast<std::byte*>(target.data) + scale_offset_bytes(target, copy.to, 0, 0, 0));
}

struct Job {
  std::span<const KVPlanes> from;
  std::span<const KVPlanes> to;
  std::span<const PageCopy> copies;
};

/// Task i runs the whole list, in order, for one plane: copies of different planes never touch the same bytes.
void copy_plane(void* arg, int64_t i) noexcept {
  const Job& job = *static_cast<const Job*>(arg);
  const KVPlanes& source = job.from[static_cast<size_t>(i / 2)];
  const KVPlanes& target = job.to[static_cast<size_t>(i / 2)];
  const PagedKVView& from = i % 2 == 0 ? source.key : source.value;
  const PagedKVView& to = i % 2 == 0 ? target.key : target.value;
  if (from.data == nullptr) return;
  for (const PageCopy& copy : job.copies) {
    if (copy.tokens == 0) continue;
    copy_values(from, to, copy);
    copy_scales(from, to, copy);
  }
}

struct Compared {
  const char* name;
  int64_t from;
  int64_t to;
};

Status check_same(const char* plane, size_t layer, const Compared& c) {
  if (c.from == c.to) return {};
  return fail(Errc::invalid_argument, "copy_pages: to[{}].{} {} is {}, expected {} (from)", layer, plane, c.name, c.to, c.from);
}

/// Which strides of the scales are 0: what one scale belongs to. Strides over a single element say nothing.
int64_t sharing(const PagedKVView& view) {
  const ScaleView& s = view.scales;
  const int64_t granules = s.granularity > 0 ? granules_of(view.head_size, s.granularity) : 1;
  return (s.page_stride_bytes == 0 ? 1 : 0) + (view.page_size > 1 && s.slot_stride_bytes == 0 ? 2 : 0) +
         (view.num_heads > 1 && s.head_stride_bytes == 0 ? 4 : 0) + (granules > 1 && s.granule_stride_bytes == 0 ? 8 : 0);
}

Status check_scales(const char* plane, size_t layer, const PagedKVView& from, const PagedKVView& to) {
  const bool has_scales = from.scales.data != nullptr;
  if (has_scales != (to.scales.data != nullptr)) {
    return fail(Errc::invalid_argument, "copy_pages: to[{}].{} has {}, expected {} (from)", layer, plane,
                has_scales ? "no scales" : "scales", has_scales ? "scales" : "none");
  }
  if (!has_scales) return {};
  if (from.scales.dtype != to.scales.dtype) {
    return fail(Errc::invalid_argument, "copy_pages: to[{}].{} scales have dtype {}, expected {} (from)", layer, plane,
                to.scales.dtype, from.scales.dtype);
  }
  if (Status s = check_same(plane, layer, {"scales.granularity", from.scales.granularity, to.scales.granularity}); !s.is_ok())
    return s;
  if (sharing(from) == sharing(to)) return {};
  return fail(Errc::invalid_argument,
              "copy_pages: to[{}].{} scales have zero strides other than those of from, expected the same", layer, plane);
}

Status check_plane(const char* plane, size_t layer, const PagedKVView& from, const PagedKVView& to) {
  if (Status s = check_view("copy_pages: from", plane, from); !s.is_ok()) return s;
  if (Status s = check_view("copy_pages: to", plane, to); !s.is_ok()) return s;
  if (from.dtype != to.dtype) {
    return fail(Errc::invalid_argument, "copy_pages: to[{}].{} has dtype {}, expected {} (from)", layer, plane, to.dtype,
                from.dtype);
  }
  if (from.page_size == unbounded_page_size) {
    return fail(Errc::invalid_argument, "copy_pages: from[{}].{} has unbounded pages, expected pages of a fixed size", layer,
                plane);
  }
  const Compared compared[] = {{"num_heads", from.num_heads, to.num_heads},
                               {"head_size", from.head_size, to.head_size},
                               {"page_size", from.page_size, to.page_size}};
  for (const Compared& c : compared) {
    if (Status s = check_same(plane, layer, c); !s.is_ok()) return s;
  }
  return check_scales(plane, layer, from, to);
}

struct Bounds {
  int64_t from = 0xffffffff;
  int64_t to = 0xffffffff;
  int64_t tokens = unbounded_page_size;

  void include(const PagedKVView& source, const PagedKVView& target) {
    from = std::min(from, source.num_pages);
    to = std::min(to, target.num_pages);
    tokens = std::min<int64_t>(tokens, source.page_size);
  }
};

Status check_copies(std::span<const PageCopy> copies, const Bounds& bounds) {
  for (size_t i = 0; i < copies.size(); ++i) {
    const PageCopy& copy = copies[i];
    if (copy.from >= bounds.from) {
      return fail(Errc::invalid_argument, "copy_pages: copies[{}].from is {}, expected less than {} (num_pages)", i, copy.from,
                  bounds.from);
    }
    if (copy.to >= bounds.to) {
      return fail(Errc::invalid_argument, "copy_pages: copies[{}].to is {}, expected less than {} (num_pages)", i, copy.to,
                  bounds.to);
    }
    if (copy.tokens < 0 || copy.tokens > bounds.tokens) {
      return fail(Errc::invalid_argument, "copy_pages: copies[{}].tokens is {}, expected 0 to {} (page_size)", i, copy.tokens,
                  bounds.tokens);
    }
  }
  return {};
}

}  // namespace

Status copy_pages(std::span<const KVPlanes> from, std::span<const KVPlanes> to, std::span<const PageCopy> copies,
                  const Executor& executor) noexcept {
  if (executor.parallel_for == nullptr)
    return fail(Errc::invalid_argument, "copy_pages: executor has no parallel_for, expected one");
  if (from.size() != to.size()) {
    return fail(Errc::invalid_argument, "copy_pages: to has {} layers, expected {} (from)", to.size(), from.size());
  }
  Bounds bounds;
  for (size_t layer = 0; layer < from.size(); ++layer) {
    if (Status s = check_plane("key", layer, from[layer].key, to[layer].key); !s.is_ok()) return s;
    bounds.include(from[layer].key, to[layer].key);
    if (from[layer].value.data == nullptr && to[layer].value.data == nullptr) continue;
    if (Status s = check_plane("value", layer, from[layer].value, to[layer].value); !s.is_ok()) return s;
    bounds.include(from[layer].value, to[layer].value);
  }
  if (from.empty() || copies.empty()) return {};
  if (Status s = check_copies(copies, bounds); !s.is_ok()) return s;
  Job job{from, to, copies};
  executor.parallel_for(executor.context, static_cast<int64_t>(from.size()) * 2, copy_plane, &job);
  return {};
}

}  // namespace v1
}  // namespace folio
