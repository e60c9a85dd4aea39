// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier.cpp: `Tier` and its `Transfer`s.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>
#include <string>
#include <utility>

#include "../bindings.h"
#include "../pool_functions.h"
#include "cache_figures.h"
#include "tier_handle.h"
#include "tier_options.h"

namespace folio::python {
namespace {

struct Transfer {
  nb::object tier;
  TransferPtr state;

  [[nodiscard]] TierHandle& handle() const { return nb::cast<TierHandle&>(tier); }
};

tier::LoadOrder order_of(const std::string& word) {
  return word_of<tier::LoadOrder>(
      word, "order", {{"pages", tier::LoadOrder::pages}, {"extents", tier::LoadOrder::extents}});
}

nb::dict figures(TierHandle& self) {
  self.collect();  // also gives back the memory of transfers that nobody looks at
  return figures_of(self.with_tier([](tier::Tier& t) { return t.figures(); }));
}

nb::list names_in(TierHandle& self) {
  struct Names {
    std::vector<PageName> names;
    bool is_short = false;
  } all;
  self.with_tier([&](tier::Tier& t) {
    t.visit_names({[](void* into, std::span<const PageName> some) noexcept {
                     auto& [names, is_short] = *static_cast<Names*>(into);
                     try {
                       names.insert(names.end(), some.begin(), some.end());
                     } catch (...) {
                       is_short = true;
                     }
                   },
                   &all})
        .or_throw();
  });
  if (all.is_short) throw std::bad_alloc();
  nb::list out;
  for (const PageName& name : all.names) out.append(bytes_of_name(name));
  return out;
}

Transfer store(nb::handle_t<TierHandle> self, nb::handle names, nb::handle where, nb::handle pages,
               nb::handle parents) {
  std::vector<PageName> given = names_of(names, "names");
  PagesOfCall bytes(where, pages, given.size(), false);
  std::vector<PageName> parent_names;
  std::vector<const PageName*> at;
  if (!parents.is_none()) {
    if (!nb::isinstance<nb::sequence>(parents))
      refuse_argument("parents: expected a sequence of bytes and None");
    const auto list = nb::borrow<nb::sequence>(parents);
    if (nb::len(list) != given.size())
      refuse_argument("parents: expected one for each of {} names, got {}", given.size(),
                      nb::len(list));
    parent_names.resize(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      const nb::object parent = list[i];
      if (!parent.is_none()) parent_names[i] = name_of(parent, "parents: expected None or");
      at.push_back(parent.is_none() ? nullptr : &parent_names[i]);
    }
  }
  auto& handle = nb::cast<TierHandle&>(self);
  return {nb::borrow(self), handle.start(std::move(given), std::move(bytes), at, nullptr)};
}

Transfer load(nb::handle_t<TierHandle> self, nb::handle names, nb::handle where, nb::handle pages,
              int64_t deadline_ms, const std::string& order) {
  std::vector<PageName> given = names_of(names, "names");
  PagesOfCall bytes(where, pages, given.size(), true);
  const TierHandle::Load options = {deadline_ms, order_of(order)};
  auto& handle = nb::cast<TierHandle&>(self);
  return {nb::borrow(self), handle.start(std::move(given), std::move(bytes), {}, &options)};
}

nb::list take_ended(nb::handle_t<TierHandle> self) {
  nb::list out;
  for (TransferPtr& state : nb::cast<TierHandle&>(self).take_ended())
    out.append(nb::cast(Transfer{nb::borrow(self), std::move(state)}));
  return out;
}

std::vector<bool> find_each(TierHandle& self, nb::handle names) {
  const std::vector<PageName> given = names_of(names, "names");
  std::vector<uint8_t> there(given.size());
  self.with_tier([&](tier::Tier& t) { t.find_each(given, there); });
  return {there.begin(), there.end()};
}

void bind_transfer(nb::module_& m) {
  nb::class_<Transfer>(m, "Transfer",
                       "Pages of one call of a tier. Keeps their memory until all have ended.")
      .def_ro("tier", &Transfer::tier, nb::for_getter(nb::sig("def tier(self, /) -> Tier")))
      .def_prop_ro(
          "names",
          [](const Transfer& t) {
            nb::list out;
            for (const PageName& name : t.state->names) out.append(bytes_of_name(name));
            return out;
          },
          nb::sig("def names(self, /) -> list[bytes]"))
      .def_prop_ro("is_load", [](const Transfer& t) { return t.state->is_load; })
      .def_prop_ro(
          "is_done", [](const Transfer& t) { return t.handle().has_ended(t.state); },
          "All pages have ended, one way or another.")
      .def_prop_ro(
          "outcomes",
          [](const Transfer& t) {
            std::vector<std::string> out;
            for (const int8_t o : t.handle().outcomes(t.state)) out.emplace_back(outcome_name(o));
            return out;
          },
          R"(How each page has ended; "" while it has not.

"done"; "missing": the tier has no such page; "corrupt": what is there is not what was stored, or
of another fingerprint; "full": no room to store it; "late", "cancelled"; "failed": the medium
failed, last_fault says how. Bytes of a load are to be used where it says "done".)")
      .def(
          "wait",
          [](const Transfer& t, int64_t timeout_ms) {
            return t.handle().wait_for(t.state, timeout_ms);
          },
          nb::arg("timeout_ms") = -1,
          "Until all pages have ended, or so long; negative: without end. Returns is_done.")
      .def(
          "landed", [](const Transfer& t) { return t.handle().landed(t.state); },
          R"(Leading arrays of PageArrays that are there in every page of a load.

Advice, for work that begins with the first layers: it is void unless all pages end as "done". All
of them then, 0 once a page has ended otherwise.)")
      .def(
          "cancel", [](const Transfer& t) { t.handle().cancel(t.state); },
          "Pages that have not ended do so soon, as \"cancelled\" unless they are done.");
}

void bind_calls(nb::class_<TierHandle>& type) {
  type.def(
          "find",
          [](TierHandle& self, nb::handle names) {
            const std::vector<PageName> given = names_of(names, "names");
            return self.with_tier([&](tier::Tier& t) { return t.find(given); });
          },
          nb::arg("names"), nb::sig("def find(self, names: Sequence[bytes]) -> int"),
          "How many of these, from the first on, are there now: advice, for a page may go.")
      .def("find_each", &find_each, nb::arg("names"),
           nb::sig("def find_each(self, names: Sequence[bytes]) -> list[bool]"),
           "Of each whether it is there now.")
      .def("store", &store, nb::arg("names"), nb::arg("where"), nb::arg("pages") = nb::none(),
           nb::kw_only(), nb::arg("parents") = nb::none(),
           nb::sig("def store(self, names: Sequence[bytes], where: object, "
                   "pages: object | None = None, *, "
                   "parents: Sequence[bytes | None] | None = None) -> Transfer"),
           R"(Begins to store pages under these names; returns at once.

where: PageArrays, and `pages` their numbers there; or an array, or other buffer, for each name. The
bytes stay as they are until the transfer has ended. A name that is there already is done at once.
parents: of each the name of the page before it in its prefix: a host tier gives up the end of a
prefix before its beginning. Raises Error with code "busy" where the queue has no room.)")
      .def("load", &load, nb::arg("names"), nb::arg("where"), nb::arg("pages") = nb::none(),
           nb::kw_only(), nb::arg("deadline_ms") = 0, nb::arg("order") = "pages",
           nb::sig("def load(self, names: Sequence[bytes], where: object, "
                   "pages: object | None = None, *, deadline_ms: int = 0, "
                   "order: str = 'pages') -> Transfer"),
           R"(Begins to load the pages of these names; returns at once.

where: as of store. deadline_ms: pages that take longer end as "late"; 0: none. order: "pages", one
after the other, or "extents": the first array of all pages, then the second, where the medium can
(Transfer.landed). Raises Error for two pages that share bytes, and as store.)")
      .def(
          "drop",
          [](TierHandle& self, nb::handle names) {
            const std::vector<PageName> given = names_of(names, "names");
            self.with_tier([&](tier::Tier& t) { t.drop(given).or_throw(); });
          },
          nb::arg("names"), nb::sig("def drop(self, names: Sequence[bytes]) -> None"),
          "Nothing finds these any more.");
}

void bind_state(nb::class_<TierHandle>& type) {
  type.def("names", &names_in, nb::sig("def names(self) -> list[bytes]"),
           "Of all pages that are known to be there. Raises Unsupported for a peer's.")
      .def("figures", &figures, "Counts since the tier was made, and what is there now.")
      .def(
          "last_fault",
          [](TierHandle& self) {
            return self.with_tier([](tier::Tier& t) { return fault_text(t.last_fault()); });
          },
          "Why the medium failed, the latest; \"\" before the first time.")
      .def("fileno", &TierHandle::fileno,
           "An eventfd, readable while transfers may have ended that take_ended has not given.")
      .def("take_ended", &take_ended, nb::sig("def take_ended(self) -> list[Transfer]"),
           "Transfers that have ended since the last call, each once; from the first call of this, "
           "wait or fileno on.")
      .def("wait", &TierHandle::wait_for_any, nb::arg("timeout_ms") = -1,
           "Until take_ended has something, or so long; negative: without end. Returns whether.")
      .def("close", &TierHandle::close, nb::arg("timeout_ms") = 30'000,
           R"(Waits for what is under way, so long at most, cancels the rest and ends the tier.

Every later call raises Error; transfers keep their outcomes. Raises Error with code "busy" while a
CacheManager has the tier.)")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Tier"))
      .def(
          "__exit__", [](TierHandle& self, nb::args) { self.close(30'000); }, nb::arg("args"),
          nb::sig("def __exit__(self, *args: object) -> None"));
}

}  // namespace

void bind_tier(nb::module_& m) {
  nb::class_<TierHandle> type(m, "Tier",
                              R"(A place for pages beyond a pool's memory: it keeps them by name.

Nothing waits but `wait` and `close`; each page of a call ends exactly once, as its Transfer tells.
Names are 1 to 32 bytes; fewer stand in front of zeros. Any thread may call anything.)");
  bind_transfer(m);
  bind_calls(type);
  bind_state(type);
}

}  // namespace folio::python
