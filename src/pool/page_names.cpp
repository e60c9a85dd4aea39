// SPDX-License-Identifier: Apache-2.0
/// pool/page_names.cpp: page names, computed when somebody asks.
///
/// A name belongs to a content: of the pages that have it, the findable one keeps it
/// (`PrefixIndex`), and hands it on with the content. So a content is named once, and forgets its
/// name with its last page.
#include <limits>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {
namespace {

Status no_names(const char* call) {
  return fail(Errc::invalid_argument,
              "PagePool::{}: the pool has no names, expected a function in PoolOptions::name",
              call);
}

Status no_companion_names() {
  return fail(
      Errc::invalid_argument,
      "PagePool::companion_names: companions have no names, expected PoolOptions::name with "
      "a function for them (NameFunction::companion)");
}

}  // namespace

Result<PageName> PagePool::name(SequenceId id, int32_t position, uint32_t group) noexcept {
  const pool::SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "name", id);
  State& state = *state_;
  if (state.options.name.function == nullptr) return no_names("name");
  if (Status known = pool::check_group("name", group, num_groups()); !known.is_ok()) return known;
  const int32_t full = s->length / state.options.page_size;
  if (position < 0 || position >= full) {
    return fail(Errc::invalid_argument,
                "PagePool::name: position is {}, expected 0 or more and less than {} (the full "
                "pages of the sequence)",
                position, full);
  }
  Result<PageName> leading = state.name_of(*s, position);
  if (group == 0 || !leading) return leading;
  PageName name;
  if (Status named = companion_names(group, {&*leading, 1}, {&name, 1}); !named.is_ok())
    return named;
  return name;
}

Status PagePool::companion_names(uint32_t group, std::span<const PageName> leading,
                                 std::span<PageName> names) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "companion_names");
  const NameFunction& function = state_->options.name;
  if (function.companion == nullptr) return no_companion_names();
  if (group < 1 || group >= num_groups()) {
    return fail(Errc::invalid_argument,
                "PagePool::companion_names: group is {}, expected 1 or more and less than {} (the "
                "pool's groups)",
                group, num_groups());
  }
  if (names.size() != leading.size()) {
    return fail(Errc::invalid_argument,
                "PagePool::companion_names: names has {} elements, expected {} (the leading pages)",
                names.size(), leading.size());
  }
  if (names.empty()) return {};
  if (leading.data() == nullptr)
    return pool::null_memory("companion_names", "leading", leading.size());
  if (names.data() == nullptr) return pool::null_memory("companion_names", "names", names.size());
  return state_->name_companions(group, leading, names);
}

Status PagePool::names_of(SequenceId id, int32_t position, std::span<const TokenId> tokens,
                          std::span<PageName> names, size_t known) noexcept {
  const pool::SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "names_of", id);
  State& state = *state_;
  if (state.options.name.function == nullptr) return no_names("names_of");
  const int32_t full = s->length / state.options.page_size;
  if (position < 0 || position > full) {
    return fail(Errc::invalid_argument,
                "PagePool::names_of: position is {}, expected 0 .. {} (the full pages of the "
                "sequence)",
                position, full);
  }
  const auto page_size = static_cast<size_t>(state.options.page_size);
  const size_t most =
      std::numeric_limits<int32_t>::max() / page_size - static_cast<size_t>(position);
  if (names.size() > most || tokens.size() != names.size() * page_size) {
    return fail(Errc::invalid_argument,
                "PagePool::names_of: tokens has {} elements for {} names, expected {} for each of "
                "at most {}",
                tokens.size(), names.size(), page_size, most);
  }
  if (known > names.size()) {
    return fail(Errc::invalid_argument,
                "PagePool::names_of: known is {}, expected at most {} (the names)", known,
                names.size());
  }
  if (known == names.size()) return {};
  if (tokens.data() == nullptr) return pool::null_memory("names_of", "tokens", tokens.size());
  if (names.data() == nullptr) return pool::null_memory("names_of", "names", names.size());
  PageName before;
  const PageName* parent = known == 0 ? nullptr : &names[known - 1];
  if (known == 0 && position != 0) {
    const Result<PageName> name = state.name_of(*s, position - 1);
    if (!name) return name.error();
    before = *name;
    parent = &before;
  }
  for (size_t i = known; i < names.size(); parent = &names[i++]) {
    Status named = state.give_name(*s, position + static_cast<int32_t>(i), parent,
                                   tokens.subspan(i * page_size, page_size), names[i]);
    if (!named.is_ok()) return named;
  }
  return {};
}

}  // namespace folio::inline v1::pool
