// SPDX-License-Identifier: Apache-2.0
/// tier/disk/ordered_loads.cpp: loads whose leading extents come first.
///
/// A step takes the next extents of every page, as many as make `step_bytes` in the largest one: a
/// record is read by pieces, the first ones of all pages before the second ones. Pieces are whole
/// blocks, so that a block between two of them is read twice.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tier/disk/disk_medium.h"
#include "tier/load_steps.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t step_bytes = 64 << 10;

struct Loading {
  Job* job;
  Directory::Held place;
  uint32_t next = 0;  ///< extent
  int64_t bytes = 0;  ///< of the extents before it
  uint32_t crc = 0;   ///< of these
  uint32_t crc_of_all = 0;
  bool is_over = false;
};

struct Piece {
  Loading* page;
  uint32_t end;     ///< extent
  int64_t payload;  ///< where in what is read the first one begins
};

int64_t bytes_between(const Job& job, uint32_t first, uint32_t end) {
  return bytes_of(std::span(job.extents).subspan(first, end - first));
}

}  // namespace

class DiskMedium::OrderedLoads final : public FileWork {
 public:
  explicit OrderedLoads(DiskMedium& medium) : medium_(medium) {}

  void add(Job& job, Directory::Held place) {
    pages_.push_back({.job = &job, .place = std::move(place)});
    steps_.add(job.extents);
  }

  void run() {
    for (uint32_t end = 0; end < steps_.num_extents();) {
      end = steps_.end_of_step(end, step_bytes);
      for (size_t page = 0; page < pages_.size();) page = run_batch(page, end);
    }
  }

  void end(size_t i) noexcept override {
    const Piece& piece = pieces_[i];
    Loading& page = *piece.page;
    page.is_over = true;
    const FileOp& op = ops_[i];
    if (op.error != 0) return medium_.fail_read(*page.job, page.place, op.error);
    if (page.next == 0 && !begin_page(page, op.memory))
      return medium_.end_load(*page.job, page.place, false);
    const auto extents = std::span(page.job->extents).subspan(page.next, piece.end - page.next);
    page.crc = scatter(op.memory + piece.payload, extents, page.crc);
    page.bytes += bytes_of(extents);
    page.next = piece.end;
    page.job->landed.store(piece.end, std::memory_order_release);
    page.is_over = piece.end == page.job->extents.size();
    if (page.is_over) medium_.end_load(*page.job, page.place, page.crc == page.crc_of_all);
  }

 private:
  /// From this page on, as many as fit a batch; returns the next one.
  size_t run_batch(size_t at, uint32_t end) {
    pieces_.clear();
    ops_.clear();
    int64_t bytes = 0;
    for (; at < pages_.size(); ++at) {
      Loading& page = pages_[at];
      if (page.is_over) continue;
      const FileOp op = op_of(page, end);
      if (bytes > 0 && bytes + op.bytes > batch_bytes) break;
      bytes += op.bytes;
      ops_.push_back(op);
    }
    if (ops_.empty()) return at;
    IoMemory memory = medium_.batch_memory_.take(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    std::byte* to = memory->data();
    for (FileOp& op : ops_) {
      op.memory = to;
      to += op.bytes;
    }
    medium_.io_->run(ops_, memory, *this);
    medium_.batch_memory_.give_back(std::move(memory));
    return at;
  }

  FileOp op_of(Loading& page, uint32_t end) {
    end = std::min(end, static_cast<uint32_t>(page.job->extents.size()));
    const int64_t payload = static_cast<int64_t>(sizeof(DiskHeader)) + page.bytes;
    const int64_t first = page.next == 0 ? 0 : payload / file_block * file_block;
    const int64_t behind = payload + bytes_between(*page.job, page.next, end);
    const int64_t last = (behind + file_block - 1) / file_block * file_block;
    pieces_.push_back({&page, end, payload - first});
    return {.file = page.place.file(),
            .bytes = last - first,
            .offset = page.place.place().offset + first};
  }

  bool begin_page(Loading& page, const std::byte* record) const {
    DiskHeader header;
    std::memcpy(&header, record, sizeof(header));
    page.crc_of_all = header.page.crc;
    return medium_.is_of(header, *page.job, page.place);
  }

  DiskMedium& medium_;
  std::vector<Loading> pages_;
  std::vector<Piece> pieces_;
  std::vector<FileOp> ops_;
  LoadSteps steps_;
};

void DiskMedium::load_in_order(std::span<Job* const> jobs) {
  OrderedLoads loads(*this);
  for (Job* const job : jobs)
    if (std::optional<Directory::Held> place = place_of(*job)) loads.add(*job, std::move(*place));
  loads.run();
}

}  // namespace folio::inline v1::tier
