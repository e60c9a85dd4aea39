// SPDX-License-Identifier: Apache-2.0
/// pool/pages/page_life.h: how a page of any group becomes used, given up, cached and free.
///
/// A page is *held* by rows, by copies and transfers (pins), and by unfinished steps. Given up by a
/// row while a step has it, it waits in `leaving` until the step ends; held by nobody, it waits
/// where its group says. All is O(1) per page.
#pragma once

#include <cstdint>
#include <span>

#include "pool/pages/copies.h"
#include "pool/pages/page_lists.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

/// Base of a group, which is `Group` and has
///   void add_row(page);   bool drop_row(page)  counts of rows; the latter: whether none has it now
///   void note_used(page)                       nobody's before, it is somebody's now
///   void rest(page)                            held by nobody now: into the list where it waits
///   void lose(page)                            cached, it is taken from what it was found by
template <class Group, class Record>
class PageLife {
 public:
  Record* records = nullptr;  ///< by page
  ListsOf<Record> lists;
  Copies copies;
  int64_t evicted = 0;  ///< cached pages that were taken
  int64_t peak_used = 0;

  /// A page that was chosen becomes a row's: whatever it was is gone.
  void take(uint32_t page) noexcept {
    give_away(page);
    self().add_row(page);
    self().note_used(page);
  }
  /// A free or cached page is nobody's, and in no list.
  void give_away(uint32_t page) noexcept {
    if (is_cached(records[page].list)) {
      self().lose(page);
      ++evicted;
    }
    lists.unlink(page);
  }

  /// One row more.
  void hold(uint32_t page) noexcept {
    self().add_row(page);
    revive(page);
  }
  /// One row less; `steps` hold it from now on.
  void drop(uint32_t page, uint64_t steps, Keeping keeping = Keeping::ordinary) noexcept {
    if (steps != 0) hold_for_steps(page, steps);
    Record& record = records[page];
    record.given_up(keeping);
    if (!self().drop_row(page)) return;
    if (record.waits_for_copy()) cancel_copy_into(page);  // nobody will read what it would bring
    settle(page);
  }
  /// One copy or transfer more.
  void pin(uint32_t page) noexcept {
    records[page].pin();
    revive(page);
  }
  void unpin(uint32_t page) noexcept {
    records[page].unpin();
    settle(page);
  }
  void hold_for_steps(uint32_t page, uint64_t steps) noexcept {
    records[page].steps |= steps;
    lists.unlink(page);  // at most from `leaving`: it goes behind what was given up before it
    lists.push_back(PageList::leaving, page);
  }
  /// Into the list where it waits, if nothing holds it.
  void settle(uint32_t page) noexcept {
    const Record& record = records[page];
    if (!record.is_held() && record.steps == 0) self().rest(page);
  }
  void end_step(uint64_t bit) noexcept {
    for (uint32_t page = lists.front(PageList::leaving), next; page != no_page; page = next) {
      Record& record = records[page];
      next = record.next;
      record.steps &= ~bit;
      if (record.steps != 0) continue;
      lists.unlink(page);
      settle(page);
    }
  }

  /// Asks for a copy of the first `tokens` tokens of `from`, which is held, into `to`.
  void ask_copy(uint32_t from, uint32_t to, int32_t tokens) noexcept {
    // A page that waits for its own copy has nothing beyond it: read where that copy reads. So no
    // copy depends on another.
    if (records[from].waits_for_copy()) from = copies.pending()[records[from].pending_copy].from;
    pin(from);
    records[to].wait_for(copies.add({from, to, tokens}));
  }
  /// Those taken last have run. Their memory stays as it is until the next call.
  std::span<const PageCopy> take_copies() noexcept {
    for (const PageCopy& done : copies.running()) {
      end_copy(done.from);
      end_copy(done.to);
    }
    const std::span<const PageCopy> taken = copies.take();
    for (const PageCopy& copy : taken) {  // `from` is held since the copy was asked for
      records[copy.to].copy_came();
      records[copy.to].pin();
    }
    return taken;
  }
  /// The step holds what the copies that were taken hold.
  void hold_copies_for(uint64_t bit) noexcept {
    for (const PageCopy& copy : copies.running()) {
      for (const uint32_t page : {copy.from, copy.to}) {
        hold_for_steps(page, bit);
        end_copy(page);
      }
    }
    copies.end();
  }

 private:
  [[nodiscard]] Group& self() noexcept { return static_cast<Group&>(*this); }
  void revive(uint32_t page) noexcept {
    if (!is_cached(records[page].list)) return;
    lists.unlink(page);
    self().note_used(page);
  }
  void end_copy(uint32_t page) noexcept {
    records[page].given_up(Keeping::ordinary);
    unpin(page);
  }
  void cancel_copy_into(uint32_t page) noexcept {
    const uint32_t place = records[page].pending_copy;
    const uint32_t from = copies.pending()[place].from;
    records[copies.pending().back().to].pending_copy = place;
    copies.cancel(place);
    records[page].copy_came();
    end_copy(from);
  }
};

}  // namespace folio::inline v1::pool
