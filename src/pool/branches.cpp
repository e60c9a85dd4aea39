// SPDX-License-Identifier: Apache-2.0
/// pool/branches.cpp: sequences that go back, part, change places and end.
#include "pool/branches.h"

#include <algorithm>
#include <utility>

namespace folio::inline v1::pool {

void Branches::cut(SequenceRecord& s, int32_t length) noexcept {
  if (length == s.room) return;
  cut_groups(s, length);
  drop_pages(s, pages_for(length));
  s.length = s.room = length;
  s.loading = 0;
  s.trimmed = length % options.page_size != 0;
}

void Branches::share_prefix(const SequenceRecord& parent, SequenceRecord& child,
                            int32_t length) noexcept {
  child.space = parent.space;
  namespaces.retain(child.space);
  if (retention != nullptr)
    retention->of_sequence(index_of(child)) = retention->of_sequence(index_of(parent));
  items.share(index_of(parent), index_of(child), length);
  const uint32_t* const from = row(parent);
  uint32_t* const to = row(child);
  const auto full = static_cast<uint32_t>(length / options.page_size);
  for (; child.pages < full; ++child.pages) hold(to[child.pages] = from[child.pages]);
  child.length = child.room = length;
}

SequenceId Branches::make_child(const SequenceRecord& parent, int32_t length,
                                bool shares) noexcept {
  SequenceRecord& child = open_sequence();
  share_prefix(parent, child, length);
  fork_groups(parent, child, length);  // holds before it evicts
  if (const int32_t cut = length % options.page_size; cut != 0) {
    const uint32_t from = row(parent)[length / options.page_size];
    uint32_t& last = row(child)[child.pages++];
    child.trimmed = shares;
    if (shares) {
      hold(last = from);
    } else {
      last = copy_page(from, cut);
    }
  }
  return id_of(child);
}

void Branches::swap_pages(SequenceRecord& a, SequenceRecord& b) noexcept {
  std::swap_ranges(row(a), row(a) + std::max(a.pages, b.pages), row(b));
  std::swap(a.length, b.length);
  std::swap(a.room, b.room);
  std::swap(a.loading, b.loading);
  std::swap(a.pages, b.pages);
  std::swap(a.steps, b.steps);  // they hold the pages
  std::swap(a.last_step, b.last_step);
  std::swap(a.trimmed, b.trimmed);
  std::swap(a.starting, b.starting);
  items.swap(index_of(a), index_of(b));
  swap_groups(a, b);
}

void Branches::close_sequence(SequenceRecord& s) noexcept {
  give_up(s);
  items.take_away(index_of(s));
  namespaces.close(s.space);
  close_record(s);
}

}  // namespace folio::inline v1::pool
