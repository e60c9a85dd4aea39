// SPDX-License-Identifier: Apache-2.0
#include "tier/disk/segments.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "folio/core/buffer.h"

namespace folio::inline v1::tier {
namespace {

namespace fs = std::filesystem;

constexpr char format_name[] = "folio disk tier";
constexpr int format_version = 1;

Status io_failure(const char* what, const std::string& path, int error) {
  return fail(error == ENOMEM ? Errc::out_of_memory : Errc::io, "disk tier: cannot {} {}: {}", what,
              path.c_str(), std::strerror(error));
}

struct FileCloser {
  int file;
  ~FileCloser() { close(file); }
};

/// The number in the name of a segment, or 0.
uint64_t number_of(const std::string& name) {
  constexpr std::string_view ending = ".pages";
  if (!name.ends_with(ending)) return 0;
  uint64_t number = 0;
  const char* const last = name.data() + name.size() - ending.size();
  const auto [end, error] = std::from_chars(name.data(), last, number);
  return error == std::errc() && end == last ? number : 0;
}

uint32_t crc_of(const DiskHeader& header) {
  return extend_crc(0, reinterpret_cast<const std::byte*>(&header), offsetof(DiskHeader, crc));
}

}  // namespace

Segment::~Segment() { close(file); }

Directory::~Directory() {
  if (lock_ >= 0) close(lock_);
}

Result<std::unique_ptr<Directory>> Directory::open(const std::string& path, int64_t max_bytes,
                                                   int64_t segment_bytes, FileIo& io,
                                                   const TierObserver& observer) {
  std::unique_ptr<Directory> directory(new Directory(path, max_bytes, segment_bytes, observer));
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return io_failure("make", path, error.value());
  if (Status s = directory->lock(); !s.is_ok()) return s;
  if (Status s = directory->read_format(); !s.is_ok()) return s;
  if (Status s = directory->scan(io); !s.is_ok()) return s;
  return directory;
}

Status Directory::lock() {
  const std::string path = path_ + "/lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) return io_failure("open", path, errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return io_failure("lock", path, errno);
  return fail(Errc::busy, "disk tier: {} belongs to another tier", path_.c_str());
}

/// "folio disk tier 1\n" and 32 bytes.
Status Directory::read_format() {
  const std::string path = path_ + "/format";
  const std::string head = std::string(format_name) + " " + std::to_string(format_version) + "\n";
  std::string text(head.size() + number_.bytes.size(), '\0');
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    const FileCloser closer{file};
    const ssize_t count = read(file, text.data(), text.size());
    if (count < 0) return io_failure("read", path, errno);
    if (static_cast<size_t>(count) == text.size() && text.starts_with(head)) {
      std::memcpy(number_.bytes.data(), text.data() + head.size(), number_.bytes.size());
      return {};
    }
    return fail(Errc::unsupported, "disk tier: {} is not of version {}", path.c_str(),
                format_version);
  }
  if (errno != ENOENT) return io_failure("open", path, errno);
  if (getrandom(number_.bytes.data(), number_.bytes.size(), 0) !=
      static_cast<ssize_t>(number_.bytes.size()))
    return io_failure("draw a number for", path, errno);
  std::copy(head.begin(), head.end(), text.begin());
  std::memcpy(text.data() + head.size(), number_.bytes.data(), number_.bytes.size());
  const std::string half = path + ".new";
  const int made = ::open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (made < 0) return io_failure("make", half, errno);
  const FileCloser closer{made};
  if (write(made, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return io_failure("write", half, errno);
  return rename(half.c_str(), path.c_str()) == 0 ? Status() : io_failure("name", path, errno);
}

// ---- Segments

Result<std::shared_ptr<Segment>> Directory::open_segment(uint64_t number, bool is_new) {
  const std::string path = path_ + "/" + std::to_string(number) + ".pages";
  const int flags = O_RDWR | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0);
  int file = ::open(path.c_str(), flags | O_DIRECT, 0644);
  if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags & ~O_EXCL, 0644);
  if (file < 0) return io_failure(is_new ? "make" : "open", path, errno);
  return std::make_shared<Segment>(number, file, path);
}

Status Directory::scan(FileIo& io) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error))
    if (const uint64_t number = number_of(at->path().filename()); number != 0)
      numbers.push_back(number);
  if (error) return io_failure("list", path_, error.value());
  std::sort(numbers.begin(), numbers.end());
  for (const uint64_t number : numbers) {
    Result<std::shared_ptr<Segment>> segment = open_segment(number, false);
    if (!segment) return segment.error();
    struct stat status {};
    if (fstat((*segment)->file, &status) != 0)
      return io_failure("look at", (*segment)->path, errno);
    (*segment)->last_use = ++clock_;
    if (Status s = scan_segment(*segment, status.st_size, io); !s.is_ok()) return s;
    bytes_ += (*segment)->bytes;
    segments_.push_back(std::move(*segment));
    next_segment_ = number + 1;
  }
  while (bytes_ > max_bytes_ && !segments_.empty()) remove_oldest();
  return {};
}

Status Directory::scan_segment(const std::shared_ptr<Segment>& segment, int64_t bytes, FileIo& io) {
  const Result<Buffer> memory = Buffer::allocate(2 * file_block);
  if (!memory) return memory.error();
  auto address = reinterpret_cast<uintptr_t>(memory->data());
  std::byte* const block = memory->data() + (file_block - address % file_block) % file_block;
  for (int64_t offset = 0; offset + file_block <= bytes;) {
    FileOp read{.file = segment->file, .memory = block, .bytes = file_block, .offset = offset};
    io.run({&read, 1});
    DiskHeader header;
    std::memcpy(&header, block, sizeof(header));
    const Place place{segment, offset, header.page.bytes};
    const bool is_record = read.error == 0 && fault(header, place) == nullptr &&
                           record_bytes(header.page.bytes) <= bytes - offset;
    if (is_record) put(header.page.name, place);
    offset += is_record ? record_bytes(header.page.bytes) : file_block;
  }
  segment->bytes = bytes / file_block * file_block;
  return {};
}

void Directory::remove_oldest() {
  const auto oldest =
      std::min_element(segments_.begin(), segments_.end(),
                       [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
  dropped_ += static_cast<int64_t>(std::erase_if(pages_, [&](const auto& page) {
    const bool goes = page.second.segment == *oldest;
    if (goes) tell(observer_, TierChange::removed, page.first);
    return goes;
  }));
  unlink((*oldest)->path.c_str());
  (*oldest)->is_gone = true;
  bytes_ -= (*oldest)->bytes;
  if (growing_ == *oldest) growing_ = nullptr;
  segments_.erase(oldest);
}

Result<Place> Directory::make_room(int64_t page_bytes) {
  const int64_t bytes = record_bytes(page_bytes);
  while (bytes_ > max_bytes_ - bytes && !segments_.empty()) remove_oldest();
  if (growing_ == nullptr || growing_->bytes > segment_bytes_ - bytes) {
    Result<std::shared_ptr<Segment>> made = open_segment(next_segment_, true);
    if (!made) return made.error();
    ++next_segment_;
    growing_ = *made;
    segments_.push_back(std::move(*made));
  }
  growing_->last_use = ++clock_;
  const Place place{growing_, growing_->bytes, page_bytes};
  growing_->bytes += bytes;
  bytes_ += bytes;
  return place;
}

// ---- Headers

DiskHeader Directory::header(const PayloadHeader& page, const Place& place) const {
  DiskHeader header{.page = page,
                    .segment = place.segment->number,
                    .offset = static_cast<uint64_t>(place.offset),
                    .directory = number_};
  header.crc = crc_of(header);
  return header;
}

const char* Directory::fault(const DiskHeader& header, const Place& place) const {
  if (header.crc != crc_of(header)) return "a damaged header";
  if (header.directory != number_ || header.segment != place.segment->number ||
      header.offset != static_cast<uint64_t>(place.offset))
    return "a record of another place";
  return fault_of(header.page);
}

}  // namespace folio::inline v1::tier
