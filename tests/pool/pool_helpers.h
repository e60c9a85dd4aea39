// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_helpers.h: a pool and its calls with less ceremony: a failure becomes
/// folio::Error, which fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

using Tokens = std::vector<TokenId>;

inline PagePool make_pool(const PoolOptions& options) {
  return std::move(PagePool::create(options)).value();
}

/// first, first + 1, ...
inline Tokens count_from(TokenId first, int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Reserves and commits: what a step does.
inline void feed(PagePool& pool, SequenceId id, const Tokens& tokens) {
  pool.reserve(id, static_cast<int32_t>(tokens.size())).or_throw();
  pool.commit(id, tokens).or_throw();
}

/// Admits the prompt and feeds what was not cached.
inline SequenceId prefill(PagePool& pool, const Tokens& prompt,
                          const SequenceOptions& options = {}) {
  const Admission a = pool.admit(prompt, options).value();
  feed(pool, a.id, {prompt.begin() + a.cached_tokens, prompt.end()});
  return a.id;
}

inline std::vector<uint32_t> row(const PagePool& pool, SequenceId id, size_t pages,
                                 uint32_t group = 0) {
  const uint32_t* first = pool.table(group).entries + pool.row_start(id, group).value();
  return {first, first + pages};
}

inline std::vector<PageCopy> take_copies(PagePool& pool, uint32_t group = 0) {
  const auto copies = pool.take_copies(group);
  return {copies.begin(), copies.end()};
}

/// The hash of some image.
inline Digest256 image(uint8_t number) {
  Digest256 hash;
  hash.bytes.fill(number);
  return hash;
}

inline void expect_sound(const PagePool& pool) { EXPECT_EQ(pool.check_invariants().message(), ""); }

}  // namespace folio::test
