// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model.cpp: the calls, and the comparison of all that can be seen.
#include "pool/group_model.h"

#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/inspection.h"

namespace folio::test {

PoolOptions GroupModel::complete(PoolOptions options) {
  if (!options.prefix_reuse) return options;
  options.name = names_.function();
  const auto note = [](void* self, const PoolEvent& event, std::span<const TokenId>) noexcept {
    static_cast<GroupModel*>(self)->events_.push_back(event);
  };
  options.on_event = {.function = note, .context = this};
  return options;
}

GroupModel::GroupModel(const PoolOptions& options)
    : groups_(options.groups.begin(), options.groups.end()),
      options_(memory_.hooked(complete(options))),
      pool_(checked(PagePool::create(options_))),
      arena_(static_cast<size_t>(options.arena_bytes), 0),
      items_(options),
      retention_(options.max_retention_ms) {
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const GroupFigures figures = checked(pool_.group(g));
    page_bytes_.push_back(figures.page_bytes);
    page_size_.push_back(figures.page_size);
    RC_ASSERT(g == 0 || figures.num_pages * figures.page_bytes <= options.arena_bytes);
  }
  check();
}

uint64_t GroupModel::history(const Sequence& s, int64_t count, uint32_t group) {
  return history_of(0x9e3779b97f4a7c15u + group, s.tokens, s.items.spans, count);
}

uint32_t GroupModel::entry(SequenceId id, uint32_t group, int64_t page) const {
  return pool_.table(group).entries[checked(pool_.row_start(id, group)) + page];
}

void GroupModel::for_cells(SequenceId id, uint32_t group, int64_t position, auto call) const {
  const int64_t size = page_size_[group], page = entry(id, group, position / size);
  if (page_bytes_[group] == 0) return;  // a leading page without bytes
  RC_ASSERT(page < checked(pool_.group(group)).num_pages);
  const bool state = groups_[group].rule == GroupRule::state;
  const int64_t per_token = page_bytes_[group] / size;
  const int64_t first = page * page_bytes_[group] + (state ? 0 : position % size * per_token);
  const int64_t count = state ? page_bytes_[group] : per_token;
  for (int64_t cell = first; cell < first + count; ++cell) call(static_cast<size_t>(cell));
}

void GroupModel::write(SequenceId id, uint32_t group, int64_t position, uint64_t value) {
  for_cells(id, group, position, [&](size_t cell) { arena_[cell] = value; });
}

void GroupModel::for_visible(const Sequence& s, auto call) const {
  if (!s.load.empty()) return;  // its row is that of the load
  const auto length = static_cast<int64_t>(s.tokens.size());
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const GroupOptions& o = groups_[g];
    for (int64_t t = 0; t < length; ++t) {
      const bool visible =
          o.rule == GroupRule::full ||
          (o.rule == GroupRule::window && (t > length - o.window || t < o.sinks)) ||
          (o.rule == GroupRule::chunked && t / o.chunk == length / o.chunk) ||
          (o.rule == GroupRule::state && t == length - 1);
      if (visible && !awaits_copy(g, entry(s.id, g, t / page_size_[g]))) call(t, g);
    }
  }
}

bool GroupModel::awaits_copy(uint32_t group, uint32_t page) const {
  if (group == 0) return pool::PoolInspection::record(pool_, page).awaits_copy;
  const pool::Group& g = pool::PoolInspection::groups(pool_)[group];
  return page < g.num_pages && g.records[page].pending_copy != pool::no_page;
}

// ---- Sequences

void GroupModel::expect_unchanged(const std::vector<std::byte>& before) const {
  const bool is_unchanged = memory_.snapshot() == before;
  RC_ASSERT(is_unchanged);
}

int64_t GroupModel::room_behind(const Sequence& s, int32_t new_tokens) const {
  const int64_t most = int64_t{options_.max_pages_per_sequence} * options_.page_size;
  const auto end = static_cast<int64_t>(s.tokens.size()) + new_tokens;
  return end > most ? end : std::min(most, end + options_.lookahead_tokens);
}

void GroupModel::expect_too_few(const std::vector<int64_t>& ends) {
  ++refused_rooms;
  const pool::Groups& groups = pool::PoolInspection::groups(pool_);
  uint32_t most[pool::max_groups] = {};
  for (uint32_t g = 0; g < num_groups(); ++g) {
    for (const int64_t end : ends) most[g] += static_cast<uint32_t>(end / page_size_[g]) + 2;
    most[g] += g == 0 ? options_.watermark_pages : 0;
  }
  const PoolStats stats = pool_.stats();
  const bool leading =
      groups.slabs.has(0) || stats.free_pages + stats.cached_pages - stats.pinned_pages >= most[0];
  for (uint32_t g = 0; g < num_groups(); ++g) most[g] = groups.slabs.has(g) ? most[g] : 0;
  RC_ASSERT(!(groups.slabs.can_give(most) && leading));
}

void GroupModel::reserve(size_t sequence, int32_t new_tokens) {
  Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const int64_t end = room_behind(s, new_tokens);
  const auto explanation = pool_.explain(s.id, new_tokens);
  const GroupOrder order(pool_);
  const Status status = pool_.reserve(s.id, new_tokens);
  if (explanation) RC_ASSERT(status.is_ok() == (explanation->short_group == -1));
  if (!status.is_ok()) {
    const bool too_long =
        new_tokens < 0 || end > int64_t{options_.max_pages_per_sequence} * options_.page_size;
    RC_ASSERT(status.code() == (too_long ? Errc::invalid_argument : Errc::out_of_pages));
    if (!too_long) expect_too_few({end});
    return expect_unchanged(before);
  }
  s.room = std::max(s.room, end);
  gone_by_level += order.expect_kept_by(pool_);
  check();
}

void GroupModel::reserve_all(int32_t new_tokens) {
  const auto before = memory_.snapshot();
  std::vector<ReserveRequest> requests;
  std::vector<int64_t> ends;
  bool too_long = false;
  for (const Sequence& s : sequences_) {
    requests.push_back({s.id, new_tokens});
    ends.push_back(room_behind(s, new_tokens));
    too_long |= ends.back() > int64_t{options_.max_pages_per_sequence} * options_.page_size;
  }
  const GroupOrder order(pool_);
  const Status status = pool_.reserve(requests);
  if (!status.is_ok()) {
    // of two faults the first in the list is named
    RC_ASSERT(status.code() == Errc::out_of_pages ||
              (too_long && status.code() == Errc::invalid_argument));
    if (!too_long) expect_too_few(ends);
    return expect_unchanged(before);
  }
  RC_ASSERT(!too_long);
  for (size_t i = 0; i < ends.size(); ++i)
    sequences_[i].room = std::max(sequences_[i].room, ends[i]);
  gone_by_level += order.expect_kept_by(pool_, Room::may_be_too_much);
  check();
}

void GroupModel::commit(size_t sequence, const std::vector<TokenId>& written, Merge merge) {
  Sequence& s = sequences_[sequence];
  const auto begin = static_cast<int64_t>(s.tokens.size());
  const int64_t end = begin + static_cast<int64_t>(written.size());
  if (written.empty()) return;
  // A state is overwritten: what copies it must have run. Copies of tokens read what stays.
  for (uint32_t g = 1; g < num_groups(); ++g) {
    const bool state = groups_[g].rule == GroupRule::state;
    if (state && !pool::PoolInspection::groups(pool_)[g].copies.pending().empty()) take_copies();
  }
  if (!s.load.empty()) {
    const auto before = memory_.snapshot();
    RC_ASSERT(pool_.commit(s.id, written, merge).code() == Errc::busy);
    return expect_unchanged(before);
  }
  if (end > s.room) {
    RC_ASSERT(pool_.commit(s.id, written, merge).code() == Errc::invalid_argument);
    return;
  }
  for (uint32_t g = 0; g < num_groups(); ++g) {
    if (!awaits_copy(g, entry(s.id, g, begin / page_size_[g]))) continue;
    const auto before = memory_.snapshot();
    RC_ASSERT(pool_.commit(s.id, written, merge).code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  s.tokens.insert(s.tokens.end(), written.begin(), written.end());
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const bool state = groups_[g].rule == GroupRule::state;
    for (int64_t t = state ? end - 1 : begin; t < end; ++t) {
      for_cells(s.id, g, t, [&](size_t cell) {
        for (Step& step : steps_) {
          const auto read = step.reads.find(cell);
          if (read != step.reads.end() && read->second.state_of == s.id) step.reads.erase(read);
        }
        arena_[cell] = history(s, t + 1, g);
      });
    }
  }
  checked(pool_.commit(s.id, written, merge));
  name_pages(s, begin);
  check();
}

void GroupModel::clear() {
  bool used = pool_.stats().used_pages != 0;
  for (uint32_t g = 0; g < num_groups(); ++g) used |= checked(pool_.group(g)).used_pages != 0;
  const auto before = memory_.snapshot();
  const Status status = pool_.clear();
  RC_ASSERT(status.is_ok() == !used);
  if (used) return expect_unchanged(before);
  for (uint32_t g = 0; g < num_groups(); ++g) RC_ASSERT(checked(pool_.group(g)).cached_pages == 0);
  check();
}

void GroupModel::take_copies() {
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const std::span<const PageCopy> copies = pool_.take_copies(g);
    // any order will do (folio/pool/page_pool.h)
    for (auto at = copies.rbegin(); at != copies.rend(); ++at) {
      const PageCopy& copy = *at;
      const int64_t count = page_bytes_[g] / page_size_[g] * copy.tokens;
      const bool state = groups_[g].rule == GroupRule::state;
      std::copy_n(arena_.begin() + copy.from * page_bytes_[g], state ? page_bytes_[g] : count,
                  arena_.begin() + copy.to * page_bytes_[g]);
    }
  }
  check();
}

void GroupModel::begin_step(const std::vector<size_t>& sequences) {
  std::vector<SequenceId> ids;
  Step step;
  for (const size_t i : sequences) {
    const Sequence& s = sequences_[i];
    ids.push_back(s.id);
    for_visible(s, [&](int64_t t, uint32_t g) {
      const bool state = groups_[g].rule == GroupRule::state;
      for_cells(s.id, g, t, [&](size_t cell) {
        step.reads[cell] = {arena_[cell], state ? s.id : SequenceId()};
      });
    });
  }
  const auto ticket = pool_.begin_step(ids);
  if (!ticket) return RC_ASSERT(ticket.error().code() == Errc::busy);
  step.ticket = *ticket;
  steps_.push_back(step);
  check();
}

void GroupModel::begin_io(size_t sequence, uint32_t group, int32_t entry) {
  const Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const auto pin = pool_.begin_io(s.id, entry, group);
  if (!pin) {
    RC_ASSERT(pin.error().code() == Errc::busy || pin.error().code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  RC_ASSERT(checked(pool_.page_of(*pin)) == this->entry(s.id, group, entry));
  Step transfer{.ticket = {}, .pin = *pin, .reads = {}};
  for_visible(s, [&](int64_t t, uint32_t g) {
    if (g != group || t / page_size_[g] != entry) return;
    const bool state = groups_[g].rule == GroupRule::state;
    for_cells(s.id, g, t, [&](size_t cell) {
      transfer.reads[cell] = {arena_[cell], state ? s.id : SequenceId()};
    });
  });
  ++transfers;
  steps_.push_back(transfer);
  check();
}

void GroupModel::end_step(size_t step) {
  const Step& ends = steps_[step];
  checked(ends.pin ? pool_.end_io(*ends.pin) : pool_.end_step(ends.ticket));
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(step));
  check();
}

void GroupModel::finish() {
  while (!sequences_.empty()) release(0);
  while (!steps_.empty()) end_step(0);
  take_copies();
  take_copies();
  for (uint32_t g = 0; g < num_groups(); ++g) RC_ASSERT(checked(pool_.group(g)).used_pages == 0);
  clear();
}

void GroupModel::check_events() {
  for (const PoolEvent& event : std::exchange(events_, {})) {
    heard_.take(event);
    if (event.group != 0)
      RC_ASSERT(event.name == NaiveNames::of_companion(event.parent_name, event.group));
  }
  RC_ASSERT(heard_.contents() == EventReplay::of(pool_));
  RC_ASSERT(heard_.companions() == EventReplay::companions_of(pool_));
  if (!options_.prefix_reuse || heard_.next() % 4 != 0) return;
  EventReplay healed;
  healed.heal(pool_);
  RC_ASSERT(healed.next() == heard_.next());
  RC_ASSERT(healed.contents() == heard_.contents());
  RC_ASSERT(healed.companions() == heard_.companions());
}

void GroupModel::check() {
  checked(pool_.check_invariants());
  check_events();
  check_levels();
  for (const Sequence& s : sequences_) {
    RC_ASSERT(checked(pool_.length(s.id)) == static_cast<int32_t>(s.tokens.size()));
    for_visible(s, [&](int64_t t, uint32_t g) {
      const uint64_t expected = history(s, t + 1, g);
      for_cells(s.id, g, t, [&](size_t cell) { RC_ASSERT(arena_[cell] == expected); });
    });
  }
  for (const Step& step : steps_) {
    for (const auto& [cell, read] : step.reads) RC_ASSERT(arena_[cell] == read.value);
  }
  RC_ASSERT(memory_.living.size() == 1U);
}

}  // namespace folio::test
