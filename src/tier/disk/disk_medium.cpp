// SPDX-License-Identifier: Apache-2.0
/// tier/disk/disk_medium.cpp: pages gathered into records and written; records read, checked and
/// scattered.
#include "tier/disk/disk_medium.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <utility>

namespace folio::inline v1::tier {
namespace {

/// As many jobs, from the first on, as have records of `batch_bytes`, or of what `segment_bytes`
/// allows; one at least.
std::span<Job* const> batch_of(std::span<Job* const> jobs, int64_t most_bytes) {
  size_t count = 0;
  for (int64_t bytes = 0; count < jobs.size(); ++count) {
    bytes += record_bytes(bytes_of(jobs[count]->extents));
    if (bytes > most_bytes && count > 0) break;
  }
  return jobs.first(count);
}

}  // namespace

Result<std::unique_ptr<Medium>> DiskMedium::open(const std::string& path,
                                                 const TierOptions& options,
                                                 const DiskOptions& disk,
                                                 std::unique_ptr<FileIo> io,
                                                 int64_t first_pause_ms) {
  const int64_t segment_bytes = disk.segment_bytes / file_block * file_block;
  Result<std::unique_ptr<Directory>> directory = Directory::open(path,
                                                                 {.max_bytes = options.max_bytes,
                                                                  .segment_bytes = segment_bytes,
                                                                  .first_pause_ms = first_pause_ms,
                                                                  .on_change = options.on_change},
                                                                 *io);
  if (!directory) return directory.error();
  return std::unique_ptr<Medium>(
      new DiskMedium(std::move(io), std::move(*directory), options, disk));
}

bool DiskMedium::has(const PageName& name) noexcept { return directory_->has(name); }

void DiskMedium::drop(const PageName& name) noexcept { directory_->remove(name); }

bool DiskMedium::visit_names(const NameVisitor& visitor) {
  directory_->visit_names(visitor);
  return true;
}

void DiskMedium::count(TierFigures& figures) const noexcept {
  directory_->count(figures.pages, figures.bytes, figures.dropped_pages);
}

Status DiskMedium::last_fault() const noexcept { return directory_->last_fault(); }

void DiskMedium::run(std::span<Job* const> jobs) noexcept {
  for (Job* const job : jobs) job->outcome = TierOutcome::failed;
  try {
    if (jobs.front()->kind == Job::Kind::store) return store(jobs);
    if (jobs.front()->order == LoadOrder::extents) return load_in_order(jobs);
    load(jobs);
  } catch (const std::bad_alloc&) {  // those that have no outcome yet have failed
    directory_->note(fail(Errc::out_of_memory, "disk tier: no memory for {} records", jobs.size()));
  }
}

// ---- Stores

/// Gathers a page when its write is about to begin.
class DiskMedium::Stores final : public FileWork {
 public:
  Stores(const Digest256& fingerprint, std::span<Job* const> jobs,
         std::span<const Directory::Held> places)
      : fingerprint_(fingerprint), jobs_(jobs), places_(places), stored_at_(std::time(nullptr)) {}

  std::vector<FileOp> ops(std::byte* memory) {
    for (const Directory::Held& place : places_) {
      ops_at_.push_back(memory);
      memory += record_bytes(place.page_bytes());
    }
    std::vector<FileOp> ops;
    for (size_t i = 0; i < places_.size(); ++i)
      ops.push_back({.file = places_[i].file(),
                     .memory = ops_at_[i],
                     .bytes = record_bytes(places_[i].page_bytes()),
                     .offset = places_[i].place().offset,
                     .writes = true});
    return ops;
  }

  void begin(size_t i) noexcept override {
    std::byte* const record = ops_at_[i];
    const int64_t page_bytes = places_[i].page_bytes();
    const int64_t bytes = record_bytes(page_bytes);
    std::byte* const payload = record + sizeof(DiskHeader);
    const uint32_t crc = gather(jobs_[i]->extents, payload);
    const DiskHeader header =
        record_header(payload_header(jobs_[i]->name, fingerprint_, page_bytes, crc),
                      places_[i].place(), stored_at_);
    std::memcpy(record, &header, sizeof(header));
    std::byte* const end = payload + page_bytes;
    std::memset(end, 0, static_cast<size_t>(record + bytes - end));
    put_end_mark(record, bytes, places_[i].place());
  }

 private:
  const Digest256& fingerprint_;
  std::span<Job* const> jobs_;
  std::span<const Directory::Held> places_;
  std::vector<std::byte*> ops_at_;
  const int64_t stored_at_;
};

void DiskMedium::store(std::span<Job* const> jobs) {
  std::vector<Job*> all;
  for (Job* const job : jobs) {
    const int64_t bytes = bytes_of(job->extents);
    if (bytes <= most_page_bytes && record_bytes(bytes) <= segment_bytes_)
      all.push_back(job);
    else
      job->outcome = directory_->has(job->name) ? TierOutcome::done : TierOutcome::full;
  }
  const int64_t most_bytes = std::min(batch_bytes, segment_bytes_ / 4);
  for (std::span<Job* const> rest = all; !rest.empty();) {
    const std::span<Job* const> batch = batch_of(rest, most_bytes);
    rest = rest.subspan(batch.size());
    store_batch(batch);
  }
}

/// Pages that the device had no room for are written once more, when older ones have gone for them:
/// a file system may promise room that it has not, or cannot promise any.
void DiskMedium::store_batch(std::span<Job* const> jobs) {
  Status s = write_batch(jobs);
  if (s.code() == Errc::out_of_memory) {
    std::vector<Job*> rest;
    int64_t bytes = 0;
    for (Job* const job : jobs) {
      if (job->outcome != TierOutcome::full) continue;
      rest.push_back(job);
      bytes += record_bytes(bytes_of(job->extents));
    }
    if (directory_->give_up(bytes)) s = write_batch(rest);
  }
  if (!s.is_ok()) directory_->pause(std::move(s));
}

/// Says how each ended, and why one that has a place was not written; ok where all of these were.
Status DiskMedium::write_batch(std::span<Job* const> jobs) {
  std::vector<Directory::Wanted> wanted;
  int64_t bytes = 0;
  for (const Job* const job : jobs) {
    wanted.push_back({job->name, bytes_of(job->extents)});
    bytes += record_bytes(wanted.back().bytes);
  }
  IoMemory memory = batch_memory_.take(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::vector<Directory::Held> places;
  const Status s = directory_->reserve(wanted, places);
  const bool is_full = s.code() == Errc::out_of_memory;
  std::vector<Job*> placed;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (s.is_ok() ? wanted[i].is_there : directory_->has(jobs[i]->name))
      jobs[i]->outcome = TierOutcome::done;
    else if (s.is_ok())
      placed.push_back(jobs[i]);
    else
      jobs[i]->outcome = is_full ? TierOutcome::full : TierOutcome::failed;
  }
  Status unwritten;
  if (!placed.empty()) {
    Stores work(fingerprint_, placed, places);
    std::vector<FileOp> ops = work.ops(memory->data());
    io_->run(ops, memory, work);
    // the last place first, so that those that were not written are given back in turn
    for (size_t i = ops.size(); i-- > 0;)
      if (Status ended = end_store(*placed[i], places[i], ops[i].error); !ended.is_ok())
        unwritten = std::move(ended);
  }
  batch_memory_.give_back(std::move(memory));
  return unwritten;
}

Status DiskMedium::end_store(Job& job, const Directory::Held& place, int error) {
  if (error == 0) {
    directory_->add(job.name, place);
    job.outcome = TierOutcome::done;
    return {};
  }
  job.outcome = means_full(error) ? TierOutcome::full : TierOutcome::failed;
  if (error != ETIMEDOUT) directory_->give_back(place);  // else it may be written yet
  return io_failure("write", directory_->path_of(place), error);
}

// ---- Loads

/// Checks and scatters a page when it has been read.
class DiskMedium::Loads final : public FileWork {
 public:
  explicit Loads(DiskMedium& medium) : medium_(medium) {}

  void add(Job& job, Directory::Held place) {
    jobs_.push_back(&job);
    places_.push_back(std::move(place));
  }

  void run() {
    int64_t bytes = 0;
    for (const Directory::Held& place : places_) bytes += record_bytes(place.page_bytes());
    IoMemory memory = medium_.batch_memory_.take(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    std::byte* at = memory->data();
    for (const Directory::Held& place : places_) {
      ops_.push_back({.file = place.file(),
                      .memory = at,
                      .bytes = record_bytes(place.page_bytes()),
                      .offset = place.place().offset});
      at += ops_.back().bytes;
    }
    medium_.io_->run(ops_, memory, *this);
    medium_.batch_memory_.give_back(std::move(memory));
  }

  void end(size_t i) noexcept override {
    Job& job = *jobs_[i];
    if (ops_[i].error != 0) return medium_.fail_read(job, places_[i], ops_[i].error);
    DiskHeader header;
    std::memcpy(&header, ops_[i].memory, sizeof(header));
    const bool is_ours = medium_.is_of(header, job, places_[i]);
    medium_.end_load(
        job, places_[i],
        is_ours && scatter(ops_[i].memory + sizeof(header), job.extents) == header.page.crc);
  }

 private:
  DiskMedium& medium_;
  std::vector<Job*> jobs_;
  std::vector<Directory::Held> places_;
  std::vector<FileOp> ops_;
};

bool DiskMedium::is_of(const DiskHeader& header, const Job& job,
                       const Directory::Held& place) const {
  return fault_of(header, place.place()) == nullptr && header.state == RecordState::kept &&
         fault_of(header.page, job.name, fingerprint_, place.page_bytes()) == nullptr;
}

/// Its place, if it is one of the job's size; else the job has ended.
std::optional<Directory::Held> DiskMedium::place_of(Job& job) {
  std::optional<Directory::Held> place = directory_->find(job.name);
  if (!place)
    job.outcome = TierOutcome::missing;
  else if (place->page_bytes() != bytes_of(job.extents))
    job.outcome = TierOutcome::corrupt;
  else
    return place;
  return std::nullopt;
}

void DiskMedium::load(std::span<Job* const> jobs) {
  for (std::span<Job* const> rest = jobs; !rest.empty();) {
    const std::span<Job* const> batch = batch_of(rest, batch_bytes);
    rest = rest.subspan(batch.size());
    Loads loads(*this);
    for (Job* const job : batch)
      if (std::optional<Directory::Held> place = place_of(*job)) loads.add(*job, std::move(*place));
    loads.run();
  }
}

void DiskMedium::end_load(Job& job, const Directory::Held& place, bool is_whole) {
  if (is_whole)
    job.outcome = TierOutcome::done;
  else if (directory_->remove(job.name, place))  // so that it can be stored anew
    job.outcome = TierOutcome::corrupt;
  else  // dropped while it was read, which a record says of itself
    job.outcome = TierOutcome::missing;
}

void DiskMedium::fail_read(Job& job, const Directory::Held& place, int error) {
  // by number: a path takes memory, and this must not throw
  directory_->note(fail(Errc::io, "disk tier: cannot read segment {}: {}", place.segment(),
                        std::strerror(error)));
  job.outcome = TierOutcome::failed;
  if (error == ENODATA)
    end_load(job, place, false);  // the file has been cut: it will not come back
}

}  // namespace folio::inline v1::tier
