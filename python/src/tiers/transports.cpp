// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/transports.cpp: `Transport` and its kinds.
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "../pages.h"
#include "folio/tier/transports.h"
#include "page_arrays.h"
#include "tier_handle.h"
#include "tier_options.h"
#include "transport_handle.h"

namespace folio::python {
namespace {

struct SharedMemoryTransport : TransportHandle {
  using TransportHandle::TransportHandle;
};
struct UcxTransport : TransportHandle {
  using TransportHandle::TransportHandle;
};
struct NixlTransport : TransportHandle {
  using TransportHandle::TransportHandle;
};

void expect_dense(const Array& array) {
  int64_t dense = 1;
  for (int i = array.ndim - 1; i >= 0; --i) {
    if (array.extent[i] > 1 && array.stride[i] != dense)
      refuse_argument("{}: expected contiguous arrays, got strides", array.name);
    dense *= array.extent[i];
  }
}

std::span<std::byte> bytes_of(const Array& array) {
  int64_t count = array.item_bytes();
  for (int i = 0; i < array.ndim; ++i) count *= array.extent[i];
  return {static_cast<std::byte*>(array.data), static_cast<size_t>(count)};
}

/// A transport in place; `make(options)` runs without the GIL.
template <class Kind, class Make>
void make_transport(Kind* self, int64_t timeout_ms, uint32_t max_peers, Make&& make) {
  tier::TransportOptions options;
  options.timeout_ms = timeout_ms;
  options.max_peers = max_peers;
  options.on_event = [](void*) noexcept { Completions::of_process().note(); };
  std::unique_ptr<tier::Transport> made;
  {
    const WithoutGil free;
    made = take(make(options));
  }
  new (self) Kind(std::move(made));
}

/// A peer, as handovers are begun with it.
uint32_t connect(TransportHandle& self, const nb::bytes& address) {
  const std::span at(reinterpret_cast<const std::byte*>(address.c_str()), address.size());
  return take(self.with([&](tier::Transport& t) { return t.connect(at); })).value;
}

std::string peer_state(TransportHandle& self, uint32_t peer) {
  return tier::name(take(self.with([&](tier::Transport& t) { return t.peer_state({peer}); })));
}

}  // namespace

Memories::Memories(const nb::sequence& arrays, const char* argument) {
  for (const nb::handle given : arrays) {
    keep.append(given);
    const std::vector<std::span<std::byte>> cache = memory_of_cache(given);
    spans.insert(spans.end(), cache.begin(), cache.end());
    if (!cache.empty()) continue;
    const Array array = writable_array_of(given, argument);
    expect_dense(array);
    spans.push_back(bytes_of(array));
    keep_memory(keep, array);
  }
}

tier::Transport& TransportHandle::open() const {
  if (transport_ == nullptr)
    throw Error(fail(Errc::busy, "transport: it is a PeerTier's, expected one of its own"));
  return *transport_;
}

tier::Transport& TransportHandle::open_to_one_end() {
  tier::Transport& transport = open();
  if (is_lent_)
    throw Error(fail(Errc::busy, "transport: another end receives its messages, expected none"));
  is_lent_ = true;
  return transport;
}

std::unique_ptr<tier::Transport> TransportHandle::give_away() {
  process_.expect_here("transport");
  const std::lock_guard lock(mutex_);  // nobody is in a call of it
  open_to_one_end();
  return std::move(transport_);
}

tier::Transport* TransportHandle::lend() {
  process_.expect_here("transport");
  const auto locked = lock_with_gil(mutex_);
  return &open_to_one_end();
}

void TransportHandle::take_back() noexcept {
  if (!process_.is_here()) return;
  const auto locked = lock_with_gil(mutex_);
  is_lent_ = false;
}

void bind_transports(nb::module_& m) {
  nb::class_<TransportHandle>(m, "Transport",
                              "Moves bytes between memory of this process and of others.")
      .def(
          "address",
          [](TransportHandle& self) {
            const auto address = take(self.with([](tier::Transport& t) { return t.address(); }));
            return nb::bytes(address.data(), address.size());
          },
          "What a peer connects with: this end, and the arrays that it has now.")
      .def("connect", &connect, nb::arg("address"), "The peer of this address: its number.")
      .def("peer_state", &peer_state, nb::arg("peer"), "\"connecting\", \"connected\" or \"lost\".")
      .def(
          "last_fault",
          [](TransportHandle& self) {
            return fault_text(self.with([](tier::Transport& t) { return t.last_fault(); }));
          },
          "Why a transfer failed or a peer was lost, the latest; \"\": none.");
  nb::class_<SharedMemoryTransport, TransportHandle>(m, "SharedMemoryTransport",
                                                     "Between processes of one user on one host.")
      .def(
          "__init__",
          [](SharedMemoryTransport* self, bool same_user, int64_t timeout_ms, uint32_t max_peers) {
            make_transport(self, timeout_ms, max_peers, [&](const tier::TransportOptions& o) {
              return tier::make_shared_memory_transport(
                  o, {same_user ? tier::ReadAccess::same_user : tier::ReadAccess::as_system_says});
            });
          },
          nb::kw_only(), nb::arg("same_user") = false, nb::arg("timeout_ms") = 10'000,
          nb::arg("max_peers") = 256,
          "same_user: any process of this user may read this one's memory, which is needed where "
          "Yama's ptrace_scope is 1. timeout_ms: a peer that owes an answer so long is lost.");
  nb::class_<UcxTransport, TransportHandle>(m, "UcxTransport",
                                            "Between machines, and processes of one, by UCX.")
      .def(
          "__init__",
          [](UcxTransport* self, const std::string& transports, int64_t timeout_ms,
             uint32_t max_peers) {
            make_transport(self, timeout_ms, max_peers, [&](const tier::TransportOptions& o) {
              return tier::make_ucx_transport(o, {transports});
            });
          },
          nb::arg("transports") = "", nb::kw_only(), nb::arg("timeout_ms") = 10'000,
          nb::arg("max_peers") = 256,
          "transports: as UCX_TLS, \"\": what UCX chooses. Raises Unsupported where UCX is not to "
          "be loaded.");
  nb::class_<NixlTransport, TransportHandle>(m, "NixlTransport",
                                             "Between machines, and processes of one, by NIXL.")
      .def(
          "__init__",
          [](NixlTransport* self, const std::string& library, const std::string& transports,
             int64_t timeout_ms, uint32_t max_peers) {
            make_transport(self, timeout_ms, max_peers, [&](const tier::TransportOptions& o) {
              return tier::make_nixl_transport(o, {library, transports});
            });
          },
          nb::kw_only(), nb::arg("library") = "", nb::arg("transports") = "^shm",
          nb::arg("timeout_ms") = 10'000, nb::arg("max_peers") = 256,
          "library: NIXL's libnixl_capi.so; \"\": as the loader or pip's packages have it. Raises "
          "Unsupported where it is not to be loaded.");
}

}  // namespace folio::python
