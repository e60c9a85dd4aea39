// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/names.cpp: the chain of names of a sequence's pages.
#include "tier/transfer/names.h"

#include <vector>

#include "tier/payload.h"

namespace folio::inline v1::tier {

bool last_name(const NameFunction& function, const NamedTokens& named, int32_t page_size,
               PageName& name) {
  if (function.function == nullptr) return false;
  const auto size = static_cast<size_t>(page_size);
  const size_t pages = named.tokens.size() / size;
  PageName parent;
  std::vector<ContentSpan> spans;
  for (size_t p = 0; p < pages; ++p) {
    const auto first = static_cast<int64_t>(p * size), last = first + page_size;
    spans.clear();
    for (const ContentSpan& span : named.spans)
      if (span.offset < last && int64_t{span.offset} + span.length > first)
        spans.push_back({static_cast<int32_t>(span.offset - first), span.length, span.hash});
    const PageContent content{.parent = p == 0 ? nullptr : &parent,
                              .tokens = named.tokens.subspan(p * size, size),
                              .spans = spans,
                              .salt = named.salt,
                              .adapter = named.adapter};
    if (!function.function(function.context, content, &name).is_ok()) return false;
    parent = name;
  }
  return pages != 0;
}

uint32_t crc_of_tokens(std::span<const TokenId> tokens) {
  const auto bytes = std::as_bytes(tokens);
  return extend_crc(0, bytes.data(), std::ssize(bytes));
}

}  // namespace folio::inline v1::tier
