// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_server_state.h: slots of one region. A slot is *free*, *awaited* (room that a
/// client was given), *whole* (findable, or only lent still), or *shunned*: a client that was given
/// it has gone or is late, and the transport may touch it for a while.
#pragma once

#include <chrono>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "folio/core/buffer.h"
#include "folio/tier/peer_tier.h"
#include "tier/peer/page_message.h"
#include "tier/peer/page_news.h"

namespace folio::inline v1::tier {

struct PageServer::State {
  using Clock = std::chrono::steady_clock;
  struct Slot {
    tier::PayloadHeader header;
    int64_t lent = 0;
    bool is_findable = false;
    std::list<size_t>::iterator used;  ///< of those that are findable
  };
  /// What a client was lent or given room for.
  struct Lease {
    std::vector<size_t> slots = {};
    std::vector<tier::PayloadHeader> awaited = {};  ///< of room
    Clock::time_point end = {};
  };
  using LeaseKey = std::pair<PeerId, uint64_t>;

  State(Transport* t, const PageServerOptions& o) : transport(t), options(o), news(t) {}

  [[nodiscard]] std::span<std::byte> bytes_of(size_t slot) const noexcept {
    return {memory.data() + static_cast<int64_t>(slot) * options.page_bytes,
            static_cast<size_t>(slots[slot].header.bytes)};
  }
  [[nodiscard]] RegionRun run_of(size_t slot) const noexcept {
    return {region, static_cast<int64_t>(slot) * options.page_bytes, slots[slot].header.bytes};
  }
  /// -1: there is none.
  [[nodiscard]] int64_t take_slot();
  void admit(size_t slot);
  /// Nobody finds it; free when it is not lent either.
  void hide(size_t slot);
  void unlend(size_t slot);

  void take(PeerId peer, const tier::PageMessage& message);
  void subscribe(PeerId peer, const tier::PageMessage& message);
  void lend(PeerId peer, const tier::PageMessage& message);
  void give_room(PeerId peer, const tier::PageMessage& message);
  void keep(PeerId peer, const tier::PageMessage& message);
  void expire(Clock::time_point now);
  void say(PeerId peer, const tier::PageMessage& message);

  Transport* const transport;
  const PageServerOptions options;
  Buffer memory;
  RegionId region;
  std::vector<Slot> slots;
  std::vector<size_t> free;
  std::map<PageName, size_t> places;
  std::list<size_t> used;  ///< the one used longest ago first
  std::map<LeaseKey, Lease> leases;
  tier::PageNews news;
  std::multimap<Clock::time_point, size_t> shunned;  ///< until then
  PageServerFigures figures;
};

}  // namespace folio::inline v1::tier
