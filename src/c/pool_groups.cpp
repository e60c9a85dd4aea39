// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_groups.cpp: page pools of hybrid models through the C interface.
#include <memory>

#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

static_assert(FOLIO_GROUP_FULL == static_cast<int>(GroupRule::full) &&
              FOLIO_GROUP_WINDOW == static_cast<int>(GroupRule::window) &&
              FOLIO_GROUP_CHUNKED == static_cast<int>(GroupRule::chunked) &&
              FOLIO_GROUP_STATE == static_cast<int>(GroupRule::state));

Result<GroupOptions> group_of(const char* function, const folio_group& g, int64_t i) {
  if (g.rule < 0 || g.rule > FOLIO_GROUP_STATE)
    return fail(Errc::invalid_argument, "{}: groups[{}].rule is {}, expected 0 to {}", function, i,
                g.rule, FOLIO_GROUP_STATE + 0);
  if (g.reserved != 0)
    return fail(Errc::invalid_argument, "{}: groups[{}].reserved is {}, expected 0", function, i,
                g.reserved);
  return GroupOptions{.rule = static_cast<GroupRule>(g.rule),
                      .page_bytes = g.page_bytes,
                      .window = g.window,
                      .sinks = g.sinks,
                      .chunk = g.chunk,
                      .checkpoint = g.checkpoint};
}

Status create_groups(const folio_pool_options* options, const folio_group* groups, int64_t count,
                     int64_t arena_bytes, folio_pool** pool) {
  constexpr auto function = "folio_create_group_pool";
  const auto own = converted<GroupOptions>(function, "groups", groups, "num_groups", count,
                                           [](const folio_group&) { return GroupOptions(); });
  if (!own) return own.error();
  if (count == 0)
    return fail(Errc::invalid_argument, "{}: num_groups is 0, expected at least 1", function);
  for (int64_t i = 0; i < count; ++i) {
    const Result<GroupOptions> group = group_of(function, groups[i], i);
    if (!group) return group.error();
    (*own)[static_cast<size_t>(i)] = *group;
  }
  return create(function, options, {own->get(), static_cast<size_t>(count)}, arena_bytes, pool);
}

Status figures(const folio_pool* pool, uint32_t group, folio_group_figures* figures) {
  constexpr auto function = "folio_get_group";
  if (pool == nullptr) return null_argument(function, "pool");
  const Result<GroupFigures> g = pool->pool.group(group);
  if (!g) return g.error();
  folio_group_figures to = {};
  to.num_pages = g->num_pages;
  to.page_bytes = g->page_bytes;
  to.page_size = g->page_size;
  to.used_pages = g->used_pages;
  to.cached_pages = g->cached_pages;
  to.free_pages = g->free_pages;
  to.evicted_pages = g->evicted_pages;
  to.peak_used_pages = g->peak_used_pages;
  return write(function, "figures", to, figures);
}

Status group_options(const folio_pool* pool, uint32_t group, folio_group* options) {
  constexpr auto function = "folio_get_group_options";
  if (pool == nullptr) return null_argument(function, "pool");
  if (options == nullptr) return null_argument(function, "options");
  const Result<GroupOptions> g = pool->pool.group_options(group);
  if (!g) return g.error();
  *options = {static_cast<int32_t>(g->rule),
              g->window,
              g->sinks,
              g->chunk,
              g->checkpoint,
              0,
              g->page_bytes};
  return {};
}

/// The calls of C++ give something empty for a group that the pool has not.
Status check_group(const char* function, const folio_pool* pool, uint32_t group) {
  if (pool == nullptr) return null_argument(function, "pool");
  if (group < pool->pool.num_groups()) return {};
  return fail(Errc::invalid_argument, "{}: group is {}, expected less than {}", function, group,
              pool->pool.num_groups());
}

Status table(const folio_pool* pool, uint32_t group, folio_table* table) {
  constexpr auto function = "folio_get_group_table";
  if (Status s = check_group(function, pool, group); !s.is_ok()) return s;
  const PageTable own = pool->pool.table(group);
  return write(function, "table", folio_table{sizeof(folio_table), 0, own.entries, own.row_stride},
               table);
}

Status copies(folio_pool* pool, uint32_t group, const folio_page_copy** copies, int64_t* count) {
  constexpr auto function = "folio_take_group_copies";
  if (Status s = check_group(function, pool, group); !s.is_ok()) return s;
  if (copies == nullptr) return null_argument(function, "copies");
  if (count == nullptr) return null_argument(function, "num_copies");
  if (is_calling(*pool)) return busy(function);
  const std::span<const PageCopy> taken = pool->pool.take_copies(group);
  *copies = reinterpret_cast<const folio_page_copy*>(taken.data());
  *count = static_cast<int64_t>(taken.size());
  return {};
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_create_group_pool(const folio_pool_options* options, const folio_group* groups,
                                   int64_t num_groups, int64_t arena_bytes, folio_pool** pool,
                                   folio_message* message) {
  if (pool == nullptr)
    return c::report(c::null_argument("folio_create_group_pool", "pool"), message);
  *pool = nullptr;
  return c::report(c::create_groups(options, groups, num_groups, arena_bytes, pool), message);
}

folio_code folio_get_num_groups(const folio_pool* pool, int32_t* num_groups,
                                folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_get_num_groups", "pool"), message);
  if (num_groups == nullptr)
    return c::report(c::null_argument("folio_get_num_groups", "num_groups"), message);
  *num_groups = static_cast<int32_t>(pool->pool.num_groups());
  return c::report({}, message);
}

folio_code folio_get_group(const folio_pool* pool, uint32_t group, folio_group_figures* figures,
                           folio_message* message) {
  return c::report(c::figures(pool, group, figures), message);
}

folio_code folio_get_group_options(const folio_pool* pool, uint32_t group, folio_group* options,
                                   folio_message* message) {
  return c::report(c::group_options(pool, group, options), message);
}

folio_code folio_get_group_table(const folio_pool* pool, uint32_t group, folio_table* table,
                                 folio_message* message) {
  return c::report(c::table(pool, group, table), message);
}

folio_code folio_get_group_rows(const folio_pool* pool, uint32_t group,
                                const folio_sequence* sequences, int64_t num_sequences,
                                int64_t* row_starts, folio_message* message) {
  return c::report(
      c::batch_rows("folio_get_group_rows", pool, group, sequences, num_sequences, row_starts),
      message);
}

folio_code folio_take_group_copies(folio_pool* pool, uint32_t group, const folio_page_copy** copies,
                                   int64_t* num_copies, folio_message* message) {
  return c::report(c::copies(pool, group, copies, num_copies), message);
}
