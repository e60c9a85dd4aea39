// SPDX-License-Identifier: Apache-2.0
/// names/page_name.cpp: the encoding, and libcrypto behind it. The one file that includes OpenSSL.
#include "names/page_name.h"

// What replaces these functions takes half as long again: it looks its state up behind pointers.
#define OPENSSL_SUPPRESS_DEPRECATED  // NOLINT(readability-identifier-naming): the library's name
#include <openssl/sha.h>

#include <bit>
#include <limits>

namespace folio::inline v1::names {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are hashed as they lie");

constexpr std::string_view root_word = "folio/r1", page_word = "folio/p1";

/// SHA-256 of what is added. Its calls cannot fail.
class Hash {
 public:
  explicit Hash(std::string_view word) {
    SHA256_Init(&state_);
    add(word.data(), word.size());
  }
  void add(const void* bytes, size_t count) { SHA256_Update(&state_, bytes, count); }
  void add(const Digest& digest) { add(digest.bytes.data(), digest.bytes.size()); }
  template <class Integer>
  void add(Integer value) {
    add(&value, sizeof value);
  }
  Digest end() {
    Digest digest;
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.bytes.data()), &state_);
    return digest;
  }

 private:
  SHA256_CTX state_;
};

Status check_items(std::span<const Item> items, size_t num_tokens) {
  int64_t end = std::numeric_limits<int64_t>::min();  // of the item before
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t first = items[i].offset, behind = first + items[i].length;
    if (items[i].length < 1 || behind <= 0 || first >= static_cast<int64_t>(num_tokens)) {
      return fail(Errc::invalid_argument,
                  "page_name: items[{}] is at {} and has {} tokens, expected one of the "
                  "page's {}",
                  i, items[i].offset, items[i].length, num_tokens);
    }
    if (first < end) {
      return fail(Errc::invalid_argument,
                  "page_name: items[{}] is at {}, expected at least {} (the end of the one "
                  "before)",
                  i, items[i].offset, end);
    }
    end = behind;
  }
  return {};
}

}  // namespace

Result<Digest> root_name(const NameScope& scope) noexcept {
  if (scope.salt.size() > PagePool::max_salt_bytes) {
    return fail(Errc::invalid_argument, "root_name: salt has {} bytes, expected at most {}",
                scope.salt.size(), PagePool::max_salt_bytes);
  }
  if (scope.salt.data() == nullptr && !scope.salt.empty()) {
    return fail(Errc::invalid_argument, "root_name: salt is null, expected {} bytes",
                scope.salt.size());
  }
  Hash hash(root_word);
  hash.add(scope.fingerprint);
  hash.add(scope.adapter);
  hash.add(static_cast<uint32_t>(scope.salt.size()));
  hash.add(scope.salt.data(), scope.salt.size());
  return hash.end();
}

Result<Digest> page_name(const Digest& parent, std::span<const TokenId> tokens,
                         std::span<const Item> items) noexcept {
  constexpr size_t most = std::numeric_limits<int32_t>::max();
  if (tokens.empty() || tokens.size() > most || tokens.data() == nullptr) {
    return fail(Errc::invalid_argument,
                "page_name: tokens has {} elements{}, expected memory of 1 .. {}", tokens.size(),
                tokens.data() == nullptr ? " and is null" : "", most);
  }
  if (items.data() == nullptr && !items.empty()) {
    return fail(Errc::invalid_argument, "page_name: items is null, expected memory of {}",
                items.size());
  }
  if (Status s = check_items(items, tokens.size()); !s.is_ok()) return s;
  Hash hash(page_word);
  hash.add(parent);
  hash.add(static_cast<uint32_t>(tokens.size()));
  hash.add(tokens.data(), tokens.size_bytes());
  hash.add(static_cast<uint32_t>(items.size()));
  for (const Item& item : items) {
    hash.add(item.offset);
    hash.add(item.length);
    hash.add(item.content);
  }
  return hash.end();
}

}  // namespace folio::inline v1::names
