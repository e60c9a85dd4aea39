// SPDX-License-Identifier: Apache-2.0
/// python/src/tiers/tier_kinds.cpp: `HostTier`, `DiskTier`, `RedisTier` and `PeerTier`.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "folio/tier/peer_tier.h"
#include "folio/tier/redis_tier.h"
#include "tier_handle.h"
#include "tier_options.h"
#include "transport_handle.h"

namespace folio::python {
namespace {

// A type of Python's for each kind.
struct HostTier : TierHandle {
  using TierHandle::TierHandle;
};
struct DiskTier : TierHandle {
  using TierHandle::TierHandle;
  int64_t segment_bytes = 0;
};
struct RedisTier : TierHandle {
  using TierHandle::TierHandle;
};
struct PeerTier : TierHandle {
  using TierHandle::TierHandle;
};

/// Makes a tier in place; `make(options)` runs without the GIL.
template <class Kind, class Make>
void make_tier(Kind* self, CommonOptions common, int64_t max_bytes, Make&& make,
               const nb::object& keep = nb::none()) {
  tier::TierOptions options = common.read(max_bytes);
  auto signals = TierHandle::make_signals();
  options.on_completion = TierHandle::note_completion;
  options.context = signals.get();
  std::unique_ptr<tier::Tier> made;
  {
    const WithoutGil free;
    made = take(make(options));
  }
  new (self) Kind(std::move(signals), std::move(made), nb::make_tuple(keep, common.on_change),
                  std::move(common.observer_use));
}

/// `function(self, positional ..., fingerprint, threads, max_queued_bytes, max_queued_pages,
/// on_change, extra ...)`.
template <class Kind, class Function, class... Positional, class... Extra>
void def_init(nb::class_<Kind, TierHandle>& type, Function function, const char* text,
              const std::tuple<Positional...>& positional, const Extra&... extra) {
  std::apply(
      [&](const auto&... first) {
        type.def("__init__", function, first..., nb::kw_only(),
                 nb::arg("fingerprint") = nb::bytes("", 0), nb::arg("threads") = 2,
                 nb::arg("max_queued_bytes") = int64_t{1} << 30,
                 nb::arg("max_queued_pages") = 1 << 16, nb::arg("on_change") = nb::none(), extra...,
                 text);
      },
      positional);
}

void bind_host(nb::module_& m) {
  nb::class_<HostTier, TierHandle> type(m, "HostTier", "Pages in the host's memory.");
  def_init(
      type,
      [](HostTier* self, int64_t max_bytes, const nb::bytes& fingerprint, uint32_t threads,
         int64_t max_queued_bytes, uint32_t max_queued_pages, nb::handle on_change) {
        make_tier(self, {fingerprint, threads, max_queued_bytes, max_queued_pages, on_change},
                  max_bytes, [](const tier::TierOptions& o) { return tier::make_host_tier(o); });
      },
      R"(max_bytes: of memory, taken as pages come; what was used longest ago goes.

Of prefixes the ends go first. fingerprint: at most 32 bytes that stand for model, weights and
shape: pages of another one are "corrupt". threads: that do the work. max_queued_bytes,
max_queued_pages: of transfers that are under way; a call beyond raises Error with code "busy".
on_change: what EventPublisher.add_tier gives.)",
      std::tuple(nb::arg("max_bytes")));
}

/// A tier has two segments at least, and works with more.
int64_t usual_segment_bytes(int64_t max_bytes) {
  constexpr int64_t least = int64_t{1} << 20, most = int64_t{256} << 20;
  return std::clamp(max_bytes / 8, least, most);
}

void bind_disk(nb::module_& m) {
  nb::class_<DiskTier, TierHandle> type(m, "DiskTier", "Pages in a directory.");
  def_init(
      type,
      [](DiskTier* self, const std::filesystem::path& directory, int64_t max_bytes,
         const nb::bytes& fingerprint, uint32_t threads, int64_t max_queued_bytes,
         uint32_t max_queued_pages, nb::handle on_change, int64_t segment_bytes, uint32_t depth,
         int64_t timeout_ms) {
        if (segment_bytes == 0) segment_bytes = usual_segment_bytes(max_bytes);
        const tier::DiskOptions disk = {segment_bytes, depth, timeout_ms};
        make_tier(self, {fingerprint, threads, max_queued_bytes, max_queued_pages, on_change},
                  max_bytes, [&](const tier::TierOptions& o) {
                    return tier::make_disk_tier(directory.native(), o, disk);
                  });
        self->segment_bytes = segment_bytes;
      },
      R"(directory: is made where there is none; what an earlier tier left in it is found again.

max_bytes: of its files. segment_bytes: of one of them, at most half of max_bytes; a page must fit;
0: an eighth of max_bytes, 1 MiB at least and 256 at most.
depth: operations of a thread under way. timeout_ms: of io_uring, 0: none. The others: as HostTier.
Raises Error with code "busy" for a directory that another tier has, of this process or another.)",
      std::tuple(nb::arg("directory"), nb::arg("max_bytes")), nb::arg("segment_bytes") = 0,
      nb::arg("depth") = 32, nb::arg("timeout_ms") = 30'000);
  type.def_ro("segment_bytes", &DiskTier::segment_bytes, "Of one of its files, at most.");
}

/// What RedisOptions points to.
struct RedisTexts {
  std::string name_space, authorities_file, certificate_file, key_file, server_name;
};

void bind_redis(nb::module_& m) {
  nb::class_<RedisTier, TierHandle> type(
      m, "RedisTier", "Pages in a Redis or Valkey server, or a cluster, that engines share.");
  def_init(
      type,
      [](RedisTier* self, const std::string& url, int64_t max_bytes, const nb::bytes& fingerprint,
         uint32_t threads, int64_t max_queued_bytes, uint32_t max_queued_pages,
         nb::handle on_change, const std::string& name_space, int64_t ttl_s,
         int64_t connect_timeout_ms, int64_t command_timeout_ms, uint32_t depth,
         const std::string& unknown, int64_t absent_ms, int64_t ask_wait_ms, int64_t max_names,
         const std::string& check, const std::string& authorities_file,
         const std::string& certificate_file, const std::string& key_file,
         const std::string& server_name) {
        tier::RedisOptions redis;
        redis.name_space = name_space;
        redis.ttl_s = ttl_s;
        redis.connect_timeout_ms = connect_timeout_ms;
        redis.command_timeout_ms = command_timeout_ms;
        redis.depth = depth;
        redis.unknown = word_of<tier::UnknownPages>(
            unknown, "unknown",
            {{"hoped", tier::UnknownPages::hoped}, {"asked", tier::UnknownPages::asked}});
        redis.absent_ms = absent_ms;
        redis.ask_wait_ms = ask_wait_ms;
        redis.max_names = max_names;
        redis.check = word_of<tier::ServerCheck>(check, "check",
                                                 {{"name", tier::ServerCheck::name},
                                                  {"authority", tier::ServerCheck::authority},
                                                  {"none", tier::ServerCheck::none}});
        redis.authorities_file = authorities_file;
        redis.certificate_file = certificate_file;
        redis.key_file = key_file;
        redis.server_name = server_name;
        make_tier(self, {fingerprint, threads, max_queued_bytes, max_queued_pages, on_change},
                  max_bytes,
                  [&](const tier::TierOptions& o) { return tier::make_redis_tier(url, o, redis); });
      },
      R"(url: "redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]", "rediss://" (TLS), "unix://".

Behind it "?namespace=", "db=", "ttl=", "ca=", joined by "&", which go before the arguments. A
server that is away makes misses and is tried again. max_bytes: of what this tier has stored there.
name_space: of keys, shared by engines that share pages. ttl_s: of a stored page, 0: none. unknown:
what find says of a page of which it does not know: "hoped": that it is there; "asked": that it is
not, and the server is asked meanwhile. ask_wait_ms: how long find, not find_each, waits for its
answers then, without the GIL. absent_ms: how long a page that was not there counts as
absent. max_names: that the tier remembers. depth: commands of a thread under way. check: of a
server's certificate: "name", "authority" or "none"; the files are PEM. The others: as HostTier.)",
      std::tuple(nb::arg("url"), nb::arg("max_bytes")), nb::arg("name_space") = "default",
      nb::arg("ttl_s") = 0, nb::arg("connect_timeout_ms") = 1000,
      nb::arg("command_timeout_ms") = 2000, nb::arg("depth") = 16, nb::arg("unknown") = "hoped",
      nb::arg("absent_ms") = 1000, nb::arg("ask_wait_ms") = 0, nb::arg("max_names") = 1 << 20,
      nb::arg("check") = "name", nb::arg("authorities_file") = "", nb::arg("certificate_file") = "",
      nb::arg("key_file") = "", nb::arg("server_name") = "");
}

void bind_peer(nb::module_& m) {
  nb::class_<PeerTier, TierHandle> type(m, "PeerTier",
                                        "Another process's pages: those of its page server.");
  def_init(
      type,
      [](PeerTier* self, nb::handle_t<TransportHandle> transport, const nb::bytes& address,
         const nb::bytes& fingerprint, uint32_t threads, int64_t max_queued_bytes,
         uint32_t max_queued_pages, nb::handle on_change, nb::sequence memory, int64_t timeout_ms) {
        auto& of_tier = nb::cast<TransportHandle&>(transport);
        const Memories memories(memory, "memory");
        const tier::PeerTierOptions peer = {memories.spans, timeout_ms};
        const std::span at(reinterpret_cast<const std::byte*>(address.c_str()), address.size());
        make_tier(
            self, {fingerprint, threads, max_queued_bytes, max_queued_pages, on_change}, 1,
            [&](const tier::TierOptions& o) {
              return tier::make_peer_tier(of_tier.give_away(), at, o, peer);
            },
            nb::make_tuple(memories.keep, transport));  // regions of earlier ends are there yet
      },
      R"(transport: becomes the tier's; every later call of it raises Error. address: the server's.

memory: arrays in which pages lie, registered once with the transport; what lies elsewhere goes by
way of a copy. timeout_ms: for an answer of the server. The others: as HostTier. A server that is
gone makes misses.)",
      std::tuple(nb::arg("transport"), nb::arg("address")), nb::arg("memory") = nb::make_tuple(),
      nb::arg("timeout_ms") = 5000);
}

int64_t record_bytes(const std::string& kind, int64_t page_bytes) {
  using Count = Result<int64_t> (*)(int64_t) noexcept;
  return take(word_of<Count>(kind, "kind",
                             {{"host", &tier::host_record_bytes},
                              {"disk", &tier::disk_record_bytes},
                              {"redis", &tier::redis_record_bytes}})(page_bytes));
}

}  // namespace

void bind_tier_kinds(nb::module_& m) {
  bind_host(m);
  bind_disk(m);
  bind_redis(m);
  bind_peer(m);
  m.def("record_bytes", &record_bytes, nb::arg("kind"), nb::arg("page_bytes"),
        "What a page of so many bytes takes of max_bytes in a tier of kind \"host\", \"disk\" or "
        "\"redis\".");
}

}  // namespace folio::python
