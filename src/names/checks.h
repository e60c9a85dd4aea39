// SPDX-License-Identifier: Apache-2.0
/// names/checks.h: what naming refuses: `Sha256Names::call: argument is X, expected Y`.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "folio/names/sha256_names.h"

namespace folio::inline v1::names {

[[nodiscard]] Status moved_from(const char* call) noexcept;
[[nodiscard]] Status check_header(std::span<const uint8_t> header) noexcept;
[[nodiscard]] Status check_salt(std::string_view salt) noexcept;
[[nodiscard]] Status check_page(std::span<const TokenId> tokens,
                                std::span<const ContentSpan> spans) noexcept;
[[nodiscard]] Status check_companion(const pool::CompanionContent& page) noexcept;

}  // namespace folio::inline v1::names
