// SPDX-License-Identifier: Apache-2.0
/// cli/parts/output_file.cpp: a part that takes the target's place, or what is there already.
#include "parts/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "parts/output_place.h"
#include "parts/streams.h"

namespace folio::cli {
namespace {

/// A copy, or -1.
int copy_for_writing(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  errno = EBADF;
  return -1;
}

}  // namespace

Status OutputFile::failed(int error, const std::string& more) const {
  return {Errc::io, fmt::format("{}: cannot write {}: {}{}", option_, path_,
                                std::generic_category().message(error), more)};
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status OutputFile::open(const std::string& path) {
  path_ = path;
  if (path.empty()) return {};
  const int error = open_place();
  if (error != 0) part_.remove();
  return error == 0 ? Status() : failed(error);
}

int OutputFile::open_place() {
  const Place place = place_of(path_);
  if (place.descriptor >= 0) {
    descriptor_ = copy_for_writing(place.descriptor);
    return descriptor_ >= 0 ? 0 : errno;
  }
  struct stat there = {};
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return errno;
  if (exists && S_ISDIR(there.st_mode)) return EISDIR;
  if (exists && !S_ISREG(there.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return descriptor_ >= 0 ? 0 : errno;
  }
  // A file that may not be written stays as it is, though its folder would let it be replaced.
  if (exists && ::access(path_.c_str(), W_OK) != 0) return errno;
  target_ = place.path;
  return part_.make(target_);
}

Status OutputFile::write(std::string_view text) {
  if (!is_open()) return {};
  if (!part_.is_made()) {
    const int error = write_place(text);
    return error == 0 ? Status() : failed(error);
  }
  if (const int error = part_.write(text); error != 0) {
    part_.remove();
    return failed(error);
  }
  if (const int error = part_.replace(target_); error != 0)
    return failed(error, fmt::format("; what it was to have is in {}", part_.path()));
  return {};
}

int OutputFile::write_place(std::string_view text) {
  flush_output();
  const int error = write_all(descriptor_, text);
  const int closing = ::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno;
  return error != 0 ? error : closing;
}

Status joined(const Status& first, const Status& second) {
  if (first.is_ok()) return second;
  if (second.is_ok()) return first;
  return {first.code(), fmt::format("{}; {}", first.message(), second.message())};
}

}  // namespace folio::cli
