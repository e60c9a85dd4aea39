// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/payload_pattern.h: the bytes of a page in a replay with tiers: they follow from all
/// tokens up to its end, and from nothing that folio computes.
#pragma once

#include <cstdint>
#include <span>

#include "folio/core/execution.h"
#include "folio/pool/name.h"
#include "load/synthetic.h"

namespace folio::cli {

/// Of the page behind which a sequence's tokens so far end.
class PagePattern {
 public:
  /// One token more; true where it fills a page.
  bool add(TokenId token, int32_t page_size) {
    hash_ = mix(hash_ ^ static_cast<uint32_t>(token));
    return ++tokens_ % page_size == 0;
  }
  void go_on(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) add(token, 1);
  }
  void write_to(MemorySpan page) const;
  [[nodiscard]] bool is_in(MemorySpan page) const;

 private:
  uint64_t hash_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace folio::cli
