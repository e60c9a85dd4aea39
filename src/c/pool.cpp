// SPDX-License-Identifier: Apache-2.0
/// src/c/pool.cpp: the page pool through the C interface.
#include <iterator>
#include <new>
#include <utility>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

static_assert(sizeof(folio_page_copy) == sizeof(PageCopy) &&
              offsetof(folio_page_copy, to) == offsetof(PageCopy, to) &&
              offsetof(folio_page_copy, tokens) == offsetof(PageCopy, tokens));

static_assert(FOLIO_LRU == static_cast<int>(Eviction::lru) &&
              FOLIO_S3_FIFO == static_cast<int>(Eviction::s3_fifo) &&
              FOLIO_LFU == static_cast<int>(Eviction::lfu) &&
              FOLIO_COST == static_cast<int>(Eviction::cost) &&
              std::size(pool::eviction_names) == FOLIO_COST + 1);

Status admit(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
             const folio_sequence_options* options, folio_sequence* sequence,
             int32_t* cached_tokens) {
  constexpr auto function = "folio_admit";
  if (pool == nullptr) return null_argument(function, "pool");
  if (sequence == nullptr) return null_argument(function, "sequence");
  const Result<std::span<const TokenId>> tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  ConvertedOptions converted;
  if (Status s = converted.read(function, options); !s.is_ok()) return s;
  const Result<Admission> admitted = pool->pool.admit(*tokens, converted.options);
  if (!admitted) return admitted.error();
  *sequence = number_of(admitted->id);
  if (cached_tokens != nullptr) *cached_tokens = admitted->cached_tokens;
  return {};
}

Status peek(const folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
            const folio_sequence_options* options, int32_t* cached_tokens) {
  constexpr auto function = "folio_peek";
  if (pool == nullptr) return null_argument(function, "pool");
  if (cached_tokens == nullptr) return null_argument(function, "cached_tokens");
  const Result<std::span<const TokenId>> tokens = tokens_of(function, "prompt", prompt, num_tokens);
  if (!tokens) return tokens.error();
  ConvertedOptions converted;
  if (Status s = converted.read(function, options); !s.is_ok()) return s;
  *cached_tokens = pool->pool.peek(*tokens, converted.options);
  return {};
}

Status commit(const char* function, folio_pool* pool, folio_sequence sequence,
              const int32_t* written, int64_t num_tokens, Merge merge) {
  if (pool == nullptr) return null_argument(function, "pool");
  const Result<std::span<const TokenId>> tokens =
      tokens_of(function, "written", written, num_tokens);
  return tokens ? pool->pool.commit(id_of(sequence), *tokens, merge) : tokens.error();
}

Status begin_step(folio_pool* pool, const folio_sequence* sequences, int64_t count,
                  folio_step* step) {
  constexpr auto function = "folio_begin_step";
  if (pool == nullptr) return null_argument(function, "pool");
  if (step == nullptr) return null_argument(function, "step");
  if (Status s =
          check_array(function, "sequences", sequences, "num_sequences", count, sizeof *sequences);
      !s.is_ok())
    return s;
  // in bounds: what is beyond the limits of an array would throw in spite of nothrow
  SequenceId* const ids = new (std::nothrow) SequenceId[static_cast<size_t>(count)];
  if (ids == nullptr)
    return fail(Errc::out_of_memory, "{}: no memory for {} sequences", function, count);
  for (int64_t i = 0; i < count; ++i) ids[i] = id_of(sequences[i]);
  const Result<StepTicket> ticket = pool->pool.begin_step({ids, static_cast<size_t>(count)});
  delete[] ids;
  if (!ticket) return ticket.error();
  *step = ticket->value;
  return {};
}

/// Stores a Result where the caller wants it.
template <class T, class To, class Convert>
Status deliver(const Result<T>& result, To* to, Convert convert_value) {
  if (!result) return result.error();
  *to = convert_value(*result);
  return {};
}

template <class T>
T same(T value) {
  return value;
}

}  // namespace

Status create(const char* function, const folio_pool_options* options,
              std::span<const GroupOptions> groups, int64_t arena_bytes, folio_pool** pool) {
  const PoolOptions defaults;
  folio_pool_options o = {};
  if (Status s = read(function, "options", options, o); !s.is_ok()) return s;
  PoolOptions p;
  p.num_pages = o.num_pages;
  p.page_size = or_default(o.page_size, defaults.page_size);
  p.max_sequences = or_default(o.max_sequences, defaults.max_sequences);
  p.max_pages_per_sequence = o.max_pages_per_sequence;
  p.max_namespaces = or_default(o.max_namespaces, defaults.max_namespaces);
  bool no_reuse = false;
  if (Status s = read_flag(function, "options->no_prefix_reuse", o.no_prefix_reuse, no_reuse);
      !s.is_ok())
    return s;
  p.prefix_reuse = !no_reuse;
  constexpr auto last_eviction = static_cast<int32_t>(std::size(pool::eviction_names)) - 1;
  if (o.eviction < 0 || o.eviction > last_eviction)
    return fail(Errc::invalid_argument, "{}: options->eviction is {}, expected 0 to {}", function,
                o.eviction, last_eviction);
  p.eviction = static_cast<Eviction>(o.eviction);
  p.allocate = o.allocate;
  p.deallocate = o.deallocate;
  p.context = o.context;
  p.hash_seed = o.hash_seed;
  p.max_retention_ms = o.max_retention_ms;
  p.watermark_pages = o.watermark_pages;
  p.lookahead_tokens = o.lookahead_tokens;
  p.event_capacity = o.event_capacity;
  p.min_partial_tokens = o.min_partial_tokens;
  p.max_spans = o.max_spans;
  p.max_io_pins = o.max_io_pins;
  if (Status s = read_flag(function, "options->readers", o.readers, p.readers); !s.is_ok())
    return s;
  if (Status s = read_flag(function, "options->histograms", o.histograms, p.histograms); !s.is_ok())
    return s;
  p.groups = groups;
  p.arena_bytes = arena_bytes;
  std::unique_ptr<CallerFunctions> functions;
  if (Status s = read_functions(function, o, functions, p); !s.is_ok()) return s;
  Result<PagePool> made = PagePool::create(p);
  if (!made) return made.error();
  *pool = new (std::nothrow) folio_pool{std::move(functions), std::move(*made), std::nullopt};
  if (*pool == nullptr) return fail(Errc::out_of_memory, "{}: no memory for the handle", function);
  if (p.readers) (*pool)->reader = *PoolReader::of((*pool)->pool);
  return {};
}

/// In two rounds, so that nothing is written before all sequences are known to live.
Status batch_rows(const char* function, const folio_pool* pool, uint32_t group,
                  const folio_sequence* sequences, int64_t count, int64_t* row_starts) {
  if (pool == nullptr) return null_argument(function, "pool");
  constexpr auto size = "num_sequences";
  if (Status s = check_array(function, "sequences", sequences, size, count, sizeof *sequences);
      !s.is_ok())
    return s;
  if (Status s = check_array(function, "row_starts", row_starts, size, count, sizeof *row_starts);
      !s.is_ok())
    return s;
  if (group >= pool->pool.num_groups())
    return fail(Errc::invalid_argument, "{}: group is {}, expected less than {}", function, group,
                pool->pool.num_groups());
  for (int64_t i = 0; i < count; ++i) {
    if (!pool->pool.row_start(id_of(sequences[i])))
      return fail(Errc::invalid_argument, "{}: sequences[{}] is {}, expected one that is alive",
                  function, i, sequences[i]);
  }
  for (int64_t i = 0; i < count; ++i)
    row_starts[i] = *pool->pool.row_start(id_of(sequences[i]), group);
  return {};
}

folio_pool_stats stats_of(const PoolStats& s) {
  folio_pool_stats to = {};
  to.lookup_pages = s.lookup_pages;
  to.hit_pages = s.hit_pages;
  to.hit_tokens = s.hit_tokens;
  to.evicted_pages = s.evicted_pages;
  to.used_pages = s.used_pages;
  to.peak_used_pages = s.peak_used_pages;
  to.cached_pages = s.cached_pages;
  to.free_pages = s.free_pages;
  to.sequences = s.sequences;
  to.unfinished_steps = s.unfinished_steps;
  to.pinned_pages = s.pinned_pages;
  to.hit_tokens_cached = s.hit_tokens_cached;
  to.hit_tokens_used = s.hit_tokens_used;
  to.hit_tokens_partial = s.hit_tokens_partial;
  return to;
}

}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_create_pool(const folio_pool_options* options, folio_pool** pool,
                             folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_create_pool", "pool"), message);
  *pool = nullptr;
  return c::report(c::create("folio_create_pool", options, {}, 0, pool), message);
}

void folio_destroy_pool(folio_pool* pool) {
  if (pool != nullptr && !c::is_calling(*pool)) delete pool;
}

folio_code folio_peek(const folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                      const folio_sequence_options* options, int32_t* cached_tokens,
                      folio_message* message) {
  return c::report(c::peek(pool, prompt, num_tokens, options, cached_tokens), message);
}

folio_code folio_admit(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                       const folio_sequence_options* options, folio_sequence* sequence,
                       int32_t* cached_tokens, folio_message* message) {
  return c::report(c::admit(pool, prompt, num_tokens, options, sequence, cached_tokens), message);
}

folio_code folio_reserve(folio_pool* pool, folio_sequence sequence, int32_t new_tokens,
                         folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_reserve", "pool"), message);
  return c::report(pool->pool.reserve(c::id_of(sequence), new_tokens), message);
}

folio_code folio_commit(folio_pool* pool, folio_sequence sequence, const int32_t* written,
                        int64_t num_tokens, folio_message* message) {
  return c::report(c::commit("folio_commit", pool, sequence, written, num_tokens, Merge::refused),
                   message);
}

folio_code folio_commit_merged(folio_pool* pool, folio_sequence sequence, const int32_t* written,
                               int64_t num_tokens, folio_message* message) {
  return c::report(
      c::commit("folio_commit_merged", pool, sequence, written, num_tokens, Merge::allowed),
      message);
}

folio_code folio_trim(folio_pool* pool, folio_sequence sequence, int32_t length,
                      folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_trim", "pool"), message);
  return c::report(pool->pool.trim(c::id_of(sequence), length), message);
}

folio_code folio_fork(folio_pool* pool, folio_sequence sequence, int32_t length,
                      folio_sequence* forked, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_fork", "pool"), message);
  if (forked == nullptr) return c::report(c::null_argument("folio_fork", "forked"), message);
  return c::report(c::deliver(pool->pool.fork(c::id_of(sequence), length), forked, c::number_of),
                   message);
}

folio_code folio_release(folio_pool* pool, folio_sequence sequence, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_release", "pool"), message);
  return c::report(pool->pool.release(c::id_of(sequence)), message);
}

folio_code folio_take_copies(folio_pool* pool, const folio_page_copy** copies, int64_t* num_copies,
                             folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_take_copies", "pool"), message);
  if (copies == nullptr) return c::report(c::null_argument("folio_take_copies", "copies"), message);
  if (num_copies == nullptr)
    return c::report(c::null_argument("folio_take_copies", "num_copies"), message);
  if (c::is_calling(*pool)) return c::report(c::busy("folio_take_copies"), message);
  const std::span<const PageCopy> taken = pool->pool.take_copies();
  *copies = reinterpret_cast<const folio_page_copy*>(taken.data());
  *num_copies = static_cast<int64_t>(taken.size());
  return c::report({}, message);
}

folio_code folio_begin_step(folio_pool* pool, const folio_sequence* sequences,
                            int64_t num_sequences, folio_step* step, folio_message* message) {
  return c::report(c::begin_step(pool, sequences, num_sequences, step), message);
}

folio_code folio_end_step(folio_pool* pool, folio_step step, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_end_step", "pool"), message);
  return c::report(pool->pool.end_step({step}), message);
}

folio_code folio_get_length(const folio_pool* pool, folio_sequence sequence, int32_t* length,
                            folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_get_length", "pool"), message);
  if (length == nullptr) return c::report(c::null_argument("folio_get_length", "length"), message);
  return c::report(c::deliver(pool->pool.length(c::id_of(sequence)), length, c::same<int32_t>),
                   message);
}

folio_code folio_get_row_start(const folio_pool* pool, folio_sequence sequence, int64_t* row_start,
                               folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_get_row_start", "pool"), message);
  if (row_start == nullptr)
    return c::report(c::null_argument("folio_get_row_start", "row_start"), message);
  return c::report(
      c::deliver(pool->pool.row_start(c::id_of(sequence)), row_start, c::same<int64_t>), message);
}

folio_code folio_get_batch_rows(const folio_pool* pool, const folio_sequence* sequences,
                                int64_t num_sequences, int64_t* row_starts,
                                folio_message* message) {
  return c::report(
      c::batch_rows("folio_get_batch_rows", pool, 0, sequences, num_sequences, row_starts),
      message);
}

folio_code folio_get_table(const folio_pool* pool, folio_table* table, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_get_table", "pool"), message);
  const PageTable own = pool->pool.table();
  return c::report(
      c::write("folio_get_table", "table",
               folio_table{sizeof(folio_table), 0, own.entries, own.row_stride}, table),
      message);
}

folio_code folio_get_pool_stats(const folio_pool* pool, folio_pool_stats* stats,
                                folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_get_pool_stats", "pool"), message);
  return c::report(
      c::write("folio_get_pool_stats", "stats", c::stats_of(pool->pool.stats()), stats), message);
}
