// SPDX-License-Identifier: Apache-2.0
/// tier/disk/directory_room.cpp: room for records, and the segments that go for it.
///
/// Files grow by pieces that are asked of the file system beforehand: writes into them need not
/// wait for one another, as those that lengthen a file would. Their bytes and a quarter of a
/// segment for copies are within the bound, so that it is kept while a segment is emptied.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tier/disk/directory.h"

namespace folio::inline v1::tier {
namespace {

constexpr int64_t most_piece_bytes = 16 << 20;
constexpr int64_t longest_pause_ms = 60'000;
constexpr size_t names_at_once = 256;  // while others wait for the index

}  // namespace

Status Directory::reserve(std::span<Wanted> pages, std::vector<Held>& places) {
  const std::lock_guard room(room_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < pause_end_) return pause_reason_;
  }
  if (files_.is_read_only()) {
    Status s = fail(Errc::io, "disk tier: {} is read-only", files_.path().c_str());
    note(s);
    return s;
  }
  places.reserve(pages.size());
  Status s = place_all(pages, places);
  if (s.code() == Errc::out_of_memory) {
    int64_t bytes = 0;
    for (const Wanted& page : pages) bytes += record_bytes(page.bytes);
    if (give_up_oldest(bytes)) s = place_all(pages, places);
  }
  if (!s.is_ok()) pause(s);
  return s;
}

Status Directory::place_all(std::span<Wanted> pages, std::vector<Held>& places) {
  for (Wanted& page : pages) {
    page.is_there = has(page.name);
    Status s = page.is_there ? Status() : place(page.bytes, Room::made, places);
    if (s.is_ok()) continue;
    take_back(places);
    return s;
  }
  return {};
}

/// Copies for which room is made may fill the growing segment, so each turn looks anew.
Status Directory::place(int64_t page_bytes, Room room, std::vector<Held>& places) {
  const int64_t bytes = record_bytes(page_bytes);
  for (;;) {
    if (growing_ == nullptr || growing_->bytes > options_.segment_bytes - bytes)
      if (Status s = start_segment(); !s.is_ok()) return s;
    const int64_t need = growing_->bytes + bytes - growing_->allocated;
    if (need <= 0) break;
    const int64_t piece = room == Room::made ? piece_of(need) : need;
    if (room == Room::spare || has_room(piece)) {
      Status s = grow(piece);
      if (s.code() == Errc::out_of_memory && need < piece) s = grow(need);  // what is left of it
      if (!s.is_ok()) return s;
      break;
    }
    if (Status s = make_room(piece); !s.is_ok()) return s;
  }
  {
    const std::lock_guard lock(mutex_);
    growing_->last_use = ++clock_;
    ++growing_->users;
  }
  places.emplace_back(this, growing_, growing_->bytes, page_bytes);
  growing_->bytes += bytes;
  return {};
}

int64_t Directory::piece_of(int64_t need) const {
  const int64_t usual = std::min(options_.segment_bytes / 16, most_piece_bytes);
  return std::min(std::max(need, usual / file_block * file_block),
                  options_.segment_bytes - growing_->allocated);
}

bool Directory::has_room(int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return bytes_ <= options_.max_bytes - spare_bytes() - bytes;
}

Status Directory::grow(int64_t bytes) {
  Segment& segment = *growing_;
  if (const int error = io_.allocate(segment.file.get(), segment.allocated, bytes); error != 0)
    return io_failure("find room in", files_.path_of(segment.number), error);
  const std::lock_guard lock(mutex_);
  segment.allocated += bytes;
  bytes_ += bytes;
  return {};
}

/// Names that something else has are passed over.
Status Directory::start_segment() {
  if (growing_ != nullptr) cut(*growing_, growing_->bytes);
  growing_ = nullptr;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const uint64_t number = next_segment_;
    next_segment_ = segment_after(number);
    Result<File> file = files_.open_segment(number, Files::Open::fresh, io_);
    if (!file && file.error().code() == Errc::busy) continue;
    if (!file) {
      next_segment_ = number;
      return file.error();
    }
    auto segment = std::make_unique<Segment>();
    segment->number = number;
    segment->file = std::move(*file);
    growing_ = segment.get();
    const std::lock_guard lock(mutex_);
    segments_.push_back(std::move(segment));
    return {};
  }
  return fail(Errc::io, "disk tier: {} has files of others with the names of the next segments",
              files_.path().c_str());
}

/// The last one first.
void Directory::take_back(std::vector<Held>& places) {
  for (; !places.empty(); places.pop_back()) take_back(places.back());
}

void Directory::take_back(const Held& place) {
  if (place.segment_ == growing_ && place.offset_ + record_bytes(place.bytes_) == growing_->bytes)
    growing_->bytes = place.offset_;
}

/// Not while another makes room: it may wait for what this caller holds.
void Directory::give_back(const Held& place) {
  if (const std::unique_lock room(room_mutex_, std::try_to_lock); room) take_back(place);
}

void Directory::pause(Status fault) {
  const std::lock_guard lock(mutex_);
  pause_end_ = Clock::now() + std::chrono::milliseconds(pause_ms_);
  pause_ms_ = std::min(2 * pause_ms_, longest_pause_ms);
  last_fault_ = pause_reason_ = std::move(fault);
}

// ---- Segments that go

Status Directory::make_room(int64_t bytes) {
  while (!has_room(bytes)) {
    Segment* const oldest = take_oldest();
    if (oldest == nullptr)
      return fail(Errc::out_of_memory, "disk tier: {} has no room for {} bytes",
                  files_.path().c_str(), bytes);
    // what an earlier tier left may fill the bound
    Status rescued = has_room(0) ? rescue(*oldest) : Status();
    if (!rescued.is_ok()) note(std::move(rescued));  // its pages are lost, then
    if (Status s = evict(*oldest); !s.is_ok()) return s;
  }
  return {};
}

bool Directory::give_up(int64_t bytes) {
  const std::lock_guard room(room_mutex_);
  return give_up_oldest(bytes);
}

/// The growing one, too, where there is no other: then it has all that the tier has.
bool Directory::give_up_oldest(int64_t bytes) {
  int64_t gone = 0;
  while (gone < bytes) {
    Segment* oldest = take_oldest();
    if (oldest == nullptr && growing_ != nullptr && growing_->bytes != 0) {
      growing_ = nullptr;
      oldest = take_oldest();
    }
    if (oldest == nullptr) break;
    const int64_t allocated = oldest->allocated;
    if (Status s = evict(*oldest); !s.is_ok()) {
      note(std::move(s));
      break;
    }
    gone += allocated;
  }
  return gone != 0;
}

/// The segment without pages, or whose pages were used longest ago, that nobody holds; held now.
Segment* Directory::take_oldest() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Segment* oldest = nullptr;
    bool has_others = false;
    const auto age = [](const Segment& s) { return std::pair(s.live != 0, s.last_use); };
    for (const std::unique_ptr<Segment>& segment : segments_) {
      if (segment.get() == growing_) continue;
      has_others = true;
      if (segment->users == 0 && (oldest == nullptr || age(*segment) < age(*oldest)))
        oldest = segment.get();
    }
    if (oldest != nullptr) ++oldest->users;
    if (oldest != nullptr || !has_others) return oldest;
    released_.wait(lock);
  }
}

/// Those used last come first; as many as the spare room takes.
std::vector<Directory::Rescue> Directory::used_pages(Segment& segment) {
  std::vector<Rescue> used;
  for (size_t first = 0; first < segment.names.size(); first += names_at_once) {
    const std::lock_guard lock(mutex_);
    for (size_t i = first; i < std::min(first + names_at_once, segment.names.size()); ++i) {
      const auto at = pages_.find(segment.names[i]);
      if (at != pages_.end() && at->second.segment == &segment && at->second.last_use != 0)
        used.push_back({at->first, at->second});
    }
  }
  const auto later = [](const Rescue& a, const Rescue& b) {
    return std::pair(a.page.last_use, a.page.offset) > std::pair(b.page.last_use, b.page.offset);
  };
  std::sort(used.begin(), used.end(), later);
  const auto same = [](const Rescue& a, const Rescue& b) { return a.page.offset == b.page.offset; };
  used.erase(std::unique(used.begin(), used.end(), same), used.end());
  size_t count = 0;
  for (int64_t bytes = 0; count < used.size(); ++count) {
    bytes += record_bytes(used[count].page.bytes);
    if (bytes > spare_bytes()) break;
  }
  used.resize(count);
  return used;
}

Status Directory::rescue(Segment& segment) {
  const std::vector<Rescue> used = used_pages(segment);
  std::vector<Held> places;
  places.reserve(used.size());
  std::vector<RecordCopy> copies;
  for (const Rescue& r : used) {
    if (Status s = place(r.page.bytes, Room::spare, places); !s.is_ok()) {
      take_back(places);
      return s;
    }
    const RecordPlace from{files_.number(), segment.number, r.page.offset};
    const Held& to = places.back();
    copies.push_back({.from = {segment.file.get(), from, r.page.bytes},
                      .to = {to.file(), to.place(), r.page.bytes}});
  }
  if (Status s = copy_records(copies, io_); !s.is_ok()) return s;
  for (size_t i = 0; i < used.size(); ++i) {
    if (copies[i].from.fault != RecordFault::none || copies[i].to.error != 0) continue;
    const std::lock_guard lock(mutex_);
    const auto at = pages_.find(used[i].name);
    if (at == pages_.end() || at->second.segment != &segment) continue;  // dropped meanwhile
    put(used[i].name, {places[i].segment_, places[i].offset_, places[i].bytes_, 0}, Mark::none);
  }
  return {};
}

/// Its pages go first, so that nobody takes hold of it any more.
Status Directory::evict(Segment& segment) {
  for (size_t first = 0; first < segment.names.size(); first += names_at_once) {
    const std::lock_guard lock(mutex_);
    for (size_t i = first; i < std::min(first + names_at_once, segment.names.size()); ++i) {
      const auto at = pages_.find(segment.names[i]);
      if (at == pages_.end() || at->second.segment != &segment) continue;
      ++dropped_;
      take_out(at, Mark::none);
    }
  }
  {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return segment.users == 1; });
    segment.names.clear();
  }
  Status removed = files_.remove_segment(segment.number, io_);
  std::unique_ptr<Segment> gone;
  const int64_t bytes = segment.allocated;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(segments_.begin(), segments_.end(),
                                 [&](const auto& s) { return s.get() == &segment; });
    segment.users = 0;
    if (!removed.is_ok()) return removed;
    gone = std::move(*at);
    segments_.erase(at);
  }
  gone = nullptr;  // its file is closed
  const std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  return {};
}

}  // namespace folio::inline v1::tier
