// SPDX-License-Identifier: Apache-2.0
/// tier/disk/record.h: a page as it lies in a file.
///
/// A record is a header, the page's bytes, zeros, and an end mark in its last 8 bytes; it fills
/// whole blocks. Its place and a number of the directory's own stand in the header, so that no
/// bytes of a page can pass for a record, nor a record that was copied from elsewhere. The end mark
/// tells a record that was damaged from one that was never written to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tier/disk/file_io.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

enum class RecordState : uint32_t { kept = 0, dropped = 1 };

struct DiskHeader {
  PayloadHeader page;
  uint64_t segment = 0, offset = 0;
  Digest256 directory = {};
  int64_t stored_at = 0;  ///< seconds since 1970, UTC
  RecordState state = RecordState::kept;
  uint32_t crc = 0;  ///< of the above
};
static_assert(sizeof(DiskHeader) == 192);

inline constexpr int64_t most_page_bytes = int64_t{1} << 40;
inline constexpr int64_t end_mark_bytes = 8;

/// Of a page of 0 .. most_page_bytes.
constexpr int64_t record_bytes(int64_t page_bytes) {
  const int64_t bytes = static_cast<int64_t>(sizeof(DiskHeader)) + page_bytes + end_mark_bytes;
  return (bytes + file_block - 1) / file_block * file_block;
}

/// What a header says, for a place in a directory.
struct RecordPlace {
  Digest256 directory;
  uint64_t segment = 0;
  int64_t offset = 0;
};

/// Of a page whose bytes have this CRC.
[[nodiscard]] DiskHeader record_header(const PayloadHeader& page, const RecordPlace& place,
                                       int64_t stored_at, RecordState state = RecordState::kept);
[[nodiscard]] PayloadHeader payload_header(const PageName& name, const Digest256& fingerprint,
                                           int64_t bytes, uint32_t crc);
/// Null, or why these bytes are no header of this place. What passes has a size that
/// `record_bytes` takes.
[[nodiscard]] const char* fault_of(const DiskHeader& header, const RecordPlace& place);

/// The last bytes of a record of this place.
void put_end_mark(std::byte* record, int64_t bytes, const RecordPlace& place);
[[nodiscard]] bool has_end_mark(const std::byte* record, int64_t bytes, const RecordPlace& place);

/// Copies a page's extents behind one another, or back; returns their CRC. One pass over memory.
[[nodiscard]] uint32_t gather(std::span<const Extent> from, std::byte* to);
[[nodiscard]] uint32_t scatter(const std::byte* from, std::span<const Extent> to, uint32_t crc = 0);

}  // namespace folio::inline v1::tier
