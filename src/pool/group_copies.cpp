// SPDX-License-Identifier: Apache-2.0
/// pool/group_copies.cpp: copies of the groups behind the leading one.
#include "pool/groups.h"

namespace folio::inline v1::pool {

void Groups::copy(uint32_t group, uint32_t from, uint32_t to, int32_t tokens) noexcept {
  Group& g = groups_[group];
  // as in a pool without groups: no copy depends on another
  if (const uint32_t own = g.pages[from].pending_copy; own != no_page)
    from = g.copies.pending()[own].from;
  ++g.pages[from].holds;
  g.pages[to].pending_copy = g.copies.add({from, to, tokens});
}

void Groups::cancel_copy_into(uint32_t group, uint32_t page) noexcept {
  Group& g = groups_[group];
  const uint32_t place = g.pages[page].pending_copy;
  const uint32_t from = g.copies.pending()[place].from;
  g.pages[g.copies.pending().back().to].pending_copy = place;
  g.copies.cancel(place);
  g.pages[page].pending_copy = no_page;
  drop(group, from, 0);
}

std::span<const PageCopy> Groups::take_copies(uint32_t group) noexcept {
  Group& g = groups_[group];
  for (const PageCopy& done : g.copies.running()) {
    drop(group, done.from, 0);
    drop(group, done.to, 0);
  }
  const std::span<const PageCopy> taken = g.copies.take();
  for (const PageCopy& copy : taken) {
    g.pages[copy.to].pending_copy = no_page;
    ++g.pages[copy.to].holds;
  }
  return taken;
}

void Groups::hold_copies_for(uint64_t bit) noexcept {
  for (uint32_t g = 1; g < count_; ++g) {
    for (const PageCopy& copy : groups_[g].copies.running()) {
      drop(g, copy.from, bit);
      drop(g, copy.to, bit);
    }
    groups_[g].copies.end();
  }
}

}  // namespace folio::inline v1::pool
