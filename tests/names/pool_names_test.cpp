// SPDX-License-Identifier: Apache-2.0
/// tests/names/pool_names_test.cpp: the names of a pool that has Sha256Names are those of Python's
/// hashlib, however and whenever its pages came to be.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "names/vectors.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

PoolOptions options_for(const NameVector& v, Sha256Names& names, uint32_t max_sequences) {
  return {.num_pages = static_cast<uint32_t>(3 * v.names.size() + 1),
          .page_size = v.page_size,
          .max_sequences = max_sequences,
          .name = names.function()};
}

Sha256Names names_for(const NameVector& v) {
  return Sha256Names::create({.fingerprint = v.fingerprint}).value();
}

void expect_names(PagePool& pool, SequenceId id, const NameVector& v) {
  for (size_t i = v.names.size(); i-- > 0;)
    EXPECT_EQ(pool.name(id, static_cast<int32_t>(i)).value(), v.names[i]) << i;
  EXPECT_FALSE(pool.name(id, static_cast<int32_t>(v.names.size())));
}

template <class Check>
void for_each_chain(const Check& check) {
  int chains = 0;
  for (const NameVector& v : name_vectors()) {
    if (v.kind != NameVector::Kind::chain) continue;
    Sha256Names names = names_for(v);
    check(v, names, SequenceOptions{.salt = v.salt, .adapter = v.adapter});
    ++chains;
  }
  EXPECT_GE(chains, 3);
}

TEST(PoolNames, of_a_prefill_and_of_a_hit_on_it_are_those_of_hashlib) {
  for_each_chain([](const NameVector& v, Sha256Names& names, const SequenceOptions& options) {
    PagePool pool = make_pool(options_for(v, names, 2));
    const SequenceId id = prefill(pool, v.tokens, options);
    expect_names(pool, id, v);
    pool.release(id).or_throw();
    const SequenceId hit = prefill(pool, v.tokens, options);
    expect_names(pool, hit, v);
    expect_sound(pool);
  });
}

TEST(PoolNames, of_tokens_that_came_one_by_one_and_were_asked_for_late_are_the_same) {
  for_each_chain([](const NameVector& v, Sha256Names& names, const SequenceOptions& options) {
    PagePool pool = make_pool(options_for(v, names, 2));
    const SequenceId id = pool.admit(v.tokens, options).value().id;
    for (const TokenId token : v.tokens) feed(pool, id, {token});
    expect_names(pool, id, v);
  });
}

TEST(PoolNames, of_two_pools_with_different_seeds_are_the_same) {
  for_each_chain([](const NameVector& v, Sha256Names& names, const SequenceOptions& options) {
    for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
      PoolOptions seeded = options_for(v, names, 1);
      seeded.hash_seed = seed;
      PagePool pool = make_pool(seeded);
      expect_names(pool, prefill(pool, v.tokens, options), v);
    }
  });
}

TEST(PoolNames, outlive_the_namespace_that_the_pool_has_forgotten_and_made_anew) {
  for_each_chain([](const NameVector& v, Sha256Names& names, const SequenceOptions& options) {
    PoolOptions forgetful = options_for(v, names, 1);
    forgetful.max_namespaces = 0;
    PagePool pool = make_pool(forgetful);
    const SequenceId first = prefill(pool, v.tokens, options);
    expect_names(pool, first, v);
    pool.release(first).or_throw();
    pool.release(prefill(pool, v.tokens, {.salt = "another"})).or_throw();
    expect_names(pool, prefill(pool, v.tokens, options), v);
    expect_sound(pool);
  });
}

TEST(PoolNames, of_companions_follow_from_the_leading_pages) {
  Sha256Names names = Sha256Names::create().value();
  const GroupOptions groups[] = {
      {.page_bytes = 64}, {.rule = GroupRule::window, .page_bytes = 64, .window = 6, .sinks = 2}};
  PagePool pool = make_pool({.page_size = 4,
                             .max_sequences = 2,
                             .max_pages_per_sequence = 16,
                             .name = names.function(),
                             .groups = groups,
                             .arena_bytes = 64 * 64});
  const SequenceId id = prefill(pool, std::vector<TokenId>(18, 7));
  std::vector<PageName> leading(4), companions(4);
  for (int32_t p = 0; p < 4; ++p) leading[static_cast<size_t>(p)] = pool.name(id, p).value();
  pool.companion_names(1, leading, companions).or_throw();
  for (int32_t p = 0; p < 4; ++p) {
    const auto i = static_cast<size_t>(p);
    EXPECT_EQ(pool.name(id, p, 1).value(), companions[i]);
    EXPECT_EQ(companions[i], names.companion(leading[i], 1, groups[1]).value());
    EXPECT_NE(companions[i], leading[i]);
  }
  const auto refusal = [&](uint32_t group, std::span<const PageName> of, size_t into) {
    return std::string(
        pool.companion_names(group, of, std::span(companions).first(into)).message());
  };
  EXPECT_EQ(refusal(0, leading, 4),
            "PagePool::companion_names: group is 0, expected 1 or more and less than 2 (the pool's "
            "groups)");
  EXPECT_NE(refusal(2, leading, 4).find("group is 2"), std::string::npos);
  EXPECT_NE(refusal(1, leading, 3).find("names has 3 elements, expected 4"), std::string::npos);
  EXPECT_NE(refusal(1, {static_cast<const PageName*>(nullptr), 4}, 4).find("leading is null"),
            std::string::npos);
  EXPECT_FALSE(pool.name(id, 0, 2));
  EXPECT_FALSE(pool.name(id, 4, 1)) << "it is not full";
}

TEST(PoolNames, of_companions_need_a_function_of_their_own) {
  Sha256Names names = Sha256Names::create().value();
  NameFunction function = names.function();
  function.companion = nullptr;
  const GroupOptions groups[] = {{.page_bytes = 64}, {.page_bytes = 64}};
  PagePool pool = make_pool({.page_size = 4,
                             .max_sequences = 2,
                             .name = function,
                             .groups = groups,
                             .arena_bytes = 64 * 64});
  const SequenceId id = prefill(pool, std::vector<TokenId>(9, 7));
  EXPECT_TRUE(pool.name(id, 0));
  EXPECT_NE(pool.name(id, 0, 1).error().message().find("NameFunction::companion"),
            std::string_view::npos);
}

}  // namespace
}  // namespace folio::test
