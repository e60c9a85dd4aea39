// SPDX-License-Identifier: Apache-2.0
/// tier/disk/compaction.cpp: live records into new segments, old ones removed behind them.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

#include "tier/disk/contents.h"
#include "tier/file_size_signal.h"

namespace folio::inline v1::tier {
namespace {

using tier::ContentSegment;

class Compactor {
 public:
  Compactor(tier::Contents& contents, int64_t segment_bytes)
      : contents_(contents), segment_bytes_(segment_bytes) {
    if (!contents.segments.empty())
      next_ = tier::segment_after(contents.segments.back().scan.number);
  }

  Status run() {
    const tier::FileSizeSignalHeld held;
    done_.bytes_before = contents_.bytes();
    done_.bytes_after = done_.bytes_before;
    std::vector<ContentSegment*> chosen;
    for (ContentSegment& segment : contents_.segments)
      if (is_worth_it(segment)) chosen.push_back(&segment);
    // one that is small alone stays so
    if (chosen.size() == 1 && chosen[0]->live_bytes() == chosen[0]->bytes) chosen.clear();
    done_.kept_segments = std::ssize(contents_.segments) - std::ssize(chosen);
    for (ContentSegment* const segment : chosen)
      if (Status s = rewrite(*segment); !s.is_ok()) return s;
    return {};
  }
  [[nodiscard]] const DiskCompaction& done() const { return done_; }

 private:
  [[nodiscard]] bool is_worth_it(const ContentSegment& segment) const {
    return segment.live_bytes() < segment.bytes || segment.bytes < segment_bytes_ / 2;
  }

  /// The device has the copies before the old file goes.
  Status rewrite(ContentSegment& segment) {
    int64_t unreadable = segment.scan.error == 0 ? 0 : 1;
    std::vector<tier::RecordCopy> copies;
    int64_t bytes = 0;
    for (size_t i = 0; i <= segment.records.size(); ++i) {
      const bool is_end = i == segment.records.size();
      if (!is_end && segment.records[i].is_shadowed) continue;
      const int64_t more = is_end ? 0 : tier::record_bytes(segment.records[i].page.bytes);
      if (is_end || bytes + more > tier::batch_bytes) {
        if (Status s = copy(copies, unreadable); !s.is_ok()) return s;
        bytes = 0;
      }
      if (is_end) break;
      bytes += more;
      copies.push_back({.from = contents_.at(segment, segment.records[i].page), .to = {}});
    }
    if (Status s = settle(); !s.is_ok()) return s;
    done_.lost += segment.scan.unfinished;
    if (unreadable > 0) {
      ++done_.kept_segments;
      return {};
    }
    if (Status s = contents_.files.remove_segment(segment.scan.number, *contents_.io); !s.is_ok())
      return s;
    done_.bytes_after -= segment.bytes;
    return {};
  }

  /// A batch; it is empty then.
  Status copy(std::vector<tier::RecordCopy>& copies, int64_t& unreadable) {
    for (tier::RecordCopy& copy : copies)
      if (Status s = place(copy); !s.is_ok()) return s;
    if (Status s = tier::copy_records(copies, *contents_.io); !s.is_ok()) return s;
    for (const tier::RecordCopy& copy : copies) {
      if (copy.from.fault == tier::RecordFault::unreadable)
        ++unreadable;
      else if (copy.from.fault != tier::RecordFault::none)
        ++done_.lost;
      else if (copy.to.error != 0)
        return tier::io_failure("write", contents_.files.path_of(copy.to.place.segment),
                                copy.to.error);
      else
        ++done_.pages;
    }
    copies.clear();
    return {};
  }

  Status place(tier::RecordCopy& copy) {
    const int64_t bytes = tier::record_bytes(copy.from.page_bytes);
    if (target_.get() < 0 || target_bytes_ > segment_bytes_ - bytes)
      if (Status s = start(); !s.is_ok()) return s;
    if (const int error = contents_.io->allocate(target_.get(), target_bytes_, bytes); error != 0)
      return tier::io_failure("find room in", contents_.files.path_of(target_number_), error);
    copy.to = {.file = target_.get(),
               .place = {contents_.files.number(), target_number_, target_bytes_},
               .page_bytes = copy.from.page_bytes};
    target_bytes_ += bytes;
    done_.bytes_after += bytes;
    return {};
  }

  Status settle() {
    for (const tier::File& file : full_)
      if (fdatasync(file.get()) != 0)
        return tier::io_failure("write a segment of", contents_.files.path(), errno);
    full_.clear();
    if (target_.get() >= 0 && fdatasync(target_.get()) != 0)
      return tier::io_failure("write", contents_.files.path_of(target_number_), errno);
    return {};
  }

  Status start() {
    for (;; next_ = tier::segment_after(next_)) {
      Result<tier::File> file =
          contents_.files.open_segment(next_, tier::Files::Open::fresh, *contents_.io);
      if (!file && file.error().code() == Errc::busy) continue;
      if (!file) return file.error();
      if (target_.get() >= 0) full_.push_back(std::move(target_));
      target_ = std::move(*file);
      break;
    }
    target_number_ = next_;
    next_ = tier::segment_after(next_);
    target_bytes_ = 0;
    ++done_.new_segments;
    return {};
  }

  tier::Contents& contents_;
  const int64_t segment_bytes_;
  DiskCompaction done_;
  uint64_t next_ = 1, target_number_ = 0;
  tier::File target_;
  std::vector<tier::File> full_;  ///< since the last old segment
  int64_t target_bytes_ = 0;
};

}  // namespace

Result<DiskCompaction> compact_disk_directory(std::string_view directory,
                                              int64_t segment_bytes) noexcept {
  constexpr int64_t least = int64_t{1} << 20, most = int64_t{1} << 40;
  if (segment_bytes < least || segment_bytes > most)
    return fail(Errc::invalid_argument,
                "compact_disk_directory: segment_bytes is {}, expected {} .. {}", segment_bytes,
                least, most);
  try {
    Result<tier::Contents> contents = tier::Contents::open(directory);
    if (!contents) return contents.error();
    if (contents->files.is_read_only())
      return fail(Errc::io, "disk tier: {} is read-only", contents->files.path().c_str());
    Compactor compactor(*contents, segment_bytes);
    if (Status s = compactor.run(); !s.is_ok()) return s;
    return compactor.done();
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "compact_disk_directory: no memory for what it has");
  }
}

}  // namespace folio::inline v1::tier
