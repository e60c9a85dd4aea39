// SPDX-License-Identifier: Apache-2.0
/// pool/page_names.cpp: page names, computed when somebody asks.
///
/// A name belongs to a content: of the pages that have it, the findable one keeps it
/// (`PrefixIndex`), and hands it on with the content. So a content is named once, and forgets its
/// name with its last page.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

int32_t PagePool::State::end_of_named(const pool::SequenceRecord& s, int32_t end) const noexcept {
  const uint32_t* const pages = row(s);
  while (end > 0 && index.name_of(index.findable_twin(pages[end - 1])) == nullptr) --end;
  return end;
}

Result<PageName> PagePool::State::name_of(const pool::SequenceRecord& s,
                                          int32_t position) noexcept {
  const NameFunction& give = options.name;
  const pool::Namespace& space = namespaces[s.space];
  const uint32_t* const pages = row(s);
  int32_t next = end_of_named(s, position + 1);
  const PageName* parent =
      next == 0 ? nullptr : index.name_of(index.findable_twin(pages[next - 1]));
  for (; next <= position; ++next) {
    const uint32_t page = index.findable_twin(pages[next]);
    PageName name;
    const PageContent content{.parent = parent,
                              .tokens = {tokens_of(page), static_cast<size_t>(options.page_size)},
                              .spans = items.in_page(index_of(s), next),
                              .salt = {space.salt, space.salt_bytes},
                              .adapter = space.adapter};
    calls_out = true;
    const Status named = give.function(give.context, content, &name);
    calls_out = false;
    if (!named.is_ok()) return named;
    index.set_name(page, name);
    parent = index.name_of(page);
  }
  return *parent;
}

Result<PageName> PagePool::name(SequenceId id, int32_t position) noexcept {
  const pool::SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "name", id);
  State& state = *state_;
  if (state.options.name.function == nullptr) {
    return fail(Errc::invalid_argument,
                "PagePool::name: the pool has no names, expected a function in PoolOptions::name");
  }
  const int32_t full = s->length / state.options.page_size;
  if (position < 0 || position >= full) {
    return fail(Errc::invalid_argument,
                "PagePool::name: position is {}, expected 0 or more and less than {} (the full "
                "pages of the sequence)",
                position, full);
  }
  return state.name_of(*s, position);
}

}  // namespace folio::inline v1
