// SPDX-License-Identifier: Apache-2.0
/// tier/events/event_index.cpp: names of groups, a bit for each medium that has them, and copies
/// beyond one.
#include "folio/tier/event_index.h"

#include <algorithm>
#include <array>
#include <compare>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tier/checks.h"
#include "tier/events/joint_hit.h"
#include "tier/events/wire.h"

namespace folio::inline v1::tier {

using tier::WireEvent;

struct EventIndex::State {
  struct Key {
    PageName name;
    int32_t group = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Known {
    PageName parent;
    bool has_parent = false;
    uint32_t media = 0;
  };
  using Names = std::map<Key, Known>;
  using Groups = std::map<int32_t, IndexedGroup>;

  EventIndexOptions options;
  std::vector<std::string> media;
  Names names;
  /// Beyond the one that a medium's bit stands for, by name, group and medium: few have any.
  std::map<std::pair<Key, uint32_t>, uint32_t> copies;
  Groups given, groups;     ///< by the caller; told of, with what was given
  int64_t short_names = 0;  ///< that were ever told of: 0 spares looking for them
  EventIndexFigures figures;

  [[nodiscard]] uint32_t bit_of(std::string_view medium) const {
    const auto at = std::find(media.begin(), media.end(), medium);
    return at == media.end() ? 0 : uint32_t{1} << (at - media.begin());
  }
  [[nodiscard]] uint32_t bit_for(const std::string& medium) {
    const uint32_t bit = bit_of(medium);
    if (bit != 0 || std::ssize(media) == options.max_media) return bit;
    media.push_back(medium);
    return bit_of(medium);
  }
  void learn(const WireEvent& event);
  void store(const WireEvent& event);
  [[nodiscard]] bool add_copy(const Key& key, uint32_t bit);
  void remove(const WireEvent& event);
  void remove_copy(const Key& key, uint32_t bit);
  void clear() noexcept;
  [[nodiscard]] uint64_t groups_of(const PageName& name, uint32_t bits) const;
  [[nodiscard]] JointHit joint_hit() const;
  [[nodiscard]] int32_t find(std::span<const PageName> asked, uint32_t bits) const;
};

// ---- Groups

/// What a group's events say: its kind and window, and the tokens of its blocks, which are the
/// largest that are told. Smaller ones are of blocks that a prompt does not fill.
void EventIndex::State::learn(const WireEvent& event) {
  const auto [at, is_new] = groups.try_emplace(event.group);
  IndexedGroup& group = at->second;
  const auto given_group = given.find(event.group);
  if (is_new) {
    if (given_group != given.end()) group = given_group->second;
    group.group = event.group;
  }
  if (given_group == given.end() || given_group->second.block_size == 0)
    group.block_size = std::max(group.block_size, event.block_size);
  if (!event.group_kind) return;
  const KnownKind kind = rule_of(*event.group_kind);
  if (!kind.is_known) ++figures.unknown_kinds;
  if (given_group != given.end()) return;
  group.has_rule = kind.rule.has_value() && *kind.rule != GroupRule::chunked &&
                   (*kind.rule != GroupRule::window || event.window);
  group.rule = group.has_rule ? *kind.rule : GroupRule::full;
  group.window = group.rule == GroupRule::window ? event.window.value_or(0) : 0;
}

// ---- Names

void EventIndex::State::store(const WireEvent& event) {
  const uint32_t bit = bit_for(event.medium);
  learn(event);
  const bool is_whole = event.num_tokens == 0
                            ? event.names.size() <= 1
                            : std::ssize(event.names) * event.block_size == event.num_tokens;
  if (!is_whole) ++figures.sparse_events;
  const PageName* parent = event.parent ? &*event.parent : nullptr;
  for (const PageName& name : event.names) {
    if (bit == 0 || !add_copy({name, event.group}, bit)) {
      ++figures.untaken_names;
    } else {
      if (is_whole && parent != nullptr) {
        Known& known = names.find({name, event.group})->second;
        known.parent = *parent;
        known.has_parent = true;
      }
      if (std::all_of(name.bytes.begin(), name.bytes.end() - 8, [](uint8_t b) { return b == 0; }))
        ++short_names;
    }
    parent = &name;
  }
}

/// False where there is no room for it.
bool EventIndex::State::add_copy(const Key& key, uint32_t bit) {
  auto at = names.find(key);
  if (at == names.end()) {
    if (std::ssize(names) >= options.max_names) return false;
    at = names.emplace(key, Known{}).first;
  }
  if ((at->second.media & bit) == 0) {
    at->second.media |= bit;
    ++figures.stored_copies;
    return true;
  }
  if (!options.counts_copies) return true;
  const auto more = copies.find({key, bit});
  if (more == copies.end() && std::ssize(copies) >= options.max_names) return false;
  if (more != copies.end()) {
    ++more->second;
  } else {
    copies.emplace(std::pair(key, bit), 1);
  }
  ++figures.stored_copies;
  return true;
}

void EventIndex::State::remove(const WireEvent& event) {
  if (const uint32_t bit = bit_of(event.medium); bit != 0)
    for (const PageName& name : event.names) remove_copy({name, event.group}, bit);
}

void EventIndex::State::remove_copy(const Key& key, uint32_t bit) {
  const auto at = names.find(key);
  if (at == names.end() || (at->second.media & bit) == 0) return;
  ++figures.removed_copies;
  if (const auto more = copies.find({key, bit}); more != copies.end()) {
    if (--more->second == 0) copies.erase(more);
    return;
  }
  at->second.media &= ~bit;
  if (at->second.media == 0) names.erase(at);
}

void EventIndex::State::clear() noexcept {
  figures.removed_copies = figures.stored_copies;
  names.clear();
  copies.clear();
  groups.clear();
  short_names = 0;
}

// ---- What is found

/// Those that have it in one of these media.
uint64_t EventIndex::State::groups_of(const PageName& name, uint32_t bits) const {
  uint64_t found = 0;
  const auto add = [&](const PageName& known) {
    for (auto at = names.lower_bound({known, 0}); at != names.end() && at->first.name == known;
         ++at)
      if ((at->second.media & bits) != 0) found |= uint64_t{1} << at->first.group;
  };
  add(name);
  if (short_names != 0) {
    const PageName end = name_of_last_64_bits(last_64_bits(name));
    if (end != name) add(end);
  }
  return found;
}

JointHit EventIndex::State::joint_hit() const {
  std::array<IndexedGroup, EventIndex::max_groups> ruled;
  size_t count = 0;
  int32_t tokens = options.block_size;
  for (const auto& [index, group] : groups) {
    if (options.block_size == 0 && group.block_size != 0)
      tokens = tokens == 0 ? group.block_size : std::min(tokens, group.block_size);
    // Of an engine that tells no kinds the first group leads.
    if (group.has_rule) ruled[count++] = group;
  }
  if (count == 0) ruled[count++] = groups.empty() ? IndexedGroup{} : groups.begin()->second;
  return {std::span(ruled).first(count), tokens};
}

int32_t EventIndex::State::find(std::span<const PageName> asked, uint32_t bits) const {
  if (asked.data() == nullptr || names.empty()) return 0;
  JointHit hit = joint_hit();
  if (!hit.is_restricted()) return 0;
  for (const PageName& name : asked) {
    hit.add(groups_of(name, bits));
    if (!hit.can_grow()) break;
  }
  return hit.hit();
}

namespace {

Status check_group(const IndexedGroup& g) {
  constexpr auto call = "EventIndex::create";
  if (g.group < 0 || g.group >= EventIndex::max_groups)
    return fail(Errc::invalid_argument, "{}: groups has group {}, expected 0 .. {}", call, g.group,
                EventIndex::max_groups - 1);
  if (!g.has_rule || static_cast<uint8_t>(g.rule) > static_cast<uint8_t>(GroupRule::state))
    return fail(Errc::invalid_argument, "{}: groups has no rule of group {}, expected one", call,
                g.group);
  const struct {
    const char* name;
    int32_t value, least;
  } fields[] = {{"window", g.window, g.rule == GroupRule::window ? 1 : 0},
                {"chunk", g.chunk, g.rule == GroupRule::chunked ? 1 : 0},
                {"block_size", g.block_size, 0}};
  for (const auto& field : fields)
    if (field.value < field.least)
      return fail(Errc::invalid_argument, "{}: {} of group {} is {}, expected {} or more", call,
                  field.name, g.group, field.value, field.least);
  return {};
}

}  // namespace

Result<EventIndex> EventIndex::create(const EventIndexOptions& options) noexcept {
  if (options.max_names < 1)
    return fail(Errc::invalid_argument, "EventIndex::create: max_names is {}, expected 1 or more",
                options.max_names);
  if (options.max_media < 1 || options.max_media > 32)
    return fail(Errc::invalid_argument, "EventIndex::create: max_media is {}, expected 1 .. 32",
                options.max_media);
  if (options.block_size < 0)
    return fail(Errc::invalid_argument, "EventIndex::create: block_size is {}, expected 0 or more",
                options.block_size);
  if (Status s = tier::check_memory("EventIndex::create", "groups", options.groups.data(),
                                    options.groups.size());
      !s.is_ok())
    return s;
  try {
    auto state = std::make_unique<State>();
    for (const IndexedGroup& group : options.groups) {
      if (Status s = check_group(group); !s.is_ok()) return s;
      if (!state->given.emplace(group.group, group).second)
        return fail(Errc::invalid_argument, "EventIndex::create: groups has group {} twice",
                    group.group);
    }
    state->options = options;
    state->options.groups = {};  // the caller's
    return EventIndex(state.release());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventIndex::create: no memory");
  }
}

EventIndex::~EventIndex() { delete state_; }

Status EventIndex::apply(std::span<const std::byte> payload) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventIndex::apply");
  if (Status s = tier::check_memory("EventIndex::apply", "payload", payload.data(), payload.size());
      !s.is_ok())
    return s;
  try {
    const std::optional<tier::WireBatch> batch = tier::read_batch(payload);
    if (!batch) {
      ++state_->figures.malformed_batches;
      return fail(Errc::invalid_argument,
                  "EventIndex::apply: {} bytes are no batch of events, expected msgpack of "
                  "[seconds, [event, ...], rank]",
                  payload.size());
    }
    for (const WireEvent& event : batch->events) {
      switch (event.kind) {
        case WireEvent::Kind::stored: state_->store(event); break;
        case WireEvent::Kind::removed: state_->remove(event); break;
        case WireEvent::Kind::cleared: state_->clear(); break;
      }
    }
    EventIndexFigures& figures = state_->figures;
    ++figures.batches;
    figures.events += std::ssize(batch->events);
    figures.refused_events += batch->refused_events;
    figures.ignored_events += batch->ignored_events;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventIndex::apply: no memory for a batch of {} bytes",
                payload.size());
  }
}

void EventIndex::clear() noexcept {
  if (state_ != nullptr) state_->clear();
}

int32_t EventIndex::find(std::span<const PageName> names) const noexcept {
  return state_ == nullptr ? 0 : state_->find(names, ~uint32_t{0});
}

int32_t EventIndex::find(std::span<const PageName> names, std::string_view medium) const noexcept {
  if (state_ == nullptr || medium.data() == nullptr) return 0;
  return state_->find(names, state_->bit_of(medium));
}

int32_t EventIndex::num_media() const noexcept {
  return state_ == nullptr ? 0 : static_cast<int32_t>(state_->media.size());
}

std::string_view EventIndex::medium(int32_t i) const noexcept {
  return i < 0 || i >= num_media() ? std::string_view() : state_->media[static_cast<size_t>(i)];
}

int32_t EventIndex::num_groups() const noexcept {
  return state_ == nullptr ? 0 : static_cast<int32_t>(state_->groups.size());
}

IndexedGroup EventIndex::group(int32_t i) const noexcept {
  if (i < 0 || i >= num_groups()) return {};
  return std::next(state_->groups.begin(), i)->second;
}

void EventIndex::visit(void (*function)(void* context, const IndexedName& name) noexcept,
                       void* context) const noexcept {
  if (state_ == nullptr || function == nullptr) return;
  for (const auto& [key, known] : state_->names)
    function(context, {.name = key.name,
                       .parent = known.parent,
                       .media = known.media,
                       .group = key.group,
                       .has_parent = known.has_parent});
}

EventIndexFigures EventIndex::figures() const noexcept {
  if (state_ == nullptr) return {};
  EventIndexFigures figures = state_->figures;
  figures.names = std::ssize(state_->names);
  return figures;
}

}  // namespace folio::inline v1::tier
