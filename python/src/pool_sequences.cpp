// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_sequences.cpp: `PagePool`: several sequences at once, waiting, and how long
/// pages are kept.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <tuple>

#include "array.h"
#include "bindings.h"
#include "pool.h"

namespace folio::python {
namespace {

using Range = std::tuple<int32_t, int32_t, int32_t, int64_t>;

RetentionRange range_of(nb::handle range, size_t i) {
  Range given;
  if (!nb::try_cast(range, given))
    refuse_argument("retention[{}]: expected (begin, end, level, milliseconds), four integers", i);
  return {std::get<0>(given), std::get<1>(given), std::get<2>(given), std::get<3>(given)};
}

DecodeRetention decode_of(nb::handle decode) {
  std::tuple<int32_t, int64_t> given;
  if (!nb::try_cast(decode, given) || std::get<0>(given) < 0)
    refuse_argument("decode_retention: expected None or (level, milliseconds), not negative");
  return {std::get<0>(given), std::get<1>(given)};
}

void reserve_batch(Pool& self, nb::sequence sequences, nb::handle new_tokens) {
  const std::vector<SequenceId> ids = ids_of(sequences);
  const std::vector<int32_t> counts = int32_of(new_tokens, "new_tokens");
  if (counts.size() != ids.size())
    refuse_argument("new_tokens: expected one for each of {} sequences, got {}", ids.size(),
                    counts.size());
  std::vector<ReserveRequest> requests;
  for (size_t i = 0; i < ids.size(); ++i) requests.push_back({ids[i], counts[i]});
  self.pool.reserve(requests).or_throw();
}

std::vector<SequenceId> fork_many(Pool& self, SequenceId id, int32_t length, int32_t children) {
  if (children < 0 || static_cast<uint32_t>(children) > self.max_sequences)
    refuse_argument("children is {}, expected 0 to {} (max_sequences)", children,
                    self.max_sequences);
  std::vector<SequenceId> made(static_cast<size_t>(children));
  self.pool.fork(id, length, made).or_throw();
  return made;
}

nb::dict explain(const Pool& self, SequenceId id, int32_t new_tokens) {
  const PoolExplanation e = take(self.pool.explain(id, new_tokens));
  nb::dict out;
  out["needed"] = e.needed;
  out["held_back"] = e.held_back;
  out["free"] = e.free;
  out["cached"] = e.cached;
  out["pinned"] = e.pinned;
  out["of_sequences"] = e.of_sequences;
  out["of_steps"] = e.of_steps;
  out["of_copies"] = e.of_copies;
  out["short_group"] = e.short_group;
  return out;
}

}  // namespace

ReadOptions::ReadOptions(const nb::bytes& salt, uint64_t adapter)
    : options{.salt = std::string_view(salt.c_str(), salt.size()), .adapter = adapter} {}

ReadOptions::ReadOptions(const nb::bytes& salt, uint64_t adapter, const nb::sequence& given,
                         nb::handle decode)
    : ReadOptions(salt, adapter) {
  for (const nb::handle range : given) ranges.push_back(range_of(range, ranges.size()));
  options.retention = ranges;
  if (!decode.is_none()) options.decode_retention = decode_of(decode);
}

void ReadOptions::add_spans(const nb::sequence& given) {
  for (const nb::handle each : given) {
    std::tuple<int32_t, int32_t, nb::bytes> span;
    ContentSpan& made = spans.emplace_back();
    if (!nb::try_cast(each, span) || std::get<2>(span).size() != made.hash.bytes.size())
      refuse_argument("spans[{}]: expected (offset, length, hash), two integers and 32 bytes",
                      spans.size() - 1);
    made.offset = std::get<0>(span);
    made.length = std::get<1>(span);
    std::memcpy(made.hash.bytes.data(), std::get<2>(span).c_str(), made.hash.bytes.size());
  }
  options.spans = spans;
}

void bind_pool_sequences(nb::class_<Pool>& type) {
  const nb::lock_self locked;
  type.def("reserve_batch", &reserve_batch, nb::arg("ids"), nb::arg("new_tokens"), locked,
           "Room for several sequences, none twice: all of it, or OutOfPages and nothing.")
      .def("explain", &explain, nb::arg("id"), nb::arg("new_tokens"), locked,
           "Pages that reserve would need, and who has the pool's pages: each is counted once.")
      .def("fork_many", &fork_many, nb::arg("id"), nb::arg("length"), nb::arg("children"), locked,
           "So many new sequences with the first `length` tokens, or none; they share a cut page "
           "until one writes.")
      .def(
          "keep_path",
          [](Pool& p, nb::sequence tree, size_t leaf) {
            p.pool.keep_path(ids_of(tree), leaf).or_throw();
          },
          nb::arg("tree"), nb::arg("leaf"), locked,
          "Of a tree of drafts, the path to tree[leaf] becomes tree[0]'s; all others are released.")
      .def(
          "preempt", [](Pool& p, SequenceId id) { p.pool.preempt(id).or_throw(); }, nb::arg("id"),
          locked, "Gives up all pages and keeps the id, which has no tokens until resume.")
      .def(
          "resume",
          [](Pool& p, SequenceId id, nb::handle tokens) {
            return take(p.pool.resume(id, int32_of(tokens, "tokens")));
          },
          nb::arg("id"), nb::arg("tokens"), locked,
          "Gives a sequence without pages the longest cached prefix of tokens, as admit does.")
      .def(
          "retain",
          [](Pool& p, nb::handle prompt, nb::sequence retention, nb::handle decode, nb::bytes salt,
             uint64_t adapter, nb::sequence spans) {
            ReadOptions read(salt, adapter, retention, decode);
            read.add_spans(spans);
            return take(p.pool.retain(int32_of(prompt, "prompt"), read.options));
          },
          nb::arg("prompt"), nb::kw_only(), nb::arg("retention") = nb::make_tuple(),
          nb::arg("decode_retention") = nb::none(), nb::arg("salt") = nb::bytes("", 0),
          nb::arg("adapter") = 0, nb::arg("spans") = nb::make_tuple(), locked,
          "How long the cached prefix of prompt is kept, instead of what was said before. Returns "
          "the tokens that were found.")
      .def(
          "advance_time", [](Pool& p, int64_t now_ms) { p.pool.advance_time(now_ms).or_throw(); },
          nb::arg("now_ms"), locked, "What time it is, once a step; it does not go back.");
}

}  // namespace folio::python
