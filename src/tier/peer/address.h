// SPDX-License-Identifier: Apache-2.0
/// tier/peer/address.h: what an end says of itself to those who connect.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

enum class WireKind : uint32_t { in_process = 1, shared_memory = 2, ucx = 3, nixl = 4 };

/// Random: tells an end from all others, and who knows it from who guesses.
using EndId = std::array<uint8_t, 16>;

struct Address {
  WireKind kind = WireKind::in_process;
  EndId end = {};
  std::map<RegionId, int64_t> regions;  ///< bytes
  std::vector<std::byte> endpoint;      ///< the wire's own
};

inline constexpr uint32_t address_version = 1;
inline constexpr int64_t max_address_bytes = int64_t{16} << 20;

/// Throws bad_alloc.
[[nodiscard]] std::vector<std::byte> encode(const Address& address);
/// Errors: as those of `Transport::connect`; throws bad_alloc
[[nodiscard]] Result<Address> decode_address(std::span<const std::byte> bytes, WireKind kind);

/// From the system's source of random bytes. Errors: io
[[nodiscard]] Result<EndId> random_end_id() noexcept;

}  // namespace folio::inline v1::tier
