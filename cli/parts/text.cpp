// SPDX-License-Identifier: Apache-2.0
/// cli/parts/text.cpp: foreign text in messages.
#include "parts/text.h"

#include <algorithm>

namespace folio::cli {

std::string printable(std::string_view text, size_t most) {
  std::string shown(text.substr(0, most));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() <= most ? shown : shown + "...";
}

}  // namespace folio::cli
