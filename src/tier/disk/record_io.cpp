// SPDX-License-Identifier: Apache-2.0
/// tier/disk/record_io.cpp: batches of whole records.
#include "tier/disk/record_io.h"

#include <algorithm>
#include <cstring>

namespace folio::inline v1::tier {
namespace {

/// As many, from the first on, as fit a batch's memory; one at least.
template <class Item, class BytesOf>
size_t batch_of(std::span<Item> items, const BytesOf& bytes_of) {
  size_t count = 0;
  for (int64_t bytes = 0; count < items.size(); ++count) {
    bytes += bytes_of(items[count]);
    if (bytes > batch_bytes && count > 0) break;
  }
  return count;
}

FileOp op_of(const RecordAt& record, std::byte* memory, bool writes) {
  return {.file = record.file,
          .memory = memory,
          .bytes = record_bytes(record.page_bytes),
          .offset = record.place.offset,
          .writes = writes};
}

void note(RecordAt& record, const FileOp& read) {
  record.error = read.error;
  record.fault = read.error != 0 ? RecordFault::unreadable
                                 : fault_of(read.memory, record.place, record.page_bytes);
}

Status no_memory(size_t records) {
  return fail(Errc::out_of_memory, "disk tier: no memory for {} records", records);
}

int64_t total_bytes(std::span<const RecordCopy> copies) {
  int64_t bytes = 0;
  for (const RecordCopy& copy : copies) bytes += record_bytes(copy.from.page_bytes);
  return bytes;
}

void readdress(std::byte* record, const RecordCopy& copy) {
  DiskHeader header;
  std::memcpy(&header, record, sizeof(header));
  header = record_header(header.page, copy.to.place, header.stored_at);
  std::memcpy(record, &header, sizeof(header));
  put_end_mark(record, record_bytes(copy.from.page_bytes), copy.to.place);
}

Status copy_batch(std::span<RecordCopy> copies, FileIo& io) {
  const IoMemory memory = allocate_io_memory(total_bytes(copies));
  if (memory == nullptr) return no_memory(copies.size());
  std::vector<FileOp> ops;
  std::byte* at = memory->data();
  for (const RecordCopy& copy : copies) {
    ops.push_back(op_of(copy.from, at, false));
    at += record_bytes(copy.from.page_bytes);
  }
  io.run(ops, memory);
  std::vector<FileOp> writes;
  std::vector<RecordCopy*> written;
  for (size_t i = 0; i < copies.size(); ++i) {
    note(copies[i].from, ops[i]);
    if (copies[i].from.fault != RecordFault::none) continue;
    readdress(ops[i].memory, copies[i]);
    writes.push_back(op_of(copies[i].to, ops[i].memory, true));
    written.push_back(&copies[i]);
  }
  io.run(writes, memory);
  for (size_t i = 0; i < writes.size(); ++i) written[i]->to.error = writes[i].error;
  return {};
}

}  // namespace

RecordFault fault_of(const std::byte* record, const RecordPlace& place, int64_t page_bytes) {
  DiskHeader header;
  std::memcpy(&header, record, sizeof(header));
  const bool is_whole = fault_of(header, place) == nullptr && header.page.bytes == page_bytes &&
                        extend_crc(0, record + sizeof(header), page_bytes) == header.page.crc;
  if (is_whole) return RecordFault::none;
  return has_end_mark(record, record_bytes(page_bytes), place) ? RecordFault::corrupt
                                                               : RecordFault::unfinished;
}

Status check_records(std::span<RecordAt> records, FileIo& io) {
  const auto bytes_of = [](const RecordAt& record) { return record_bytes(record.page_bytes); };
  while (!records.empty()) {
    const std::span<RecordAt> batch = records.first(batch_of(records, bytes_of));
    records = records.subspan(batch.size());
    int64_t bytes = 0;
    for (const RecordAt& record : batch) bytes += bytes_of(record);
    const IoMemory memory = allocate_io_memory(bytes);
    if (memory == nullptr) return no_memory(batch.size());
    std::vector<FileOp> ops;
    std::byte* at = memory->data();
    for (const RecordAt& record : batch) {
      ops.push_back(op_of(record, at, false));
      at += bytes_of(record);
    }
    io.run(ops, memory);
    for (size_t i = 0; i < batch.size(); ++i) note(batch[i], ops[i]);
  }
  return {};
}

Status copy_records(std::span<RecordCopy> copies, FileIo& io) {
  const auto bytes_of = [](const RecordCopy& copy) { return record_bytes(copy.from.page_bytes); };
  while (!copies.empty()) {
    const std::span<RecordCopy> batch = copies.first(batch_of(copies, bytes_of));
    copies = copies.subspan(batch.size());
    if (Status s = copy_batch(batch, io); !s.is_ok()) return s;
  }
  return {};
}

}  // namespace folio::inline v1::tier
