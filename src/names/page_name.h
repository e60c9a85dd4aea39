// SPDX-License-Identifier: Apache-2.0
/// names/page_name.h: the name of a page's content: equal in every process that computes it, and of
/// no other content.
///
/// Inside a pool contents are told apart by comparing tokens; a name is for where they cannot be
/// compared: events, tiers, other processes. It covers the page's tokens, everything before them,
/// salt and adapter, the items that placeholder tokens stand for, and what makes K/V of equal
/// tokens differ (`NameScope::fingerprint`).
///
///   root = SHA-256("folio/r1" | fingerprint [32] | adapter u64 | bytes of salt u32 | salt)
///   page = SHA-256("folio/p1" | name of the page before, or root [32] | tokens u32
///                  | token i32 ... | items u32 | { offset i32 | length i32 | content [32] } ...)
///
/// Integers are little endian. What has a variable length comes behind its length, and roots and
/// pages begin with different words, so that no two contents have one encoding.
///
/// Thread safety: pure functions. Neither allocates, but for the message of a failure.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/core/status.h"
#include "folio/pool/page_pool.h"

namespace folio::inline v1::names {

/// 256 bits.
struct Digest {
  std::array<std::byte, 32> bytes = {};
  auto operator<=>(const Digest&) const = default;
};

/// What all pages of a chain have in common.
struct NameScope {
  Digest fingerprint =
      {};  ///< of model, geometry, element type, tensor-parallel rank: the caller's
  uint64_t adapter = 0;
  std::string_view salt = {};  ///< at most PagePool::max_salt_bytes
};

/// An image or the like, whose placeholder tokens a page holds in part.
struct Item {
  int32_t offset = 0;  ///< of its first token, from the page's; negative if it begins before
  int32_t length = 0;  ///< tokens, >= 1
  Digest content = {};
};

/// Where chains begin. Errors: invalid_argument for a salt that is null or too long
[[nodiscard]] Result<Digest> root_name(const NameScope& scope) noexcept;

/// The name of a full page behind `parent`: a root, or the name of the page before.
/// Errors: invalid_argument for a page without tokens, null memory, an item that no token of the
/// page belongs to, or items that are not in ascending order
[[nodiscard]] Result<Digest> page_name(const Digest& parent, std::span<const TokenId> tokens,
                                       std::span<const Item> items = {}) noexcept;

}  // namespace folio::inline v1::names
