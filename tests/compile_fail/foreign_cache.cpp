// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/foreign_cache.cpp: what a stranger's cache does not have is refused with a
/// sentence.
// expect 1: unsatisfied cache_shows_its_tables
// expect 2: unsatisfied cache_shows_its_tables
// expect 3: unsatisfied cache_is_a_paged_or_continuous_kv_cache
// expect 4: unsatisfied type_describes_its_plane
// expect 5: unsatisfied type_describes_its_plane
// expect 6: unsatisfied cache_is_quantised
// expect 7: unsatisfied cache_is_quantised
#include "../support/foreign_types.h"
#include "folio/attention/operand.h"
#include "folio/cache/static_view.h"

using namespace folio;
using Cache = stranger::HeadMajorCache<16>;
using Operand = KVCacheMHAOperand<Cache>;

#ifndef FOLIO_BAD
auto use(const Operand& operand) { return operand.run(0, 0, 0); }
#elif FOLIO_BAD == 1
auto use(const Cache& cache) { return table_of(cache); }
#elif FOLIO_BAD == 2
auto use(const Cache& cache) { return tables_of(cache); }
#elif FOLIO_BAD == 3
auto use(const PagedKVView& view) { return cache_of<Cache>(view, {}); }
#elif FOLIO_BAD == 4
auto use(const Operand& operand) { return operand.create_tma_tile<tma::Swizzle::b64, 4, 16>(); }
#elif FOLIO_BAD == 5
auto use(const Operand& operand) { return operand.tma_plane(); }
#elif FOLIO_BAD == 6
auto use(const Operand& operand) { return operand.load_scale<1>(0, 0, 0, 0); }
#elif FOLIO_BAD == 7
KVCacheScalesMHAOperand<Cache> operand;
#endif
