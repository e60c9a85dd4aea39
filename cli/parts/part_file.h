// SPDX-License-Identifier: Apache-2.0
/// cli/parts/part_file.h: a file under a name that nobody knows, until it is whole.
///
/// It is gone when its object is, and when the process is ended by a signal that can be caught
/// (SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU; not those that are ignored), of which the process
/// then dies as if nobody had caught it. One thread has all of them; signals may come to any.
#pragma once

#include <string>
#include <string_view>

namespace folio::cli {

class PartFile {
 public:
  PartFile() = default;
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() { remove(); }

  /// Beside `target`, and with its owner and permissions where it exists. All of these return an
  /// error of the system, or 0.
  int make(const std::string& target);
  /// All of it, on the device.
  int write(std::string_view text);
  /// In place of `target`, which is a part no longer. Where that fails the file stays, and is no
  /// part either: `path` has all that was written.
  int replace(const std::string& target);
  /// Unless it was renamed.
  void remove();

  [[nodiscard]] bool is_made() const { return is_made_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  friend struct PartFiles;
  void leave_list();

  std::string path_;
  int descriptor_ = -1;
  bool is_made_ = false;
  PartFile* next_ = nullptr;
};

/// All of `text`; an error of the system, or 0.
int write_all(int descriptor, std::string_view text);

}  // namespace folio::cli
