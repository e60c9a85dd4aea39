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
#include "pool/block.h"
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {
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

void PagePool::State::place_extras() noexcept {
  if (options.min_partial_tokens != 0) places.heads = extras.add<pool::HeadIndex::Link>();
  if (options.max_retention_ms != 0) places.wheel = extras.add<pool::TimingWheel::Entry>();
  if (options.histograms) places.ages = extras.add<pool::PageTimes>();
}

void PagePool::State::carve(Carver& carver) noexcept {
  table = carver.take<uint32_t>(options.max_sequences * row_stride);  // < 2^31 * 2^32
  records = carver.take<pool::PageRecord>(options.num_pages);
  tokens = carver.take<TokenId>(int64_t{options.num_pages} * options.page_size);
  buckets = carver.take<uint32_t>(pool::PrefixIndex::num_buckets(options.num_pages));
  extras.attach(carver.take<std::byte>(CheckedSize(options.num_pages) * extras.bytes_per_page()));
  sequences = carver.take<pool::SequenceRecord>(options.max_sequences);
  page_copies.carve(carver, options.max_sequences);
  spaces = carver.take<pool::Namespace>(num_spaces());
  space_buckets = carver.take<uint32_t>(pool::Namespaces::num_buckets(num_spaces()));
  groups.carve(carver, options);
  if (options.name.function != nullptr) names = carver.take<PageName>(options.num_pages);
  if (options.event_capacity != 0) {
    event_memory.slots = carver.take<pool::EventLog::Ring::Slot>(options.event_capacity);
    if (options.name.function != nullptr)
      event_memory.names = carver.take<pool::EventLog::NameRing::Slot>(options.event_capacity);
  }
  if (options.readers) stats_slots = carver.take<StatsRing::Slot>(num_stats);
  if (options.min_partial_tokens != 0)
    head_buckets = carver.take<uint32_t>(pool::HeadIndex::num_buckets(options.num_pages));
  if (options.max_spans != 0) {
    const int64_t given = int64_t{options.max_sequences} * options.max_spans;
    const int64_t known = pool::ItemSpans::num_namespaces(options);
    spans_memory = {.spans = carver.take<ContentSpan>(given),
                    .namespaces = carver.take<uint32_t>(given),
                    .counts = carver.take<pool::ItemSpans::Count>(options.max_sequences),
                    .of_page = carver.take<ContentSpan>(pool::ItemSpans::max_in_page(options)),
                    .entries = carver.take<pool::Namespace>(known),
                    .buckets = carver.take<uint32_t>(pool::Namespaces::num_buckets(known))};
  }
  io_places = carver.take<pool::IoPins::Place>(options.max_io_pins);
  carve_retention(carver);
  if (options.eviction != Eviction::s3_fifo) return;
  ghost_ring = carver.take<pool::Ghosts::Ghost>(options.num_pages);
  ghost_buckets = carver.take<uint32_t>(pool::Ghosts::num_buckets(options.num_pages));
}

void PagePool::State::start() noexcept {
  std::fill_n(table, options.max_sequences * row_stride, options.num_pages);
  std::uninitialized_default_construct_n(records, options.num_pages);
  std::uninitialized_default_construct_n(sequences, options.max_sequences);
  page_copies.start(options.max_sequences);
  std::uninitialized_default_construct_n(spaces, num_spaces());
  index.attach(records, tokens, buckets, options.num_pages, options.page_size, options.hash_seed);
  groups.start(options, records);
  lists.attach(records, groups.slabs.has(0) ? 0 : options.num_pages, !index.fits_caches());
  start_policy();
  start_retention();
  if (names != nullptr) std::uninitialized_default_construct_n(names, options.num_pages);
  index.attach_names(names);
  if (event_memory.slots != nullptr)
    std::uninitialized_default_construct_n(event_memory.slots, options.event_capacity);
  if (event_memory.names != nullptr)
    std::uninitialized_default_construct_n(event_memory.names, options.event_capacity);
  events.attach(options.on_event, event_memory, options.event_capacity, &calls_out);
  if (options.histograms) ages.attach(extras.part<pool::PageTimes>(places.ages), options.num_pages);
  if (stats_slots != nullptr) std::uninitialized_default_construct_n(stats_slots, num_stats);
  shared_stats.attach(stats_slots, stats_slots == nullptr ? 0 : num_stats);
  if (events.on()) index.attach_events(&events);
  if (options.min_partial_tokens != 0) {
    heads.attach(records, tokens, head_buckets, extras.part<pool::HeadIndex::Link>(places.heads),
                 options.num_pages, options.page_size, options.min_partial_tokens, &index);
  }
  index.attach_retention(retention);
  namespaces.attach(spaces, space_buckets, static_cast<uint32_t>(num_spaces()), &index);
  if (options.max_spans != 0) {
    std::uninitialized_default_construct_n(spans_memory.entries,
                                           pool::ItemSpans::num_namespaces(options));
  }
  items.attach(spans_memory, options, &index);
  io_pins.attach(io_places, options.max_io_pins);
  for (uint32_t i = options.max_sequences; i-- > 0;)
    sequences[i].next_free = std::exchange(free_sequence, i);
  end_call();
}

void PagePool::State::start_policy() noexcept {
  lru.attach(&lists);
  aged_lfu.attach(records, &lists);
  aged_cost.attach(records, &lists, options.max_pages_per_sequence);
  if (options.eviction == Eviction::lfu) eviction = &aged_lfu;
  if (options.eviction == Eviction::cost) eviction = &aged_cost;
  if (options.eviction != Eviction::s3_fifo) return;
  pool::Ghosts ghosts;
  ghosts.attach(ghost_ring, ghost_buckets, options.num_pages);
  s3_fifo.attach(records, &lists, ghosts);
  eviction = &s3_fifo;
}

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

Result<int64_t> PagePool::row_start(SequenceId id, uint32_t group) const noexcept {
  const pool::Groups* const groups = state_ == nullptr ? nullptr : &state_->groups;
  if (Status s = pool::check_group("row_start", group, groups); !s.is_ok()) return s;
  if (state_ == nullptr || state_->find(id) == nullptr) return pool::not_alive("row_start", id);
  return id.index * table(group).row_stride;
}

Status PagePool::batch_rows(std::span<const SequenceId> ids, std::span<int64_t> rows,
                            uint32_t group) const noexcept {
  const pool::Groups* const groups = state_ == nullptr ? nullptr : &state_->groups;
  if (Status s = pool::check_group("batch_rows", group, groups); !s.is_ok()) return s;
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
  if (state_ == nullptr || (group != 0 && group >= state_->groups.count())) return {};
  const pool::Groups& groups = state_->groups;
  if (group != 0) return {.entries = groups[group].table, .row_stride = groups[group].row_stride};
  return {.entries = state_->table, .row_stride = state_->row_stride};
}

Result<GroupFigures> PagePool::group(uint32_t group) const noexcept {
  if (state_ == nullptr) return pool::moved_from("group");
  const pool::Groups& groups = state_->groups;
  if (Status s = pool::check_group("group", group, &groups); !s.is_ok()) return s;
  if (group != 0) return groups.figures(group);
  const PoolStats stats = this->stats();
  return GroupFigures{.num_pages = num_pages(),
                      .page_bytes = groups.slabs.layout().page_bytes[0],
                      .page_size = page_size(),
                      .used_pages = stats.used_pages,
                      .cached_pages = stats.cached_pages,
                      .free_pages = stats.free_pages,
                      .evicted_pages = stats.evicted_pages,
                      .peak_used_pages = stats.peak_used_pages};
}

uint32_t PagePool::num_groups() const noexcept {
  return state_ == nullptr ? 0 : std::max(state_->groups.count(), 1U);
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
  PoolStats stats = counters;
  stats.cached_pages = lists.count_cached();
  stats.free_pages = int64_t{available()} - lists.count_evictable();
  stats.used_pages = int64_t{options.num_pages} - stats.cached_pages - stats.free_pages;
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

}  // namespace folio::inline v1
