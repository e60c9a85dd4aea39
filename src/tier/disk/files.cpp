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

#include "tier/file_size_signal.h"

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

bool is_regular(int file) {
  struct stat status {};
  return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

/// Onto the device; returns errno.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return fsync(file) == 0 ? 0 : errno;
}

Status no_file(const std::string& path) {
  return fail(Errc::io, "disk tier: {} is no regular file", path.c_str());
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool means_full(int error) { return error == ENOSPC || error == EDQUOT; }

Status io_failure(const char* what, const std::string& path, int error) {
  return fail(means_full(error) ? Errc::out_of_memory : Errc::io, "disk tier: cannot {} {}: {}",
              what, path.c_str(), std::strerror(error));
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
/// waited for no longer than that. Nor is a pipe of that name.
Status Files::lock() {
  const std::string path = path_ + "/lock";
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  is_read_only_ = faccessat(directory_.get(), ".", W_OK, AT_EACCESS) != 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int at = directory_.get();
    lock_ = File(::openat(at, "lock", O_RDWR | O_CREAT | flags, 0644));
    if (lock_.get() < 0 && means_read_only(errno)) {
      is_read_only_ = true;
      lock_ = File(::openat(at, "lock", O_RDONLY | flags));
    }
    if (lock_.get() < 0) return io_failure("open", path, errno);
    if (!is_regular(lock_.get())) return no_file(path);
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
  const File file(
      ::openat(directory_.get(), "format", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() >= 0) {
    if (!is_regular(file.get())) return no_file(path);
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
/// Until then it has a name that nobody else's file has.
Status Files::make_format() {
  const std::string path = path_ + "/format";
  const FileSizeSignalHeld held;
  if (getrandom(number_.bytes.data(), number_.bytes.size(), 0) !=
      static_cast<ssize_t>(number_.bytes.size()))
    return io_failure("draw a number for", path, errno);
  std::string text = std::string(format_name) + std::to_string(format_version) + "\n";
  text.append(reinterpret_cast<const char*>(number_.bytes.data()), number_.bytes.size());
  uint64_t drawn = 0;
  std::memcpy(&drawn, number_.bytes.data(), sizeof(drawn));
  const std::string name = "format." + std::to_string(drawn);
  const int at = directory_.get();
  const File made(
      ::openat(at, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (made.get() < 0) return io_failure("make", path, errno);
  Status s;
  if (const int error = write_all(made.get(), text); error != 0)
    s = io_failure("write", path, error);
  else if (renameat(at, name.c_str(), at, "format") != 0)
    s = io_failure("name", path, errno);
  if (!s.is_ok()) unlinkat(at, name.c_str(), 0);
  fsync(at);  // a file system that cannot has no such order to lose
  return s;
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
  const std::string name = name_of(segment);
  int file = io.open(directory_.get(), name.c_str(), flags);
  if (!is_new && file < 0 && means_read_only(-file))
    file = io.open(directory_.get(), name.c_str(), O_RDONLY);
  if (is_new && file == -EEXIST)
    return fail(Errc::busy, "disk tier: {} is there already", path_of(segment).c_str());
  if (file < 0) return io_failure(is_new ? "make" : "open", path_of(segment), -file);
  File opened(file);
  if (!is_regular(file)) return no_file(path_of(segment));  // it has become another thing
  return opened;
}

Status Files::remove_segment(uint64_t segment, FileIo& io) const {
  const int error = io.remove(directory_.get(), name_of(segment).c_str());
  return error == 0 || error == ENOENT ? Status() : io_failure("remove", path_of(segment), error);
}

}  // namespace folio::inline v1::tier
