// SPDX-License-Identifier: Apache-2.0
/// src/c/sparse_index.cpp: indexers through the C interface: handles, scores, the keys that they
/// choose.
#include <new>
#include <string_view>

#include "c/convert.h"
#include "folio/sparse/index.h"
#include "folio/sparse/select.h"

struct folio_index {
  folio::Index index;
};

namespace folio::inline v1::c {
namespace {

/// `value`: of the field, where the bit is set.
constexpr struct {
  int32_t bit;
  bool IndexProblem::*field;
  bool value;
} options[] = {{FOLIO_INDEX_NO_WEIGHTS, &IndexProblem::has_weights, false},
               {FOLIO_INDEX_NO_RELU, &IndexProblem::relu, false},
               {FOLIO_INDEX_INTERVALS, &IndexProblem::intervals, true},
               {FOLIO_INDEX_BF16_OPERANDS, &IndexProblem::bf16_operands, true},
               {FOLIO_INDEX_Q_IS_TURNED, &IndexProblem::q_is_turned, true}};

constexpr int32_t known_options = [] {
  int32_t known = 0;
  for (const auto& option : options) known |= option.bit;
  return known;
}();
static_assert(known_options == 2 * FOLIO_INDEX_Q_IS_TURNED - 1);  // the last: none is missing

static_assert(static_cast<int32_t>(IndexLists::per_query) == FOLIO_INDEX_LISTS_PER_QUERY &&
              static_cast<int32_t>(IndexLists::per_head) == FOLIO_INDEX_LISTS_PER_HEAD &&
              static_cast<int32_t>(ListEntries::slots) == FOLIO_LIST_SLOTS &&
              static_cast<int32_t>(ListEntries::keys) == FOLIO_LIST_KEYS);

Status read_problem(const char* function, const folio_index_problem* problem, IndexProblem& to) {
  folio_index_problem p = {};
  p.mask_left = -1;
  if (Status s = read(function, "problem", problem, p); !s.is_ok()) return s;
  if (p.key == nullptr) return null_argument(function, "problem->key");
  if (Status s = convert(function, "problem->key", p.key, to.key); !s.is_ok()) return s;
  if ((p.options & ~known_options) != 0)
    return fail(Errc::unsupported, "{}: problem->options is {}, expected bits of {} only", function,
                p.options, known_options);
  for (const auto& [bit, field, value] : options)
    to.*field = (p.options & bit) != 0 ? value : !value;
  to.q_heads = p.q_heads;
  to.q_dtype = dtype_of(p.q_dtype);
  to.weight_dtype = p.weight_dtype == 0 ? DType::f32 : dtype_of(p.weight_dtype);
  to.block_keys = or_default(p.block_keys, to.block_keys);
  to.mask = {p.mask_left, p.mask_right, p.mask_chunk, p.mask_sink_tokens};
  to.scale = p.scale;
  return read_choice(function, "problem->lists", p.lists, IndexLists::per_head, to.lists);
}

Status read_limits(const char* function, const folio_index_limits* limits, IndexLimits& to) {
  folio_index_limits l = {};
  if (Status s = read(function, "limits", limits, l); !s.is_ok()) return s;
  to = {l.batch, l.tokens, l.context, or_default(l.top, to.top), l.parallelism};
  return {};
}

/// A handle of the caller's.
Status hand_out(const char* function, const Result<Index>& made, folio_index** to) {
  if (!made) return made.error();
  *to = new (std::nothrow) folio_index{*made};
  return *to != nullptr ? Status()
                        : fail(Errc::out_of_memory, "{}: no memory for the handle", function);
}

Status create(const folio_index_problem* problem, const folio_index_limits* limits, Device device,
              const char* kernel, folio_index** index) {
  constexpr auto function = "folio_create_index";
  IndexProblem p;
  IndexLimits l;
  if (Status s = read_problem(function, problem, p); !s.is_ok()) return s;
  if (Status s = read_limits(function, limits, l); !s.is_ok()) return s;
  return hand_out(function, Index::create(p, l, device, kernel == nullptr ? "" : kernel), index);
}

Status with_limits(const folio_index* index, const folio_index_limits* limits, folio_index** made) {
  constexpr auto function = "folio_index_with_limits";
  if (index == nullptr) return null_argument(function, "index");
  IndexLimits l;
  if (Status s = read_limits(function, limits, l); !s.is_ok()) return s;
  return hand_out(function, index->index.with_limits(l), made);
}

Status read_args(const char* function, const char* argument, const folio_score_args* args,
                 ScoreArgs& to) {
  folio_score_args a = {};
  if (Status s = read(function, argument, args, a); !s.is_ok()) return s;
  if (Status s = convert(function, "q", a.q, to.q); !s.is_ok()) return s;
  if (Status s = convert(function, "weights", a.weights, to.weights); !s.is_ok()) return s;
  return convert(function, "key", a.key, to.key);
}

Status score(const folio_index* index, const folio_batch* batch, const folio_score_args* args,
             int32_t first_key, const folio_matrix* scores, MemorySpan workspace,
             const folio_executor* executor) {
  constexpr auto function = "folio_score_index";
  if (index == nullptr) return null_argument(function, "index");
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  ScoreArgs a;
  if (Status s = read_args(function, "args", args, a); !s.is_ok()) return s;
  if (scores == nullptr) return null_argument(function, "scores");
  AnyTensor<2> to;
  if (Status s = convert(function, "scores", scores, to); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return score_index(index->index, b, a, first_key, to, workspace, adapter.get());
}

Status read_args(const char* function, const folio_select_args* args, SelectArgs& to) {
  folio_select_args a = {};
  if (Status s = read(function, "args", args, a); !s.is_ok()) return s;
  if (Status s = read_args(function, "args->score", a.score, to.score); !s.is_ok()) return s;
  to.k = a.k;
  to.lists = a.lists;
  to.stride = a.stride;
  to.table = {a.table_entries, a.table_row_stride, a.table_row_starts};
  to.page_size = a.page_size;
  to.num_pages = a.num_pages;
  return read_choice(function, "args->entries", a.entries, ListEntries::keys, to.entries);
}

Status select(const folio_index* index, const folio_batch* batch, const folio_select_args* args,
              MemorySpan workspace, const folio_executor* executor) {
  constexpr auto function = "folio_select_keys";
  if (index == nullptr) return null_argument(function, "index");
  Batch b;
  if (Status s = convert(function, batch, b); !s.is_ok()) return s;
  SelectArgs a;
  if (Status s = read_args(function, args, a); !s.is_ok()) return s;
  ExecutorAdapter adapter;
  if (Status s = adapter.init(function, executor); !s.is_ok()) return s;
  return select_keys(index->index, b, a, workspace, adapter.get());
}

}  // namespace
}  // namespace folio::inline v1::c

using namespace folio;  // NOLINT(google-build-using-namespace): the calls below are thin

const char* folio_refuse_index(const folio_index_problem* problem, int32_t device_kind,
                               int32_t device_index) {
  constexpr auto function = "folio_refuse_index";
  IndexProblem p;
  const Result<Device> device = c::device_of(function, device_kind, device_index);
  if (!device || !c::read_problem(function, problem, p).is_ok())
    return "the problem or the device is broken; folio_create_index names the argument";
  return refuse(p, *device);
}

folio_code folio_create_index(const folio_index_problem* problem, const folio_index_limits* limits,
                              int32_t device_kind, int32_t device_index, const char* kernel,
                              folio_index** index, folio_message* message) {
  constexpr auto function = "folio_create_index";
  if (index == nullptr) return c::report(c::null_argument(function, "index"), message);
  *index = nullptr;
  const Result<Device> device = c::device_of(function, device_kind, device_index);
  if (!device) return c::report(device.error(), message);
  return c::report(c::create(problem, limits, *device, kernel, index), message);
}

folio_code folio_index_with_limits(const folio_index* index, const folio_index_limits* limits,
                                   folio_index** made, folio_message* message) {
  if (made == nullptr)
    return c::report(c::null_argument("folio_index_with_limits", "made"), message);
  *made = nullptr;
  return c::report(c::with_limits(index, limits, made), message);
}

void folio_destroy_index(folio_index* index) { delete index; }

// Names of the list of index kernels are string literals: they end in a zero.
const char* folio_get_index_kernel(const folio_index* index) {
  return index == nullptr ? "" : index->index.kernel().data();
}

int64_t folio_get_index_workspace_bytes(const folio_index* index) {
  return index == nullptr ? 0 : index->index.workspace_bytes();
}

// NOLINTNEXTLINE(readability-function-size): C's arguments
folio_code folio_score_index(const folio_index* index, const folio_batch* batch,
                             const folio_score_args* args, int32_t first_key,
                             const folio_matrix* scores, void* workspace, int64_t bytes,
                             const folio_executor* executor, folio_message* message) {
  return c::report(c::score(index, batch, args, first_key, scores, {workspace, bytes}, executor),
                   message);
}

folio_code folio_select_keys(const folio_index* index, const folio_batch* batch,
                             const folio_select_args* args, void* workspace, int64_t bytes,
                             const folio_executor* executor, folio_message* message) {
  return c::report(c::select(index, batch, args, {workspace, bytes}, executor), message);
}
