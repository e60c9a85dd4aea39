// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/payload_pages.cpp: patterns in the pages of rows.
#include "tiers/payload_pages.h"

#include <utility>

namespace folio::cli {

Result<PayloadPages> PayloadPages::create(const PagePool& pool, std::span<const PageKind> kinds) {
  PayloadPages made;
  made.pool_ = &pool;
  for (uint32_t g = 0; g < kinds.size(); ++g) {
    const GroupFigures figures = pool.group(g).value();
    Group& group = made.groups_.emplace_back();
    group.rule = pool.group_options(g).value();
    group.page_size = figures.page_size;
    group.num_pages = figures.num_pages;
    group.bytes = kinds[g].payload_bytes;
    group.layer = static_cast<int32_t>(g);
    constexpr int64_t most_bytes = INT32_MAX;
    if (group.bytes > most_bytes)
      return fail(Errc::invalid_argument,
                  "--payload-bytes: {} stand for a page, expected at most {}", group.bytes,
                  most_bytes);
    auto memory = Buffer::allocate(group.num_pages * group.bytes);
    if (!memory) return memory.error();
    group.memory = std::move(*memory);
    if (made.has_states(group)) {
      group.states = {group.memory.data(), group.bytes, group.bytes};
      continue;
    }
    // a page as one token of so many bytes
    auto planes = make_planes({.head_size = static_cast<int32_t>(group.bytes),
                               .page_size = 1,
                               .dtype = DType::i8,
                               .is_mla = true},
                              group.num_pages, group.memory.span());
    if (!planes) return planes.error();
    group.planes = std::move(*planes);
  }
  for (const Group& group : made.groups_) {
    tier::GroupOfCache& of = made.of_cache_.emplace_back();
    of.planes = group.planes;
    if (made.has_states(group)) of.states = {&group.states, 1};
    of.layers = {&group.layer, 1};
  }
  return made;
}

void PayloadPages::describe(CacheManagerOptions& options, int32_t hit_interval) {
  if (groups_.size() == 1) {
    options.planes = groups_.front().planes;
    return;
  }
  for (size_t g = 1; g < groups_.size(); ++g)
    if (!has_states(groups_[g])) of_cache_[g].hit_interval = hit_interval;
  options.groups = of_cache_;
}

MemorySpan PayloadPages::page_at(SequenceId id, uint32_t group, int64_t position) const {
  const Group& of = groups_[group];
  const uint32_t page = pool_->table(group).entries[pool_->row_start(id, group).value() + position];
  if (int64_t{page} >= of.num_pages) return {};
  return {of.memory.data() + int64_t{page} * of.bytes, of.bytes};
}

void PayloadPages::fill(SequenceId id, int64_t position, const PagePattern& pattern) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (has_states(groups_[g])) continue;
    const MemorySpan page = page_at(id, g, position);
    if (page.data != nullptr) pattern.write_to(page);
  }
}

void PayloadPages::fill_states(SequenceId id, int64_t tokens, const PagePattern& pattern) const {
  for (uint32_t g = 0; g < groups_.size() && tokens > 0; ++g) {
    if (!has_states(groups_[g])) continue;
    const MemorySpan page = page_at(id, g, (tokens - 1) / groups_[g].page_size);
    if (page.data != nullptr) pattern.write_to(page);
  }
}

std::optional<PayloadPages::Fault> PayloadPages::fault_of(SequenceId id,
                                                          std::span<const TokenId> tokens,
                                                          PagePattern& pattern,
                                                          int64_t& checked) const {
  const int64_t page_size = groups_.front().page_size, length = std::ssize(tokens);
  const int64_t pages = length / page_size;
  for (int64_t p = 0; p < pages; ++p) {
    pattern.go_on(
        tokens.subspan(static_cast<size_t>(p * page_size), static_cast<size_t>(page_size)));
    const int64_t end = (p + 1) * page_size;
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      const bool is_state = has_states(group);
      if (is_state && end != length) continue;  // the last state alone
      const bool is_needed = end > first_needed_token(group.rule, length);
      const MemorySpan page = page_at(id, g, is_state ? (end - 1) / group.page_size : p);
      if (page.data == nullptr) {
        if (is_needed) return Fault{g, p, true};
        continue;  // behind a window
      }
      ++checked;
      if (!pattern.is_in(page)) return Fault{g, p, false};
    }
  }
  return std::nullopt;
}

void PayloadPages::damage(SequenceId id, int64_t tokens) const {
  const auto g = static_cast<uint32_t>(groups_.size() - 1);
  const MemorySpan page = page_at(id, g, (tokens - 1) / groups_[g].page_size);
  if (page.data != nullptr) static_cast<std::byte*>(page.data)[page.bytes - 1] ^= std::byte{1};
}

}  // namespace folio::cli
