// SPDX-License-Identifier: Apache-2.0
/// tests/support/temporary_folder.h: a folder of a test's own.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace folio::test {

/// Gone with it, and all that is in it. Its path is short enough for those of sockets.
class TemporaryFolder {
 public:
  TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}
  /// In `parent`, if it is there and files can be made in it.
  explicit TemporaryFolder(std::filesystem::path parent) {
    if (access(parent.c_str(), W_OK) != 0) parent = std::filesystem::temp_directory_path();
    path_ = parent / "folio_test.XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder " + path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace folio::test
