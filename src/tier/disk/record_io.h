// SPDX-License-Identifier: Apache-2.0
/// tier/disk/record_io.h: whole records, many at once: read and checked, or copied elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tier/disk/record.h"

namespace folio::inline v1::tier {

enum class RecordFault : uint8_t {
  none = 0,
  unreadable = 1,
  unfinished = 2,  ///< it was never written to its end
  corrupt = 3,     ///< it was, and is another one now
};

struct RecordAt {
  int file = -1;
  RecordPlace place;
  int64_t page_bytes = 0;
  // when it has been read
  RecordFault fault = RecordFault::none;
  int error = 0;  ///< errno
};

struct RecordCopy {
  RecordAt from, to;  ///< `to.error`: of the write; of a record that is not whole there is none
};

/// Reads them all and says what is wrong with them. Errors: out_of_memory
[[nodiscard]] Status check_records(std::span<RecordAt> records, FileIo& io);
/// Copies those that are whole, their age with them. Errors: out_of_memory
[[nodiscard]] Status copy_records(std::span<RecordCopy> copies, FileIo& io);

/// What is wrong with a record in memory.
[[nodiscard]] RecordFault fault_of(const std::byte* record, const RecordPlace& place,
                                   int64_t page_bytes);

/// Memory that a batch of records may take; one record may take more.
inline constexpr int64_t batch_bytes = 8 << 20;

}  // namespace folio::inline v1::tier
