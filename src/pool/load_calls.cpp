// SPDX-License-Identifier: Apache-2.0
/// pool/load_calls.cpp: the calls of a load, and of those who take pages elsewhere.
#include <algorithm>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::SequenceRecord;

namespace {

Status check_fill(const char* call, std::span<const GroupBits> fill, size_t pages) {
  if (fill.size() != pages) {
    return fail(Errc::invalid_argument, "PagePool::{}: fill has {} elements, expected {} (pages)",
                call, fill.size(), pages);
  }
  if (fill.data() == nullptr) return null_memory(call, "fill", fill.size());
  return {};
}

/// A length of whole pages behind the sequence's, before `end`, and `fill` for their pages.
Status check_load(const char* call, const SequenceRecord& s, int32_t length, int64_t end,
                  std::span<const GroupBits> fill, int32_t page_size) {
  if (length % page_size != 0 || length <= s.length || length >= end) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: length is {}, expected a multiple of {}, more than {} (the "
                "sequence's) and less than {}",
                call, length, page_size, s.length, end);
  }
  return check_fill(call, fill, static_cast<size_t>((length - s.length) / page_size));
}

Status no_load(const char* call) {
  return fail(Errc::invalid_argument,
              "PagePool::{}: the sequence has no load, expected begin_load before", call);
}

Status check_full_page(const char* call, const SequenceRecord& s, int32_t position,
                       int32_t page_size) {
  const int32_t full = s.length / page_size;
  if (position >= 0 && position < full) return {};
  return fail(
      Errc::invalid_argument,
      "PagePool::{}: position is {}, expected 0 or more and less than {} (the full pages of "
      "the sequence)",
      call, position, full);
}

}  // namespace

// ---- What groups have

Result<PageParts> PagePool::parts(SequenceId id, int32_t position) const noexcept {
  const SequenceRecord* const s = state_ == nullptr ? nullptr : state_->find(id);
  if (s == nullptr) return pool::not_alive("parts", id);
  const State& state = *state_;
  if (Status is = check_full_page("parts", *s, position, state.options.page_size); !is.is_ok())
    return is;
  return state.parts_at(*s, static_cast<uint32_t>(position));
}

Result<IoPin> PagePool::begin_companion_io(SequenceId id, int32_t position,
                                           uint32_t group) noexcept {
  constexpr auto call = "begin_companion_io";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (Status is = check_full_page(call, *s, position, state.options.page_size); !is.is_ok())
    return is;
  if (group < 1 || group >= num_groups()) {
    return fail(
        Errc::invalid_argument,
        "PagePool::{}: group is {}, expected 1 or more and less than {} (the pool's groups)", call,
        group, num_groups());
  }
  const uint32_t page = state.companion_at(*s, static_cast<uint32_t>(position), group);
  if (page == pool::no_page) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: page {} has no companion in group {}, expected one (parts)", call,
                position, group);
  }
  if (state.io_pins.is_full()) {
    return fail(Errc::busy, "PagePool::{}: {} pages have transfers (max_io_pins)", call,
                state.options.max_io_pins);
  }
  state.groups[group].pin(page);
  state.end_call();
  return state.io_pins.add(group, page, false);
}

Result<int32_t> PagePool::find_parts(SequenceId id, std::span<const TokenId> prompt,
                                     std::span<GroupBits> parts) noexcept {
  constexpr auto call = "find_parts";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (Status is = state.check_loadable(call, *s, prompt); !is.is_ok()) return is;
  const int64_t most = int64_t{state.lookup_limit(prompt.size())} - s->pages;
  if (std::ssize(parts) > std::max<int64_t>(most, 0)) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: parts has {} elements, expected at most {} (whole pages behind the "
                "sequence's that end before the prompt does)",
                call, parts.size(), std::max<int64_t>(most, 0));
  }
  if (parts.empty()) return 0;
  if (parts.data() == nullptr) return pool::null_memory(call, "parts", parts.size());
  const auto limit = s->pages + static_cast<uint32_t>(parts.size());
  const uint32_t found = state.find_behind(*s, prompt, limit);
  std::ranges::fill(parts, GroupBits{0});
  for (uint32_t i = 0; i < found; ++i) parts[i] = state.parts_of(state.row(*s)[s->pages + i]);
  state.forget_found(*s, found);
  return static_cast<int32_t>(found);
}

namespace {

Status check_prompt_pages(std::span<const PromptPage> pages, uint32_t limit, uint32_t groups) {
  constexpr auto call = "begin_prompt_io";
  for (size_t i = 0; i < pages.size(); ++i) {
    const PromptPage& page = pages[i];
    if (page.position < 0 || static_cast<uint32_t>(page.position) >= limit) {
      return fail(Errc::invalid_argument,
                  "PagePool::{}: pages[{}].position is {}, expected 0 or more and less than {} "
                  "(whole pages that end before the prompt does)",
                  call, i, page.position, limit);
    }
    if (page.group >= groups) {
      return fail(Errc::invalid_argument,
                  "PagePool::{}: pages[{}].group is {}, expected less than {} (the pool's groups)",
                  call, i, page.group, groups);
    }
  }
  return {};
}

}  // namespace

Result<int32_t> PagePool::begin_prompt_io(SequenceId id, std::span<const TokenId> prompt,
                                          std::span<const PromptPage> pages,
                                          std::span<IoPin> pins) noexcept {
  constexpr auto call = "begin_prompt_io";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (Status is = state.check_loadable(call, *s, prompt); !is.is_ok()) return is;
  if (pins.size() != pages.size()) {
    return fail(Errc::invalid_argument, "PagePool::{}: pins has {} elements, expected {} (pages)",
                call, pins.size(), pages.size());
  }
  if (pages.empty()) return 0;
  if (pages.data() == nullptr) return pool::null_memory(call, "pages", pages.size());
  if (pins.data() == nullptr) return pool::null_memory(call, "pins", pins.size());
  const uint32_t limit = state.lookup_limit(prompt.size());
  if (Status is = check_prompt_pages(pages, limit, num_groups()); !is.is_ok()) return is;
  const uint32_t found = limit <= s->pages ? 0 : state.find_behind(*s, prompt, limit);
  int32_t count = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto position = static_cast<uint32_t>(pages[i].position);
    pins[i] = {};
    if (position >= s->pages + found || state.io_pins.is_full()) continue;
    const uint32_t group = pages[i].group;
    const uint32_t page =
        group == 0 ? state.row(*s)[position] : state.companion_at(*s, position, group);
    if (page == pool::no_page) continue;
    state.with_group(group, [page](auto& of) { of.pin(page); });
    pins[i] = state.io_pins.add(group, page, false);
    ++count;
  }
  state.forget_found(*s, found);
  state.end_call();
  return count;
}

Status PagePool::expect_branch(SequenceId id, int32_t tokens) noexcept {
  constexpr auto call = "expect_branch";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  if (tokens < 0)
    return fail(Errc::invalid_argument, "PagePool::{}: tokens is {}, expected 0 or more", call,
                tokens);
  state_->groups.expect_branch(state_->index_of(*s), tokens);
  return {};
}

// ---- Loads

Status PagePool::State::begin_load(const char* call, SequenceRecord& s,
                                   std::span<const TokenId> prompt, int32_t length,
                                   std::span<GroupBits> fill) noexcept {
  const uint32_t found = find_behind(s, prompt, static_cast<uint32_t>(length / options.page_size));
  Needs needs;
  Status had = count_needs(call, s, length, needs);
  if (had.is_ok()) had = check_needs(call, s, needs);
  if (!had.is_ok()) {
    forget_found(s, found);
    return had;
  }
  open_load(s, length, needs, fill);
  end_call();
  return {};
}

Status PagePool::begin_load(SequenceId id, std::span<const TokenId> prompt, int32_t length,
                            std::span<GroupBits> fill) noexcept {
  constexpr auto call = "begin_load";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (Status is = state.check_loadable(call, *s, prompt); !is.is_ok()) return is;
  const auto end = std::min(static_cast<int64_t>(prompt.size()), state.max_tokens + 1);
  if (Status is = check_load(call, *s, length, end, fill, state.options.page_size); !is.is_ok())
    return is;
  return state.begin_load(call, *s, prompt, length, fill);
}

Status PagePool::begin_whole_load(SequenceId id, std::span<const TokenId> prompt,
                                  std::span<GroupBits> fill) noexcept {
  constexpr auto call = "begin_whole_load";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (Status is = state.check_loadable(call, *s, prompt); !is.is_ok()) return is;
  if (std::ssize(prompt) <= s->length || std::ssize(prompt) > state.max_tokens) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: prompt has {} tokens, expected more than {} (the sequence's) and at "
                "most {}",
                call, prompt.size(), s->length, state.max_tokens);
  }
  const auto length = static_cast<int32_t>(prompt.size());
  const size_t pages = state.pages_for(length) - s->pages;
  if (Status is = check_fill(call, fill, pages); !is.is_ok()) return is;
  return state.begin_load(call, *s, prompt, length, fill);
}

Status PagePool::shorten_load(SequenceId id, int32_t length, std::span<GroupBits> fill) noexcept {
  constexpr auto call = "shorten_load";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (s->loading == 0) return no_load(call);
  if (Status is = check_load(call, *s, length, s->loading, fill, state.options.page_size);
      !is.is_ok())
    return is;
  State::Needs needs;
  Status had = state.count_needs(call, *s, length, needs);
  if (had.is_ok()) had = state.check_needs(call, *s, needs);
  if (!had.is_ok()) return had;
  state.open_load(*s, length, needs, fill);
  state.end_call();
  return {};
}

Status PagePool::commit_load(SequenceId id, std::span<const TokenId> tokens, Merge merge) noexcept {
  constexpr auto call = "commit_load";
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, call, id);
  State& state = *state_;
  if (merge > Merge::allowed) return pool::no_merge(merge);
  if (s->loading == 0) return no_load(call);
  if (std::ssize(tokens) != s->loading - s->length) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: tokens has {} elements, expected {} (the "
                "load's)",
                call, tokens.size(), s->loading - s->length);
  }
  if (tokens.data() == nullptr) return pool::null_memory(call, "tokens", tokens.size());
  if (const uint32_t p = state.first_filling(*s, s->loading); p != state.pages_for(s->loading)) {
    return fail(Errc::busy, "PagePool::{}: a transfer fills page {} of the sequence", call, p);
  }
  state.commit_load(*s, tokens, merge == Merge::allowed && state.unfinished_steps(*s) == 0);
  state.end_call();
  return {};
}

}  // namespace folio::inline v1::pool
