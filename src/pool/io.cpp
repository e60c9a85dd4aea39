// SPDX-License-Identifier: Apache-2.0
/// pool/io.cpp: pages that transfers hold, whatever becomes of the sequences that had them.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::SequenceRecord;

namespace {

Status no_such_page(int32_t entry, uint32_t group, uint32_t end) {
  return fail(Errc::invalid_argument,
              "PagePool::begin_io: entry is {}, expected one of group {}'s row that has a page "
              "(its end is {})",
              entry, group, end);
}

template <class AnyGroup>
Result<IoPin> begin(pool::Rows& rows, AnyGroup& group, const SequenceRecord& s, int32_t entry,
                    IoAccess access) {
  const uint32_t end = rows.end_of_row(group, s);
  if (entry < 0 || static_cast<uint32_t>(entry) >= end)
    return no_such_page(entry, group.number, end);
  const uint32_t page = group.row_of(rows.index_of(s))[entry];
  if (page == group.num_pages) return no_such_page(entry, group.number, end);  // behind a window
  if (group.records[page].waits_for_copy()) {
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
  if (fills && !group.has_content) {
    return fail(Errc::invalid_argument,
                "PagePool::begin_io: group is {}, expected 0 for a page to fill", group.number);
  }
  if (fills) {
    if (Status checked = rows.check_fill(s, entry); !checked.is_ok()) return checked;
  }
  if (rows.io_pins.is_full()) {
    return fail(Errc::busy, "PagePool::begin_io: {} pages have transfers (max_io_pins)",
                rows.options.max_io_pins);
  }
  group.pin(page);
  if (fills) rows.records[page].filling = true;
  return rows.io_pins.add(group.number, page, fills);
}

}  // namespace

Result<IoPin> PagePool::begin_io(SequenceId id, int32_t entry, uint32_t group,
                                 IoAccess access) noexcept {
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "begin_io", id);
  State& state = *state_;
  if (Status known = pool::check_group("begin_io", group, num_groups()); !known.is_ok())
    return known;
  return state.with_group(group, [&](auto& of) { return begin(state, of, *s, entry, access); });
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
  state.with_group(group, [page](auto& of) { of.unpin(page); });
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

Status PagePool::watch_evictions(const EvictionFunction& function) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "watch_evictions");
  if (function.function != nullptr && state_->evictions.function != nullptr) {
    return fail(Errc::busy,
                "PagePool::watch_evictions: a function is asked already, expected none before");
  }
  state_->evictions = function;
  return {};
}

}  // namespace folio::inline v1::pool
