// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_adversaries_test.cpp: what a tenant who knows the code, but not the seed,
/// can make another's calls compare: heads, namespaces and items that share a bucket, and prompts
/// of any shape before another's commit. Counted in entries of buckets, never in time.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pool/flood_author.h"
#include "pool/inspection.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using namespace flood_shape;

constexpr int32_t head_tokens = 4;
// By chance, the fullest of 512 buckets that 512 entries fall into has more in one of 10^11 pools.
constexpr uint32_t chance = 16;
constexpr uint64_t other_seeds[] = {1, known + 1, known ^ (uint64_t{1} << 63), ~known};

/// `num_namespaces` places for salts, and as many for items.
PagePool pool_of(uint64_t seed) {
  return make_pool({.num_pages = num_pages,
                    .page_size = page_size,
                    .max_sequences = 4,
                    .max_namespaces = num_namespaces - 4,
                    .hash_seed = seed,
                    .min_partial_tokens = head_tokens,
                    .max_spans = num_namespaces / 8});
}

/// As prefill, with the copies of hits inside a page, which are over at once.
SequenceId compute(PagePool& pool, const Tokens& prompt, const SequenceOptions& options = {}) {
  const Admission a = pool.admit(prompt, options).value();
  for (int twice = 0; twice < 2; ++twice) static_cast<void>(pool.take_copies());
  feed(pool, a.id, {prompt.begin() + a.cached_tokens, prompt.end()});
  return a.id;
}

void serve(PagePool& pool, const Tokens& prompt, const SequenceOptions& options = {}) {
  pool.release(compute(pool, prompt, options)).or_throw();
}

// ---- Heads

uint32_t longest_chain_of_heads(const std::vector<Tokens>& pages, uint64_t seed) {
  PagePool pool = pool_of(seed);
  for (const Tokens& page : pages) serve(pool, page);
  EXPECT_EQ(pool.stats().cached_pages, std::ssize(pages));
  expect_sound(pool);
  return pool::PoolInspection::heads(pool).longest_chain();
}

TEST(PagePoolAdversaries, different_heads_behind_one_prefix_share_a_bucket_with_a_known_seed_only) {
  const std::vector<Tokens> pages = Author(known).heads(head_tokens);
  EXPECT_EQ(longest_chain_of_heads(pages, known), flood);
  for (const uint64_t seed : other_seeds) EXPECT_LE(longest_chain_of_heads(pages, seed), chance);
}

TEST(PagePoolAdversaries, equal_heads_behind_one_prefix_are_one_entry_whatever_the_seed) {
  std::vector<Tokens> pages;
  for (uint32_t i = 0; i < flood; ++i) {
    pages.push_back(count_from(0, page_size));
    pages.back().back() = 1000 + static_cast<TokenId>(i);
  }
  for (const uint64_t seed : {known, uint64_t{1}})
    EXPECT_EQ(longest_chain_of_heads(pages, seed), 1U);
}

// ---- Namespaces

uint32_t longest_chain_of_adapters(const std::vector<uint64_t>& adapters, uint64_t seed) {
  PagePool pool = pool_of(seed);
  for (const uint64_t adapter : adapters)
    pool.release(pool.admit(Tokens{0}, {.adapter = adapter}).value().id).or_throw();
  return pool::PoolInspection::namespaces(pool).longest_chain();
}

TEST(PagePoolAdversaries, adapters_share_a_bucket_with_a_known_seed_only) {
  const std::vector<uint64_t> adapters = Author(known).adapters();
  EXPECT_EQ(longest_chain_of_adapters(adapters, known), flood);
  for (const uint64_t seed : other_seeds)
    EXPECT_LE(longest_chain_of_adapters(adapters, seed), chance);
}

TEST(PagePoolAdversaries, forgotten_namespaces_leave_their_buckets) {
  PagePool pool = pool_of(known);
  for (int i = 0; i < 10 * static_cast<int>(num_namespaces); ++i) {
    const std::string salt = "tenant " + std::to_string(i);
    pool.release(pool.admit(Tokens{0}, {.salt = salt}).value().id).or_throw();
    if (i % 100 != 0) continue;
    EXPECT_LE(pool::PoolInspection::namespaces(pool).longest_chain(), chance) << i;
  }
  expect_sound(pool);
}

// ---- Items

uint32_t longest_chain_of_items(const std::vector<ContentSpan>& images, uint64_t seed) {
  PagePool pool = pool_of(seed);
  for (const ContentSpan& image : images) serve(pool, Tokens(page_size, 7), {.spans = {&image, 1}});
  expect_sound(pool);
  return pool::PoolInspection::items(pool).namespaces().longest_chain();
}

TEST(PagePoolAdversaries, items_share_a_bucket_with_a_known_seed_only) {
  const std::vector<ContentSpan> images = Author(known).images();
  EXPECT_EQ(longest_chain_of_items(images, known), flood);
  for (const uint64_t seed : other_seeds) EXPECT_LE(longest_chain_of_items(images, seed), chance);
}

TEST(PagePoolAdversaries, items_between_all_tokens_of_many_prompts_spread_and_are_forgotten) {
  PagePool pool = pool_of(known);
  for (int prompt = 0; prompt < 50; ++prompt) {
    std::vector<ContentSpan> spans;
    spans.reserve(num_namespaces / 8);
    for (int32_t at = 0; at < static_cast<int32_t>(num_namespaces) / 8; ++at)
      spans.push_back({.offset = at, .length = 1, .hash = image(static_cast<uint8_t>(prompt))});
    serve(pool, Tokens(num_namespaces / 8, 7), {.spans = spans});
    EXPECT_LE(pool::PoolInspection::items(pool).namespaces().longest_chain(), chance) << prompt;
  }
  expect_sound(pool);
}

// ---- Commit

/// Entries that commit, eviction and lookup of a sequence's full pages look at, at most.
int64_t comparisons(const PagePool& pool, SequenceId id, const Tokens& tokens) {
  int64_t count = 0;
  const auto pages = static_cast<size_t>(pool.length(id).value() / page_size);
  const std::vector<uint32_t> own = row(pool, id, pages);
  for (size_t p = 0; p < pages; ++p) {
    const pool::PageRecord& record = pool::PoolInspection::record(pool, own[p]);
    const pool::HeadIndex& heads = pool::PoolInspection::heads(pool);
    count += pool::PoolInspection::index(pool).chain_length(record.hash);
    count += heads.chain_length(
        heads.hash(record.parent, tokens.data() + p * static_cast<size_t>(page_size)));
  }
  return count;
}

const Tokens& victims_prompt() {
  static const Tokens prompt = count_from(5000, 8 * page_size);
  return prompt;
}

/// What a commit of another's prompt compares behind the cached prompts of an adversary.
int64_t comparisons_behind(const std::vector<Tokens>& prompts, uint64_t seed) {
  PagePool pool = pool_of(seed);
  for (const Tokens& prompt : prompts) serve(pool, prompt);
  const SequenceId id = compute(pool, victims_prompt());
  expect_sound(pool);
  return comparisons(pool, id, victims_prompt());
}

// Each page is one entry of both indexes; of the 256 pages of a flood a quarter shares its bucket
// of 1,024 in the one, and half in the other, on average: 2.75 for each of 8 pages. By chance twice
// as many in one of 10^10 pools.
constexpr int64_t few = 44;

TEST(PagePoolAdversaries, prompts_that_are_made_for_anothers_page_need_the_seed) {
  Author author(known);
  std::vector<uint32_t> buckets(static_cast<size_t>(pool::PrefixIndex::num_buckets(num_pages)));
  pool::PrefixIndex index;
  index.attach(nullptr, nullptr, buckets.data(), num_pages, page_size, known);
  const uint32_t hash = index.hash(index.hash("", 0), victims_prompt().data());
  const std::vector<Tokens> prompts = author.prompts(hash & (buckets.size() - 1));
  EXPECT_GE(comparisons_behind(prompts, known), int64_t{flood});
  for (const uint64_t seed : other_seeds) EXPECT_LE(comparisons_behind(prompts, seed), few) << seed;
}

TEST(PagePoolAdversaries, prompts_of_regular_shape_do_not_make_anothers_commit_compare_more) {
  const auto shaped = [](auto token) {
    std::vector<Tokens> prompts;
    for (uint32_t i = 0; i < flood; ++i) {
      Tokens& prompt =
          prompts.emplace_back(victims_prompt().begin(), victims_prompt().begin() + page_size);
      prompt[i % page_size] ^= token(1 + i / page_size);
    }
    return prompts;
  };
  const std::vector<std::vector<Tokens>> shapes = {
      shaped([](uint32_t i) { return static_cast<TokenId>(i); }),
      shaped([](uint32_t i) { return static_cast<TokenId>(i << 16); }),
      shaped([](uint32_t i) { return static_cast<TokenId>(1U << i); }),
      shaped([](uint32_t i) { return static_cast<TokenId>(0x01010101U * i); })};
  for (size_t shape = 0; shape < shapes.size(); ++shape) {
    for (const uint64_t seed : other_seeds)
      EXPECT_LE(comparisons_behind(shapes[shape], seed), few) << shape << " " << seed;
  }
}

TEST(PagePoolAdversaries, content_that_many_hold_is_one_entry_for_whoever_computes_it_again) {
  PagePool pool = make_pool({.num_pages = num_pages,
                             .page_size = page_size,
                             .max_sequences = 64,
                             .hash_seed = known,
                             .min_partial_tokens = head_tokens});
  const Tokens prompt = count_from(0, page_size);
  std::vector<SequenceId> ids;
  ids.reserve(60);
  for (int i = 0; i < 60; ++i) ids.push_back(pool.admit(prompt).value().id);
  for (const SequenceId id : ids) feed(pool, id, prompt);
  EXPECT_EQ(pool.stats().used_pages, 60);
  for (const SequenceId id : ids) EXPECT_EQ(comparisons(pool, id, prompt), 2);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
