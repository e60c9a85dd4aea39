// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/address.cpp: what a transport says of itself to those that connect.
#include "tier/peer/address.h"

#include <sys/random.h>

#include <cstring>

#include "tier/payload.h"
#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {
namespace {

/// Stays as it is in all versions.
struct AddressHeader {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t crc = 0;   ///< CRC32C of all bytes, this field being 0
  int64_t bytes = 0;  ///< of all of it
};
static_assert(sizeof(AddressHeader) == 24);
constexpr uint64_t address_magic = 0x6464612065'6e6faaU;  // read in the writer's byte order

struct RegionEntry {
  uint32_t region = 0;
  uint32_t reserved = 0;
  int64_t bytes = 0;
};

uint32_t crc_of(std::span<const std::byte> bytes) {
  AddressHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.crc = 0;
  const uint32_t crc = extend_crc(0, reinterpret_cast<const std::byte*>(&header), sizeof(header));
  const auto rest = bytes.subspan(sizeof(header));
  return extend_crc(crc, rest.data(), static_cast<int64_t>(rest.size()));
}

Status check_header(std::span<const std::byte> bytes) {
  AddressHeader header;
  const auto size = static_cast<int64_t>(bytes.size());
  if (bytes.data() == nullptr || size < int64_t{sizeof(header)} || size > max_address_bytes)
    return fail(Errc::invalid_argument,
                "Transport::connect: address has {} bytes, expected {} .. {}", size, sizeof(header),
                max_address_bytes);
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != address_magic)
    return fail(Errc::invalid_argument,
                "Transport::connect: address is none, or one of another byte order");
  if (header.bytes != size)
    return fail(Errc::invalid_argument, "Transport::connect: address has {} bytes, expected {}",
                size, header.bytes);
  if (header.crc != crc_of(bytes))
    return fail(Errc::invalid_argument, "Transport::connect: address is damaged");
  if (header.version != address_version)
    return fail(Errc::unsupported, "Transport::connect: address is of version {}, expected {}",
                header.version, address_version);
  return {};
}

}  // namespace

std::vector<std::byte> encode(const Address& address) {
  ByteWriter writer;
  writer.put(AddressHeader{.magic = address_magic, .version = address_version});
  writer.put(address.kind);
  writer.put(address.end);
  std::vector<RegionEntry> regions;
  regions.reserve(address.regions.size());
  for (const auto& [region, bytes] : address.regions)
    regions.push_back({.region = region.value, .bytes = bytes});
  writer.put_all(std::span<const RegionEntry>(regions));
  writer.put_all(std::span<const std::byte>(address.endpoint));
  std::vector<std::byte> bytes = std::move(writer.bytes());
  AddressHeader header{.magic = address_magic,
                       .version = address_version,
                       .bytes = static_cast<int64_t>(bytes.size())};
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.crc = crc_of(bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Result<Address> decode_address(std::span<const std::byte> bytes, WireKind kind) {
  if (Status s = check_header(bytes); !s.is_ok()) return s;
  ByteReader reader(bytes.subspan(sizeof(AddressHeader)));
  Address address;
  address.kind = reader.get<WireKind>();
  if (address.kind != kind)
    return fail(Errc::invalid_argument,
                "Transport::connect: address is of transport {}, expected {}",
                static_cast<uint32_t>(address.kind), static_cast<uint32_t>(kind));
  address.end = reader.get<EndId>();
  bool is_sound = true;
  for (const RegionEntry& entry : reader.get_all<RegionEntry>()) {
    is_sound &= entry.region != 0 && entry.bytes > 0;
    is_sound &= address.regions.emplace(RegionId{entry.region}, entry.bytes).second;
  }
  address.endpoint = reader.get_all<std::byte>();
  if (!is_sound || !reader.is_at_end())
    return fail(Errc::invalid_argument, "Transport::connect: address contradicts itself");
  return address;
}

Result<EndId> random_end_id() noexcept {
  EndId id = {};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    return fail(Errc::io, "Transport: the system gives no random bytes");
  return id;
}

}  // namespace folio::inline v1::tier
