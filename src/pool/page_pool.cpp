// SPDX-License-Identifier: Apache-2.0
/// pool/page_pool.cpp: making and unmaking a pool, and looking at it.
#include "folio/pool/page_pool.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <new>

#include "core/carver.h"
#include "core/random_number.h"
#include "pool/checks.h"
#include "pool/pages/block.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {
namespace {

PoolOptions with_defaults(PoolOptions o) {
  if (o.num_pages == 0) o.num_pages = pool::leading_pages_of(o);
  if (o.max_pages_per_sequence == 0) o.max_pages_per_sequence = o.num_pages;
  if (o.allocate == nullptr) {
    o.allocate = [](void*, size_t bytes, size_t) { return pool::allocate_block(bytes); };
    o.deallocate = [](void*, void* memory, size_t bytes) { pool::deallocate_block(memory, bytes); };
  }
  return o;
}

}  // namespace

Result<int64_t> PagePool::required_bytes(const PoolOptions& options) noexcept {
  if (Status s = pool::check_options(options); !s.is_ok()) return s;
  State state(with_defaults(options));
  Carver carver(nullptr);
  carver.take<State>(1);
  state.carve(carver);
  if (!carver.overflow()) return carver.bytes();
  return fail(Errc::invalid_argument,
              "PagePool::create: {} pages of {} tokens and {} rows of {} entries are more than "
              "2^63 - 1 bytes",
              options.num_pages, options.page_size, options.max_sequences, state.row_stride);
}

Result<PagePool> PagePool::create(const PoolOptions& options) noexcept {
  const Result<int64_t> bytes = required_bytes(options);
  if (!bytes) return bytes.error();
  PoolOptions given = with_defaults(options);
  if (given.hash_seed == 0) {
    const Result<uint64_t> drawn = random_number();
    if (!drawn)
      return fail(Errc::io, "PagePool::create: hash_seed is 0, expected another number where {}",
                  drawn.error().message());
    given.hash_seed = *drawn;
  }
  void* const block = given.allocate(given.context, static_cast<size_t>(*bytes), Carver::alignment);
  if (block == nullptr)
    return fail(Errc::out_of_memory, "PagePool::create: {} bytes are not to be had", *bytes);
  const uintptr_t address = reinterpret_cast<uintptr_t>(block);
  if (address % Carver::alignment != 0) {
    given.deallocate(given.context, block, static_cast<size_t>(*bytes));
    return fail(Errc::invalid_argument,
                "PagePool::create: allocate's memory is aligned to {} bytes, expected {}",
                address & -address, Carver::alignment);
  }
  static_assert(std::is_trivially_destructible_v<State>);
  Carver carver(block);
  State* const state = std::construct_at(carver.take<State>(1), given);
  state->bytes = *bytes;
  state->carve(carver);
  state->start();
  return PagePool(state);
}

PagePool& PagePool::operator=(PagePool&& other) noexcept {
  if (this == &other) return *this;
  const PagePool old(std::exchange(state_, std::exchange(other.state_, nullptr)));
  return *this;
}

PagePool::~PagePool() {
  if (state_ == nullptr) return;
  const PoolOptions options = state_->options;
  options.deallocate(options.context, state_, static_cast<size_t>(state_->bytes));
}

Result<int32_t> PagePool::length(SequenceId id) const noexcept {
  const pool::SequenceRecord* s = state_ == nullptr ? nullptr : state_->find(id);
  if (s == nullptr) return pool::not_alive("length", id);
  return s->length;
}

Result<int32_t> PagePool::load_length(SequenceId id) const noexcept {
  const pool::SequenceRecord* s = state_ == nullptr ? nullptr : state_->find(id);
  if (s == nullptr) return pool::not_alive("load_length", id);
  return s->loading;
}

Result<int64_t> PagePool::row_start(SequenceId id, uint32_t group) const noexcept {
  if (Status s = pool::check_group("row_start", group, num_groups()); !s.is_ok()) return s;
  if (state_ == nullptr || state_->find(id) == nullptr) return pool::not_alive("row_start", id);
  return id.index * table(group).row_stride;
}

Status PagePool::batch_rows(std::span<const SequenceId> ids, std::span<int64_t> rows,
                            uint32_t group) const noexcept {
  if (Status s = pool::check_group("batch_rows", group, num_groups()); !s.is_ok()) return s;
  if (rows.size() != ids.size())
    return fail(Errc::invalid_argument,
                "PagePool::batch_rows: rows has {} elements, expected {} (the number of ids)",
                rows.size(), ids.size());
  if (state_ == nullptr) return pool::moved_from("batch_rows");
  if (Status s = state_->check_ids("batch_rows", ids); !s.is_ok()) return s;
  if (!rows.empty() && rows.data() == nullptr)
    return pool::null_memory("batch_rows", "rows", rows.size());
  const int64_t stride = table(group).row_stride;
  for (size_t i = 0; i < ids.size(); ++i) rows[i] = ids[i].index * stride;
  return {};
}

PageTable PagePool::table(uint32_t group) const noexcept {
  if (group >= num_groups()) return {};
  return state_->with_group(group, [](const auto& of) {
    return PageTable{.entries = of.table, .row_stride = of.row_stride};
  });
}

Result<GroupFigures> PagePool::group(uint32_t group) const noexcept {
  if (state_ == nullptr) return pool::moved_from("group");
  if (Status s = pool::check_group("group", group, num_groups()); !s.is_ok()) return s;
  return state_->with_group(group, [](const auto& of) { return of.figures(); });
}

Result<GroupOptions> PagePool::group_options(uint32_t group) const noexcept {
  if (state_ == nullptr) return pool::moved_from("group_options");
  if (Status s = pool::check_group("group_options", group, num_groups()); !s.is_ok()) return s;
  return group == 0 ? GroupOptions{.page_bytes = state_->figures().page_bytes}
                    : state_->groups[group].options;
}

uint32_t PagePool::num_groups() const noexcept {
  return state_ == nullptr ? 0 : state_->groups.count();
}

uint32_t PagePool::num_pages() const noexcept {
  return state_ == nullptr ? 0 : state_->options.num_pages;
}

int32_t PagePool::page_size() const noexcept {
  return state_ == nullptr ? 0 : state_->options.page_size;
}

NameFunction PagePool::name_function() const noexcept {
  return state_ == nullptr ? NameFunction() : state_->options.name;
}

uint32_t PagePool::max_io_pins() const noexcept {
  return state_ == nullptr ? 0 : state_->options.max_io_pins;
}

PoolStats PagePool::State::stats() const noexcept {
  const GroupFigures pages = figures();
  PoolStats stats = counters;
  stats.evicted_pages = pages.evicted_pages;
  stats.used_pages = pages.used_pages;
  stats.peak_used_pages = pages.peak_used_pages;
  stats.cached_pages = pages.cached_pages;
  stats.free_pages = pages.free_pages;
  stats.sequences = num_alive;
  stats.pinned_pages = lists.count_pinned();
  stats.unfinished_steps = std::popcount(unfinished);
  return stats;
}

Result<PoolHistograms> PagePool::State::histograms() const noexcept {
  if (ages.on()) return ages.read();
  return fail(Errc::invalid_argument,
              "PagePool::histograms: the pool has none, expected PoolOptions::histograms");
}

Result<PoolHistograms> PagePool::histograms() const noexcept {
  if (state_ == nullptr) return pool::moved_from("histograms");
  return state_->histograms();
}

PoolStats PagePool::stats() const noexcept {
  return state_ == nullptr ? PoolStats() : state_->stats();
}

Status PagePool::clear() noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "clear");
  State& state = *state_;
  const int64_t used = state.stats().used_pages;
  if (used != 0) return fail(Errc::busy, "PagePool::clear: {} pages are used, expected none", used);
  for (const pool::Group& group : state.groups.companions()) {
    if (const int64_t held = group.figures().used_pages; held != 0)
      return fail(Errc::busy, "PagePool::clear: {} pages of group {} are used, expected none", held,
                  group.number);
  }
  state.tell_events(false);  // one event tells of all
  for (uint32_t page = 0; page < state.options.num_pages; ++page) {
    if (!pool::is_cached(state.records[page].list)) continue;
    state.lists.unlink(page);
    state.forget(page);
    state.lists.push_back(pool::PageList::free, page);
    state.groups.slabs.set(state.number, page, pool::PageUse::free);
  }
  state.tell_events(true);
  state.events.cleared();
  state.end_call();
  return {};
}

}  // namespace folio::inline v1::pool
