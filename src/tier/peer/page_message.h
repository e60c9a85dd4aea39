// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_message.h: what page servers and their clients say to one another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/name.h"
#include "folio/tier/transport.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

enum class PageMessageKind : uint32_t {
  subscribe = 1,  ///< client: fingerprint
  refused = 2,    ///< server: of another version or model
  index = 3,      ///< server: names that are there from now on
  gone = 4,       ///< server: names that are not
  want = 5,       ///< client: names
  lent = 6,       ///< server: for each name an answer; of those that are `yes` headers, and runs,
                  ///< as many for each as make its bytes
  returned = 7,   ///< client: the lease of that ticket
  offer = 8,      ///< client: headers
  room = 9,       ///< server: for each header an answer; runs of those that are `yes`
  stored = 10,    ///< client: bytes are where there was room, for that ticket
  kept = 11,      ///< server: for each page of the ticket an answer
  drop = 12,      ///< client: names
};

enum class PageAnswer : uint8_t { no = 0, yes = 1, there_already = 2 };

struct PageMessage {
  PageMessageKind kind = PageMessageKind::subscribe;
  uint64_t ticket = 0;
  int64_t lease_ms = 0;
  Digest256 fingerprint = {};
  std::vector<PageName> names = {};
  std::vector<PayloadHeader> headers = {};
  std::vector<RegionRun> runs = {};
  std::vector<PageAnswer> answers = {};
};

/// Throws bad_alloc.
[[nodiscard]] std::vector<std::byte> encode(const PageMessage& message);
/// Errors: unsupported for another version, io for what is no message; throws bad_alloc
[[nodiscard]] Result<PageMessage> decode_page_message(std::span<const std::byte> bytes);

}  // namespace folio::inline v1::tier
