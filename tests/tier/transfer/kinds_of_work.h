// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/kinds_of_work.h: ends of a model whose layers are alike, or of a hybrid one,
/// and who works at them.
#pragma once

#include <cstdint>

#include "tier/transfer/ends_at_work.h"
#include "tier/transfer/group_ends_at_work.h"

namespace folio::test {

inline int64_t used_pages(const End& end) { return end.pool.stats().used_pages; }

struct PlainWork {
  using From = PrefillEnd;
  using To = DecodeEnd;
  using Prefiller = test::Prefiller;
  static EndSpec spec(int32_t page_size) { return {.page_size = page_size}; }
  static Decoder decoder(DecodeEnd& end, uint64_t) { return Decoder(end); }
};

/// Windows with sinks and without, states, and a group that sees all.
struct HybridWork {
  using From = GroupPrefillEnd;
  using To = GroupDecodeEnd;
  using Prefiller = GroupPrefiller;
  static GroupEndSpec spec(int32_t page_size) { return with_pages(mixed_end(), page_size); }
  static GroupDecoder decoder(GroupDecodeEnd& end, uint64_t seed) {
    return GroupDecoder(end, seed);
  }
};

}  // namespace folio::test
