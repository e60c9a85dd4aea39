// SPDX-License-Identifier: Apache-2.0
/// tests/names/vectors.h: what tests/names/vectors.py has written, read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folio/pool/name.h"

namespace folio::test {

struct NameVector {
  enum class Kind : uint8_t { root, page, chain, companion } kind = Kind::root;
  Digest256 fingerprint, parent;
  uint64_t adapter = 0;
  std::string salt, header;
  int32_t page_size = 0;  ///< of a chain
  std::vector<TokenId> tokens;
  std::vector<ContentSpan> spans;
  std::vector<PageName> names;  ///< one, but for a chain
  uint32_t group = 0;           ///< of a companion; its leading page is the `parent`
  GroupOptions rule = {};
};

/// Of the file of this build. A line that cannot be read becomes std::runtime_error.
std::vector<NameVector> name_vectors();

Digest256 digest_of_hex(const std::string& hex);

}  // namespace folio::test
