// SPDX-License-Identifier: Apache-2.0
/// python/src/pool.cpp: `PagePool`, with Python's objects for its plain structs.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "array.h"
#include "bindings.h"
#include "folio/pool/page_pool.h"
#include "pool.h"
#include "step.h"

namespace folio::python {
namespace {

Eviction eviction_of(const std::string& text) {
  const auto& names = pool::eviction_names;
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found != std::end(names)) return static_cast<Eviction>(found - std::begin(names));
  std::string expected;
  for (size_t i = 0; i < std::size(names); ++i) {
    expected += i == 0 ? "\"" : i + 1 == std::size(names) ? " or \"" : ", \"";
    expected.append(names[i]) += '"';
  }
  refuse_argument("eviction: expected {}, got \"{}\"", expected, text);
}

void make_pool(Pool* self, uint32_t num_pages, int32_t page_size, uint32_t max_sequences,
               uint32_t max_pages_per_sequence, uint32_t max_namespaces, bool prefix_reuse,
               uint64_t hash_seed, const std::string& eviction, int64_t max_retention_ms,
               uint32_t watermark_pages, int32_t lookahead_tokens, uint32_t event_capacity,
               int32_t min_partial_tokens, uint32_t max_spans, bool readers, bool histograms,
               uint32_t max_io_pins, nb::sequence groups, int64_t arena_bytes, nb::handle name,
               nb::handle on_event) {
  PoolOptions options;
  options.num_pages = num_pages;
  options.page_size = page_size;
  options.max_sequences = max_sequences;
  options.max_pages_per_sequence = max_pages_per_sequence;
  options.max_namespaces = max_namespaces;
  options.prefix_reuse = prefix_reuse;
  options.hash_seed = hash_seed;
  options.eviction = eviction_of(eviction);
  options.max_retention_ms = max_retention_ms;
  options.watermark_pages = watermark_pages;
  options.lookahead_tokens = lookahead_tokens;
  options.event_capacity = event_capacity;
  options.min_partial_tokens = min_partial_tokens;
  options.max_spans = max_spans;
  options.readers = readers;
  options.histograms = histograms;
  options.max_io_pins = max_io_pins;
  const std::vector<GroupOptions> given = groups_of(groups);
  options.groups = given;
  options.arena_bytes = arena_bytes;
  std::unique_ptr<Callables> callables = read_callables(name, on_event, options);
  PagePool made = take(PagePool::create(options));
  new (self) Pool{std::move(callables), std::move(made), max_sequences};
}

/// For the garbage collector: a callable may lead back to its pool.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Pool& pool = *nb::inst_ptr<Pool>(self);
  if (pool.callables == nullptr) return 0;
  Py_VISIT(pool.callables->name.ptr());
  Py_VISIT(pool.callables->name_companion.ptr());
  Py_VISIT(pool.callables->on_event.ptr());
  Py_VISIT(pool.callables->on_eviction.ptr());
  Py_VISIT(pool.callables->on_leaving.ptr());
  return 0;
}

int clear(PyObject* self) {
  if (!nb::inst_ready(self)) return 0;
  const Pool& pool = *nb::inst_ptr<Pool>(self);
  if (pool.callables == nullptr) return 0;
  pool.callables->name.reset();
  pool.callables->name_companion.reset();
  // a publisher's is called by the pool itself, as long as there is one
  if (pool.callables->observer_use == nullptr) pool.callables->on_event.reset();
  pool.callables->on_eviction.reset();
  pool.callables->on_leaving.reset();
  return 0;
}

const PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(clear)},
                             {0, nullptr}};

/// Memory that numpy owns and this array copies into.
nb::object int64_array(const std::vector<int64_t>& values) {
  nb::object array = nb::module_::import_("numpy").attr("empty")(values.size(), "int64");
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(array_of(array, "rows").data));
  return array;
}

std::vector<int64_t> rows_of(const Pool& self, const std::vector<SequenceId>& ids, uint32_t group) {
  std::vector<int64_t> rows(ids.size());
  self.pool.batch_rows(ids, rows, group).or_throw();
  return rows;
}

/// All rows of the table, read-only, as long as the pool lives.
nb::object table_of(nb::handle_t<Pool> self, uint32_t group) {
  const Pool& pool = nb::cast<const Pool&>(self);
  take(pool.pool.group(group));
  const PageTable table = pool.pool.table(group);
  const size_t shape[2] = {pool.max_sequences, static_cast<size_t>(table.row_stride)};
  return nb::cast(nb::ndarray<nb::numpy, const uint32_t>(table.entries, 2, shape, self));
}

/// Throws Error unless a sequence's row of the table has a page for each of `tokens` tokens.
void expect_reserved(const Pool& self, SequenceId id, size_t i, int64_t tokens) {
  const PageTable table = self.pool.table();
  const uint32_t* row = table.entries + take(self.pool.row_start(id));
  const int64_t page_size = self.pool.page_size();
  const int64_t pages = (tokens + page_size - 1) / page_size;
  for (int64_t p = 0; p < pages; ++p)
    if (p >= table.row_stride || row[p] >= self.pool.num_pages())
      refuse_argument("new_tokens[{}]: {} tokens in all, room is reserved for {}", i, tokens,
                      p * page_size);
}

nb::object make_step(nb::handle_t<Pool> self, nb::sequence sequences, nb::handle new_tokens) {
  const Pool& pool = nb::cast<const Pool&>(self);
  const std::vector<SequenceId> ids = ids_of(sequences);
  const std::vector<int32_t> counts = int32_of(new_tokens, "new_tokens");
  if (counts.size() != ids.size())
    refuse_argument("new_tokens: expected one for each of {} sequences, got {}", ids.size(),
                    counts.size());
  nb::list offsets, lengths, starts;
  int64_t total = 0;
  offsets.append(total);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (counts[i] < 0) refuse_argument("new_tokens[{}] is {}, expected at least 0", i, counts[i]);
    offsets.append(total += counts[i]);
    const int64_t length = int64_t{take(pool.pool.length(ids[i]))} + counts[i];
    expect_reserved(pool, ids[i], i, length);
    lengths.append(length);
  }
  for (const int64_t row : rows_of(pool, ids, 0)) starts.append(row);
  const nb::object flat = table_of(self, 0).attr("reshape")(-1);
  return nb::type<Step>()(offsets, lengths, flat, nb::arg("row_starts") = starts);
}

void bind_ids(nb::module_& m) {
  nb::class_<SequenceId>(m, "SequenceId", "A sequence of one pool; stale once it is released.")
      .def_ro("index", &SequenceId::index)
      .def_ro("generation", &SequenceId::generation)
      .def(
          "__eq__", [](SequenceId a, SequenceId b) { return a == b; }, nb::is_operator())
      .def("__hash__",
           [](SequenceId id) {
             return static_cast<int64_t>((uint64_t{id.generation} << 32 | id.index) >> 1);
           })
      .def("__repr__", [](SequenceId id) {
        return "SequenceId(" + std::to_string(id.index) + ", " + std::to_string(id.generation) +
               ")";
      });
  nb::class_<StepTicket>(m, "StepTicket", "A step that has begun and not ended.");
  nb::class_<IoPin>(m, "IoPin", "A page that a transfer reads or writes.");
  nb::class_<Admission>(m, "Admission", "What admit found.")
      .def_ro("id", &Admission::id)
      .def_ro("cached_tokens", &Admission::cached_tokens,
              "Tokens whose keys and values the cache already has: whole pages, or more with "
              "min_partial_tokens.");
}

void bind_sequences(nb::class_<Pool>& type) {
  const nb::lock_self locked;
  type.def(
          "peek",
          [](const Pool& p, nb::handle prompt, const nb::bytes& salt, uint64_t adapter,
             nb::sequence spans) {
            ReadOptions read(salt, adapter);
            read.add_spans(spans);
            return p.pool.peek(int32_of(prompt, "prompt"), read.options);
          },
          nb::arg("prompt"), nb::kw_only(), nb::arg("salt") = nb::bytes("", 0),
          nb::arg("adapter") = 0, nb::arg("spans") = nb::make_tuple(), locked,
          "Tokens that admit would find now. Changes nothing.")
      .def(
          "admit",
          [](Pool& p, nb::handle prompt, const nb::bytes& salt, uint64_t adapter,
             nb::sequence retention, nb::handle decode, nb::sequence spans) {
            ReadOptions read(salt, adapter, retention, decode);
            read.add_spans(spans);
            return take(p.pool.admit(int32_of(prompt, "prompt"), read.options));
          },
          nb::arg("prompt"), nb::kw_only(), nb::arg("salt") = nb::bytes("", 0),
          nb::arg("adapter") = 0, nb::arg("retention") = nb::make_tuple(),
          nb::arg("decode_retention") = nb::none(), nb::arg("spans") = nb::make_tuple(), locked,
          R"(Opens a sequence that shares the longest cached prefix of prompt in whole pages.

prompt: token ids, a list or an int array. salt, adapter: pages are shared only where both are
equal. retention: (begin, end, level, milliseconds) of tokens, how long their pages are kept from
the release on: level 0 to 100 (35: as without, 100: pinned); decode_retention: (level,
milliseconds) of the tokens behind the prompt. spans: (offset, length, hash) of images and other
items that tokens of the prompt stand for, 32 bytes of hash: they belong to what is compared. Raises
OutOfPages when max_sequences are alive, Error
for an empty prompt.)")
      .def(
          "reserve", [](Pool& p, SequenceId id, int32_t n) { p.pool.reserve(id, n).or_throw(); },
          nb::arg("id"), nb::arg("new_tokens"), locked,
          "Makes room behind the length: all of it, or OutOfPages and nothing.")
      .def(
          "commit",
          [](Pool& p, SequenceId id, nb::handle tokens, bool merge) {
            p.pool.commit(id, int32_of(tokens, "tokens"), merge ? Merge::allowed : Merge::refused)
                .or_throw();
          },
          nb::arg("id"), nb::arg("tokens"), nb::kw_only(), nb::arg("merge") = false, locked,
          "Says that these tokens' keys and values are in the cache; full pages become findable. "
          "merge: a findable page of equal content may take the place of the sequence's own.")
      .def(
          "trim", [](Pool& p, SequenceId id, int32_t n) { p.pool.trim(id, n).or_throw(); },
          nb::arg("id"), nb::arg("length"), locked,
          "Cuts the sequence to `length` tokens and gives up reserved room.")
      .def(
          "fork", [](Pool& p, SequenceId id, int32_t n) { return take(p.pool.fork(id, n)); },
          nb::arg("id"), nb::arg("length"), locked,
          "A new sequence with the first `length` tokens; a cut page becomes a copy to take.")
      .def(
          "release", [](Pool& p, SequenceId id) { p.pool.release(id).or_throw(); }, nb::arg("id"),
          locked, "Gives up all pages. The id is stale from now on.")
      .def(
          "length", [](const Pool& p, SequenceId id) { return take(p.pool.length(id)); },
          nb::arg("id"), locked, "Tokens whose keys and values are in the cache.");
}

void bind_steps(nb::class_<Pool>& type) {
  const nb::lock_self locked;
  type.def(
          "take_copies",
          [](Pool& p, uint32_t group) {
            take(p.pool.group(group));
            std::vector<std::tuple<uint32_t, uint32_t, int32_t>> out;
            for (const PageCopy& c : p.pool.take_copies(group))
              out.emplace_back(c.from, c.to, c.tokens);
            return out;
          },
          nb::arg("group") = 0, locked,
          "(from, to, tokens) of forks and trims, to be run before the next append.")
      .def(
          "begin_step",
          [](Pool& p, const nb::sequence& ids) { return take(p.pool.begin_step(ids_of(ids))); },
          nb::arg("ids"), locked, "Holds the pages of these sequences until end_step.")
      .def(
          "end_step", [](Pool& p, StepTicket t) { p.pool.end_step(t).or_throw(); },
          nb::arg("ticket"), locked)
      .def(
          "begin_io",
          [](Pool& p, SequenceId id, int32_t entry, uint32_t group) {
            return take(p.pool.begin_io(id, entry, group));
          },
          nb::arg("id"), nb::arg("entry"), nb::arg("group") = 0, locked,
          "Holds page `entry` of the sequence's row for a transfer until end_io, whatever becomes "
          "of the sequence.")
      .def(
          "end_io", [](Pool& p, IoPin pin) { p.pool.end_io(pin).or_throw(); }, nb::arg("pin"),
          locked)
      .def(
          "page_of", [](const Pool& p, IoPin pin) { return take(p.pool.page_of(pin)); },
          nb::arg("pin"), locked)
      .def(
          "row_start",
          [](const Pool& p, SequenceId id, uint32_t group) {
            return take(p.pool.row_start(id, group));
          },
          nb::arg("id"), nb::arg("group") = 0, locked,
          "Entry of the table at which the sequence's row begins.")
      .def(
          "batch_rows",
          [](const Pool& p, nb::sequence ids, uint32_t group) {
            return int64_array(rows_of(p, ids_of(ids), group));
          },
          nb::arg("ids"), nb::arg("group") = 0, locked, "row_start of each: a Batch's row_starts.")
      .def("table", &table_of, nb::arg("group") = 0,
           "uint32 [max_sequences, columns] of the pool itself, read-only; it changes as the pool "
           "does.")
      .def("step", &make_step, nb::arg("ids"), nb::arg("new_tokens"), locked,
           "A Step of these sequences: as many new tokens each behind their lengths.")
      .def_prop_ro("num_pages", [](const Pool& p) { return p.pool.num_pages(); })
      .def_prop_ro("page_size", [](const Pool& p) { return p.pool.page_size(); })
      .def(
          "stats", [](const Pool& p) { return stats_of(p.pool.stats()); }, locked,
          "Counts of pages, hits, evictions, sequences and steps.")
      .def(
          "check_invariants", [](const Pool& p) { p.pool.check_invariants().or_throw(); }, locked,
          "For tests: raises Error naming the first broken invariant.");
}

}  // namespace

std::vector<SequenceId> ids_of(const nb::sequence& ids) {
  std::vector<SequenceId> out;
  for (const nb::handle id : ids) {
    if (!nb::isinstance<SequenceId>(id))
      refuse_argument("ids[{}]: expected a SequenceId of this pool", out.size());
    out.push_back(nb::cast<SequenceId>(id));
  }
  return out;
}

nb::dict stats_of(const PoolStats& s) {
  nb::dict out;
  out["lookup_pages"] = s.lookup_pages;
  out["hit_pages"] = s.hit_pages;
  out["hit_tokens"] = s.hit_tokens;
  out["evicted_pages"] = s.evicted_pages;
  out["used_pages"] = s.used_pages;
  out["peak_used_pages"] = s.peak_used_pages;
  out["cached_pages"] = s.cached_pages;
  out["free_pages"] = s.free_pages;
  out["sequences"] = s.sequences;
  out["unfinished_steps"] = s.unfinished_steps;
  out["pinned_pages"] = s.pinned_pages;
  out["hit_tokens_cached"] = s.hit_tokens_cached;
  out["hit_tokens_used"] = s.hit_tokens_used;
  out["hit_tokens_partial"] = s.hit_tokens_partial;
  return out;
}

void bind_pool(nb::module_& m) {
  bind_ids(m);
  nb::class_<Pool> type(m, "PagePool",
                        "Which sequence owns which page: prefix reuse, fork, trim, eviction.",
                        nb::type_slots(slots));
  type.def("__init__", &make_pool, nb::arg("num_pages"), nb::arg("page_size") = 16, nb::kw_only(),
           nb::arg("max_sequences") = 256, nb::arg("max_pages_per_sequence") = 0,
           nb::arg("max_namespaces") = 256, nb::arg("prefix_reuse") = true,
           nb::arg("hash_seed") = 0, nb::arg("eviction") = "lru", nb::arg("max_retention_ms") = 0,
           nb::arg("watermark_pages") = 0, nb::arg("lookahead_tokens") = 0,
           nb::arg("event_capacity") = 0, nb::arg("min_partial_tokens") = 0,
           nb::arg("max_spans") = 0, nb::arg("readers") = false, nb::arg("histograms") = false,
           nb::arg("max_io_pins") = 0, nb::arg("groups") = nb::make_tuple(),
           nb::arg("arena_bytes") = 0, nb::arg("name") = nb::none(),
           nb::arg("on_event") = nb::none(),
           R"(Manages num_pages pages of page_size tokens; it holds no keys and no values.

max_sequences: alive at once. max_pages_per_sequence: 0: num_pages. max_namespaces: (salt, adapter)
pairs without a sequence whose pages stay findable. hash_seed: 0: drawn from the system.
eviction: which cached page goes first where none is free: "lru" (released first), "s3_fifo" (new
ones soon), "lfu" (found least often, older finds counting less) or "cost" (of short sequences).
max_retention_ms: the longest time for which a sequence may ask to have its pages kept, 0: none may.
watermark_pages: that a sequence's first reserve leaves to those that run. lookahead_tokens: that
every reserve makes room for beyond what it is asked. event_capacity: events that read_events finds.
min_partial_tokens: hits may end inside a page from so many tokens on, 0: never. max_spans: items of
another kind that a prompt may have. readers, histograms: what reader and histograms need.
max_io_pins: pages that begin_io holds at once.
groups, arena_bytes: of a hybrid model, with num_pages 0: {"rule": "full", "window", "chunked" or
"state", "page_bytes": ..., and "window", "sinks", "chunk" or "checkpoint" in tokens} each.
name: is called with a PageContent and gives 1 to 32 bytes (folio_kv.Sha256Names, or an engine's
block hashes): for PagePool.name, and in a pool with events for every content that is stored. Its
attribute name_companion, if it has one, likewise with a CompanionContent, for other groups' pages.
on_event: is called with each PoolEvent as it happens, and the tokens of the page of a stored one;
what tiers.EventPublisher.add_pool gives is called without Python.
From both, calls that would change the pool raise Error with code "busy"; what they raise goes to
sys.unraisablehook, as the pool's own call is done, but for PagePool.name, which raises it.
Raises Error naming the option.)");
  bind_sequences(type);
  bind_steps(type);
  bind_pool_sequences(type);
  bind_pool_events(m, type);
  bind_pool_groups(type);
  bind_pool_loads(type);
  bind_page_content(m);
  bind_pool_functions(type);
}

}  // namespace folio::python
