// SPDX-License-Identifier: Apache-2.0
/// src/c/pool_io.cpp: pages that transfers hold, through the C interface.
#include "folio/c/pool_io.h"
#include "c/pool.h"

namespace folio::inline v1::c {
namespace {

Status begin_io(folio_pool* pool, folio_sequence sequence, int32_t entry, uint32_t group,
                folio_io_pin* pin) {
  constexpr auto function = "folio_begin_io";
  if (pool == nullptr) return null_argument(function, "pool");
  if (pin == nullptr) return null_argument(function, "pin");
  const Result<IoPin> own = pool->pool.begin_io(id_of(sequence), entry, group);
  if (!own) return own.error();
  *pin = pin_number(*own);
  return {};
}

Status page_of(const folio_pool* pool, folio_io_pin pin, uint32_t* page) {
  constexpr auto function = "folio_get_io_page";
  if (pool == nullptr) return null_argument(function, "pool");
  if (page == nullptr) return null_argument(function, "page");
  const Result<uint32_t> own = pool->pool.page_of(pin_of(pin));
  if (!own) return own.error();
  *page = *own;
  return {};
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

folio_code folio_begin_io(folio_pool* pool, folio_sequence sequence, int32_t entry, uint32_t group,
                          folio_io_pin* pin, folio_message* message) {
  return c::report(c::begin_io(pool, sequence, entry, group, pin), message);
}

folio_code folio_end_io(folio_pool* pool, folio_io_pin pin, folio_message* message) {
  if (pool == nullptr) return c::report(c::null_argument("folio_end_io", "pool"), message);
  return c::report(pool->pool.end_io(c::pin_of(pin)), message);
}

folio_code folio_get_io_page(const folio_pool* pool, folio_io_pin pin, uint32_t* page,
                             folio_message* message) {
  return c::report(c::page_of(pool, pin, page), message);
}
