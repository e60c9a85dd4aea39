// SPDX-License-Identifier: Apache-2.0
/// tier/disk/scan.cpp: walks through segments.
#include "tier/disk/scan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace folio::inline v1::tier {
namespace {

constexpr int64_t window_bytes = 256 << 10;
constexpr int64_t near_bytes = 32 << 10;  // records so small are read together
constexpr size_t most_at_once = 32;
constexpr int most_errors = 16;  // then the rest of a segment is left

bool is_zero(const std::byte* block) {
  return block[0] == std::byte{0} &&
         std::memcmp(block, block + 1, static_cast<size_t>(file_block) - 1) == 0;
}

/// A walk through one segment.
class Walk {
 public:
  Walk(SegmentScan& segment, size_t index, const Digest256& directory)
      : to_(&segment), index_(index), directory_(directory) {
    segment.bytes -= segment.bytes % file_block;
  }
  [[nodiscard]] bool is_over() const { return offset_ >= to_->bytes; }

  [[nodiscard]] FileOp read(std::byte* memory) const {
    return {.file = to_->file,
            .memory = memory,
            .bytes = std::min(reads_ahead_ ? window_bytes : file_block, to_->bytes - offset_),
            .offset = offset_};
  }

  template <class Found>
  void take(const FileOp& read, const Found& found) {
    if (read.error != 0) {
      to_->error = read.error;
      note_damage();
      const bool ends = read.error == ENODATA || ++errors_ == most_errors;
      offset_ = ends ? to_->bytes : offset_ + file_block;
      reads_ahead_ = false;
      return;
    }
    while (offset_ >= read.offset && offset_ + file_block <= read.offset + read.bytes)
      take_block(read.memory + (offset_ - read.offset), found);
  }

 private:
  template <class Found>
  void take_block(const std::byte* block, const Found& found) {
    DiskHeader header;
    std::memcpy(&header, block, sizeof(header));
    if (fault_of(header, {directory_, to_->number, offset_}) != nullptr) return take_other(block);
    const int64_t bytes = record_bytes(header.page.bytes);
    is_damage_ = false;
    if (bytes > to_->bytes - offset_) {
      ++to_->unfinished;
    } else if (header.state == RecordState::dropped) {
      ++to_->dropped;
    } else {
      found(index_, header, offset_);
    }
    reads_ahead_ = bytes <= near_bytes;
    offset_ += std::min(bytes, to_->bytes - offset_);
    to_->end = offset_;
  }

  void take_other(const std::byte* block) {
    reads_ahead_ = true;
    if (is_zero(block)) return skip_hole();
    note_damage();
    offset_ += file_block;
    to_->end = offset_;
  }

  void note_damage() {
    if (!is_damage_) ++to_->damaged;
    is_damage_ = true;
  }

  /// What a file system knows to be empty is not read.
  void skip_hole() {
    const off_t data = lseek(to_->file, offset_ + file_block, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
      offset_ = to_->bytes;
    else
      offset_ =
          std::max(offset_ + file_block, static_cast<int64_t>(data) / file_block * file_block);
  }

  SegmentScan* to_;
  size_t index_;
  Digest256 directory_;
  int64_t offset_ = 0;
  int errors_ = 0;
  bool reads_ahead_ = true, is_damage_ = false;
};

}  // namespace

Status scan(std::span<SegmentScan> segments, const Digest256& directory, FileIo& io,
            const std::function<void(size_t, const DiskHeader&, int64_t offset)>& found) {
  const size_t at_once = std::min(segments.size(), most_at_once);
  const IoMemory memory = allocate_io_memory(static_cast<int64_t>(at_once) * window_bytes);
  if (memory == nullptr)
    return fail(Errc::out_of_memory, "disk tier: no memory to scan {} segments", segments.size());
  std::vector<Walk> walks;
  std::vector<FileOp> reads;
  for (size_t next = 0; next < segments.size() || !walks.empty();) {
    for (; next < segments.size() && walks.size() < at_once; ++next)
      walks.emplace_back(segments[next], next, directory);
    std::erase_if(walks, [](const Walk& walk) { return walk.is_over(); });
    reads.clear();
    for (const Walk& walk : walks)
      reads.push_back(walk.read(memory->data() + std::ssize(reads) * window_bytes));
    io.run(reads, memory);
    for (size_t i = 0; i < walks.size(); ++i) walks[i].take(reads[i], found);
  }
  return {};
}

}  // namespace folio::inline v1::tier
