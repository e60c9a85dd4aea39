// SPDX-License-Identifier: Apache-2.0
/// python/src/pool_functions.cpp: callables that a pool calls, and what they are handed.
#include "pool_functions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "pool.h"
#include "tiers/observers.h"

namespace folio::python {
namespace {

/// PageContent, which is the pool's memory, as something that Python may keep.
struct Content {
  std::optional<nb::bytes> parent;
  std::vector<TokenId> tokens;
  std::vector<std::tuple<int32_t, int32_t, nb::bytes>> spans;
  nb::bytes salt = nb::bytes("", 0);
  uint64_t adapter = 0;
};

nb::bytes bytes_of(const Digest256& digest) {
  return nb::bytes(digest.bytes.data(), digest.bytes.size());
}

Content content_of(const PageContent& page) {
  Content content;
  content.tokens.assign(page.tokens.begin(), page.tokens.end());
  content.salt = nb::bytes(page.salt.data(), page.salt.size());
  content.adapter = page.adapter;
  if (page.parent != nullptr) content.parent = bytes_of(*page.parent);
  for (const ContentSpan& span : page.spans)
    content.spans.emplace_back(span.offset, span.length, bytes_of(span.hash));
  return content;
}

/// CompanionContent, likewise.
struct Companion {
  nb::bytes leading = nb::bytes("", 0);
  uint32_t group = 0;
  GroupOptions options;
};

/// What a callable gives for `content`, or why it gave nothing.
template <class Given>
Status call_for_name(Callables& callables, const nb::object& function, const Given& content,
                     PageName* name) noexcept {
  try {
    if (function.is_valid()) {
      *name = name_of(function(content()), "name: expected a callable that gives");
      return {};
    }
  } catch (...) {
    if (callables.failure != nullptr) {
      *callables.failure = std::current_exception();
    } else {
      tell_unraisable(function);
    }
  }
  return fail(Errc::io, "PagePool.name: the callable gave no name");
}

Status call_name(void* context, const PageContent& page, PageName* name) noexcept {
  auto& callables = *static_cast<Callables*>(context);
  const nb::object function = callables.name;  // kept while it runs
  return call_for_name(
      callables, function, [&] { return content_of(page); }, name);
}

Status call_name_companion(void* context, const pool::CompanionContent& page,
                           PageName* name) noexcept {
  auto& callables = *static_cast<Callables*>(context);
  const nb::object function = callables.name_companion;
  const auto content = [&] { return Companion{bytes_of(page.leading), page.group, page.options}; };
  return call_for_name(callables, function, content, name);
}

void call_on_event(void* context, const PoolEvent& event,
                   std::span<const TokenId> tokens) noexcept {
  const nb::object function = static_cast<Callables*>(context)->on_event;
  try {
    if (function.is_valid()) function(event, std::vector<TokenId>(tokens.begin(), tokens.end()));
  } catch (...) {
    tell_unraisable(function);
  }
}

void expect_callable(const char* argument, nb::handle given) {
  if (!given.is_none() && PyCallable_Check(given.ptr()) == 0)
    refuse_argument("{}: expected a callable or None", argument);
}

/// Computed now, with those before it.
nb::object page_name(Pool& self, SequenceId id, int32_t position, uint32_t group) {
  const NamingFailure failure(self.callables.get());
  const Result<PageName> name = self.pool.name(id, position, group);
  failure.rethrow();
  name.error().or_throw();
  return name_bytes(*name, true);
}

}  // namespace

/// Fewer bytes stand in front.
PageName name_of(const nb::object& given, const char* what) {
  PageName name;
  if (!nb::isinstance<nb::bytes>(given)) refuse_argument("{} bytes", what);
  const auto bytes = nb::borrow<nb::bytes>(given);
  if (bytes.size() == 0 || bytes.size() > name.bytes.size())
    refuse_argument("{} 1 to {} bytes, got {}", what, name.bytes.size(), bytes.size());
  std::memcpy(name.bytes.data(), bytes.c_str(), bytes.size());
  return name;
}

/// What is being handled, told to sys.unraisablehook.
void tell_unraisable(const nb::object& function) noexcept {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(function);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    PyErr_WriteUnraisable(function.ptr());
  }
}

std::unique_ptr<Callables> read_callables(nb::handle name, nb::handle on_event,
                                          PoolOptions& options) {
  expect_callable("name", name);
  expect_callable("on_event", on_event);
  if (name.is_none() && on_event.is_none()) return nullptr;
  auto callables = std::make_unique<Callables>();
  if (!name.is_none()) {
    callables->name = nb::borrow(name);
    if (nb::hasattr(name, "name_companion")) {
      callables->name_companion = name.attr("name_companion");
      expect_callable("name.name_companion", callables->name_companion);
    }
    options.name = name_function_of(callables.get());
  }
  if (nb::isinstance<PoolObserver>(on_event)) {
    callables->on_event = nb::borrow(on_event);
    auto& observer = nb::cast<PoolObserver&>(on_event);
    callables->observer_use = observer.take("on_event");
    options.on_event = observer.function;
  } else if (!on_event.is_none()) {
    callables->on_event = nb::borrow(on_event);
    options.on_event = {.function = call_on_event, .context = callables.get()};
  }
  return callables;
}

NameFunction name_function_of(Callables* callables) {
  if (callables == nullptr || !callables->name.is_valid()) return {};
  NameFunction name = {.function = call_name, .context = callables};
  if (callables->name_companion.is_valid()) name.companion = call_name_companion;
  return name;
}

nb::object name_bytes(const PageName& name, bool is_there) {
  return is_there ? nb::object(bytes_of(name)) : nb::none();
}

void bind_page_content(nb::module_& m) {
  nb::class_<Content>(m, "PageContent", "What the name of a page stands for.")
      .def_ro("parent", &Content::parent,
              "Name of the page before; None: the sequence's first page.")
      .def_ro("tokens", &Content::tokens, "page_size token ids.")
      .def_ro("spans", &Content::spans,
              "(offset, length, hash) of items with a token in the page, as seen from its first "
              "token: offset may be negative.")
      .def_ro("salt", &Content::salt, "Of the sequence; a parent's name stands for it, too.")
      .def_ro("adapter", &Content::adapter, "The same.");
  nb::class_<Companion>(m, "CompanionContent",
                        "What the name of a page of another group than 0 stands for.")
      .def_ro("leading", &Companion::leading, "Name of the page of group 0 with the same tokens.")
      .def_ro("group", &Companion::group)
      .def_prop_ro(
          "rule", [](const Companion& c) { return rule_name(c.options.rule); },
          "Of the group, as PagePool's groups have it; what a rule has not is 0.")
      .def_prop_ro("window", [](const Companion& c) { return c.options.window; })
      .def_prop_ro("sinks", [](const Companion& c) { return c.options.sinks; })
      .def_prop_ro("chunk", [](const Companion& c) { return c.options.chunk; })
      .def_prop_ro("checkpoint", [](const Companion& c) { return c.options.checkpoint; });
}

void bind_pool_functions(nb::class_<Pool>& type) {
  type.def("name", &page_name, nb::arg("id"), nb::arg("position"), nb::arg("group") = 0,
           nb::lock_self(),
           nb::sig("def name(self, id: SequenceId, position: int, group: int = 0) -> bytes"),
           R"(The name of the sequence's page `position`, which is full: 32 bytes; with `group` of
what that group has of it, whether it has it or not.

Computed once for a content, as long as some page has it; pages before it that have no name get
theirs. Raises Error unless 0 <= position < length // page_size, and in a pool without `name`; what
the callable raises, and the page stays without a name.)");
}

}  // namespace folio::python
