// SPDX-License-Identifier: Apache-2.0
/// tests/pool/flood_author.h: who prepares prompts, salts, adapters, heads and items that share a
/// hash bucket in a pool whose seed they know.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "pool/lookup/prefix_index.h"
#include "pool/pool_helpers.h"

namespace folio::test {

/// What a flood is prepared for.
namespace flood_shape {
inline constexpr uint32_t num_pages = 512, num_namespaces = 512;
inline constexpr int32_t page_size = 16, chains = 8, chain_pages = 32;
inline constexpr uint32_t flood = chains * chain_pages;
/// of the first namespace of a pool
inline constexpr uint64_t first_content = 1;
/// The seed that an author believes to know.
inline constexpr uint64_t known = 0x5eed;
}  // namespace flood_shape

/// The author of a flood: knows the code, and believes to know the seed.
class Author {
 public:
  explicit Author(uint64_t seed)
      : buckets_(static_cast<size_t>(pool::PrefixIndex::num_buckets(flood_shape::num_pages))) {
    index_.attach(nullptr, nullptr, buckets_.data(), flood_shape::num_pages, flood_shape::page_size,
                  seed);
  }

  /// Prompts whose full pages all have a hash of one bucket; each page continues the one before.
  std::vector<Tokens> prompts(uint64_t bucket = 0) {
    std::vector<Tokens> made;
    for (int32_t c = 0; c < flood_shape::chains; ++c) {
      uint32_t hash = index_.hash("", 0);
      for (Tokens& prompt = made.emplace_back();
           prompt.size() < flood_shape::chain_pages * flood_shape::page_size;) {
        Tokens page = count_from(1000 * c, flood_shape::page_size);
        uint32_t next = 0;
        do page[0] = ++guess_;
        while (((next = index_.hash(hash, page.data())) & (buckets_.size() - 1)) != bucket);
        hash = next;
        prompt = prompt + page;
      }
    }
    return made;
  }

  /// Salts whose namespaces all have a hash of bucket 0.
  std::vector<std::string> salts() {
    std::vector<std::string> made;
    while (made.size() < flood_shape::flood) {
      std::string salt = "tenant " + std::to_string(++guess_);
      if ((index_.hash(salt, 0) & (flood_shape::num_namespaces - 1)) == 0)
        made.push_back(std::move(salt));
    }
    return made;
  }

  /// Adapters whose namespaces without a salt all have a hash of bucket 0.
  std::vector<uint64_t> adapters() {
    std::vector<uint64_t> made;
    for (uint64_t adapter = 0; made.size() < flood_shape::flood; ++adapter) {
      if ((index_.hash("", adapter) & (flood_shape::num_namespaces - 1)) == 0)
        made.push_back(adapter);
    }
    return made;
  }

  /// Pages whose heads, of so many tokens behind the first namespace, all have a hash of bucket 0.
  std::vector<Tokens> heads(int32_t head_tokens) {
    std::vector<Tokens> made;
    for (Tokens page = count_from(0, flood_shape::page_size); made.size() < flood_shape::flood;) {
      page[0] = ++guess_;
      const uint32_t hash = index_.head_hash(flood_shape::first_content, page.data(), head_tokens);
      if ((hash & (flood_shape::num_pages - 1)) == 0) made.push_back(page);
    }
    return made;
  }

  /// Images at a prompt's beginning whose items all have a hash of bucket 0.
  std::vector<ContentSpan> images() {
    std::vector<ContentSpan> made;
    for (ContentSpan span{.offset = 0, .length = 1, .hash = {}};
         made.size() < flood_shape::flood;) {
      ++guess_;
      std::memcpy(span.hash.bytes.data(), &guess_, sizeof guess_);
      const std::string_view key(reinterpret_cast<const char*>(&span), sizeof span);
      if ((index_.hash(key, flood_shape::first_content) & (flood_shape::num_namespaces - 1)) == 0)
        made.push_back(span);
    }
    return made;
  }

 private:
  std::vector<uint32_t> buckets_;
  pool::PrefixIndex index_;
  TokenId guess_ = 0;
};

}  // namespace folio::test
