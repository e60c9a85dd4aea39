// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_events.cpp: `PagePool`: events, and `PoolReader`, which other threads may use.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>
#include <vector>

#include "array.h"
#include "bindings.h"
#include "folio/pool/reader.h"
#include "pool.h"

namespace folio::python {
namespace {

constexpr int64_t most_events = int64_t{1} << 24;  // of one call: 2 GiB

const char* kind_of(const PoolEvent& event) {
  switch (event.kind) {
    case PoolEventKind::stored: return "stored";
    case PoolEventKind::removed: return "removed";
    case PoolEventKind::cleared: return "cleared";
  }
  return "?";
}

using Events = std::tuple<std::vector<PoolEvent>, uint64_t, bool>;

/// Of a pool or its reader.
template <class Source>
Events read_events(const Source& source, uint64_t next, int64_t most) {
  if (most < 0 || most > most_events)
    refuse_argument("most is {}, expected 0 to {}", most, most_events);
  std::vector<PoolEvent> events(static_cast<size_t>(most));
  const EventRead read = take(source.read_events(next, events));
  events.resize(read.count);
  return {std::move(events), read.next, read.lost};
}

std::tuple<std::vector<PoolEvent>, nb::object, uint64_t> snapshot(const Pool& self) {
  struct Contents {
    std::vector<PoolEvent> events;
    std::vector<TokenId> tokens;
    std::exception_ptr failure = {};
  } contents;
  const auto page_size = static_cast<size_t>(self.pool.page_size());
  const auto visit = [](void* into, const PoolEvent& event,
                        std::span<const TokenId> tokens) noexcept {
    auto& [events, all, failure] = *static_cast<Contents*>(into);
    if (failure != nullptr) return;
    try {
      events.push_back(event);
      all.insert(all.end(), tokens.begin(), tokens.end());
    } catch (...) {
      failure = std::current_exception();
    }
  };
  const uint64_t last = take(self.pool.snapshot({visit, &contents}));
  if (contents.failure != nullptr) std::rethrow_exception(contents.failure);
  nb::object tokens = nb::module_::import_("numpy").attr("empty")(
      nb::make_tuple(contents.events.size(), page_size), "int32");
  std::copy(contents.tokens.begin(), contents.tokens.end(),
            static_cast<TokenId*>(array_of(tokens, "tokens").data));
  return {std::move(contents.events), std::move(tokens), last};
}

nb::dict histogram_of(const PoolHistogram& histogram) {
  nb::dict out;
  nb::list counts;
  for (const int64_t count : histogram.counts) counts.append(count);
  out["counts"] = counts;
  out["sum"] = histogram.sum;
  return out;
}

template <class Source>
nb::dict histograms_of(const Source& source) {
  const PoolHistograms h = take(source.histograms());
  nb::dict out;
  out["lifetime"] = histogram_of(h.lifetime);
  out["idle"] = histogram_of(h.idle);
  out["reuse"] = histogram_of(h.reuse);
  return out;
}

void bind_event(nb::module_& m) {
  nb::class_<PoolEvent>(m, "PoolEvent", "A content that can be found from now on, or no more.")
      .def_ro("number", &PoolEvent::number, "1 is a pool's first; in snapshots, of the last event.")
      .def_prop_ro("kind", &kind_of, R"("stored", "removed" or "cleared".)")
      .def_ro("content", &PoolEvent::content, "A number that the pool never uses twice.")
      .def_ro("parent", &PoolEvent::parent, "The content of the page before.")
      .def_ro("adapter", &PoolEvent::adapter, "stored: of the sequence.")
      .def_ro("position", &PoolEvent::position, "stored: of the page in its sequence; else -1.")
      .def_ro("num_tokens", &PoolEvent::num_tokens)
      .def_prop_ro(
          "name", [](const PoolEvent& e) { return name_bytes(e.name, e.has_name); },
          nb::sig("def name(self, /) -> bytes | None"),
          "Of the content: 32 bytes; None in a pool without names, or where there was none.")
      .def_prop_ro(
          "parent_name",
          [](const PoolEvent& e) { return name_bytes(e.parent_name, e.has_parent_name); },
          nb::sig("def parent_name(self, /) -> bytes | None"),
          "stored, not in snapshots: of the page before; None for a sequence's first page. Of "
          "another group than 0 always, and of the page of group 0 with the same tokens.")
      .def_ro("group", &PoolEvent::group,
              "Not 0: a page of the content has got, or lost, what this group has of its tokens.")
      .def_ro("in_snapshot", &PoolEvent::in_snapshot, "One of PagePool.snapshot.");
}

constexpr const char* events_text =
    "(events, next, lost): events `next`, `next` + 1, ... from the ring, the number to ask for "
    "next, and whether the ring has them no longer: then only snapshot tells what they said.";
constexpr const char* histograms_text =
    "Ages in pages taken: lifetime and idle of evicted pages, reuse of found ones; counts by "
    "number of bits, and sums.";

void bind_reader(nb::module_& m) {
  nb::class_<PoolReader>(m, "PoolReader",
                         "What threads beside the scheduler's may ask a pool at any time.")
      .def(
          "peek",
          [](const PoolReader& r, nb::handle prompt, nb::bytes salt, uint64_t adapter,
             nb::sequence spans) {
            ReadOptions read(salt, adapter);
            read.add_spans(spans);
            return r.peek(int32_of(prompt, "prompt"), read.options);
          },
          nb::arg("prompt"), nb::kw_only(), nb::arg("salt") = nb::bytes("", 0),
          nb::arg("adapter") = 0, nb::arg("spans") = nb::make_tuple(),
          "Tokens in whole pages that admit would find; with groups, in leading pages: an upper "
          "bound.")
      .def(
          "stats", [](const PoolReader& r) { return stats_of(take(r.stats())); },
          "As PagePool.stats, all of one moment between two calls.")
      .def("read_events", &read_events<PoolReader>, nb::arg("next"), nb::arg("most") = 256,
           events_text)
      .def("histograms", &histograms_of<PoolReader>, histograms_text);
}

}  // namespace

void bind_pool_events(nb::module_& m, nb::class_<Pool>& type) {
  const nb::lock_self locked;
  bind_event(m);
  bind_reader(m);
  type.def(
          "read_events",
          [](const Pool& p, uint64_t next, int64_t most) {
            return read_events(p.pool, next, most);
          },
          nb::arg("next"), nb::arg("most") = 256, locked, events_text)
      .def("snapshot", &snapshot, locked,
           "(events, tokens, last): a stored event for each content that can be found, then for "
           "each companion, the tokens in the same row of an int32 array [events, page_size], and "
           "the number of the last event before.")
      .def(
          "reader", [](const Pool& p) { return take(PoolReader::of(p.pool)); },
          nb::keep_alive<0, 1>(), locked, "For other threads; needs readers.")
      .def(
          "histograms", [](const Pool& p) { return histograms_of(p.pool); }, locked,
          histograms_text)
      .def(
          "clear", [](Pool& p) { p.pool.clear().or_throw(); }, locked,
          "Makes all cached pages free, pinned ones too. Raises Error while pages are used.");
}

}  // namespace folio::python
