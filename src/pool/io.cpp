// SPDX-License-Identifier: Apache-2.0
/// pool/io.cpp: pages that transfers hold, whatever becomes of the sequences that had them.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::SequenceRecord;

namespace {

Status no_such_page(int32_t entry, uint32_t group, uint32_t end) {
  return fail(Errc::invalid_argument,
              "PagePool::begin_io: entry is {}, expected one of group {}'s row that has a page "
              "(its end is {})",
              entry, group, end);
}

}  // namespace

Status PagePool::State::check_fill(const SequenceRecord& s, int32_t entry,
                                   uint32_t group) const noexcept {
  if (group != 0) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: group is {}, expected 0 for a page to fill", group);
  }
  if (const int32_t full = s.length / options.page_size; entry < full) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: entry is {}, expected at least {} for a page to fill (the "
                "full pages of the sequence)",
                entry, full);
  }
  if (!records[row(s)[entry]].filling) return {};
  return fail(Errc::busy, "PagePool::begin_io: a transfer fills page {} of the sequence already",
              entry);
}

Result<IoPin> PagePool::begin_io(SequenceId id, int32_t entry, uint32_t group,
                                 IoAccess access) noexcept {
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "begin_io", id);
  State& state = *state_;
  if (Status known = pool::check_group("begin_io", group, &state.groups); !known.is_ok())
    return known;
  const uint32_t end = group == 0 ? s->pages : state.groups[group].rows[state.index_of(*s)].end;
  if (entry < 0 || static_cast<uint32_t>(entry) >= end) return no_such_page(entry, group, end);
  const uint32_t num_pages = group == 0 ? state.options.num_pages : state.groups[group].num_pages;
  const uint32_t* const row =
      group == 0 ? state.row(*s) : state.groups.row(group, state.index_of(*s));
  const uint32_t page = row[entry];
  if (page == num_pages) return no_such_page(entry, group, end);  // behind a window
  if (state.awaits_copy(group, page)) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: page {} of the sequence waits for a copy, expected "
                "take_copies before",
                entry);
  }
  if (access > IoAccess::fills) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: access is {}, expected reads or fills (0 .. 1)",
                static_cast<int>(access));
  }
  const bool fills = access == IoAccess::fills;
  if (fills) {
    if (Status checked = state.check_fill(*s, entry, group); !checked.is_ok()) return checked;
  }
  if (state.io_pins.is_full()) {
    return fail(Errc::busy, "PagePool::begin_io: {} pages have transfers (max_io_pins)",
                state.options.max_io_pins);
  }
  if (group == 0)
    ++state.records[page].copies;
  else
    ++state.groups[group].pages[page].holds;
  if (fills) state.records[page].filling = true;
  return state.io_pins.add(group, page, fills);
}

Status PagePool::end_io(IoPin pin) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "end_io");
  State& state = *state_;
  const pool::IoPins::Place* const place = state.io_pins.find(pin);
  if (place == nullptr) {
    return fail(Errc::invalid_argument,
                "PagePool::end_io: pin is {}:{}, expected that of a transfer that has not ended",
                pin.index, pin.generation);
  }
  const uint32_t group = place->group, page = place->page;
  if (place->fills) state.records[page].filling = false;
  state.io_pins.remove(pin);
  if (group == 0)
    state.unhold_copy(page);
  else
    state.groups.drop(group, page, 0, state.groups[group].pages[page].keeping);
  state.end_call();
  return {};
}

Result<uint32_t> PagePool::page_of(IoPin pin) const noexcept {
  const pool::IoPins::Place* const place = state_ == nullptr ? nullptr : state_->io_pins.find(pin);
  if (place != nullptr) return place->page;
  return fail(Errc::invalid_argument,
              "PagePool::page_of: pin is {}:{}, expected that of a transfer that has not ended",
              pin.index, pin.generation);
}

}  // namespace folio::inline v1
