// SPDX-License-Identifier: Apache-2.0
/// cli/parts/text.h: foreign text in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace folio::cli {

/// For a terminal: bytes that are no printable ASCII become '?', and what is longer than `most` is
/// cut and ends in "...".
std::string printable(std::string_view text, size_t most);

}  // namespace folio::cli
