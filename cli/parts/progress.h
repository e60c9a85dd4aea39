// SPDX-License-Identifier: Apache-2.0
/// cli/parts/progress.h: a progress bar on a terminal; nothing elsewhere.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "parts/streams.h"

namespace folio::cli {

class ProgressBar {
 public:
  explicit ProgressBar(bool is_wanted) : is_shown_(is_wanted && isatty(STDERR_FILENO) != 0) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() {
    if (is_shown_) tell("\r\x1b[K");  // leave the line as it was
  }

  /// Draws only when a cell or a percent changes.
  void show(int64_t done, int64_t total) {
    const int64_t percent = total > 0 ? 100 * done / total : 100;
    if (!is_shown_ || percent == percent_) return;
    percent_ = percent;
    constexpr int64_t cells = 40;
    tell(fmt::format("\r[{:-<{}}] {:3}%",
                     std::string(static_cast<size_t>(cells * percent / 100), '#'), cells, percent));
  }

 private:
  bool is_shown_;
  int64_t percent_ = -1;
};

}  // namespace folio::cli
