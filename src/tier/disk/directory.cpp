// SPDX-License-Identifier: Apache-2.0
/// tier/disk/directory.cpp: the index; room in files is directory_room.cpp's.
#include "tier/disk/directory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <tuple>

#include "tier/file_size_signal.h"

namespace folio::inline v1::tier {
namespace {

constexpr size_t most_marks = 32;  // at once

}  // namespace

// ---- Opening and closing

Result<std::unique_ptr<Directory>> Directory::open(const std::string& path,
                                                   const DirectoryOptions& options, FileIo& io) {
  Result<Files> files = Files::open(path, Files::If::made);
  if (!files) return files.error();
  std::unique_ptr<Directory> directory(new Directory(std::move(*files), options, io));
  directory->marks_ = allocate_io_memory(static_cast<int64_t>(most_marks) * file_block);
  if (directory->marks_ == nullptr)
    return fail(Errc::out_of_memory, "disk tier: no memory for {}", path.c_str());
  if (Status s = directory->read(); !s.is_ok()) return s;
  try {
    directory->marking_ = std::thread([d = directory.get()] { d->mark_dropped(); });
  } catch (const std::system_error& e) {
    return fail(Errc::io, "disk tier: no thread to be had: {}", e.what());
  }
  return directory;
}

Directory::~Directory() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  dropped_some_.notify_all();
  if (marking_.joinable()) marking_.join();
}

Status Directory::read() {
  std::vector<SegmentScan> scans;
  if (Status s = open_segments(scans); !s.is_ok()) return s;
  std::vector<Segment*> segments;
  for (const std::unique_ptr<Segment>& segment : segments_) segments.push_back(segment.get());
  std::vector<std::pair<PageName, Page>> doubles;
  Status s = scan(scans, files_.number(), io_,
                  [&](size_t index, const DiskHeader& header, int64_t offset) {
                    found(*segments[index], header, offset, doubles);
                  });
  if (!s.is_ok()) return s;
  for (size_t i = 0; i < scans.size(); ++i) {
    cut(*segments[i], scans[i].end);
    if (scans[i].error != 0)
      last_fault_ = io_failure("read", files_.path_of(scans[i].number), scans[i].error);
    else if (scans[i].damaged > 0)
      last_fault_ = fail(Errc::io, "disk tier: {} has {} damaged places",
                         files_.path_of(scans[i].number).c_str(), scans[i].damaged);
  }
  if (Status settled = settle(doubles); !settled.is_ok()) return settled;
  for (const auto& [name, page] : pages_) tell(options_.on_change, TierChange::stored, name);
  return {};
}

/// Room that was taken for records, and got none. Nothing is written behind what another began.
void Directory::cut(Segment& segment, int64_t end) {
  const bool cuts = end > 0 && end < segment.allocated && !files_.is_read_only() &&
                    ftruncate(segment.file.get(), end) == 0;
  if (cuts) {
    const std::lock_guard lock(mutex_);
    bytes_ -= segment.allocated - end;
    segment.allocated = end;
  }
  segment.bytes = segment.allocated;
}

/// Oldest first; what is beyond the bound goes unread. A file that cannot be opened is left alone.
Status Directory::open_segments(std::vector<SegmentScan>& scans) {
  Result<std::vector<SegmentFile>> listed = files_.list();
  if (!listed) return listed.error();
  if (!listed->empty()) next_segment_ = segment_after(listed->back().number);
  int64_t bytes = 0;
  const int64_t most = options_.max_bytes;
  for (auto at = listed->rbegin(); at != listed->rend(); ++at) {
    const bool fits = at->bytes <= most - bytes;
    if (fits) bytes += at->bytes;
    if (!fits && !files_.is_read_only()) {
      if (Status s = files_.remove_segment(at->number, io_); !s.is_ok()) return s;
      at->number = 0;
    }
  }
  for (const SegmentFile& file : *listed) {
    if (file.number == 0) continue;
    Result<File> opened = files_.open_segment(file.number, Files::Open::existing, io_);
    if (!opened) {
      last_fault_ = opened.error();
      continue;
    }
    auto segment = std::make_unique<Segment>();
    segment->number = file.number;
    segment->file = std::move(*opened);
    segment->allocated = file.bytes;
    segment->last_use = ++clock_;
    bytes_ += file.bytes;
    scans.push_back({.file = segment->file.get(), .number = file.number, .bytes = file.bytes});
    segments_.push_back(std::move(segment));
  }
  return {};
}

void Directory::found(Segment& segment, const DiskHeader& header, int64_t offset,
                      std::vector<std::pair<PageName, Page>>& doubles) {
  Page page{&segment, offset, header.page.bytes, 0};
  const auto age = [](const Page& p) { return std::tuple(p.segment->number, p.offset); };
  const auto [at, is_new] = pages_.try_emplace(header.page.name, page);
  segment.names.push_back(header.page.name);
  segment.live += record_bytes(page.bytes);
  if (is_new) return;
  if (age(at->second) < age(page)) std::swap(at->second, page);
  doubles.emplace_back(header.page.name, page);
}

/// A page that was stored twice, or copied when its process died: the later record counts if it is
/// whole, and the other one is marked as dropped.
Status Directory::settle(std::span<const std::pair<PageName, Page>> doubles) {
  for (const auto& [name, other] : doubles) {
    Page& later = pages_.at(name);
    RecordAt record{.file = later.segment->file.get(),
                    .place = {files_.number(), later.segment->number, later.offset},
                    .page_bytes = later.bytes};
    if (Status s = check_records({&record, 1}, io_); !s.is_ok()) return s;
    Page loser = other;
    if (record.fault != RecordFault::none) std::swap(loser, later);
    loser.segment->live -= record_bytes(loser.bytes);
    if (files_.is_read_only()) continue;
    ++loser.segment->users;
    dropping_.emplace(name, loser);
  }
  return {};
}

// ---- Pages

bool Directory::has(const PageName& name) const {
  const std::lock_guard lock(mutex_);
  return pages_.contains(name);
}

std::optional<Directory::Held> Directory::find(const PageName& name) {
  const std::lock_guard lock(mutex_);
  const auto at = pages_.find(name);
  if (at == pages_.end()) return std::nullopt;
  Page& page = at->second;
  page.last_use = page.segment->last_use = ++clock_;
  ++page.segment->users;
  return Held(this, page.segment, page.offset, page.bytes);
}

void Directory::put(const PageName& name, const Page& page, Mark mark) {
  const auto at = pages_.find(name);
  const bool is_new = at == pages_.end();
  if (!is_new) unlink(at, mark);
  page.segment->names.push_back(name);
  pages_.emplace(name, page);
  page.segment->live += record_bytes(page.bytes);
  if (is_new) tell(options_.on_change, TierChange::stored, name);
}

void Directory::take_out(Pages::iterator at, Mark mark) {
  tell(options_.on_change, TierChange::removed, at->first);
  unlink(at, mark);
}

/// Takes no memory.
void Directory::unlink(Pages::iterator at, Mark mark) {
  Segment& segment = *at->second.segment;
  segment.live -= record_bytes(at->second.bytes);
  auto node = pages_.extract(at);
  if (mark == Mark::none || files_.is_read_only()) return;
  ++segment.users;
  dropping_.insert(std::move(node));
  dropped_some_.notify_one();
}

void Directory::add(const PageName& name, const Held& place) {
  const std::lock_guard lock(mutex_);
  put(name, {place.segment_, place.offset_, place.bytes_, 0});
  pause_ms_ = options_.first_pause_ms;
}

void Directory::remove(const PageName& name) {
  const std::lock_guard lock(mutex_);
  const auto at = pages_.find(name);
  if (at == pages_.end()) return;
  ++dropped_;
  take_out(at, Mark::dropped);
}

bool Directory::remove(const PageName& name, const Held& place) {
  const std::lock_guard lock(mutex_);
  const auto at = pages_.find(name);
  if (at == pages_.end() || at->second.segment != place.segment_ ||
      at->second.offset != place.offset_)
    return false;
  ++dropped_;
  take_out(at, Mark::dropped);
  return true;
}

void Directory::release(Segment& segment) noexcept {
  const std::lock_guard lock(mutex_);
  if (--segment.users == 0) released_.notify_all();
}

void Directory::visit_names(const NameVisitor& visitor) const {
  const std::lock_guard lock(mutex_);
  std::vector<PageName> names;
  names.reserve(pages_.size());
  for (const auto& [name, page] : pages_) names.push_back(name);
  visitor.function(visitor.context, names);
}

void Directory::count(int64_t& pages, int64_t& bytes, int64_t& dropped) const {
  const std::lock_guard lock(mutex_);
  pages = std::ssize(pages_);
  bytes = bytes_;
  dropped = dropped_;
}

Status Directory::last_fault() const {
  const std::lock_guard lock(mutex_);
  return last_fault_;
}

void Directory::note(Status fault) noexcept {
  const std::lock_guard lock(mutex_);
  last_fault_ = std::move(fault);
}

// ---- Marks of what was dropped

FileOp Directory::mark_of(const std::pair<const PageName, Page>& dropped, std::byte* block) {
  const Page& page = dropped.second;
  const RecordPlace place{files_.number(), page.segment->number, page.offset};
  const DiskHeader header = record_header(payload_header(dropped.first, {}, page.bytes, 0), place,
                                          0, RecordState::dropped);
  std::memset(block, 0, file_block);
  std::memcpy(block, &header, sizeof(header));
  return {.file = page.segment->file.get(),
          .memory = block,
          .bytes = file_block,
          .offset = page.offset,
          .writes = true};
}

void Directory::mark_dropped() noexcept {
  hold_back_file_size_signal();
  std::multimap<PageName, Page> marking;
  FileOp ops[most_marks];
  std::unique_lock lock(mutex_);
  for (;;) {
    dropped_some_.wait(lock, [&] { return is_closing_ || !dropping_.empty(); });
    if (dropping_.empty()) return;
    while (!dropping_.empty() && marking.size() < most_marks)
      marking.insert(dropping_.extract(dropping_.begin()));
    lock.unlock();
    IoMemory memory = marks_.use_count() == 1 ? marks_ : nullptr;  // else a mark never ended
    if (memory == nullptr) memory = allocate_io_memory(most_marks * file_block);
    size_t count = 0;
    if (memory != nullptr)
      for (const auto& dropped : marking) {
        ops[count] = mark_of(dropped, memory->data() + static_cast<int64_t>(count) * file_block);
        ++count;
      }
    io_.run({ops, count}, memory);
    marks_ = std::move(memory);
    lock.lock();
    size_t i = 0;
    for (const auto& dropped : marking) {
      Segment& segment = *dropped.second.segment;
      if (i < count && ops[i].error != 0)
        last_fault_ = fail(Errc::io, "disk tier: cannot mark a dropped page in segment {}: {}",
                           segment.number, std::strerror(ops[i].error));
      ++i;
      if (--segment.users == 0) released_.notify_all();
    }
    marking.clear();
  }
}

}  // namespace folio::inline v1::tier
