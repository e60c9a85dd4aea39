// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_flood_test.cpp: prompts and salts prepared to share one bucket do so only
/// in a pool whose seed their author knew.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pool/flood_author.h"
#include "pool/inspection.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using namespace flood_shape;
// By chance, the fullest of 512 buckets that 256 salts fall into (pages have twice as many) has
// more in one of 10^13 pools.
constexpr uint32_t chance = 14;

PoolOptions options_of(uint64_t seed) {
  return {.num_pages = num_pages,
          .page_size = page_size,
          .max_sequences = 4,
          .max_namespaces = num_namespaces - 4,
          .hash_seed = seed};
}

/// The fullest bucket of the pool when these prompts are in its cache.
uint32_t longest_chain_of(const std::vector<Tokens>& prompts, uint64_t seed) {
  PagePool pool = make_pool(options_of(seed));
  for (const Tokens& prompt : prompts) pool.release(prefill(pool, prompt)).or_throw();
  EXPECT_EQ(pool.stats().cached_pages, flood);
  expect_sound(pool);
  return pool::PoolInspection::index(pool).longest_chain();
}

uint32_t longest_chain_of(const std::vector<std::string>& salts, uint64_t seed) {
  PagePool pool = make_pool(options_of(seed));
  for (const std::string& salt : salts)
    pool.release(pool.admit(count_from(0, 1), {.salt = salt}).value().id).or_throw();
  return pool::PoolInspection::namespaces(pool).longest_chain();
}

TEST(PagePoolFlood, a_known_seed_lets_every_page_share_a_bucket) {
  EXPECT_EQ(longest_chain_of(Author(known).prompts(), known), flood);
}

TEST(PagePoolFlood, a_known_seed_lets_every_salt_share_a_bucket) {
  EXPECT_EQ(longest_chain_of(Author(known).salts(), known), flood);
}

TEST(PagePoolFlood, another_seed_spreads_what_was_made_for_one) {
  const std::vector<Tokens> prompts = Author(known).prompts();
  const std::vector<std::string> salts = Author(known).salts();
  for (const uint64_t seed : {uint64_t{1}, known + 1, known ^ (uint64_t{1} << 63), ~known}) {
    EXPECT_LE(longest_chain_of(prompts, seed), chance) << seed;
    EXPECT_LE(longest_chain_of(salts, seed), chance) << seed;
  }
}

TEST(PagePoolFlood, a_pool_without_a_given_seed_has_one_that_is_not_public) {
  // Seed 0 is what a pool without a seed would hash with: nothing but public values.
  const std::vector<Tokens> prompts = Author(0).prompts();
  const std::vector<std::string> salts = Author(0).salts();
  EXPECT_LE(longest_chain_of(prompts, 0), chance);
  EXPECT_LE(longest_chain_of(salts, 0), chance);
}

TEST(PagePoolFlood, each_pool_draws_a_seed_of_its_own) {
  const PagePool one = make_pool(options_of(0)), other = make_pool(options_of(0)),
                 same = make_pool(options_of(known)), again = make_pool(options_of(known));
  const auto hash = [](const PagePool& pool) {
    return pool::PoolInspection::index(pool).hash("", 0);
  };
  EXPECT_NE(hash(one), hash(other)) << "by chance in one of 2^32 runs";
  EXPECT_EQ(hash(same), hash(again));
}

TEST(PagePoolFlood, answers_do_not_depend_on_the_seed) {
  const std::vector<Tokens> prompts = Author(known).prompts();
  for (const uint64_t seed : {known, uint64_t{0}}) {
    PagePool pool = make_pool(options_of(seed));
    for (const Tokens& prompt : prompts) {
      EXPECT_EQ(pool.peek(prompt + Tokens{0}), 0);
      pool.release(prefill(pool, prompt)).or_throw();
      EXPECT_EQ(pool.peek(prompt + Tokens{0}), chain_pages * page_size);
    }
  }
}

}  // namespace
}  // namespace folio::test
