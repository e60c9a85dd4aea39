// SPDX-License-Identifier: Apache-2.0
/// cli/parts/text.h: foreign text in messages, and what summaries and files of figures consist of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace folio::cli {

/// For a terminal: bytes that are no printable ASCII become '?', and what is longer than `most` is
/// cut and ends in "...".
std::string printable(std::string_view text, size_t most);

/// "1,234,567"
std::string grouped(int64_t value);
/// "12 s", "3.2 h", "5.0 d"; a time below 0 is 0.
std::string elapsed(double seconds);

/// Lines with labels, which have `width` columns.
struct Summary {
  size_t width = 12;
  std::string text = {};
  void line(std::string_view label, std::string_view value);
};

/// A file of figures. What is no UTF-8 in it is replaced.
std::string json_text(const nlohmann::ordered_json& figures);

}  // namespace folio::cli
