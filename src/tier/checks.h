// SPDX-License-Identifier: Apache-2.0
/// tier/checks.h: what tiers refuse, in one voice: `Tier::call: argument is X, expected Y`.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "folio/pool/page_pool.h"
#include "folio/tier/tier.h"

namespace folio::inline v1::tier {

// `call` is named in full, as in `Tier::load`.

[[nodiscard]] Status check_options(const TierOptions& options) noexcept;
/// `writes`: their bytes will be written, so no two may share one.
[[nodiscard]] Status check_pages(const char* call, std::span<const TierPage> pages,
                                 bool writes) noexcept;
/// Of one page, `page` among those of `call`.
[[nodiscard]] Status check_extents(const char* call, size_t page,
                                   std::span<const Extent> extents) noexcept;
[[nodiscard]] Status out_of_memory(const char* call) noexcept;

/// Null memory has no size.
[[nodiscard]] Status check_memory(const char* call, const char* argument, const void* data,
                                  size_t size) noexcept;
/// Text that becomes one with a 0 at its end.
[[nodiscard]] Status check_text(const char* call, const char* argument,
                                std::string_view text) noexcept;
/// 1 .. 64 printable characters of ASCII, as places and tiers are told by.
[[nodiscard]] Status check_label(const char* call, const char* argument,
                                 std::string_view label) noexcept;
/// Whether a pool may have several groups.
enum class PoolGroups : uint8_t { one, any };
/// That it is there, has so many groups, and pins for those who move its pages.
[[nodiscard]] Status check_pool(const char* call, const char* argument, const PagePool* pool,
                                PoolGroups groups = PoolGroups::one) noexcept;
/// The same, and that `name` is what gives its pages names, those of all groups.
[[nodiscard]] Status check_named_pool(const char* call, const PagePool* pool,
                                      const NameFunction& name,
                                      PoolGroups groups = PoolGroups::one) noexcept;
[[nodiscard]] Status moved_from(const char* call) noexcept;

}  // namespace folio::inline v1::tier
