// SPDX-License-Identifier: Apache-2.0
/// cli/parts/output_file.h: a file that is there in whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "folio/core/status.h"
#include "parts/part_file.h"

namespace folio::cli {

/// Written beside its place and renamed into it at the end, so that an error leaves what was there
/// before. Opened before the work begins, so that hours of it are not lost to a bad path. What is
/// no regular file (a terminal, a pipe), and a descriptor (/dev/stdout), is written as it is.
class OutputFile {
 public:
  /// `option` names the file in messages.
  explicit OutputFile(std::string option) : option_(std::move(option)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Empty path: no file. Errors: io naming option and path
  Status open(const std::string& path);
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0 || part_.is_made(); }
  /// All of the file; closes it. Without a file: nothing. Errors: io
  Status write(std::string_view text);

 private:
  int open_place();
  int write_place(std::string_view text);
  [[nodiscard]] Status failed(int error, const std::string& more = {}) const;

  std::string option_;
  std::string path_;     // as given
  std::string target_;   // without symbolic links
  PartFile part_;        // of the target
  int descriptor_ = -1;  // of what is written as it is
};

/// What several outputs say: each of them has been tried. The first reason's code, and all reasons.
Status joined(const Status& first, const Status& second);

}  // namespace folio::cli
