// SPDX-License-Identifier: Apache-2.0
/// tier/disk/files.cpp: whose a directory is, and its files.
#include "tier/disk/files.h"

#include <dirent.h>
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

namespace folio::inline v1::tier {
namespace {

constexpr std::string_view format_name = "folio disk tier ";
constexpr uint64_t format_version = 1;
constexpr std::string_view segment_ending = ".pages";

std::string name_of(uint64_t segment) {
  return std::to_string(segment) + std::string(segment_ending);
}

/// The number in the name of a segment, or 0.
uint64_t number_of(const std::string& name) {
  if (!name.ends_with(segment_ending)) return 0;
  uint64_t number = 0;
  const char* const last = name.data() + name.size() - segment_ending.size();
  const auto [end, error] = std::from_chars(name.data(), last, number);
  const bool is_ours = error == std::errc() && number <= most_segments && name_of(number) == name;
  return is_ours ? number : 0;
}

bool means_read_only(int error) { return error == EROFS || error == EACCES || error == EPERM; }

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status io_failure(const char* what, const std::string& path, int error) {
  const Errc code =
      error == ENOMEM || error == ENOSPC || error == EDQUOT ? Errc::out_of_memory : Errc::io;
  return fail(code, "disk tier: cannot {} {}: {}", what, path.c_str(), std::strerror(error));
}

Result<Files> Files::open(const std::string& path, If which) {
  Files files(path);
  if (which == If::made) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return io_failure("make", path, error.value());
  }
  files.directory_ = File(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (files.directory_.get() < 0) return io_failure("open", path, errno);
  if (which == If::there)  // nothing is written into a foreign directory
    if (Status s = files.read_format(which); !s.is_ok()) return s;
  if (Status s = files.lock(); !s.is_ok()) return s;
  if (Status s = files.read_format(which); !s.is_ok()) return s;
  return files;
}

/// The lock is the file's that has the name when the lock is there: who deletes it meanwhile is
/// waited for no longer than that.
Status Files::lock() {
  const std::string path = path_ + "/lock";
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int at = directory_.get();
    lock_ = File(::openat(at, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (lock_.get() < 0 && means_read_only(errno)) {
      is_read_only_ = true;
      lock_ = File(::openat(at, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    }
    if (lock_.get() < 0) return io_failure("open", path, errno);
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return io_failure("lock", path, errno);
      return fail(Errc::busy, "disk tier: {} belongs to another tier or tool", path_.c_str());
    }
    struct stat locked {
    }, named{};
    if (fstat(lock_.get(), &locked) == 0 && fstatat(at, "lock", &named, 0) == 0 &&
        locked.st_ino == named.st_ino)
      return {};
  }
  return fail(Errc::io, "disk tier: {} is replaced all the time", path.c_str());
}

/// "folio disk tier 1\n" and 32 bytes.
Status Files::read_format(If which) {
  const std::string path = path_ + "/format";
  const File file(::openat(directory_.get(), "format", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() >= 0) {
    char text[256];
    const ssize_t count = read(file.get(), text, sizeof(text));
    if (count < 0) return io_failure("read", path, errno);
    return take_format({text, static_cast<size_t>(count)});
  }
  if (errno != ENOENT) return io_failure("open", path, errno);
  const Result<std::vector<SegmentFile>> segments = list();
  if (!segments) return segments.error();
  if (which == If::there || !segments->empty())
    return fail(Errc::invalid_argument,
                "disk tier: {} is no directory of a disk tier: it has no file \"format\"{}",
                path_.c_str(), segments->empty() ? "" : ", but files with the names of its own");
  return make_format();
}

Status Files::take_format(std::string_view text) {
  uint64_t version = 0;
  const char* const last = text.data() + text.size();
  const char* at = text.data() + std::min(text.size(), format_name.size());
  const auto [end, error] = std::from_chars(at, last, version);
  const bool is_ours = text.starts_with(format_name) && error == std::errc() && end != last &&
                       *end == '\n' && number_.bytes.size() == static_cast<size_t>(last - end - 1);
  const std::string path = path_ + "/format";
  if (text.starts_with(format_name) && error == std::errc() && version != format_version)
    return fail(
        Errc::unsupported, "disk tier: {} is of version {}, expected {}{}", path.c_str(), version,
        format_version,
        version > format_version ? "" : ": remove the directory, and pages are stored anew");
  if (!is_ours)
    return fail(Errc::invalid_argument, "disk tier: {} is not what a disk tier writes",
                path.c_str());
  std::memcpy(number_.bytes.data(), end + 1, number_.bytes.size());
  return {};
}

/// Named when it is on the device: a directory whose format were lost could not be opened again.
Status Files::make_format() {
  const std::string path = path_ + "/format";
  if (getrandom(number_.bytes.data(), number_.bytes.size(), 0) !=
      static_cast<ssize_t>(number_.bytes.size()))
    return io_failure("draw a number for", path, errno);
  std::string text = std::string(format_name) + std::to_string(format_version) + "\n";
  text.append(reinterpret_cast<const char*>(number_.bytes.data()), number_.bytes.size());
  const int at = directory_.get();
  const File made(::openat(at, "format.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (made.get() < 0) return io_failure("make", path, errno);
  if (write(made.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(made.get()) != 0)
    return io_failure("write", path, errno);
  if (renameat(at, "format.new", at, "format") != 0) return io_failure("name", path, errno);
  fsync(at);  // a file system that cannot has no such order to lose
  return {};
}

// ---- Segments

std::string Files::path_of(uint64_t segment) const { return path_ + "/" + name_of(segment); }

Result<std::vector<SegmentFile>> Files::list() const {
  const int copy = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) {
    const int error = errno;
    if (copy >= 0) close(copy);
    return io_failure("list", path_, error);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(entries, closedir);
  std::vector<SegmentFile> segments;
  for (const dirent* entry = nullptr; (entry = readdir(entries)) != nullptr;) {
    const uint64_t number = number_of(entry->d_name);
    struct stat status {};
    if (number == 0 || fstatat(copy, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(status.st_mode)) segments.push_back({number, status.st_size});
  }
  std::sort(segments.begin(), segments.end(),
            [](const SegmentFile& a, const SegmentFile& b) { return a.number < b.number; });
  return segments;
}

Result<File> Files::open_segment(uint64_t segment, Open how, FileIo& io) const {
  const bool is_new = how == Open::fresh;
  const int flags = (is_read_only_ ? O_RDONLY : O_RDWR) | (is_new ? O_CREAT | O_EXCL : 0);
  const int file = io.open(directory_.get(), name_of(segment).c_str(), flags);
  if (is_new && file == -EEXIST)
    return fail(Errc::busy, "disk tier: {} is there already", path_of(segment).c_str());
  if (file < 0) return io_failure(is_new ? "make" : "open", path_of(segment), -file);
  return File(file);
}

Status Files::remove_segment(uint64_t segment, FileIo& io) const {
  const int error = io.remove(directory_.get(), name_of(segment).c_str());
  return error == 0 || error == ENOENT ? Status() : io_failure("remove", path_of(segment), error);
}

}  // namespace folio::inline v1::tier
