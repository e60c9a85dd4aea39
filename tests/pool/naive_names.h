// SPDX-License-Identifier: Apache-2.0
/// tests/pool/naive_names.h: a name function without cryptography, that counts and that can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/pool/name.h"

namespace folio::test {

/// Every byte of `text` changes the name, and nothing that comes later undoes what came before: for
/// one text, different names become different names.
inline void mix(PageName& name, const void* text, size_t bytes) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < bytes; ++i) {
    uint64_t h = (static_cast<const uint8_t*>(text)[i] + odd) * odd;
    for (uint8_t& byte : name.bytes) {
      const uint8_t before = byte;
      byte ^= static_cast<uint8_t>(h >> 56);
      h = (h ^ before) * odd;
    }
  }
}

struct NaiveNames {
  int calls = 0;
  int fail_at = -1;  ///< that call, counted from 0, fails

  static PageName of(const PageName* parent, std::span<const TokenId> tokens, std::string_view salt,
                     uint64_t adapter, std::span<const ContentSpan> spans = {}) {
    PageName name = parent == nullptr ? PageName() : *parent;
    if (parent == nullptr) mix(name, salt.data(), salt.size());
    if (parent == nullptr) mix(name, &adapter, sizeof adapter);
    mix(name, tokens.data(), tokens.size_bytes());
    mix(name, spans.data(), spans.size_bytes());
    return name;
  }

  static PageName of_companion(PageName leading, uint32_t group) {
    mix(leading, &group, sizeof group);
    return leading;
  }

  [[nodiscard]] NameFunction function() {
    return {.function =
                [](void* self, const PageContent& page, PageName* name) noexcept {
                  auto& names = *static_cast<NaiveNames*>(self);
                  const PageName made =
                      of(page.parent, page.tokens, page.salt, page.adapter, page.spans);
                  name->bytes.fill(0xee);  // half done
                  if (names.calls++ == names.fail_at) return fail(Errc::io, "no name today");
                  *name = made;
                  return Status();
                },
            .context = this,
            .companion =
                [](void*, const pool::CompanionContent& page, PageName* name) noexcept {
                  *name = of_companion(page.leading, page.group);
                  return Status();
                }};
  }
};

}  // namespace folio::test
