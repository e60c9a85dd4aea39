// SPDX-License-Identifier: Apache-2.0
/// cli/watch/terminal.h: a screen that is drawn again and again, and the terminal as it was behind
/// it.
#pragma once

#include <string>
#include <string_view>

namespace folio::cli {

/// On standard output, by the functions of parts/streams.h. While it is open the terminal shows its
/// other screen without a cursor; `close` brings back what was there.
class Terminal {
 public:
  Terminal() = default;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { close(); }

  /// Whether standard output is one.
  static bool is_there();
  /// Columns and rows, 80 and 24 where nobody knows.
  struct Size {
    int columns = 80, rows = 24;
  };
  static Size size();
  /// Whether the surroundings have UTF-8.
  static bool is_utf8();

  /// Lines, each with its newline, none wider than the terminal; those below its last row are not
  /// shown. Opens.
  void draw(std::string_view lines);
  void close();

 private:
  bool is_open_ = false;
};

}  // namespace folio::cli
