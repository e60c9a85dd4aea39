// SPDX-License-Identifier: Apache-2.0
/// folio/names/sha256_names.h: page names as chains of SHA-256, by OpenSSL. Of a library of its
/// own: CMake's `folio::names`.
///
///   root = SHA-256("folio root1" | fingerprint | u64 adapter | u32 bytes of salt | salt)
///   page = SHA-256("folio page1" | u32 bytes of header | header | parent | u32 tokens | tokens |
///                  u32 spans | spans)
///   companion = SHA-256("folio pair1" | leading page | u8 group | u8 rule |
///                       u32 window, chunk or checkpoint | u32 sinks)
///
/// Integers are little endian on every machine, tokens have 4 bytes, a span is its offset (4,
/// two's complement), its length (4) and its hash. `parent` of a sequence's first page is the root.
/// What has no fixed length is preceded by it, and roots and pages begin with different words: no
/// two contents are hashed as the same bytes. 16 tokens without header and spans fill two blocks of
/// SHA-256.
///
/// Memory:        taken by `create`; no other call allocates, but for the message of a failure.
/// Thread safety: one object is externally synchronised, moves included; distinct objects are
///                independent. A moved-from object refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/name.h"

namespace folio::inline v1::names {

struct Sha256NamesOptions {
  /// the caller's digest of what K/V depend on beside tokens: model, geometry, element type, rank
  Digest256 fingerprint = {};
  /// belongs to every page's name, not to roots: e.g. the cache group; at most
  /// Sha256Names::max_header_bytes; copied
  std::span<const uint8_t> header = {};
};

class FOLIO_EXPORT Sha256Names {
 public:
  static constexpr size_t max_header_bytes = 256;

  /// Errors: invalid_argument for the header; out_of_memory
  [[nodiscard]] static Result<Sha256Names> create(const Sha256NamesOptions& options = {}) noexcept;

  Sha256Names(Sha256Names&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Sha256Names& operator=(Sha256Names&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Sha256Names();

  /// Where the chains of a salt and an adapter begin. Errors: invalid_argument for null memory of
  /// some size, or 2^31 bytes and more
  [[nodiscard]] Result<PageName> root(std::string_view salt, uint64_t adapter) noexcept;

  /// The name of the page with these 1 .. 2^31 - 1 tokens behind the one that `parent` names, or
  /// behind a root. Errors: invalid_argument for null memory of some size; spans that are empty,
  /// out of order, overlapping, without a token in the page, or more than the tokens
  [[nodiscard]] Result<PageName> page(const PageName& parent, std::span<const TokenId> tokens,
                                      std::span<const ContentSpan> spans = {}) noexcept;

  /// The name of the page that group `group`, 1 .. 255, has of a leading page's tokens; of
  /// `options` the rule counts and what belongs to it. Errors: invalid_argument for another group,
  /// or a rule that GroupRule has not
  [[nodiscard]] Result<PageName> companion(const PageName& leading, uint32_t group,
                                           const GroupOptions& options) noexcept;

  /// For PoolOptions::name: valid while this object, or the one that it is moved to, lives. All
  /// pools that have it count as users of the one object. None for a moved-from object.
  [[nodiscard]] NameFunction function() noexcept;

 private:
  struct FOLIO_LOCAL State;
  explicit Sha256Names(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::names

namespace folio::inline v1 {  // flat names, for one release
using names::Sha256Names;
using names::Sha256NamesOptions;
}  // namespace folio::inline v1
