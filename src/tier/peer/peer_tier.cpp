// SPDX-License-Identifier: Apache-2.0
/// tier/peer/peer_tier.cpp: a tier whose medium is a page server.
#include "folio/tier/peer_tier.h"

#include <new>
#include <utility>

#include "tier/checks.h"
#include "tier/peer/peer_medium.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {

Result<std::unique_ptr<Tier>> make_peer_tier(std::unique_ptr<Transport> transport,
                                             std::span<const std::byte> address,
                                             const TierOptions& options,
                                             const PeerTierOptions& peer) noexcept {
  constexpr int64_t most_ms = 86'400'000;
  if (transport == nullptr)
    return fail(Errc::invalid_argument, "make_peer_tier: transport is null");
  if (peer.timeout_ms < 1 || peer.timeout_ms > most_ms)
    return fail(Errc::invalid_argument, "make_peer_tier: timeout_ms is {}, expected 1 .. {}",
                peer.timeout_ms, most_ms);
  const auto check = [](const char* argument, auto span) {
    return tier::check_memory("make_peer_tier", argument, span.data(), span.size());
  };
  if (Status s = check("memory", peer.memory); !s.is_ok()) return s;
  if (Status s = check("address", address); !s.is_ok()) return s;
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  try {
    auto medium =
        std::make_unique<tier::PeerMedium>(std::move(transport), address, options, peer.timeout_ms);
    if (Status s = medium->open(peer.memory); !s.is_ok()) return s;
    return tier::QueuedTier::create(std::move(medium), options);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_peer_tier: no memory");
  }
}

}  // namespace folio::inline v1::tier
