// SPDX-License-Identifier: Apache-2.0
/// pool/rows.cpp: sequences and their leading pages.
#include "pool/rows.h"

#include <bit>
#include <utility>

#include "pool/checks.h"

namespace folio::inline v1::pool {

SequenceRecord& Rows::open_sequence() noexcept {
  SequenceRecord& s = sequences[free_sequence];
  free_sequence = s.next_free;
  // 0 stays the generation of no sequence
  s.generation += s.generation == std::numeric_limits<uint32_t>::max() ? 2 : 1;
  s.alive = true;
  ++num_alive;
  return s;
}

void Rows::close_record(SequenceRecord& s) noexcept {
  s = {.generation = s.generation, .next_free = free_sequence};
  free_sequence = index_of(s);
  --num_alive;
}

uint64_t Rows::unfinished_steps(const SequenceRecord& s) const noexcept {
  uint64_t steps = s.steps & unfinished;
  for (uint64_t rest = steps; rest != 0; rest &= rest - 1) {
    const int slot = std::countr_zero(rest);
    if (tickets[slot] > s.last_step) steps &= ~(uint64_t{1} << slot);  // a later step's slot now
  }
  return steps;
}

void Rows::drop_pages(SequenceRecord& s, uint32_t keep) noexcept {
  uint32_t* const pages = row(s);
  const uint64_t steps = unfinished_steps(s);
  while (s.pages > keep) drop(std::exchange(pages[--s.pages], options.num_pages), steps);
}

// ---- Refusals

Status Rows::refused(const Rows* rows, const char* call) noexcept {
  if (rows == nullptr) return moved_from(call);
  return fail(Errc::busy,
              "PagePool::{}: the pool is calling a function of its options, expected no call that "
              "changes it from there",
              call);
}

Status Rows::refused(const Rows* rows, const char* call, SequenceId id) noexcept {
  return rows == nullptr || is_open(rows) ? not_alive(call, id) : refused(rows, call);
}

Status Rows::check_ids(const char* call, std::span<const SequenceId> ids) const noexcept {
  if (ids.data() == nullptr && !ids.empty()) return null_memory(call, "ids", ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (find(ids[i]) != nullptr) continue;
    return fail(Errc::invalid_argument,
                "PagePool::{}: ids[{}] is sequence {} of generation {}, expected one that is alive",
                call, i, ids[i].index, ids[i].generation);
  }
  return {};
}

Status Rows::list_once(const char* call, const char* argument, size_t i, SequenceId id) noexcept {
  SequenceRecord* const s = find(id);
  if (s == nullptr || s->listed) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: {}[{}] is sequence {} of generation {}, expected one that is {}",
                call, argument, i, id.index, id.generation, s == nullptr ? "alive" : "listed once");
  }
  s->listed = true;
  return {};
}

Status Rows::check_length(const char* call, const SequenceRecord& s,
                          int32_t length) const noexcept {
  if (length >= 0 && length <= s.length) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: length is {}, expected 0 .. {} (the sequence's length)", call, length,
              s.length);
}

Status Rows::check_fill(const SequenceRecord& s, int32_t entry) const noexcept {
  if (const int32_t full = s.length / options.page_size; entry < full) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: entry is {}, expected at least {} for a page to fill (the "
                "full pages of the sequence)",
                entry, full);
  }
  const PageRecord& page = records[row(s)[entry]];
  if (page.content != 0) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: entry is {}, expected a page to fill, not one that memory had "
                "for the sequence's load",
                entry);
  }
  if (!page.filling) return {};
  return fail(Errc::busy, "PagePool::begin_io: a transfer fills page {} of the sequence already",
              entry);
}

}  // namespace folio::inline v1::pool
