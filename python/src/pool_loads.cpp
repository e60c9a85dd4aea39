// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_loads.cpp: `PagePool`: pages that lie elsewhere and come into the pool, and
/// those that it gives up.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "array.h"
#include "bindings.h"
#include "errors.h"
#include "pool.h"

namespace folio::python {
namespace {

using Bits = std::vector<pool::GroupBits>;

nb::list companion_names(Pool& self, uint32_t group, nb::sequence leading) {
  std::vector<PageName> from;
  for (const nb::handle name : leading)
    from.push_back(name_of(nb::borrow(name), "leading: expected names of"));
  std::vector<PageName> names(from.size());
  const NamingFailure failure(self.callables.get());
  const Status named = self.pool.companion_names(group, from, names);
  failure.rethrow();
  named.or_throw();
  nb::list out;
  for (const PageName& name : names) out.append(name_bytes(name, true));
  return out;
}

nb::dict page_parts(const Pool& self, SequenceId id, int32_t position) {
  const pool::PageParts parts = take(self.pool.parts(id, position));
  nb::dict out;
  out["present"] = parts.present;
  out["held"] = parts.held;
  out["likely"] = parts.likely;
  return out;
}

/// Whole pages from the sequence's length to `end`; 0 for an end that the pool refuses.
size_t pages_to(const Pool& self, SequenceId id, int64_t end) {
  const int64_t length = take(self.pool.length(id)), page_size = self.pool.page_size();
  return end <= length ? 0 : static_cast<size_t>((end - length) / page_size);
}

/// None where there is none.
std::vector<std::optional<IoPin>> begin_prompt_io(
    Pool& self, SequenceId id, nb::handle prompt,
    const std::vector<std::pair<int32_t, uint32_t>>& pages) {
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  std::vector<pool::PromptPage> asked;
  for (const auto& [position, group] : pages) asked.push_back({position, group});
  std::vector<IoPin> pins(asked.size());
  std::vector<std::optional<IoPin>> out(pins.size());  // before there are pins to lose
  take(self.pool.begin_prompt_io(id, tokens, asked, pins));
  for (size_t i = 0; i < pins.size(); ++i)
    if (pins[i] != IoPin()) out[i] = pins[i];
  return out;
}

Bits find_parts(Pool& self, SequenceId id, nb::handle prompt) {
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  Bits parts(pages_to(self, id, static_cast<int64_t>(tokens.size()) - 1));
  parts.resize(static_cast<size_t>(take(self.pool.find_parts(id, tokens, parts))));
  return parts;
}

Bits begin_load(Pool& self, SequenceId id, nb::handle prompt, int32_t length) {
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  Bits fill(pages_to(self, id, std::min<int64_t>(length, std::ssize(tokens))));
  self.pool.begin_load(id, tokens, length, fill).or_throw();
  return fill;
}

Bits begin_whole_load(Pool& self, SequenceId id, nb::handle prompt) {
  const std::vector<TokenId> tokens = int32_of(prompt, "prompt");
  Bits fill(pages_to(self, id, std::ssize(tokens) + self.pool.page_size() - 1));
  self.pool.begin_whole_load(id, tokens, fill).or_throw();
  return fill;
}

Bits shorten_load(Pool& self, SequenceId id, int32_t length) {
  Bits fill(pages_to(self, id, std::min(length, take(self.pool.load_length(id)))));
  self.pool.shorten_load(id, length, fill).or_throw();
  return fill;
}

void commit_load(Pool& self, SequenceId id, nb::handle tokens, bool merge) {
  self.pool.commit_load(id, int32_of(tokens, "tokens"), merge ? Merge::allowed : Merge::refused)
      .or_throw();
}

/// The pin of what it gives; none where it gives None, raises, or gives something else.
IoPin call_on_eviction(void* context, uint32_t group, uint32_t page,
                       const PageName& name) noexcept {
  const nb::object function = static_cast<Callables*>(context)->on_eviction;
  if (!function.is_valid()) return {};
  try {
    const nb::object pin = function(group, page, name_bytes(name, true));
    if (nb::isinstance<IoPin>(pin)) return nb::cast<IoPin>(pin);
    if (!pin.is_none())
      refuse_argument("function: expected a callable that gives an IoPin or None");
  } catch (...) {
    tell_unraisable(function);
  }
  return {};
}

void call_on_leaving(void* context, uint32_t group, uint32_t page, const PageName& name) noexcept {
  const nb::object function = static_cast<Callables*>(context)->on_leaving;
  if (!function.is_valid()) return;
  try {
    function(group, page, name_bytes(name, true));
  } catch (...) {
    tell_unraisable(function);
  }
}

/// Invalid for None.
nb::object callable_or_none(const char* argument, nb::handle given) {
  if (given.is_none()) return {};
  if (PyCallable_Check(given.ptr()) == 0)
    refuse_argument("{}: expected a callable or None", argument);
  return nb::borrow(given);
}

void watch_evictions(Pool& self, nb::handle function, nb::handle leaving) {
  nb::object on_eviction = callable_or_none("function", function);
  nb::object on_leaving = callable_or_none("leaving", leaving);
  if (!on_eviction.is_valid()) {
    if (on_leaving.is_valid()) refuse_argument("leaving: given without function");
    self.pool.watch_evictions({}).or_throw();
  } else {
    if (self.callables == nullptr) self.callables = std::make_unique<Callables>();
    self.pool.watch_evictions({call_on_eviction, self.callables.get(), call_on_leaving}).or_throw();
  }
  if (self.callables == nullptr) return;
  std::swap(self.callables->on_eviction, on_eviction);  // what was there goes last
  std::swap(self.callables->on_leaving, on_leaving);
}

}  // namespace

void bind_pool_loads(nb::class_<Pool>& type) {
  const nb::lock_self locked;
  type.def("companion_names", &companion_names, nb::arg("group"), nb::arg("leading"), locked,
           nb::sig("def companion_names(self, group: int, leading: Sequence[bytes]) "
                   "-> list[bytes]"),
           "The names of what `group`, not 0, has of the pages with these names. Raises Error "
           "unless `name` has name_companion; what that raises.")
      .def("parts", &page_parts, nb::arg("id"), nb::arg("position"), locked,
           "Bits of groups, 1 of group 0, that have the sequence's full page: `present`; of these "
           "in its rows: `held`; of these what a likely hit needs: `likely`.")
      .def(
          "begin_companion_io",
          [](Pool& p, SequenceId id, int32_t position, uint32_t group) {
            return take(p.pool.begin_companion_io(id, position, group));
          },
          nb::arg("id"), nb::arg("position"), nb::arg("group"), locked,
          "As begin_io, to read what `group` has of the sequence's page, be it cached.")
      .def("begin_prompt_io", &begin_prompt_io, nb::arg("id"), nb::arg("prompt"), nb::arg("pages"),
           locked,
           R"(As begin_io, to read what memory has of a prompt that the sequence's tokens begin.

`pages`: (position, group) of each, in rows or cached, also where no hit ends. Returns a pin for
each, or None where memory has not the page or there is no pin.)")
      .def(
          "expect_branch",
          [](Pool& p, SequenceId id, int32_t tokens) {
            p.pool.expect_branch(id, tokens).or_throw();
          },
          nb::arg("id"), nb::arg("tokens"), locked,
          "Others are likely to go on in another way behind so many tokens: what a hit there needs "
          "is "
          "`likely`.")
      .def("find_parts", &find_parts, nb::arg("id"), nb::arg("prompt"), locked,
           R"(What memory has behind the sequence's tokens, which fill whole pages.

For each page of the prompt that group 0 has there, bits of the groups that have it. Raises Error
for a sequence that has room or part of a page.)")
      .def("begin_load", &begin_load, nb::arg("id"), nb::arg("prompt"), nb::arg("length"), locked,
           R"(Room for the prompt's first `length` tokens, a multiple of page_size.

For each whole page behind the sequence's tokens, bits of the groups whose page is new there: these
are to be filled; all others memory has. Until commit_load the sequence has its old length, and
commit raises Error with code "busy"; trim, preempt and release give the room up.)")
      .def("begin_whole_load", &begin_whole_load, nb::arg("id"), nb::arg("prompt"), locked,
           "As begin_load, of the whole prompt, for whom no token is left to compute: it may end "
           "within a page.")
      .def("shorten_load", &shorten_load, nb::arg("id"), nb::arg("length"), locked,
           "A shorter load: the same bits of what is to be filled beside what was new before.")
      .def("commit_load", &commit_load, nb::arg("id"), nb::arg("tokens"), nb::kw_only(),
           nb::arg("merge") = false, locked,
           "All is filled: the load's tokens become the sequence's; merge: as of commit.")
      .def(
          "load_length", [](const Pool& p, SequenceId id) { return take(p.pool.load_length(id)); },
          nb::arg("id"), locked, "0 without a load.")
      .def("watch_evictions", &watch_evictions, nb::arg("function").none(),
           nb::arg("leaving") = nb::none(), locked,
           R"(`function` is asked when a cached page is about to be taken for new content.

It is called with group, page and the name of the page, or of the leading page whose companion it
is, and may give the IoPin of a page with nothing in it: that page is taken, and from then on the
pin holds the evicted one, whose bytes stay until end_io. None: the page goes. `leaving` is told of
a page that goes with its slab to another group: no page can take its place, and its bytes are there
until the call ends. What they raise goes to sys.unraisablehook. None as `function`: nobody is asked
any more. Raises Error with code "busy" where one is asked already.)");
}

}  // namespace folio::python
