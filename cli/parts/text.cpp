// SPDX-License-Identifier: Apache-2.0
/// cli/parts/text.cpp: foreign text, lines and JSON.
#include "parts/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace folio::cli {

std::string printable(std::string_view text, size_t most) {
  std::string shown(text.substr(0, most));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() <= most ? shown : shown + "...";
}

std::string grouped(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string elapsed(double seconds) {
  seconds = std::max(seconds, 0.0);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} d", seconds / 86400);
}

void Summary::line(std::string_view label, std::string_view value) {
  text += fmt::format("{:<{}}{}\n", label, width, value);
}

std::string json_text(const nlohmann::ordered_json& figures) {
  return figures.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace folio::cli
