// SPDX-License-Identifier: Apache-2.0
/// tier/disk/directory.h: the segments of a directory, and where in them each page is.
///
/// Any thread may call. `find`, `has`, `add` and `remove` do no I/O and wait for none; `reserve`
/// makes room for records, one caller after the other, and may wait for those that hold places. A
/// held place's segment stays. Dropped records are marked in their files by a thread of the
/// directory's own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "folio/tier/medium.h"
#include "tier/disk/files.h"
#include "tier/disk/record_io.h"
#include "tier/disk/scan.h"

namespace folio::inline v1::tier {

struct DirectoryOptions {
  int64_t max_bytes = 0, segment_bytes = 0;
  int64_t first_pause_ms = 1000;  ///< after a failure to write; doubles to a minute
  TierObserver on_change = {};
};

struct Segment {
  uint64_t number = 0;
  File file;
  int64_t bytes = 0;            ///< that records have been given
  int64_t allocated = 0;        ///< of the file
  int64_t live = 0;             ///< of records that the index has
  int64_t users = 0;            ///< places that are held
  uint64_t last_use = 0;        ///< in uses of the directory's pages
  std::vector<PageName> names;  ///< of records that the index had
};

class Directory {
 public:
  /// A place whose segment stays where it is.
  class Held {
   public:
    Held(Directory* directory, Segment* segment, int64_t offset, int64_t bytes) noexcept
        : directory_(directory), segment_(segment), offset_(offset), bytes_(bytes) {}
    Held(Held&& other) noexcept
        : directory_(std::exchange(other.directory_, nullptr)),
          segment_(other.segment_),
          offset_(other.offset_),
          bytes_(other.bytes_) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (directory_ != nullptr) directory_->release(*segment_);
    }
    [[nodiscard]] int file() const { return segment_->file.get(); }
    [[nodiscard]] uint64_t segment() const { return segment_->number; }
    [[nodiscard]] int64_t page_bytes() const { return bytes_; }
    [[nodiscard]] RecordPlace place() const {
      return {directory_->files_.number(), segment_->number, offset_};
    }

   private:
    friend class Directory;
    Directory* directory_;
    Segment* segment_;
    int64_t offset_, bytes_;
  };

  /// Opens, locks and scans it. Errors: as Files::open's
  [[nodiscard]] static Result<std::unique_ptr<Directory>> open(const std::string& path,
                                                               const DirectoryOptions& options,
                                                               FileIo& io);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  /// Marks what has been dropped.
  ~Directory();

  [[nodiscard]] bool has(const PageName& name) const;
  /// The page has been used.
  [[nodiscard]] std::optional<Held> find(const PageName& name);
  struct Wanted {
    PageName name;
    int64_t bytes = 0;      ///< of the page
    bool is_there = false;  ///< it was when its turn came, and got no place
  };
  /// Room for records of these pages, all or none; the segments used longest ago go for it, after
  /// their pages that have been used, a quarter of a segment at most, were copied. One page after
  /// another is looked for: the room for one may cost another. Where the device is full before the
  /// bound is reached, they go as by `give_up`, once. Errors: io, or out_of_memory where the device
  /// is full still; the same again, at once, during the pause after it
  [[nodiscard]] Status reserve(std::span<Wanted> pages, std::vector<Held>& places);
  /// The device is full: the segments used longest ago go, for so many bytes at least, and without
  /// copies, for which there is no room. Whether one has gone. The caller holds no places.
  [[nodiscard]] bool give_up(int64_t bytes);
  /// The record is whole.
  void add(const PageName& name, const Held& place);
  /// Nothing has been written there that counts, nor will be.
  void give_back(const Held& place);
  /// It could not be written: `reserve` fails for a while.
  void pause(Status fault);
  /// Not found any more; its file is told later.
  void remove(const PageName& name);
  /// The same, where it is still this place's.
  bool remove(const PageName& name, const Held& place);

  [[nodiscard]] std::string path_of(const Held& place) const {
    return files_.path_of(place.segment());
  }
  void visit_names(const NameVisitor& visitor) const;
  void count(int64_t& pages, int64_t& bytes, int64_t& dropped) const;
  [[nodiscard]] Status last_fault() const;
  void note(Status fault) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Page {
    Segment* segment = nullptr;
    int64_t offset = 0, bytes = 0;
    uint64_t last_use = 0;  ///< 0: not since it was written there
  };
  using Pages = std::map<PageName, Page>;

  Directory(Files files, const DirectoryOptions& options, FileIo& io)
      : files_(std::move(files)), options_(options), io_(io), pause_ms_(options.first_pause_ms) {}

  // When it is opened.
  [[nodiscard]] Status read();
  [[nodiscard]] Status open_segments(std::vector<SegmentScan>& scans);
  void found(Segment& segment, const DiskHeader& header, int64_t offset,
             std::vector<std::pair<PageName, Page>>& doubles);
  [[nodiscard]] Status settle(std::span<const std::pair<PageName, Page>> doubles);

  void cut(Segment& segment, int64_t end);

  // Room: `room_mutex_` is held.
  enum class Room : uint8_t { made, spare };  ///< segments go for it, or it is there for copies
  [[nodiscard]] Status place_all(std::span<Wanted> pages, std::vector<Held>& places);
  [[nodiscard]] Status place(int64_t page_bytes, Room room, std::vector<Held>& places);
  [[nodiscard]] int64_t piece_of(int64_t need) const;
  [[nodiscard]] bool has_room(int64_t bytes) const;
  [[nodiscard]] Status grow(int64_t bytes);
  [[nodiscard]] Status start_segment();
  [[nodiscard]] Status make_room(int64_t bytes);
  [[nodiscard]] Segment* take_oldest();
  [[nodiscard]] bool give_up_oldest(int64_t bytes);
  struct Rescue {
    PageName name;
    Page page;
  };
  [[nodiscard]] std::vector<Rescue> used_pages(Segment& segment);
  [[nodiscard]] Status rescue(Segment& segment);
  [[nodiscard]] Status evict(Segment& segment);
  void take_back(std::vector<Held>& places);
  void take_back(const Held& place);
  [[nodiscard]] int64_t spare_bytes() const { return options_.segment_bytes / 4; }

  // The index: `mutex_` is held.
  enum class Mark : uint8_t { none, dropped };  ///< in the file
  /// Instead of another record of the page, which gets the mark, if there is one.
  void put(const PageName& name, const Page& page, Mark mark = Mark::dropped);
  void take_out(Pages::iterator at, Mark mark);
  void unlink(Pages::iterator at, Mark mark);
  void release(Segment& segment) noexcept;
  void mark_dropped() noexcept;
  [[nodiscard]] FileOp mark_of(const std::pair<const PageName, Page>& dropped, std::byte* block);

  const Files files_;
  const DirectoryOptions options_;
  FileIo& io_;

  std::mutex room_mutex_;       ///< taken before `mutex_`
  Segment* growing_ = nullptr;  ///< this and the next: by `room_mutex_`
  uint64_t next_segment_ = 1;

  mutable std::mutex mutex_;
  std::condition_variable released_, dropped_some_;
  std::list<std::unique_ptr<Segment>> segments_;
  Pages pages_;
  std::multimap<PageName, Page> dropping_;  ///< to be marked; each holds its segment
  uint64_t clock_ = 0;
  int64_t bytes_ = 0, dropped_ = 0;
  Status last_fault_, pause_reason_;
  Clock::time_point pause_end_;
  int64_t pause_ms_;
  bool is_closing_ = false;
  IoMemory marks_;  ///< of the thread that marks
  std::thread marking_;
};

}  // namespace folio::inline v1::tier
