// SPDX-License-Identifier: Apache-2.0
/// folio/tier/redis_tier.h: pages in a Redis or Valkey server, or a cluster of them, that engines
/// share.
///
/// The key of a page is `folio:NAMESPACE:FINGERPRINT:NAME`, its value a header with a checksum and
/// the page's bytes, set at once: what is not whole is not there. What the server keeps is the
/// server's affair (maxmemory, its policy); beyond that, what this tier has stored is bounded by
/// `TierOptions::max_bytes`: the pages that it used longest ago are unlinked.
///
/// `TierOptions::on_change` is told what this tier knows, and not what the server has: a page is
/// stored when a store or a load of it has ended as done; it is removed when it is dropped or makes
/// room, when its time has ended, when a load does not find it or finds it damaged, when it is
/// beyond `max_names`, and, with all others, when the server was lost. What the server has evicted
/// is told when a load finds out; of pages that others have stored nothing is told before a load.
///
/// Nothing is asked of the server by the thread that calls, which waits for it nowhere, but for
/// `find` as `RedisOptions::ask_wait_ms` says. A server that is away, slow, full or
/// not to be understood makes misses, and `Tier::last_fault` says why; it is tried again after 50
/// ms, then twice as long each time, up to 5 s. Passwords are in no message.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// What of the server's certificate is checked.
enum class ServerCheck : uint8_t {
  name = 0,       ///< that it is signed by an authority we trust, and is of the server's name
  authority = 1,  ///< the first of these
  none = 2,       ///< nothing: anybody may listen
};

/// What `find` says of a page of which this tier does not know whether the server has it.
enum class UnknownPages : uint8_t {
  /// It is there: to load it is to find out, which costs one way to the server and back. For a tier
  /// that others fill, with no tier behind it.
  hoped = 0,
  /// It is not; the server is asked about it meanwhile, so that a later `find` knows.
  asked = 1,
};

/// Texts are copied.
struct RedisOptions {
  std::string_view host = "127.0.0.1";
  uint16_t port = 6379;
  std::string_view socket = {};  ///< path of a Unix socket, in place of host and port
  std::string_view user = {};    ///< empty: the server's default one
  std::string_view password = {};
  int32_t database = 0;

  enum class Encryption : uint8_t { none = 0, tls = 1 };
  Encryption encryption = Encryption::none;
  ServerCheck check = ServerCheck::name;
  std::string_view authorities_file = {};  ///< PEM; empty: the system's
  std::string_view certificate_file = {};  ///< PEM, the client's, with `key_file`
  std::string_view key_file = {};
  std::string_view server_name = {};  ///< that the certificate is for; empty: the host

  /// Of the keys; engines that share pages share it. No blank; part of it may stand in braces, as
  /// clusters use them.
  std::string_view name_space = "default";
  int64_t ttl_s = 0;  ///< of a stored page; 0: none
  int64_t connect_timeout_ms = 1000;
  /// Until the next answer of a pipeline has come whole; then the connection is given up
  int64_t command_timeout_ms = 2000;
  uint32_t depth = 16;  ///< commands of a thread that are under way at once, 1 .. 1024
  UnknownPages unknown = UnknownPages::hoped;
  int64_t absent_ms = 1000;  ///< how long a page that was not there counts as absent
  /// With UnknownPages::asked: how long `find`, not `find_each`, waits for the server's answers, at
  /// most, so that it knows itself; for callers that may be held up. 0: not at all
  int64_t ask_wait_ms = 0;
  int64_t max_names = 1 << 20;  ///< of which the tier knows something; older ones are forgotten
};

/// Does no I/O but for the files: a server that is away is one that comes later. Errors:
/// invalid_argument for options out of range; io for files that cannot be read or used;
/// unsupported in a build without hiredis or OpenSSL, and for TLS where OpenSSL 3 cannot be loaded
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_redis_tier(
    const RedisOptions& redis, const TierOptions& options) noexcept;

/// `redis://`, `rediss://` (TLS): `[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]`; `unix://`:
/// `[[USER][:PASSWORD]@]/PATH`. Behind them: `?namespace=`, `db=`, `ttl=`, `ca=`, joined by `&`.
/// What a URL says goes before `redis`. Bytes may be written as %xx. Errors: invalid_argument too,
/// naming the part that is wrong
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_redis_tier(
    std::string_view url, const TierOptions& options, const RedisOptions& redis = {}) noexcept;

/// What a page of so many bytes takes of `max_bytes`: its value, with a header. What the server
/// takes for it beside that is not in it. Errors: invalid_argument for page_bytes out of 1 .. 2^40
[[nodiscard]] FOLIO_EXPORT Result<int64_t> redis_record_bytes(int64_t page_bytes) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::make_redis_tier;
using tier::redis_record_bytes;
using tier::RedisOptions;
using tier::ServerCheck;
using tier::UnknownPages;
}  // namespace folio::inline v1
