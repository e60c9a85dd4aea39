// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/names.h: what both ends compute of a sequence's tokens, to compare it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "folio/pool/name.h"

namespace folio::inline v1::tier {

struct NamedTokens {
  std::span<const TokenId> tokens = {};
  std::span<const ContentSpan> spans = {};
  std::string_view salt = {};
  uint64_t adapter = 0;
};

/// The name of the last full page of `page_size` tokens. False where there is none, or where the
/// function fails.
[[nodiscard]] bool last_name(const NameFunction& function, const NamedTokens& named,
                             int32_t page_size, PageName& name);
[[nodiscard]] uint32_t crc_of_tokens(std::span<const TokenId> tokens);

}  // namespace folio::inline v1::tier
