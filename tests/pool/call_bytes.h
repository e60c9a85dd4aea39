// SPDX-License-Identifier: Apache-2.0
/// tests/pool/call_bytes.h: bytes of random tests and of fuzzers as what calls of pools take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

/// Two letters only, and mostly the first: prompts often share beginnings and then part ways.
[[nodiscard]] std::vector<TokenId> letters(size_t count, uint8_t pattern);

/// Up to three ranges, often none; each number is its own choice. Up to 100 ms.
[[nodiscard]] std::vector<RetentionRange> ranges(uint32_t choice);

/// Of `prompt`, which begins with the tokens of a sequence that has `those`: mostly these, and one
/// of two images behind them. Seldom what is refused.
[[nodiscard]] std::vector<ContentSpan> items(uint32_t max_spans, const std::vector<TokenId>& prompt,
                                             std::vector<ContentSpan> those, uint8_t choice);

/// A length of a sequence with so many tokens: often just before its end, sometimes anywhere,
/// seldom impossible.
[[nodiscard]] int32_t cut(size_t tokens, uint8_t choice);

}  // namespace folio::test
