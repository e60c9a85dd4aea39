// SPDX-License-Identifier: Apache-2.0
/// src/c/sparse_lists.cpp: lists of keys through the C interface: the greatest scores, and their
/// slots.
#include "c/convert.h"
#include "folio/sparse/select.h"

namespace folio::inline v1::c {
namespace {

Status top(const folio_top_args* args, MemorySpan workspace, const folio_executor* executor) {
  constexpr auto function = "folio_select_top";
  folio_top_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (a.scores == nullptr) return null_argument(function, "args->scores");
  TopArgs to;
  if (Status s = convert(function, "args->scores", a.scores, to.scores); !s.is_ok()) return s;
  to.lengths = a.lengths;
  to.k = a.k;
  to.indices = a.indices;
  to.stride = a.stride;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return select_top(to, workspace, adapter.get());
}

Status to_slots(const folio_batch* batch, const folio_remap_args* args,
                const folio_executor* executor) {
  constexpr auto function = "folio_remap";
  folio_remap_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  const RemapArgs to{a.indices,   a.stride, a.count,       a.page_size,
                     a.num_pages, a.slots,  a.slots_stride};
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return remap(b, to, adapter.get());
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

int64_t folio_get_select_top_bytes(int32_t k, int32_t parallelism) {
  return select_top_bytes(k, parallelism);
}

folio_code folio_select_top(const folio_top_args* args, void* workspace, int64_t bytes,
                            const folio_executor* executor, folio_message* message) {
  return c::report(c::top(args, {workspace, bytes}, executor), message);
}

folio_code folio_remap(const folio_batch* batch, const folio_remap_args* args,
                       const folio_executor* executor, folio_message* message) {
  return c::report(c::to_slots(batch, args, executor), message);
}
