// SPDX-License-Identifier: Apache-2.0
/// folio/pool/name.h: page names, which say outside of a pool what a full page contains: 256 bits
/// that stand for its tokens and everything before them.
///
/// A pool compares tokens and needs no names. It computes them when `PagePool::name` asks, by the
/// function that `PoolOptions::name` gives it: SHA-256 (folio/names/sha256_names.h) or an engine's
/// own block hashes. Of a hybrid model, pages of the other groups have names, too, that follow from
/// the leading page's.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/core/status.h"
#include "folio/pool/groups.h"

namespace folio::inline v1::pool {

using TokenId = int32_t;

/// 256 bits of some hash function. Fewer stand in front, the rest is 0.
struct Digest256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Digest256&) const = default;
};

using PageName = Digest256;

/// Placeholder tokens that stand for an item of another kind: an image, a sound. The item lies
/// where it lies in the sequence, seen from the page's first token: it may begin in an earlier page
/// (`offset` < 0) and end in a later one.
struct ContentSpan {
  int32_t offset = 0;
  int32_t length = 0;   ///< tokens, >= 1
  Digest256 hash = {};  ///< of the item
  bool operator==(const ContentSpan&) const = default;
};

/// What a name stands for.
struct PageContent {
  const PageName* parent = nullptr;      ///< of the page before; null: the sequence's first page
  std::span<const TokenId> tokens = {};  ///< page_size
  /// ascending, none overlapping another, each with a token in the page
  std::span<const ContentSpan> spans = {};
  std::string_view salt =
      {};  ///< of the sequence, as `adapter`; a parent's name stands for them, too
  uint64_t adapter = 0;
};

/// What the name of a companion stands for: of the page that another group has of a leading page's
/// tokens, or of the state after the last of them.
struct CompanionContent {
  PageName leading;
  uint32_t group = 0;         ///< its number in PoolOptions::groups, >= 1
  GroupOptions options = {};  ///< of the group; names do not depend on `page_bytes`
};

/// Gives pages their names: `*name` for `page`, or an error. Equal contents get equal names. Called
/// by the thread that asks the pool, for one page at a time. Calls of the pool from there that are
/// not const are refused as busy; it must not move or destroy the pool.
struct NameFunction {
  Status (*function)(void* context, const PageContent& page, PageName* name) noexcept = nullptr;
  void* context = nullptr;
  /// The same for companions, of a pool with groups; null: they have no names, and
  /// nothing beyond memory knows them.
  Status (*companion)(void* context, const CompanionContent& page,
                      PageName* name) noexcept = nullptr;
  bool operator==(const NameFunction&) const = default;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::ContentSpan;
using pool::Digest256;
using pool::NameFunction;
using pool::PageContent;
using pool::PageName;
using pool::TokenId;
}  // namespace folio::inline v1
