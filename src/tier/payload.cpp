// SPDX-License-Identifier: Apache-2.0
/// tier/payload.cpp: the one file that knows ISA-L, whose CRC32C uses the processor's instruction.
#include "tier/payload.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "folio/tier/medium.h"

namespace folio::inline v1::tier {
namespace {

constexpr uint64_t magic = 0x6567617020'6f696cU;    // "lio page", read in the writer's byte order
constexpr int64_t most_at_once = int64_t{1} << 30;  // the library counts in int

uint32_t crc_of_header(PayloadHeader header) {
  header.header_crc = 0;
  return extend_crc(0, reinterpret_cast<const std::byte*>(&header), sizeof(header));
}

}  // namespace

uint32_t extend_crc(uint32_t crc, const std::byte* bytes, int64_t count) noexcept {
  crc = ~crc;
  while (count > 0) {
    const int64_t part = std::min(count, most_at_once);
    // reads only, though the prototype has no const
    crc = crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes)),
                      static_cast<int>(part), crc);
    bytes += part;
    count -= part;
  }
  return ~crc;
}

uint32_t crc_of(std::span<const Extent> extents) noexcept {
  uint32_t crc = 0;
  for (const Extent& e : extents) crc = extend_crc(crc, e.data, e.bytes);
  return crc;
}

int64_t bytes_of(std::span<const Extent> extents) noexcept {
  int64_t bytes = 0;
  for (const Extent& e : extents) bytes += e.bytes;
  return bytes;
}

PayloadHeader header_of(const PageName& name, const Digest256& fingerprint,
                        std::span<const Extent> extents) noexcept {
  PayloadHeader header{.magic = magic,
                       .version = payload_version,
                       .bytes = bytes_of(extents),
                       .crc = crc_of(extents),
                       .fingerprint = fingerprint,
                       .name = name};
  header.header_crc = crc_of_header(header);
  return header;
}

const char* fault_of(const PayloadHeader& header) noexcept {
  if (header.magic != magic) return "no header of a page, or of another byte order";
  if (header.version != payload_version) return "another version";
  if (header.header_crc != crc_of_header(header)) return "a damaged header";
  return header.bytes >= 0 ? nullptr : "a negative size";
}

const char* fault_of(const PayloadHeader& header, const PageName& name,
                     const Digest256& fingerprint, int64_t bytes) noexcept {
  if (const char* const fault = fault_of(header); fault != nullptr) return fault;
  if (header.fingerprint != fingerprint) return "another model or geometry";
  if (header.name != name) return "another page";
  return header.bytes == bytes ? nullptr : "another size";
}

static_assert(sizeof(PayloadHeader) == page_header_bytes);

std::array<std::byte, page_header_bytes> make_page_header(
    const PageName& name, const Digest256& fingerprint, std::span<const Extent> extents) noexcept {
  return std::bit_cast<std::array<std::byte, page_header_bytes>>(
      header_of(name, fingerprint, extents));
}

const char* fault_of_page(std::span<const std::byte> header, const PageName& name,
                          const Digest256& fingerprint, std::span<const Extent> extents) noexcept {
  if (header.data() == nullptr || header.size() != page_header_bytes)
    return "a header of another size";
  PayloadHeader said;
  std::memcpy(&said, header.data(), sizeof(said));
  if (const char* const fault = fault_of(said, name, fingerprint, bytes_of(extents))) return fault;
  return crc_of(extents) == said.crc ? nullptr : "damaged bytes";
}

}  // namespace folio::inline v1::tier
