// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_events.cpp: events, and what other threads read, through the C interface.
#include <algorithm>
#include <memory>
#include <new>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

static_assert(std::size(folio_histogram{}.counts) == PoolHistogram::num_buckets);

folio_histogram histogram_of(const PoolHistogram& from) {
  folio_histogram to = {};
  std::copy(std::begin(from.counts), std::end(from.counts), to.counts);
  to.sum = from.sum;
  return to;
}

Status without_readers(const char* function) {
  return fail(Errc::invalid_argument, "{}: the pool has no readers, expected options->readers",
              function);
}

/// Through few events at a time, which need no memory.
Status read_events(const folio_pool* pool, uint64_t next, folio_pool_event* events,
                   int64_t capacity, int64_t* num_events, uint64_t* next_event, int32_t* lost) {
  constexpr auto function = "folio_read_events";
  if (pool == nullptr) return null_argument(function, "pool");
  if (num_events == nullptr) return null_argument(function, "num_events");
  if (next_event == nullptr) return null_argument(function, "next_event");
  if (lost == nullptr) return null_argument(function, "lost");
  if (Status s = check_array(function, "events", events, "capacity", capacity, sizeof *events);
      !s.is_ok())
    return s;
  constexpr int64_t at_once = 16;
  PoolEvent few[at_once];
  int64_t done = 0;
  EventRead read{.next = std::max<uint64_t>(next, 1)};
  do {
    const std::span<PoolEvent> into(few, static_cast<size_t>(std::min(at_once, capacity - done)));
    const Result<EventRead> part = pool->reader.has_value()
                                       ? pool->reader->read_events(read.next, into)
                                       : pool->pool.read_events(read.next, into);
    if (!part) return part.error();
    if (part->lost && done != 0) break;  // what was read is whole; the next call says what is lost
    read = *part;
    std::transform(few, few + read.count, events + done, event_of);
    done += static_cast<int64_t>(read.count);
  } while (read.count == static_cast<size_t>(at_once) && done < capacity);
  *num_events = done;
  *next_event = read.next;
  *lost = read.lost ? 1 : 0;
  return {};
}

struct SnapshotCopy {
  folio_pool_event* events;
  int64_t capacity, count = 0;
  static void visit(void* self, const PoolEvent& event, std::span<const TokenId>) noexcept {
    auto& copy = *static_cast<SnapshotCopy*>(self);
    if (copy.count < copy.capacity && copy.events != nullptr)
      copy.events[copy.count] = event_of(event);
    ++copy.count;
  }
};

Status snapshot(const folio_pool* pool, folio_pool_event* events, int64_t capacity,
                int64_t* num_events, uint64_t* last_event) {
  constexpr auto function = "folio_snapshot";
  if (pool == nullptr) return null_argument(function, "pool");
  if (num_events == nullptr) return null_argument(function, "num_events");
  if (last_event == nullptr) return null_argument(function, "last_event");
  if (Status s = check_array(function, "events", events, "capacity", capacity, sizeof *events);
      !s.is_ok())
    return s;
  SnapshotCopy counted{.events = nullptr, .capacity = 0};
  const Result<uint64_t> last = pool->pool.snapshot({SnapshotCopy::visit, &counted});
  if (!last) return last.error();
  if (counted.count > capacity)
    return fail(Errc::invalid_argument, "{}: capacity is {}, expected at least {} (contents)",
                function, capacity, counted.count);
  SnapshotCopy copy{.events = events, .capacity = capacity};
  static_cast<void>(pool->pool.snapshot({SnapshotCopy::visit, &copy}));
  *num_events = copy.count;
  *last_event = *last;
  return {};
}

Status page_name(folio_pool* pool, folio_sequence sequence, int32_t position,
                 folio_page_name* name) {
  constexpr auto function = "folio_get_page_name";
  if (pool == nullptr) return null_argument(function, "pool");
  if (name == nullptr) return null_argument(function, "name");
  const Result<PageName> found = pool->pool.name(id_of(sequence), position);
  if (!found) return found.error();
  std::memcpy(name->bytes, found->bytes.data(), sizeof name->bytes);
  return {};
}

Status read_peek(const folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                 const folio_sequence_options* options, int32_t* cached_tokens) {
  constexpr auto function = "folio_read_peek";
  if (pool == nullptr) return null_argument(function, "pool");
  if (cached_tokens == nullptr) return null_argument(function, "cached_tokens");
  const Result<std::span<const TokenId>> tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  ConvertedOptions converted;
  if (Status s = converted.read(function, options); !s.is_ok()) return s;
  if (!pool->reader.has_value()) return without_readers(function);
  *cached_tokens = pool->reader->peek(*tokens, converted.options);
  return {};
}

Status read_stats(const folio_pool* pool, folio_pool_stats* stats) {
  constexpr auto function = "folio_read_pool_stats";
  if (pool == nullptr) return null_argument(function, "pool");
  if (!pool->reader.has_value()) return without_readers(function);
  const Result<PoolStats> read = pool->reader->stats();
  return read ? write(function, "stats", stats_of(*read), stats) : read.error();
}

Status histograms(const folio_pool* pool, folio_pool_histograms* histograms) {
  constexpr auto function = "folio_get_pool_histograms";
  if (pool == nullptr) return null_argument(function, "pool");
  const Result<PoolHistograms> read =
      pool->reader.has_value() ? pool->reader->histograms() : pool->pool.histograms();
  if (!read) return read.error();
  folio_pool_histograms to = {};
  to.lifetime = histogram_of(read->lifetime);
  to.idle = histogram_of(read->idle);
  to.reuse = histogram_of(read->reuse);
  return write(function, "histograms", to, histograms);
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_read_events(const folio_pool* pool, uint64_t next, folio_pool_event* events,
                             int64_t capacity, int64_t* num_events, uint64_t* next_event,
                             int32_t* lost, folio_message* message) {
  return c::report(c::read_events(pool, next, events, capacity, num_events, next_event, lost),
                   message);
}

folio_code folio_snapshot(const folio_pool* pool, folio_pool_event* events, int64_t capacity,
                          int64_t* num_events, uint64_t* last_event, folio_message* message) {
  return c::report(c::snapshot(pool, events, capacity, num_events, last_event), message);
}

folio_code folio_get_page_name(folio_pool* pool, folio_sequence sequence, int32_t position,
                               folio_page_name* name, folio_message* message) {
  return c::report(c::page_name(pool, sequence, position, name), message);
}

folio_code folio_clear_pool(folio_pool* pool, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_clear_pool", "pool"), message);
  return c::report(pool->pool.clear(), message);
}

folio_code folio_read_peek(const folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                           const folio_sequence_options* options, int32_t* cached_tokens,
                           folio_message* message) {
  return c::report(c::read_peek(pool, prompt, num_tokens, options, cached_tokens), message);
}

folio_code folio_read_pool_stats(const folio_pool* pool, folio_pool_stats* stats,
                                 folio_message* message) {
  return c::report(c::read_stats(pool, stats), message);
}

folio_code folio_get_pool_histograms(const folio_pool* pool, folio_pool_histograms* histograms,
                                     folio_message* message) {
  return c::report(c::histograms(pool, histograms), message);
}
