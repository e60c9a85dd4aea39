// SPDX-License-Identifier: Apache-2.0
/// pool/names.cpp: names of full pages, computed when somebody asks.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {
namespace {

Status no_name(const char* of, int64_t which) {
  return fail(Errc::internal, "PagePool::name: the namer gives no name to {} {}", of, which);
}

}  // namespace

Status PagePool::State::name_pages(const pool::SequenceRecord& s, int32_t page) noexcept {
  const uint32_t* const pages = row(s);
  const auto is_known = [&](int32_t p) {
    return names[pages[p]].content == records[pages[p]].content;
  };
  int32_t first = page + 1;  // to name
  while (first > 0 && !is_known(first - 1)) --first;
  PageName parent;
  if (first > 0) parent = names[pages[first - 1]].name;
  const pool::Namespace& space = namespaces[s.space];
  const std::string_view salt(space.salt, space.salt_bytes);
  if (first == 0 && !options.namer.root(options.namer.context, salt, space.adapter, parent))
    return no_name("the root of sequence", index_of(s));
  const auto page_size = static_cast<size_t>(options.page_size);
  for (; first <= page; ++first) {
    PageName name;
    if (!options.namer.page(options.namer.context, parent, {tokens_of(pages[first]), page_size},
                            name))
      return no_name("page", first);
    names[pages[first]] = {records[pages[first]].content, name};
    parent = name;
  }
  return {};
}

Result<PageName> PagePool::name(SequenceId id, int32_t page) noexcept {
  const pool::SequenceRecord* const s = state_ == nullptr ? nullptr : state_->find(id);
  if (s == nullptr) return pool::not_alive("name", id);
  if (state_->options.namer.page == nullptr)
    return fail(Errc::unsupported, "PagePool::name: the pool was made without a namer");
  const int32_t full = s->length / state_->options.page_size;
  if (page < 0 || page >= full) {
    return fail(Errc::invalid_argument,
                "PagePool::name: page is {}, expected one of the sequence's {} full pages", page,
                full);
  }
  if (Status named = state_->name_pages(*s, page); !named.is_ok()) return named;
  return state_->names[state_->row(*s)[page]].name;
}

}  // namespace folio::inline v1
