// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_tier.cpp: records gathered, written, read and checked.
#include "folio/tier/disk_tier.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "folio/core/buffer.h"
#include "tier/checks.h"
#include "tier/disk/disk_medium.h"
#include "tier/queued_tier.h"

namespace folio::inline v1::tier {
namespace {

Status check(const TierOptions& options, const DiskOptions& disk) {
  if (Status s = check_options(options); !s.is_ok()) return s;
  const int64_t most = std::min(options.max_bytes / 2, int64_t{1} << 40);
  if (disk.segment_bytes < int64_t{1} << 20 || disk.segment_bytes > most)
    return fail(Errc::invalid_argument,
                "make_disk_tier: segment_bytes is {}, expected {} .. {} (half of max_bytes)",
                disk.segment_bytes, int64_t{1} << 20, most);
  if (disk.depth < 1 || disk.depth > 1024)
    return fail(Errc::invalid_argument, "make_disk_tier: depth is {}, expected 1 .. 1024",
                disk.depth);
  return {};
}

/// Memory of a thread for a batch of records, kept for the next one.
std::byte* staging(int64_t bytes) noexcept {
  thread_local Buffer memory;
  if (memory.bytes() < bytes + file_block) {
    memory = Buffer();
    Result<Buffer> more = Buffer::allocate(bytes + file_block);
    if (!more) return nullptr;
    memory = std::move(*more);
  }
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (file_block - address % file_block) % file_block;
}

std::byte* gather(std::span<const Extent> from, std::byte* to) {
  for (const Extent& e : from) {
    std::memcpy(to, e.data, static_cast<size_t>(e.bytes));
    to += e.bytes;
  }
  return to;
}

void scatter(const std::byte* from, std::span<const Extent> to) {
  for (const Extent& e : to) {
    std::memcpy(e.data, from, static_cast<size_t>(e.bytes));
    from += e.bytes;
  }
}

void end_all(std::span<Job* const> jobs, TierOutcome outcome) {
  for (Job* const job : jobs) job->outcome = outcome;
}

}  // namespace

Result<std::unique_ptr<Medium>> DiskMedium::open(const std::string& path,
                                                 const TierOptions& options,
                                                 const DiskOptions& disk,
                                                 std::unique_ptr<FileIo> io) {
  Result<std::unique_ptr<Directory>> directory =
      Directory::open(path, options.max_bytes, disk.segment_bytes, *io, options.on_change);
  if (!directory) return directory.error();
  return std::unique_ptr<Medium>(
      new DiskMedium(std::move(*directory), options, disk, std::move(io)));
}

bool DiskMedium::has(const PageName& name) noexcept {
  const std::lock_guard lock(mutex_);
  return directory_->find(name) != nullptr;
}

void DiskMedium::drop(const PageName& name) noexcept {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    if (const Place* const found = directory_->find(name); found != nullptr) place = *found;
    directory_->remove(name);
  }
  std::byte* const block = place.segment == nullptr ? nullptr : staging(file_block);
  if (block == nullptr) return;
  std::memset(block, 0, file_block);  // so that no scan finds it
  FileOp op{.file = place.segment->file,
            .memory = block,
            .bytes = file_block,
            .offset = place.offset,
            .writes = true};
  io_->run({&op, 1});
}

void DiskMedium::count(TierFigures& figures) const noexcept {
  const std::lock_guard lock(mutex_);
  figures.pages = directory_->pages();
  figures.bytes = directory_->bytes();
  figures.dropped_pages = directory_->dropped();
}

Status DiskMedium::last_fault() const noexcept {
  const std::lock_guard lock(mutex_);
  return last_fault_;
}

void DiskMedium::note(Status fault) noexcept {
  const std::lock_guard lock(mutex_);
  last_fault_ = std::move(fault);
}

void DiskMedium::run(std::span<Job* const> jobs) noexcept {
  try {
    jobs.front()->kind == Job::Kind::load ? load(jobs) : store(jobs);
  } catch (const std::bad_alloc&) {
    end_all(jobs, TierOutcome::failed);
    note(fail(Errc::out_of_memory, "disk tier: no memory for {} records", jobs.size()));
  }
}

// ---- Stores

void DiskMedium::store(std::span<Job* const> jobs) {
  std::vector<Moving> writings;
  int64_t bytes = 0;
  for (Job* const job : jobs) {
    const int64_t page_bytes = bytes_of(job->extents);
    const std::lock_guard lock(mutex_);
    job->outcome = directory_->find(job->name) != nullptr ? TierOutcome::done : TierOutcome::full;
    if (job->outcome == TierOutcome::done || record_bytes(page_bytes) > segment_bytes_) continue;
    Result<Place> place = directory_->make_room(page_bytes);
    if (!place) {
      job->outcome = TierOutcome::failed;
      last_fault_ = place.error();
      continue;
    }
    writings.push_back({job, *place, bytes});
    bytes += record_bytes(page_bytes);
  }
  std::byte* const memory = staging(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::vector<FileOp> ops;
  for (const Moving& w : writings) ops.push_back(write_of(w, memory + w.staged));
  io_->run(ops);
  for (size_t i = 0; i < ops.size(); ++i) end_store(writings[i], ops[i].error);
}

FileOp DiskMedium::write_of(const Moving& w, std::byte* record) {
  const PayloadHeader page = header_of(w.job->name, fingerprint_, w.job->extents);
  const DiskHeader header = directory_->header(page, w.place);
  std::memcpy(record, &header, sizeof(header));
  std::byte* const end = gather(w.job->extents, record + sizeof(header));
  const int64_t bytes = record_bytes(w.place.bytes);
  std::memset(end, 0, static_cast<size_t>(record + bytes - end));
  return {.file = w.place.segment->file,
          .memory = record,
          .bytes = bytes,
          .offset = w.place.offset,
          .writes = true};
}

void DiskMedium::end_store(const Moving& w, int error) {
  const std::lock_guard lock(mutex_);
  w.job->outcome = error == 0        ? TierOutcome::done
                   : error == ENOSPC ? TierOutcome::full
                                     : TierOutcome::failed;
  if (error == 0) {
    if (!directory_->add(w.job->name, w.place)) w.job->outcome = TierOutcome::full;
    return;
  }
  last_fault_ = fail(Errc::io, "disk tier: cannot write {}: {}", w.place.segment->path.c_str(),
                     std::strerror(error));
}

// ---- Loads

void DiskMedium::load(std::span<Job* const> jobs) {
  std::vector<Moving> readings;
  int64_t bytes = 0;
  for (Job* const job : jobs) {
    const std::lock_guard lock(mutex_);
    const Place* const place = directory_->find(job->name);
    job->outcome = place == nullptr ? TierOutcome::missing : TierOutcome::corrupt;
    if (place == nullptr || place->bytes != bytes_of(job->extents)) continue;
    directory_->use(*place);
    readings.push_back({job, *place, bytes});
    bytes += record_bytes(place->bytes);
  }
  std::byte* const memory = staging(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::vector<FileOp> ops;
  for (const Moving& r : readings)
    ops.push_back({.file = r.place.segment->file,
                   .memory = memory + r.staged,
                   .bytes = record_bytes(r.place.bytes),
                   .offset = r.place.offset});
  io_->run(ops);
  for (size_t i = 0; i < ops.size(); ++i) end_load(readings[i], ops[i]);
}

void DiskMedium::end_load(const Moving& r, const FileOp& op) {
  r.job->outcome = TierOutcome::failed;
  if (op.error != 0) {
    note(fail(Errc::io, "disk tier: cannot read {}: {}", r.place.segment->path.c_str(),
              std::strerror(op.error)));
    return;
  }
  DiskHeader header;
  std::memcpy(&header, op.memory, sizeof(header));
  const std::byte* const bytes = op.memory + sizeof(header);
  r.job->outcome = TierOutcome::corrupt;
  if (directory_->fault(header, r.place) == nullptr &&
      fault_of(header.page, r.job->name, fingerprint_, r.place.bytes) == nullptr &&
      extend_crc(0, bytes, r.place.bytes) == header.page.crc) {
    scatter(bytes, r.job->extents);
    r.job->outcome = TierOutcome::done;
    return;
  }
  const std::lock_guard lock(mutex_);
  directory_->remove(r.job->name);  // so that it can be stored anew
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {

Result<std::unique_ptr<Tier>> make_disk_tier(std::string_view directory, const TierOptions& options,
                                             const DiskOptions& disk) noexcept {
  if (Status s = tier::check(options, disk); !s.is_ok()) return s;
  try {
    std::unique_ptr<tier::FileIo> io = tier::make_uring_file_io(disk.depth);
    if (io == nullptr) io = tier::make_plain_file_io();
    Result<std::unique_ptr<tier::Medium>> medium =
        tier::DiskMedium::open(std::string(directory), options, disk, std::move(io));
    if (!medium) return medium.error();
    return tier::QueuedTier::create(std::move(*medium), options);
  } catch (const std::bad_alloc&) {
    return tier::out_of_memory("make_disk_tier");
  }
}

}  // namespace folio::inline v1
