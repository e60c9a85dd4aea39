// SPDX-License-Identifier: Apache-2.0
/// cli/watch/terminal.cpp: what ECMA-48 and xterm call these things.
#include "watch/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <string>

#include "parts/streams.h"

namespace folio::cli {
namespace {

constexpr std::string_view other_screen = "\x1b[?1049h\x1b[?25l",
                           first_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view to_top = "\x1b[H", clear_line = "\x1b[K", clear_below = "\x1b[J";

}  // namespace

bool Terminal::is_there() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

Terminal::Size Terminal::size() {
  winsize window = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {};
  return {std::max<int>(window.ws_col, 20), std::max<int>(window.ws_row, 4)};
}

bool Terminal::is_utf8() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
}

void Terminal::draw(std::string_view lines) {
  if (!is_open_) show(other_screen);
  is_open_ = true;
  std::string text(to_top);
  // The last row stays empty: a newline there would move all others up.
  for (int row = size().rows - 1; row > 0 && !lines.empty(); --row) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    text.append(lines.substr(0, end)).append(clear_line).append("\r\n");
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  show(text.append(clear_below));
  flush_output();
}

void Terminal::close() {
  if (!is_open_) return;
  is_open_ = false;
  show(first_screen);
  flush_output();
}

}  // namespace folio::cli
