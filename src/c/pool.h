// SPDX-License-Identifier: Apache-2.0
/// src/c/pool.h: what is behind the C interface's handle of a pool, and how its arguments are read.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "c/convert.h"
#include "folio/pool/page_pool.h"
#include "folio/pool/reader.h"

namespace folio::inline v1::c {

/// Functions of the caller's, at a place that a pool's options can point to.
struct CallerFunctions {
  folio_code (*name_page)(void* context, const folio_page_content* page, folio_page_name* name);
  void* name_context;
  void (*on_event)(void* context, const folio_pool_event* event, const int32_t* tokens,
                   int64_t num_tokens);
  void* event_context;
  folio_code (*name_companion)(void* context, const folio_companion_content* companion,
                               folio_page_name* name) = nullptr;
  folio_eviction_watcher watcher = {};
  bool is_running = false;  ///< one of them is
};

/// Says that one of them runs for as long as this lives.
class Running {
 public:
  explicit Running(CallerFunctions& functions) noexcept
      : functions_(functions), was_running_(std::exchange(functions.is_running, true)) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { functions_.is_running = was_running_; }

 private:
  CallerFunctions& functions_;
  bool was_running_;  ///< one within another: folio_snapshot from on_event names companions
};

}  // namespace folio::inline v1::c

struct folio_pool {
  std::unique_ptr<folio::c::CallerFunctions> functions;  ///< if there is one; outlives the pool
  folio::PagePool pool;
  std::optional<folio::PoolReader> reader;  ///< with folio_pool_options::readers
};

namespace folio::inline v1::c {

/// Generations begin at 1, so no live sequence is 0.
inline folio_sequence number_of(SequenceId id) { return uint64_t{id.generation} << 32 | id.index; }
inline SequenceId id_of(folio_sequence number) {
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
}

[[nodiscard]] Result<std::span<const TokenId>> tokens_of(const char* function, const char* argument,
                                                         const int32_t* tokens, int64_t count);

/// As many as the caller's array has, converted. Errors: as check_array; out_of_memory
template <class T, class From, class Convert>
Result<std::unique_ptr<T[]>> converted(const char* function, const char* argument, const From* from,
                                       const char* count_name, int64_t count, Convert convert_one) {
  if (Status s = check_array(function, argument, from, count_name, count, sizeof *from); !s.is_ok())
    return s;
  std::unique_ptr<T[]> made(new (std::nothrow) T[static_cast<size_t>(count)]);
  if (made == nullptr)
    return fail(Errc::out_of_memory, "{}: no memory for {} elements", function, count);
  for (int64_t i = 0; i < count; ++i) made[static_cast<size_t>(i)] = convert_one(from[i]);
  return made;
}

/// The function that is called now must return before the call can do what it is asked for.
[[nodiscard]] inline bool is_calling(const folio_pool& pool) noexcept {
  return pool.functions != nullptr && pool.functions->is_running;
}
[[nodiscard]] Status busy(const char* function) noexcept;
/// Puts into `options` what calls the caller's functions, which are kept in `own`.
[[nodiscard]] Status read_functions(const char* function, const folio_pool_options& given,
                                    std::unique_ptr<CallerFunctions>& own, PoolOptions& options);
[[nodiscard]] folio_pool_event event_of(const PoolEvent& event) noexcept;

/// Generations begin at 1, so no pin is 0.
inline folio_io_pin pin_number(IoPin pin) { return uint64_t{pin.generation} << 32 | pin.index; }
inline IoPin pin_of(folio_io_pin number) {
  return {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32)};
}

/// A pool, with groups over an arena if there are some.
[[nodiscard]] Status create(const char* function, const folio_pool_options* options,
                            std::span<const GroupOptions> groups, int64_t arena_bytes,
                            folio_pool** pool);
[[nodiscard]] Status batch_rows(const char* function, const folio_pool* pool, uint32_t group,
                                const folio_sequence* sequences, int64_t count,
                                int64_t* row_starts);
[[nodiscard]] folio_pool_stats stats_of(const PoolStats& stats);

/// The caller's options, which point into this.
struct ConvertedOptions {
  /// Null: the defaults.
  [[nodiscard]] Status read(const char* function, const folio_sequence_options* given);

  SequenceOptions options;
  RetentionRange ranges[max_retention_ranges];

 private:
  [[nodiscard]] Status read_retention(const char* function, const folio_sequence_options& given);
  [[nodiscard]] Status read_spans(const char* function, const folio_sequence_options& given);
};

}  // namespace folio::inline v1::c
