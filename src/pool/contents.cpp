// SPDX-License-Identifier: Apache-2.0
/// pool/contents.cpp: pages of sequences become full, get names, and are given up.
#include <algorithm>
#include <utility>

#include "pool/checks.h"
#include "pool/lookup.h"
#include "pool/outside/shared_word.h"

namespace folio::inline v1::pool {

void Lookup::name_full_pages(const SequenceRecord& s, uint32_t first, uint32_t last,
                             bool merges) noexcept {
  while (first < last) {
    const Before before = enter_page(s, first);
    const uint32_t end = std::min(last, items.page_to_open(index_of(s)));
    name_run(s, first, end, merges, before);
    first = end;
  }
}

void Lookup::name_run(const SequenceRecord& s, uint32_t first, uint32_t last, bool merges,
                      Before before) noexcept {
  uint32_t* const pages = row(s);
  auto [parent, hash] = before;
  constexpr uint32_t ahead = PrefixIndex::ahead;
  const uint64_t known = index.last_content();
  for (uint32_t p = first, hashed = first; p < last; ++p) {
    if ((p - first) % ahead == 0) {  // as in match, and one step more: the second of a bucket
      for (; hashed < std::min(last, p + 3 * ahead); ++hashed) {
        hash = index.hash(hash, tokens_of(pages[hashed]));
        publish(records[pages[hashed]].hash, hash);
        index.prefetch(hash);
        with_policy([hash](auto& policy) { policy.prefetch(hash); });
      }
      for (uint32_t i = p + ahead; i < std::min(last, p + 2 * ahead); ++i)
        index.prefetch_chain(records[pages[i]].hash);
      for (uint32_t i = p; i < std::min(last, p + ahead); ++i)
        index.prefetch_second(records[pages[i]].hash);
    }
    const uint32_t twin = index.add(pages[p], parent);
    ages.stored(pages[p]);
    if (twin == no_page) {
      with_policy([&](auto& policy) { policy.created(pages[p]); });
      if (events.on()) tell_stored(s, p);
    }
    if (twin != no_page && merges) {
      merge(pages[p], twin);
    } else if (twin != no_page && is_cached(records[twin].list)) {
      lists.unlink(twin);  // the sequence's own page answers now
      settle(twin);
    }
    parent = records[pages[p]].content;
  }
  if (heads.is_on()) add_heads(s, first, last, known);
}

void Lookup::merge(uint32_t& page, uint32_t twin) noexcept {
  hold(twin);
  drop(std::exchange(page, twin), 0);
}

// ---- Names and events

int32_t Lookup::end_of_named(const SequenceRecord& s, int32_t end) const noexcept {
  const uint32_t* const pages = row(s);
  while (end > 0 && index.name_of(index.findable_twin(pages[end - 1])) == nullptr) --end;
  return end;
}

Status Lookup::give_name(const SequenceRecord& s, int32_t position, const PageName* parent,
                         std::span<const TokenId> full_page, PageName& name) noexcept {
  const Namespace& space = namespaces[s.space];
  const PageContent content{.parent = parent,
                            .tokens = full_page,
                            .spans = items.in_page(index_of(s), position),
                            .salt = {space.salt, space.salt_bytes},
                            .adapter = space.adapter};
  calls_out = true;
  Status named = options.name.function(options.name.context, content, &name);
  calls_out = false;
  return named;
}

Result<PageName> Lookup::name_of(const SequenceRecord& s, int32_t position) noexcept {
  const uint32_t* const pages = row(s);
  int32_t next = end_of_named(s, position + 1);
  const PageName* parent =
      next == 0 ? nullptr : index.name_of(index.findable_twin(pages[next - 1]));
  for (; next <= position; ++next) {
    const uint32_t page = index.findable_twin(pages[next]);
    PageName name;
    const Status named = give_name(s, next, parent, full_page(page), name);
    if (!named.is_ok()) return named;
    index.set_name(page, name);
    parent = index.name_of(page);
  }
  return *parent;
}

Status Lookup::name_companions(uint32_t group, std::span<const PageName> leading,
                               std::span<PageName> names) noexcept {
  CompanionContent content{.leading = {}, .group = group, .options = groups[group].options};
  for (size_t i = 0; i < names.size(); ++i) {
    content.leading = leading[i];
    calls_out = true;
    Status named = options.name.companion(options.name.context, content, &names[i]);
    calls_out = false;
    if (!named.is_ok()) return named;
  }
  return {};
}

void Lookup::tell_stored(const SequenceRecord& s, uint32_t position) noexcept {
  const uint32_t page = row(s)[position];
  const PageRecord& record = records[page];
  EventLog::Brief event{.content = record.content,
                        .parent = record.parent,
                        .adapter = namespaces[s.space].adapter,
                        .position = static_cast<int32_t>(position),
                        .num_tokens = options.page_size};
  if (options.name.function == nullptr) return events.add(event, nullptr, full_page(page));
  EventLog::Names given;
  // A page whose parent has no name, because the function failed then, gets none now: walking back
  // further would not be O(1).
  const PageName* const parent =
      position == 0 ? nullptr : index.name_of(index.findable_twin(row(s)[position - 1]));
  if (position == 0 || parent != nullptr) {
    const Result<PageName> name = name_of(s, static_cast<int32_t>(position));
    event.has_name = name.has_value();
    if (event.has_name) given.own = *name;
  }
  event.has_parent_name = parent != nullptr;
  if (parent != nullptr) given.parent = *parent;
  events.add(event, &given, full_page(page));
}

Lookup::CompanionEvent Lookup::companion_event(PoolEventKind kind, uint32_t group,
                                               uint32_t leading) const noexcept {
  CompanionEvent told{.brief = {.content = records[leading].content,
                                .num_tokens = options.page_size,
                                .group = group,
                                .kind = kind},
                      .names = {}};
  const PageName* const name = index.name_of(index.findable_twin(leading));
  if (name == nullptr) return told;
  told.names.parent = *name;
  told.brief.has_parent_name = true;
  if (options.name.companion == nullptr) return told;
  const CompanionContent content{
      .leading = *name, .group = group, .options = groups[group].options};
  told.brief.has_name =
      options.name.companion(options.name.context, content, &told.names.own).is_ok();
  return told;
}

void Lookup::tell_companion(PoolEventKind kind, uint32_t group, uint32_t leading) noexcept {
  if (records[leading].content == 0) return;  // a tail's
  calls_out = true;
  const CompanionEvent told = companion_event(kind, group, leading);
  calls_out = false;
  events.add(told.brief, &told.names,
             kind == PoolEventKind::stored ? full_page(leading) : std::span<const TokenId>());
}

void Lookup::tell_events(bool on) noexcept {
  on = on && events.on();
  index.attach_events(on ? &events : nullptr);
  groups.watcher = {};
  if (!on) return;
  groups.watcher.context = this;
  groups.watcher.function = [](void* self, PoolEventKind kind, uint32_t group,
                               uint32_t leading) noexcept {
    static_cast<Lookup*>(self)->tell_companion(kind, group, leading);
  };
}

Status Lookup::check_events(const char* call, std::span<const PoolEvent> into) const noexcept {
  if (!events.has_ring()) return no_events(call, "event_capacity");
  if (into.data() == nullptr && !into.empty()) return null_memory(call, "events", into.size());
  return {};
}

// ---- The end of a sequence

void Lookup::keep_pages(const SequenceRecord& s) noexcept {
  const KeepRanges& said = retention->of_sequence(index_of(s));
  const uint32_t* const pages = row(s);
  Keep keep{.level = 0};
  for (int64_t p = s.length / options.page_size; p-- > 0;) {
    const Keep* const own = said.of(p * options.page_size, (p + 1) * options.page_size);
    keep = std::max(keep, own == nullptr ? Keep{} : *own);
    retention->raise(index.findable_twin(pages[p]), keep);
  }
}

void Lookup::note_cost(const SequenceRecord& s) noexcept {
  const auto full = static_cast<uint32_t>(s.length / options.page_size);
  const uint32_t* const pages = row(s);
  for (uint32_t p = 0; options.prefix_reuse && p < full; ++p)
    eviction->given_up(index.findable_twin(pages[p]), full);
}

void Lookup::note_end(const SequenceRecord& s) noexcept {
  if (retention != nullptr) keep_pages(s);
  if (eviction->notes_ends()) note_cost(s);
}

void Lookup::give_up(SequenceRecord& s) noexcept {
  if (heads.is_on()) keep_tail(s);
  note_end(s);
  release_groups(s);
  drop_pages(s, 0);
  items.close(index_of(s));
}

}  // namespace folio::inline v1::pool
