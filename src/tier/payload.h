// SPDX-License-Identifier: Apache-2.0
/// tier/payload.h: a page as tiers keep it: a header, and the bytes of its extents behind one
/// another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

/// What a stored page says of itself, in the byte order of the machine, which `magic` tells.
struct PayloadHeader {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t header_crc = 0;  ///< CRC32C of the header, this field being 0
  int64_t bytes = 0;        ///< behind the header
  uint32_t crc = 0;         ///< CRC32C of these
  uint32_t reserved = 0;
  Digest256 fingerprint = {};
  PageName name = {};
  uint8_t padding[32] = {};
};
static_assert(sizeof(PayloadHeader) == 128);
inline constexpr uint32_t payload_version = 1;

/// CRC32C of `bytes` behind those of which `crc` is; 0 before the first ones.
[[nodiscard]] uint32_t extend_crc(uint32_t crc, const std::byte* bytes, int64_t count) noexcept;
[[nodiscard]] uint32_t crc_of(std::span<const Extent> extents) noexcept;
[[nodiscard]] int64_t bytes_of(std::span<const Extent> extents) noexcept;

/// The header of a page.
[[nodiscard]] PayloadHeader header_of(const PageName& name, const Digest256& fingerprint,
                                      std::span<const Extent> extents) noexcept;
/// Whether a header that was read is whole, of this version, and of this page; null, or what is
/// wrong.
[[nodiscard]] const char* fault_of(const PayloadHeader& header, const PageName& name,
                                   const Digest256& fingerprint, int64_t bytes) noexcept;
/// Whether it is whole and of a version that we know, whatever the page.
[[nodiscard]] const char* fault_of(const PayloadHeader& header) noexcept;

}  // namespace folio::inline v1::tier
