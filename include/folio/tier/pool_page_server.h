// SPDX-License-Identifier: Apache-2.0
/// folio/tier/pool_page_server.h: lends a pool's own pages to other processes, by name.
///
/// Clients are those of a page server (`make_peer_tier`), which find what the pool can find and
/// load it from where it lies: no copy of the cache is kept for them. A page that is lent is held
/// (`PagePool::begin_io`) until the client gives it back, is lost, or its lease ends; what has been
/// evicted meanwhile is a miss. Nothing can be stored here.
///
/// The bytes of a page are those of layer 0, then of layer 1, and so on, as `CacheManager` has
/// them: a manager elsewhere with this tier below it loads them.
///
/// What can be served: pages of sequences without a salt and without items, whose names the name
/// function computes again from the tokens; of a pool of several groups, those of each group, also
/// where no hit ends. To lend pages the server has a sequence of the pool for a moment, without
/// tokens; who holds a page uses it, as the pool sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/pool/events.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

struct PoolPageServerOptions {
  PagePool* pool = nullptr;  ///< with prefix_reuse, names, events and max_io_pins
  NameFunction name = {};    ///< the pool's
  /// of all layers; where the pool's pages are, each in bytes of its own
  std::span<const KVPlanes> planes = {};
  /// of a pool of several groups, instead of `planes`, as CacheManagerOptions::groups
  std::span<const GroupOfCache> groups = {};
  /// Where the planes lie, registered once with the transport, whose peers can then write there,
  /// too: they are to be trusted
  std::span<const std::span<std::byte>> memory = {};
  Digest256 fingerprint = {};  ///< as TierOptions: clients with another one are refused
  int64_t lease_ms = 5'000;    ///< a page that is lent stays for so long
};

struct PoolPageServerFigures {
  int64_t pages = 0;           ///< that clients can find now
  int64_t unserved_pages = 0;  ///< of the pool now, that are not served: salts, items
  int64_t lent_pages = 0;      ///< now: pins
  int64_t loaded_pages = 0;    ///< that were lent
  int64_t missed_pages = 0;    ///< asked for, and not there
  int64_t refused_pages = 0;   ///< there, but with no pin or no sequence to be had; and all stores
  int64_t expired_leases = 0;  ///< that clients have not given back in time
  int64_t bad_messages = 0;
  bool operator==(const PoolPageServerFigures&) const = default;
};

/// One thread calls, the one that calls the pool. Pool, planes, the name function and the transport
/// outlive the server; the transport is its own, and receives all messages.
class FOLIO_EXPORT PoolPageServer {
 public:
  /// Knows what the pool has then, of adapter 0. Errors: invalid_argument, naming the option;
  /// out_of_memory; the transport's
  [[nodiscard]] static Result<std::unique_ptr<PoolPageServer>> create(
      Transport* transport, const PoolPageServerOptions& options) noexcept;
  PoolPageServer(const PoolPageServer&) = delete;
  PoolPageServer& operator=(const PoolPageServer&) = delete;
  /// Closes the ways of clients that have leases, so that no transfer touches a page any more.
  ~PoolPageServer();

  /// What `make_peer_tier` of clients is given.
  [[nodiscard]] Result<std::vector<std::byte>> address() const noexcept;
  /// What the pool's event function is handed, each event, from within that function.
  void note(const PoolEvent& event, std::span<const TokenId> tokens) noexcept;
  /// Answers what has been asked and ends what has expired; not from within a call of the pool.
  /// O(messages), and the bytes of pages that are lent, for their checksums
  void poll() noexcept;
  [[nodiscard]] PoolPageServerFigures figures() const noexcept;

 private:
  struct State;
  explicit PoolPageServer(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::PoolPageServer;
using tier::PoolPageServerFigures;
using tier::PoolPageServerOptions;
}  // namespace folio::inline v1
