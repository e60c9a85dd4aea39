// SPDX-License-Identifier: Apache-2.0
/// folio/tier/peer_tier.h: another process's pages, by name, over a transport.
///
/// A *server* has pages in memory of its own and lends them: who loads a page gets a lease, within
/// which the page stays; bytes are read from memory to memory, then header and checksum are
/// compared. Who stores a page gets room, writes it, and the server compares before anybody can
/// find it. The server tells its clients which names come and go, so that `find` asks nobody.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "folio/tier/tier.h"
#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

struct PageServerOptions {
  int64_t max_bytes = 0;       ///< of memory for pages
  int64_t page_bytes = 0;      ///< of a page, at most
  Digest256 fingerprint = {};  ///< as TierOptions: clients with another one are refused
  /// A page that is lent stays for so long, and room that is given is waited for
  int64_t lease_ms = 5'000;
  /// Whether clients may store and drop
  enum class Access : uint8_t { read_only, read_write } access = Access::read_write;
};

struct PageServerFigures {
  int64_t pages = 0, bytes = 0;
  int64_t lent_pages = 0;     ///< now
  int64_t loaded_pages = 0;   ///< leases that were given
  int64_t missed_pages = 0;   ///< asked for, and not there
  int64_t stored_pages = 0;   ///< by clients
  int64_t refused_pages = 0;  ///< of clients: no room, or what came was not what was announced
  int64_t evicted_pages = 0;
  int64_t expired_leases = 0;  ///< that clients have not given back in time
  int64_t bad_messages = 0;
  bool operator==(const PageServerFigures&) const = default;
};

/// One thread calls. The transport must outlive the server, and is its own: it receives all
/// messages.
class FOLIO_EXPORT PageServer {
 public:
  /// Errors: invalid_argument for options out of range; out_of_memory; the transport's
  [[nodiscard]] static Result<std::unique_ptr<PageServer>> create(
      Transport* transport, const PageServerOptions& options) noexcept;
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  ~PageServer();

  /// What `make_peer_tier` of clients is given.
  [[nodiscard]] Result<std::vector<std::byte>> address() const noexcept;
  /// Answers what has been asked and ends what has expired. O(messages)
  void poll() noexcept;
  /// Copies a page in; of pages that nobody has borrowed the one used longest ago goes where there
  /// is no room. Errors: invalid_argument for extents that are null or have no bytes, or more than
  /// page_bytes in all; busy where all pages are lent
  [[nodiscard]] Status put(const PageName& name, std::span<const Extent> extents) noexcept;
  /// Nobody finds it any more. Nothing for a name that is not there.
  void drop(const PageName& name) noexcept;
  [[nodiscard]] bool has(const PageName& name) const noexcept;
  [[nodiscard]] PageServerFigures figures() const noexcept;

 private:
  struct State;
  explicit PageServer(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

struct PeerTierOptions {
  /// Where extents of pages lie, registered once; what lies elsewhere goes by way of a copy
  std::span<const std::span<std::byte>> memory = {};
  int64_t timeout_ms = 5'000;  ///< for an answer of the server; its pages end as failed then
};

/// The pages of the server at `address`. The transport is the tier's own: it receives all messages.
/// A server that is gone makes misses, and is looked for again, at most once a second.
/// `TierOptions::max_bytes` is the server's and not looked at, beyond being 1 or more. Errors:
/// invalid_argument for options out of range or a null transport; those of `Transport::connect` and
/// `add_region`
[[nodiscard]] FOLIO_EXPORT Result<std::unique_ptr<Tier>> make_peer_tier(
    std::unique_ptr<Transport> transport, std::span<const std::byte> address,
    const TierOptions& options, const PeerTierOptions& peer = {}) noexcept;

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::make_peer_tier;
using tier::PageServer;
using tier::PageServerFigures;
using tier::PageServerOptions;
using tier::PeerTierOptions;
}  // namespace folio::inline v1
