// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/page_servers.cpp: `PageServer` and `PoolPageServer`, whose pages are other
/// processes' `PeerTier`.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "folio/tier/pool_page_server.h"
#include "layers.h"
#include "page_arrays.h"
#include "pool_user.h"
#include "tier_handle.h"
#include "tier_options.h"
#include "transport_handle.h"

namespace folio::python {
namespace {

nb::bytes bytes_of(const std::vector<std::byte>& bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

// ---- pages in memory of its own

class PageServer {
 public:
  PageServer(nb::object transport, const tier::PageServerOptions& options)
      : transport_(std::move(transport)) {
    const WithoutGil free;
    made_ = take(tier::PageServer::create(transport_.get(), options));
  }
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  ~PageServer() {
    const WithoutGil free;
    process_.end(made_);
  }
  /// Calls function(server) without the GIL, and nobody else does meanwhile.
  template <class Function>
  auto with(Function&& function) {
    process_.expect_here("PageServer");
    const WithoutGil free;
    const std::lock_guard lock(mutex_);
    return function(*made_);
  }
  void poll() {
    with([this](tier::PageServer& server) {
      seen_ = Completions::of_process().count();
      server.poll();
    });
  }
  bool wait(int64_t timeout_ms) {
    const uint64_t seen = with([this](tier::PageServer&) { return seen_; });
    return wait_for_completion(seen, timeout_ms);
  }

 private:
  OfProcess process_;
  LentTransport transport_;
  std::mutex mutex_;
  uint64_t seen_ = 0;
  std::unique_ptr<tier::PageServer> made_;
};

void make_page_server(PageServer* self, nb::handle_t<TransportHandle> transport, int64_t max_bytes,
                      int64_t page_bytes, const nb::bytes& fingerprint, int64_t lease_ms,
                      const std::string& access) {
  using Access = tier::PageServerOptions::Access;
  tier::PageServerOptions options;
  options.max_bytes = max_bytes;
  options.page_bytes = page_bytes;
  options.fingerprint = digest_of(fingerprint, "fingerprint");
  options.lease_ms = lease_ms;
  options.access = word_of<Access>(
      access, "access", {{"read_only", Access::read_only}, {"read_write", Access::read_write}});
  new (self) PageServer(nb::borrow(transport), options);
}

void put(PageServer& self, nb::handle names, nb::handle where, nb::handle pages) {
  const std::vector<PageName> given = names_of(names, "names");
  const PagesOfCall bytes(where, pages, given.size(), false);
  self.with([&](tier::PageServer& server) {
    size_t begin = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      const size_t end = bytes.page_ends[i];
      server.put(given[i], std::span(bytes.extents).subspan(begin, end - begin)).or_throw();
      begin = end;
    }
  });
}

nb::dict figures(PageServer& self) {
  const tier::PageServerFigures f = self.with([](auto& server) { return server.figures(); });
  nb::dict out;
  out["pages"] = f.pages;
  out["bytes"] = f.bytes;
  out["lent_pages"] = f.lent_pages;
  out["loaded_pages"] = f.loaded_pages;
  out["missed_pages"] = f.missed_pages;
  out["stored_pages"] = f.stored_pages;
  out["refused_pages"] = f.refused_pages;
  out["evicted_pages"] = f.evicted_pages;
  out["expired_leases"] = f.expired_leases;
  out["bad_messages"] = f.bad_messages;
  return out;
}

constexpr const char* poll_text =
    "Answers what has been asked and ends what has expired; several times within lease_ms.";
constexpr const char* wait_text =
    "Until something may have come for poll, so long at most; negative: without end. Returns "
    "whether. Other threads run meanwhile.";

void bind_server(nb::module_& m) {
  nb::class_<PageServer>(m, "PageServer",
                         "Pages in memory of its own, which other processes have as a PeerTier. "
                         "Any thread may call anything.")
      .def("__init__", &make_page_server, nb::arg("transport"), nb::arg("max_bytes"),
           nb::arg("page_bytes"), nb::kw_only(), nb::arg("fingerprint") = nb::bytes("", 0),
           nb::arg("lease_ms") = 5000, nb::arg("access") = "read_write",
           R"(transport: all its messages are the server's.

max_bytes: of memory, taken at once; page_bytes: of a page, at most. fingerprint: clients with
another one are refused. lease_ms: so long a page stays that is lent. access: "read_only" or
"read_write": whether clients may store and drop.)")
      .def(
          "address",
          [](PageServer& self) {
            return bytes_of(take(self.with([](auto& server) { return server.address(); })));
          },
          "What PeerTier is given.")
      .def("poll", &PageServer::poll, poll_text)
      .def("wait", &PageServer::wait, nb::arg("timeout_ms") = -1, wait_text)
      .def("put", &put, nb::arg("names"), nb::arg("where"), nb::arg("pages") = nb::none(),
           nb::sig("def put(self, names: Sequence[bytes], where: object, "
                   "pages: object | None = None) -> None"),
           "Copies pages in, as Tier.store is given them; one at a time, so that those before the "
           "one that raises Error are there. Code \"busy\": all pages are lent.")
      .def(
          "drop",
          [](PageServer& self, nb::handle names) {
            const std::vector<PageName> given = names_of(names, "names");
            self.with([&](tier::PageServer& server) {
              for (const PageName& name : given) server.drop(name);
            });
          },
          nb::arg("names"), nb::sig("def drop(self, names: Sequence[bytes]) -> None"),
          "Nobody finds these any more.")
      .def(
          "has",
          [](PageServer& self, const nb::bytes& name) {
            const PageName given = name_of(name, "name: expected");
            return self.with([&](tier::PageServer& server) { return server.has(given); });
          },
          nb::arg("name"))
      .def("figures", &figures, "Counts since the server was made, and what is there now.");
}

// ---- a pool's own pages

struct PoolServer : PoolUser {
  std::unique_ptr<LentTransport> transport;
  std::unique_ptr<tier::PoolPageServer> made;
  uint64_t seen = 0;
  bool is_noting = false;

  ~PoolServer() { end_user(*this, made); }
};
using Self = nb::handle_t<PoolServer>;

template <class Function>
auto with_server(Self self, Function&& function) {
  auto& server = nb::cast<PoolServer&>(self);
  const CallOfUser call(self, server);
  return function(*server.made);
}

void make_pool_server(PoolServer* self, nb::handle_t<TransportHandle> transport,
                      nb::handle_t<Pool> pool, nb::handle planes, nb::sequence groups,
                      nb::sequence memory, const nb::bytes& fingerprint, int64_t lease_ms) {
  const nb::ft_object_guard locked(pool);
  auto& of = nb::cast<Pool&>(pool);
  const Layers layers(planes, groups, of.pool, Layers::User::cache);
  const Memories memories(memory, "memory");
  tier::PoolPageServerOptions options;
  options.pool = &of.pool;
  options.name = name_function_of(of.callables.get());
  options.planes = layers.planes();
  options.groups = layers.of_cache();
  options.memory = memories.spans;
  options.fingerprint = digest_of(fingerprint, "fingerprint");
  options.lease_ms = lease_ms;
  auto lent = std::make_unique<LentTransport>(nb::borrow(transport));
  lent->handle().memory.append(memories.keep);
  auto made = take(tier::PoolPageServer::create(lent->get(), options));
  new (self) PoolServer{{nb::borrow(pool), nb::make_tuple(layers.memory(), memories.keep)},
                        std::move(lent),
                        std::move(made)};
}

/// From within the pool's event function, which may be called while the server calls the pool.
void note(Self self, const PoolEvent& event, const std::vector<TokenId>& tokens) {
  const nb::ft_object_guard locked(self);
  auto& server = nb::cast<PoolServer&>(self);
  server.process.expect_here("PoolPageServer");
  if (server.is_noting || (server.is_called && server.caller != std::this_thread::get_id()))
    throw Error(fail(Errc::busy, "PoolPageServer.note: it is called out of the pool's on_event"));
  server.is_noting = true;
  server.made->note(event, tokens);
  server.is_noting = false;
}

nb::dict pool_figures(Self self) {
  const tier::PoolPageServerFigures f =
      with_server(self, [](auto& server) { return server.figures(); });
  nb::dict out;
  out["pages"] = f.pages;
  out["unserved_pages"] = f.unserved_pages;
  out["lent_pages"] = f.lent_pages;
  out["loaded_pages"] = f.loaded_pages;
  out["missed_pages"] = f.missed_pages;
  out["refused_pages"] = f.refused_pages;
  out["expired_leases"] = f.expired_leases;
  out["bad_messages"] = f.bad_messages;
  return out;
}

void bind_pool_server(nb::module_& m) {
  nb::class_<PoolServer>(m, "PoolPageServer",
                         R"(A pool's own pages, which other processes have as a PeerTier.

Pages are lent from where they lie; nothing is stored. Served are pages of sequences without salt
and items. The pool's on_event has to hand each event to `note`:
on_event=lambda event, tokens: server.note(event, tokens). One thread calls, the one that calls the
pool; wait may be another's.)",
                         nb::type_slots(slots_of_user<PoolServer>))
      .def("__init__", &make_pool_server, nb::arg("transport"), nb::arg("pool"),
           nb::arg("planes").none() = nb::none(), nb::kw_only(),
           nb::arg("groups") = nb::make_tuple(), nb::arg("memory") = nb::make_tuple(),
           nb::arg("fingerprint") = nb::bytes("", 0), nb::arg("lease_ms") = 5000,
           R"(transport: all its messages are the server's.

pool: with prefix_reuse, name, events and max_io_pins. planes, groups: as of CacheManager. memory:
KVCaches, or contiguous arrays, in which these lie: registered with the transport, whose peers can
write there. fingerprint: clients with another one are refused. lease_ms: so long a page is held
that is lent.)")
      .def(
          "address",
          [](Self self) {
            return bytes_of(take(with_server(self, [](auto& server) { return server.address(); })));
          },
          "What PeerTier is given.")
      .def("note", &note, nb::arg("event"), nb::arg("tokens"),
           "What the pool's on_event is handed, from within that.")
      .def(
          "poll",
          [](Self self) {
            with_server(self, [&](tier::PoolPageServer& server) {
              nb::cast<PoolServer&>(self).seen = Completions::of_process().count();
              server.poll();
            });
          },
          poll_text)
      .def(
          "wait",
          [](Self self, int64_t timeout_ms) {
            return wait_for_completion(seen_by<PoolServer>(self), timeout_ms);
          },
          nb::arg("timeout_ms") = -1, wait_text)
      .def("figures", &pool_figures, "Counts since the server was made, and what is there now.");
}

}  // namespace

void bind_page_servers(nb::module_& m) {
  bind_server(m);
  bind_pool_server(m);
}

}  // namespace folio::python
