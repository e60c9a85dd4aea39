// SPDX-License-Identifier: Apache-2.0
/// pool/memory.cpp: where the arrays of a pool lie in its block, and how they begin.
#include <algorithm>
#include <memory>
#include <utility>

#include "pool/pool_state.h"

namespace folio::inline v1::pool {

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
  copies.carve(carver, options.max_sequences);
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
  if (!pool::policy_of(options.eviction).has_ghosts) return;
  ghost_ring = carver.take<pool::Ghosts::Ghost>(options.num_pages);
  ghost_buckets = carver.take<uint32_t>(pool::Ghosts::num_buckets(options.num_pages));
}

void PagePool::State::start() noexcept {
  std::fill_n(table, options.max_sequences * row_stride, options.num_pages);
  std::uninitialized_default_construct_n(records, options.num_pages);
  std::uninitialized_default_construct_n(sequences, options.max_sequences);
  copies.start(options.max_sequences);
  std::uninitialized_default_construct_n(spaces, num_spaces());
  index.attach(records, tokens, buckets, options.num_pages, options.page_size, options.hash_seed);
  groups.start(options, records);
  lists.attach(records, groups.slabs.has(0) ? 0 : options.num_pages, !index.fits_caches());
  pool::Ghosts ghosts;
  if (ghost_ring != nullptr) ghosts.attach(ghost_ring, ghost_buckets, options.num_pages);
  start_policy(ghosts);
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
  tell_events(true);
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

void PagePool::State::carve_retention(Carver& carver) noexcept {
  if (options.max_retention_ms == 0) return;
  retention = carver.take<pool::Retention>(1);
  retained.wheel_heads = carver.take<pool::TimingWheel::Entry>(pool::TimingWheel::num_wheels *
                                                               pool::TimingWheel::num_lists);
  retained.row = carver.take<uint32_t>(options.max_pages_per_sequence);
  retained.levels = carver.take<pool::PageLists::Head>(pool::num_levels - 1);
  retained.of_sequences = carver.take<pool::KeepRanges>(options.max_sequences);
}

void PagePool::State::start_retention() noexcept {
  if (retention == nullptr) return;
  std::construct_at(retention, records, &lists, extras.part<pool::TimingWheel::Entry>(places.wheel),
                    retained, &groups, options);
}

}  // namespace folio::inline v1::pool
