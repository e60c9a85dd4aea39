// SPDX-License-Identifier: Apache-2.0
/// tests/support/resource_limit.h: a limit of this process, while it lives.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <stdexcept>

namespace folio::test {

class ResourceLimit {
 public:
  ResourceLimit(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    if (getrlimit(resource, &before_) != 0) throw std::runtime_error("no limit to be read");
    set({most, before_.rlim_max});
  }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;
  ~ResourceLimit() { setrlimit(resource_, &before_); }

 private:
  void set(const rlimit& limit) const {
    if (setrlimit(resource_, &limit) != 0) throw std::runtime_error("no limit to be set");
  }
  __rlimit_resource resource_;
  rlimit before_{};
};

/// No file can be opened, while it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() : limit_(RLIMIT_NOFILE, first_free()) {}

 private:
  /// A limit of 0 would keep files that are open from being polled.
  static rlim_t first_free() {
    const int file = dup(0);
    if (file < 0) throw std::runtime_error("no file to be had");
    close(file);
    return static_cast<rlim_t>(file);
  }
  ResourceLimit limit_;
};

}  // namespace folio::test
