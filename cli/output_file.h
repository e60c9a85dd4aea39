// SPDX-License-Identifier: Apache-2.0
/// cli/output_file.h: a file that is there in whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "folio/core/status.h"

namespace folio::cli {

/// Written beside its place and renamed into it at the end, so that an error leaves what was there
/// before. Opened before the work begins, so that hours of it are not lost to a bad path. What is
/// no regular file (a terminal, a pipe) is written as it is.
class OutputFile {
 public:
  /// `option` names the file in messages.
  explicit OutputFile(std::string option) : option_(std::move(option)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without `write`: removes what was begun.
  ~OutputFile();

  /// Empty path: no file. Errors: io naming option and path
  Status open(const std::string& path);
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  /// All of the file; closes it. Errors: io
  Status write(std::string_view text);

 private:
  [[nodiscard]] Status failed(int error) const;

  std::string option_;
  std::string path_;       // as given
  std::string target_;     // without symbolic links
  std::string temporary_;  // beside the target; empty where that is written itself
  int descriptor_ = -1;
};

}  // namespace folio::cli
