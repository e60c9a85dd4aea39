// SPDX-License-Identifier: Apache-2.0
/// src/attention/copy.cpp: check, then tasks that each run the whole list of copies, in order, for
/// a part of one plane.
///
/// Parts of a plane never touch the same bytes: of pages, a range of slots (slot i of a page
/// depends on slot i of another page only); of single slots, a range of heads.
#include "folio/cache/copy.h"

#include <algorithm>

#include "attention/check_copy.h"
#include "attention/copy_pair.h"
#include "attention/row_conversions.h"
#include "attention/row_ranges.h"
#include "cache/check_view.h"
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

Status check_below(const char* function, size_t i, const char* side, int64_t value, int64_t limit,
                   const char* what) {
  if (value >= 0 && value < limit) return {};
  return fail(Errc::invalid_argument, "{}: copies[{}].{} is {}, expected 0 to less than {} ({})",
              function, i, side, value, limit, what);
}

Status check_page_copies(std::span<const PageCopy> copies, const CopyBounds& bounds) {
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
  if (Status s = check_executor("copy_pages", executor); !s.is_ok()) return s;
  CopyBounds bounds;
  if (Status s = check_copy_planes("copy_pages", CopyKind::page, from, to, Memory::cpu, bounds);
      !s.is_ok())
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
  if (Status s = check_executor("copy_slots", executor); !s.is_ok()) return s;
  CopyBounds bounds;
  if (Status s = check_copy_planes("copy_slots", CopyKind::slot, from, to, Memory::cpu, bounds);
      !s.is_ok())
    return s;
  if (from.empty() || copies.empty()) return {};
  const int64_t from_slots = bounds.from_slots(from), to_slots = bounds.to_slots(to);
  if (Status s = check_slot_copies(copies, from_slots, to_slots); !s.is_ok()) return s;
  Call call{from, to, {}, copies};
  call.bytes = (CheckedSize(static_cast<int64_t>(copies.size())) * bounds.token_bytes).value();
  return run("copy_slots", call, copy_slots_of_plane, from[0].key.num_heads, executor);
}

}  // namespace folio::inline v1
