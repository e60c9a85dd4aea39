// SPDX-License-Identifier: Apache-2.0
/// python/src/pool.h: what is behind `PagePool`, and how its arguments are read.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "folio/pool/page_pool.h"
#include "pool_functions.h"

namespace folio::python {

struct Pool {
  std::unique_ptr<Callables> callables;  ///< if there is one; outlives the pool
  PagePool pool;
  uint32_t max_sequences = 0;
};

std::vector<SequenceId> ids_of(const nanobind::sequence& ids);

nanobind::dict stats_of(const PoolStats& stats);

/// What a call says of salt, adapter, retention and spans; `options` points into this.
struct ReadOptions {
  ReadOptions(const nanobind::bytes& salt, uint64_t adapter);
  /// `ranges`: (begin, end, level, milliseconds) each; `decode`: (level, milliseconds) or None.
  ReadOptions(const nanobind::bytes& salt, uint64_t adapter, const nanobind::sequence& ranges,
              nanobind::handle decode);
  /// (offset, length, hash) each, 32 bytes of hash.
  void add_spans(const nanobind::sequence& given);
  ReadOptions(const ReadOptions&) = delete;
  ReadOptions& operator=(const ReadOptions&) = delete;

  std::vector<RetentionRange> ranges;
  std::vector<ContentSpan> spans;
  SequenceOptions options;
};

/// Of dictionaries, whose keys are the fields of GroupOptions.
std::vector<GroupOptions> groups_of(const nanobind::sequence& groups);

/// As dictionaries have it.
const char* rule_name(GroupRule rule);

/// Several sequences at once, waiting, and how long pages are kept.
void bind_pool_sequences(nanobind::class_<Pool>& type);
/// Events, and what other threads may ask.
void bind_pool_events(nanobind::module_& m, nanobind::class_<Pool>& type);

/// What `name` is handed.
void bind_page_content(nanobind::module_& m);
/// Names of pages.
void bind_pool_functions(nanobind::class_<Pool>& type);

/// Loads and evictions.
void bind_pool_loads(nanobind::class_<Pool>& type);

/// What each group of a hybrid model has.
void bind_pool_groups(nanobind::class_<Pool>& type);

}  // namespace folio::python
