// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/page_message.cpp: what page servers and their clients tell one another, as bytes.
#include "tier/peer/page_message.h"

#include <utility>

#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {
namespace {

constexpr uint32_t magic = 0x70676d31U;
constexpr uint32_t version = 1;

}  // namespace

std::vector<std::byte> encode(const PageMessage& message) {
  ByteWriter writer;
  writer.put(magic);
  writer.put(version);
  writer.put(message.kind);
  writer.put(message.ticket);
  writer.put(message.lease_ms);
  writer.put(message.fingerprint);
  writer.put_all(std::span<const PageName>(message.names));
  writer.put_all(std::span<const PayloadHeader>(message.headers));
  writer.put_all(std::span<const RegionRun>(message.runs));
  writer.put_all(std::span<const PageAnswer>(message.answers));
  return std::move(writer.bytes());
}

Result<PageMessage> decode_page_message(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.get<uint32_t>() != magic)
    return fail(Errc::io, "PeerTier: {} bytes of a peer are no message", bytes.size());
  if (const auto v = reader.get<uint32_t>(); v != version)
    return fail(Errc::unsupported, "PeerTier: a message of version {}, expected {}", v, version);
  PageMessage message;
  message.kind = reader.get<PageMessageKind>();
  message.ticket = reader.get<uint64_t>();
  message.lease_ms = reader.get<int64_t>();
  message.fingerprint = reader.get<Digest256>();
  message.names = reader.get_all<PageName>();
  message.headers = reader.get_all<PayloadHeader>();
  message.runs = reader.get_all<RegionRun>();
  message.answers = reader.get_all<PageAnswer>();
  if (!reader.is_at_end())
    return fail(Errc::io, "PeerTier: {} bytes of a peer are no message", bytes.size());
  return message;
}

}  // namespace folio::inline v1::tier
