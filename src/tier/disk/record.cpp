// SPDX-License-Identifier: Apache-2.0
/// tier/disk/record.cpp: headers and copies of records.
#include "tier/disk/record.h"

#include <algorithm>
#include <cstring>

namespace folio::inline v1::tier {
namespace {

constexpr int64_t piece_bytes = 16 << 10;  // copied and checked while they are in the first cache

uint32_t crc_of(const DiskHeader& header) {
  return extend_crc(0, reinterpret_cast<const std::byte*>(&header), offsetof(DiskHeader, crc));
}

/// Not zero, and another one at each place.
uint64_t end_mark(const RecordPlace& place) {
  return 0x646e65'6f696c6f66U ^ (static_cast<uint64_t>(place.offset) << 16);
}

uint32_t copy(const std::byte* from, std::byte* to, int64_t bytes, uint32_t crc) {
  for (int64_t done = 0; done < bytes; done += piece_bytes) {
    const int64_t piece = std::min(piece_bytes, bytes - done);
    std::memcpy(to + done, from + done, static_cast<size_t>(piece));
    crc = extend_crc(crc, to + done, piece);
  }
  return crc;
}

}  // namespace

PayloadHeader payload_header(const PageName& name, const Digest256& fingerprint, int64_t bytes,
                             uint32_t crc) {
  PayloadHeader header = header_of(name, fingerprint, {});
  header.bytes = bytes;
  header.crc = crc;
  header.header_crc = 0;
  header.header_crc = extend_crc(0, reinterpret_cast<const std::byte*>(&header), sizeof(header));
  return header;
}

DiskHeader record_header(const PayloadHeader& page, const RecordPlace& place, int64_t stored_at,
                         RecordState state) {
  DiskHeader header{.page = page,
                    .segment = place.segment,
                    .offset = static_cast<uint64_t>(place.offset),
                    .directory = place.directory,
                    .stored_at = stored_at,
                    .state = state};
  header.crc = crc_of(header);
  return header;
}

const char* fault_of(const DiskHeader& header, const RecordPlace& place) {
  if (header.crc != crc_of(header)) return "a damaged header";
  if (header.directory != place.directory || header.segment != place.segment ||
      header.offset != static_cast<uint64_t>(place.offset))
    return "a record of another place";
  if (header.state != RecordState::kept && header.state != RecordState::dropped)
    return "another state";
  if (header.page.bytes > most_page_bytes) return "a size that no page has";
  return fault_of(header.page);
}

void put_end_mark(std::byte* record, int64_t bytes, const RecordPlace& place) {
  const uint64_t mark = end_mark(place);
  std::memcpy(record + bytes - end_mark_bytes, &mark, sizeof(mark));
}

bool has_end_mark(const std::byte* record, int64_t bytes, const RecordPlace& place) {
  const uint64_t mark = end_mark(place);
  return std::memcmp(record + bytes - end_mark_bytes, &mark, sizeof(mark)) == 0;
}

uint32_t gather(std::span<const Extent> from, std::byte* to) {
  uint32_t crc = 0;
  for (const Extent& e : from) {
    crc = copy(e.data, to, e.bytes, crc);
    to += e.bytes;
  }
  return crc;
}

uint32_t scatter(const std::byte* from, std::span<const Extent> to, uint32_t crc) {
  for (const Extent& e : to) {
    crc = copy(from, e.data, e.bytes, crc);
    from += e.bytes;
  }
  return crc;
}

}  // namespace folio::inline v1::tier
