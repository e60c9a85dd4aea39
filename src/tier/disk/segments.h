// SPDX-License-Identifier: Apache-2.0
/// tier/disk/segments.h: the files of a directory, and where in them each page is.
///
/// A record is a header block's worth of headers and the page's bytes, padded to whole blocks. Its
/// place and a number of the directory's own stand in the header, so that no bytes of a page can
/// pass for a record.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "folio/tier/disk_tier.h"
#include "tier/disk/file_io.h"
#include "tier/medium.h"
#include "tier/payload.h"

namespace folio::inline v1::tier {

struct DiskHeader {
  PayloadHeader page;
  uint64_t segment = 0, offset = 0;
  Digest256 directory = {};
  uint32_t crc = 0;  ///< of the above
  uint32_t reserved = 0;
};
static_assert(sizeof(DiskHeader) == 184);

constexpr int64_t record_bytes(int64_t page_bytes) {
  const int64_t bytes = static_cast<int64_t>(sizeof(DiskHeader)) + page_bytes;
  return (bytes + file_block - 1) / file_block * file_block;
}

/// An open file, closed with its last user.
struct Segment {
  Segment(uint64_t given_number, int given_file, std::string given_path)
      : number(given_number), file(given_file), path(std::move(given_path)) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  const uint64_t number;
  const int file;
  const std::string path;
  int64_t bytes = 0;      ///< that records have been given
  uint64_t last_use = 0;  ///< in calls of the directory
  bool is_gone = false;   ///< for room; its users still read it
};

struct Place {
  std::shared_ptr<Segment> segment;
  int64_t offset = 0, bytes = 0;  ///< of the page
};

/// Not thread-safe: whoever has one locks.
class Directory {
 public:
  /// Opens, locks and scans it.
  [[nodiscard]] static Result<std::unique_ptr<Directory>> open(const std::string& path,
                                                               int64_t max_bytes,
                                                               int64_t segment_bytes, FileIo& io,
                                                               const TierObserver& observer = {});
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory();

  [[nodiscard]] const Place* find(const PageName& name) const {
    const auto at = pages_.find(name);
    return at == pages_.end() ? nullptr : &at->second;
  }
  void use(const Place& place) noexcept { place.segment->last_use = ++clock_; }
  /// Room for a record; the segments used longest ago go for it. Errors: io
  [[nodiscard]] Result<Place> make_room(int64_t page_bytes);
  [[nodiscard]] DiskHeader header(const PayloadHeader& page, const Place& place) const;
  /// Null, or why a header does not stand where it should.
  [[nodiscard]] const char* fault(const DiskHeader& header, const Place& place) const;
  /// The record is whole. False: its segment went meanwhile.
  [[nodiscard]] bool add(const PageName& name, const Place& place) {
    if (!place.segment->is_gone) put(name, place);
    return !place.segment->is_gone;
  }
  void remove(const PageName& name) {
    if (pages_.erase(name) == 0) return;
    ++dropped_;
    tell(observer_, TierChange::removed, name);
  }

  [[nodiscard]] int64_t pages() const { return std::ssize(pages_); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] int64_t dropped() const { return dropped_; }

 private:
  Directory(std::string path, int64_t max_bytes, int64_t segment_bytes,
            const TierObserver& observer)
      : path_(std::move(path)),
        max_bytes_(max_bytes),
        segment_bytes_(segment_bytes),
        observer_(observer) {}

  [[nodiscard]] Status lock();
  [[nodiscard]] Status read_format();
  [[nodiscard]] Status scan(FileIo& io);
  [[nodiscard]] Status scan_segment(const std::shared_ptr<Segment>& segment, int64_t bytes,
                                    FileIo& io);
  [[nodiscard]] Result<std::shared_ptr<Segment>> open_segment(uint64_t number, bool is_new);
  void remove_oldest();
  void put(const PageName& name, const Place& place) {
    if (pages_.insert_or_assign(name, place).second) tell(observer_, TierChange::stored, name);
  }

  const std::string path_;
  const int64_t max_bytes_, segment_bytes_;
  const TierObserver observer_;
  int lock_ = -1;
  Digest256 number_;  ///< drawn when the directory was made
  std::list<std::shared_ptr<Segment>> segments_;
  std::shared_ptr<Segment> growing_;
  std::map<PageName, Place> pages_;
  uint64_t next_segment_ = 1, clock_ = 0;
  int64_t bytes_ = 0, dropped_ = 0;
};

}  // namespace folio::inline v1::tier
