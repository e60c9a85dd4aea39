// SPDX-License-Identifier: Apache-2.0
/// src/attention/copy.cpp: check, then tasks that each run the whole list of copies, in order, for
/// a part of one plane.
///
/// Parts of a plane never touch the same bytes: of pages, a range of slots (slot i of a page
/// depends on slot i of another page only); of single slots, a range of heads.
#include "folio/cache/copy.h"

#include <algorithm>

#include "attention/copy_pair.h"
#include "attention/row_checks.h"
#include "attention/row_conversions.h"
#include "attention/row_ranges.h"
#include "cache/check_tensor.h"
#include "cache/check_view.h"
#include "core/checked.h"
#include "core/run_on.h"
#include "cpu/profile.h"

namespace folio::inline v1 {
namespace {

struct Call {
  std::span<const KVPlanes> from;
  std::span<const KVPlanes> to;
  std::span<const PageCopy> pages;
  std::span<const SlotCopy> slots;
  int64_t parts = 1;  ///< of each plane
  int64_t bytes = 0;  ///< that the call writes
};

struct PlaneTask {
  const PagedKVView* from;
  const PagedKVView* to;
  int64_t part;
};

/// Task i: part i % parts of plane i / parts; K and V of a layer follow one another.
PlaneTask task_of(const Call& call, int64_t i) {
  const int64_t plane = i / call.parts;
  const auto layer = static_cast<size_t>(plane / 2);
  if (plane % 2 == 0) return {&call.from[layer].key, &call.to[layer].key, i % call.parts};
  return {&call.from[layer].value, &call.to[layer].value, i % call.parts};
}

/// The end of part `part` of `parts` of `extent`, and the beginning of the next.
int64_t part_begin(int64_t extent, int64_t part, int64_t parts) { return extent * part / parts; }

/// Runs the boxes that `each` hands out, by bytes or by values.
template <class Each>
void run_boxes(const CopyPair& pair, int32_t heads, Each each) {
  if (pair.moves()) {
    each([&](const CopyBox& box) { pair.move(box); });
  } else {
    const rows::Conversion conversion = pair.conversion(heads);
    TokenRowBatch token_rows(&conversion, 1, rows::kernel());
    each([&](const CopyBox& box) {
      for (int64_t token = 0; token < box.tokens; ++token) {
        const rows::TokenRow token_row = pair.token_row(box, token);
        token_rows.add(&token_row);
      }
    });
    token_rows.flush();
  }
  rows::fence();
}

void copy_pages_of_plane(void* arg, int64_t i) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const auto [from, to, part] = task_of(call, i);
  if (from->data == nullptr) return;
  const CopyPair pair(*from, *to, CopyKind::page, call.bytes);
  const int64_t begin = part_begin(from->page_size, part, call.parts),
                end = part_begin(from->page_size, part + 1, call.parts);
  const bool is_first = part == 0;
  run_boxes(pair, from->num_heads, [&, heads = from->num_heads](auto run) {
    for (const PageCopy& copy : call.pages) {
      const int64_t tokens = std::min<int64_t>(copy.tokens, end) - begin;
      if (tokens > 0) run(CopyBox{copy.from, begin, copy.to, begin, tokens, 0, heads, is_first});
    }
  });
}

void copy_slots_of_plane(void* arg, int64_t i) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const auto [from, to, part] = task_of(call, i);
  if (from->data == nullptr) return;
  const CopyPair pair(*from, *to, CopyKind::slot, call.bytes);
  if (part > 0 && !pair.splits_by_heads()) return;
  const int64_t parts = pair.splits_by_heads() ? call.parts : 1;
  const auto begin = static_cast<int32_t>(part_begin(from->num_heads, part, parts));
  const auto heads = static_cast<int32_t>(part_begin(from->num_heads, part + 1, parts)) - begin;
  if (heads == 0) return;
  const int64_t from_size = slots_per_page(*from), to_size = slots_per_page(*to);
  run_boxes(pair, heads, [&](auto run) {
    for (const SlotCopy& copy : call.slots) {
      run(CopyBox{copy.from / from_size, copy.from % from_size, copy.to / to_size,
                  copy.to % to_size, 1, begin, heads, true});
    }
  });
}

/// One plane on both sides, and what messages call it: "to[3].key".
struct PlanePair {
  ElementName from_name;
  ElementName to_name;
  const PagedKVView& from;
  const PagedKVView& to;
};

struct Compared {
  const char* name;
  int64_t from;
  int64_t to;
};

Status check_same(const char* function, const PlanePair& pair, const Compared& c) {
  if (c.from == c.to) return {};
  return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected {} (from {})", function,
              pair.to_name, c.name, c.to, c.from, pair.from_name);
}

Status check_pages_bounded(const char* function, const PlanePair& pair) {
  if (pair.from.page_size == unbounded_page_size)
    return fail(Errc::invalid_argument,
                "{}: {} has unbounded pages, expected pages of a fixed size", function,
                pair.from_name);
  return check_same(function, pair, {"page_size", pair.from.page_size, pair.to.page_size});
}

Status check_pair(const char* function, CopyKind kind, const PlanePair& pair) {
  const auto& [from_name, to_name, from, to] = pair;
  if (Status s = check_view(function, from_name, from); !s.is_ok()) return s;
  if (Status s = check_view(function, to_name, to); !s.is_ok()) return s;
  if (kind == CopyKind::page) {
    if (Status s = check_pages_bounded(function, pair); !s.is_ok()) return s;
  }
  const Compared compared[] = {{"num_heads", from.num_heads, to.num_heads},
                               {"head_size", from.head_size, to.head_size}};
  for (const Compared& c : compared) {
    if (Status s = check_same(function, pair, c); !s.is_ok()) return s;
  }
  if (Status s = check_places(function, to_name, to); !s.is_ok()) return s;
  if (CopyPair(from, to, kind, 0).moves()) return {};
  if (Status s = check_readable_scales(function, from_name, from); !s.is_ok()) return s;
  return check_writable_scales(function, to_name, to);
}

/// The planes of one side agree in the size of pages, so that a slot means the same in all.
Status check_page_size(const char* function, const char* name, const PagedKVView& view,
                       const PagedKVView& first) {
  if (view.page_size == first.page_size) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.page_size is {}, expected {} (from its side's first key plane)", function,
              name, view.page_size, first.page_size);
}

/// What all planes hold, and what one token of all writes.
struct Bounds {
  int64_t from_pages = 0xffffffff;
  int64_t to_pages = 0xffffffff;
  int64_t page_size = unbounded_page_size;
  CheckedSize token_bytes;

  void include(const PagedKVView& from, const PagedKVView& to) {
    from_pages = std::min(from_pages, from.num_pages);
    to_pages = std::min(to_pages, to.num_pages);
    page_size = std::min<int64_t>(page_size, from.page_size);
    token_bytes += int64_t{to.num_heads} * to.head_size * bit_width(to.dtype) / 8;
  }
};

Status check_planes(const char* function, CopyKind kind, std::span<const KVPlanes> from,
                    std::span<const KVPlanes> to, const Executor& executor, Bounds& bounds) {
  if (Status s = check_executor(function, executor); !s.is_ok()) return s;
  if (from.size() != to.size()) {
    return fail(Errc::invalid_argument, "{}: to has {} layers, expected {} (from)", function,
                to.size(), from.size());
  }
  for (size_t layer = 0; layer < from.size(); ++layer) {
    for (const bool is_key : {true, false}) {
      const char* member = is_key ? "key" : "value";
      const PlanePair pair{{"from", layer, member},
                           {"to", layer, member},
                           is_key ? from[layer].key : from[layer].value,
                           is_key ? to[layer].key : to[layer].value};
      const bool is_latent = !is_key && pair.from.data == nullptr && pair.to.data == nullptr;
      if (is_latent) continue;
      if (Status s = check_pair(function, kind, pair); !s.is_ok()) return s;
      bounds.include(pair.from, pair.to);
      if (kind == CopyKind::page) continue;
      if (Status s = check_page_size(function, pair.from_name, pair.from, from[0].key); !s.is_ok())
        return s;
      if (Status s = check_page_size(function, pair.to_name, pair.to, to[0].key); !s.is_ok())
        return s;
    }
  }
  return {};
}

Status check_below(const char* function, size_t i, const char* side, int64_t value, int64_t limit,
                   const char* what) {
  if (value >= 0 && value < limit) return {};
  return fail(Errc::invalid_argument, "{}: copies[{}].{} is {}, expected 0 to less than {} ({})",
              function, i, side, value, limit, what);
}

Status check_page_copies(std::span<const PageCopy> copies, const Bounds& bounds) {
  for (size_t i = 0; i < copies.size(); ++i) {
    const PageCopy& copy = copies[i];
    if (Status s = check_below("copy_pages", i, "from", copy.from, bounds.from_pages, "num_pages");
        !s.is_ok())
      return s;
    if (Status s = check_below("copy_pages", i, "to", copy.to, bounds.to_pages, "num_pages");
        !s.is_ok())
      return s;
    if (copy.tokens >= 0 && copy.tokens <= bounds.page_size) continue;
    return fail(Errc::invalid_argument,
                "copy_pages: copies[{}].tokens is {}, expected 0 to {} (page_size)", i, copy.tokens,
                bounds.page_size);
  }
  return {};
}

Status check_slot_copies(std::span<const SlotCopy> copies, int64_t from_slots, int64_t to_slots) {
  for (size_t i = 0; i < copies.size(); ++i) {
    const char* what = "num_pages * page_size";
    if (Status s = check_below("copy_slots", i, "from", copies[i].from, from_slots, what);
        !s.is_ok())
      return s;
    if (Status s = check_below("copy_slots", i, "to", copies[i].to, to_slots, what); !s.is_ok())
      return s;
  }
  return {};
}

/// Cuts planes where there are fewer than threads, and enough to do.
Status run(const char* function, Call& call, void (*task)(void*, int64_t) noexcept,
           int64_t most_parts, const Executor& executor) {
  const auto planes = static_cast<int64_t>(call.from.size()) * 2;
  const Result<int64_t> threads = concurrency_of(function, executor);
  if (!threads) return threads.error();
  const int64_t worthwhile =
      std::max<int64_t>(1, call.bytes / planes / machine_profile().append.task_bytes);
  call.parts =
      std::clamp<int64_t>((*threads + planes - 1) / planes, 1, std::min(most_parts, worthwhile));
  return run_on(function, executor, planes * call.parts, task, &call);
}

}  // namespace

Status copy_pages(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                  std::span<const PageCopy> copies, const Executor& executor) noexcept {
  Bounds bounds;
  if (Status s = check_planes("copy_pages", CopyKind::page, from, to, executor, bounds); !s.is_ok())
    return s;
  if (from.empty() || copies.empty()) return {};
  if (Status s = check_page_copies(copies, bounds); !s.is_ok()) return s;
  Call call{from, to, copies, {}};
  CheckedSize bytes;  // too large is large enough: it only says how to share the work out
  for (const PageCopy& copy : copies) bytes += CheckedSize(copy.tokens) * bounds.token_bytes;
  call.bytes = bytes.value();
  return run("copy_pages", call, copy_pages_of_plane, bounds.page_size, executor);
}

Status copy_slots(std::span<const KVPlanes> from, std::span<const KVPlanes> to,
                  std::span<const SlotCopy> copies, const Executor& executor) noexcept {
  Bounds bounds;
  if (Status s = check_planes("copy_slots", CopyKind::slot, from, to, executor, bounds); !s.is_ok())
    return s;
  if (from.empty() || copies.empty()) return {};
  const int64_t from_slots = bounds.from_pages * slots_per_page(from[0].key);
  const int64_t to_slots = bounds.to_pages * slots_per_page(to[0].key);
  if (Status s = check_slot_copies(copies, from_slots, to_slots); !s.is_ok()) return s;
  Call call{from, to, {}, copies};
  call.bytes = (CheckedSize(static_cast<int64_t>(copies.size())) * bounds.token_bytes).value();
  return run("copy_slots", call, copy_slots_of_plane, from[0].key.num_heads, executor);
}

}  // namespace folio::inline v1
