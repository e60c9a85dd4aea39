// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/line.h: a line on stderr that a signal handler may write, too.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ggml_folio {

/// A line that begins with the device's name. It takes neither memory from the heap nor locks, so
/// all of it is safe in a signal handler. What does not fit is cut.
class Line {
 public:
  Line() { *this << "ggml-folio: "; }

  Line& operator<<(std::string_view text) {
    const size_t kept = std::min(text.size(), sizeof(text_) - 1 - size_);
    std::memcpy(text_ + size_, text.data(), kept);
    size_ += kept;
    return *this;
  }
  Line& operator<<(int64_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    return *this << std::string_view(digits, static_cast<size_t>(end - digits));
  }
  /// 1234 as 12.34; from 0 on.
  Line& hundredths(int64_t number) {
    return *this << number / 100 << "." << number / 10 % 10 << number % 10;
  }

  /// Writes it to stderr, with its end.
  void write() {
    text_[size_] = '\n';
    const ssize_t written = ::write(STDERR_FILENO, text_, size_ + 1);
    (void)written;  // nobody is left who could be told
  }

 private:
  char text_[800];
  size_t size_ = 0;
};

}  // namespace ggml_folio
