// SPDX-License-Identifier: Apache-2.0
/// tests/pool/call_bytes.cpp: few values, so that prompts, items and lengths often meet.
#include "pool/call_bytes.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace folio::test {

std::vector<TokenId> letters(size_t count, uint8_t pattern) {
  std::vector<TokenId> tokens(count, 0);
  if (pattern % 2 == 0) return tokens;
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<TokenId>(pattern >> (1 + i % 7) & 1);
  return tokens;
}

std::vector<RetentionRange> ranges(uint32_t choice) {
  static constexpr int32_t levels[] = {0, 5, 34, 35, 36, 63, 64, 90, 100, 100};
  static constexpr int64_t times[] = {0, 1, 2, 7, 20, 63, 64, 100};
  std::vector<RetentionRange> given;
  for (uint32_t i = 0; i < choice % 7 / 2; ++i) {
    choice = choice * 1664525 + 1013904223;
    const auto begin = static_cast<int32_t>(choice >> 8 & 7);
    const int32_t end = (choice & 64) != 0 ? std::numeric_limits<int32_t>::max()
                                           : begin + 1 + static_cast<int32_t>(choice >> 12 & 7);
    given.push_back({begin, end, levels[(choice >> 16) % std::size(levels)],
                     times[(choice >> 24) % std::size(times)]});
  }
  return given;
}

std::vector<ContentSpan> items(uint32_t max_spans, const std::vector<TokenId>& prompt,
                               std::vector<ContentSpan> those, uint8_t choice) {
  if (max_spans == 0 && choice < 254) return {};
  const auto size = static_cast<int32_t>(prompt.size());
  const auto add = [&](int32_t offset, int32_t length, uint8_t image) {
    those.push_back({.offset = offset, .length = length, .hash = {}});
    those.back().hash.bytes[0] = image;
  };
  if (choice % 8 == 7) those.clear();
  std::erase_if(those, [&](const ContentSpan& span) { return span.offset + span.length > size; });
  const int32_t end = those.empty() ? 0 : those.back().offset + those.back().length;
  if (choice > 253) {
    add(end, size - end + 1, 0);  // one token too long
  } else if (choice > 250) {
    add(end - 1, 1, 0);
  } else if (choice > 248) {
    add(end, 0, 0);
  } else if (choice > 246) {
    for (int32_t more = 0; more < 4; ++more) add(end + more, 1, 0);
  } else if (choice % 8 < (those.empty() ? 5 : 2)) {
    const int32_t offset = end + choice / 8 % 2, length = choice / 64 == 3 ? 3 : 1;
    if (offset + length <= size && those.size() < max_spans)
      add(offset, length, choice / 16 % 4 == 3 ? 1 : 0);
  }
  return those;
}

int32_t cut(size_t tokens, uint8_t choice) {
  const auto length = static_cast<int32_t>(tokens);
  if (choice > 252) return length + 1;
  if (choice > 249) return -1;
  return choice % 2 == 0 ? std::max(0, length - choice / 2 % 5) : choice / 2 % (length + 1);
}

}  // namespace folio::test
