// SPDX-License-Identifier: Apache-2.0
/// cli/output_file.cpp: a temporary file beside the target, and a rename.
#include "output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace folio::cli {

Status OutputFile::failed(int error) const {
  return {Errc::io, fmt::format("{}: cannot write {}: {}", option_, path_,
                                std::generic_category().message(error))};
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::open(const std::string& path) {
  path_ = path;
  if (path.empty()) return {};
  std::error_code unknown;  // what cannot be looked at cannot be opened either
  const auto status = std::filesystem::status(path, unknown);
  const bool exists = std::filesystem::exists(status);
  if (std::filesystem::is_directory(status)) return failed(EISDIR);
  if (exists && !std::filesystem::is_regular_file(status)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return descriptor_ >= 0 ? Status() : failed(errno);
  }
  // A link keeps pointing at its file, and a file that may not be written stays as it is.
  target_ = exists ? std::filesystem::canonical(path, unknown).string() : path;
  if (exists && ::access(target_.c_str(), W_OK) != 0) return failed(errno);
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.part", target_, ::getpid(), attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) return failed(errno);
  }
  return {};
}

Status OutputFile::write(std::string_view text) {
  if (descriptor_ < 0) return {};
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  // The rename must not reach the disk before what it names.
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) return failed(errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    const int error = errno;
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    return failed(error);
  }
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return failed(error);
  }
  return {};
}

}  // namespace folio::cli
