// SPDX-License-Identifier: Apache-2.0
/// tests/pool/index_cache_test.cpp: index planes on the pages of a pool: shared with a prefix,
/// copied on write, cut and forked with K and V, whatever sequences do.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "pool/pool_helpers.h"
#include "support/indexed_layers.h"

namespace folio::test {
namespace {

using Main = IndexedLayers::Main;

constexpr int32_t page_size = 4;
constexpr uint32_t num_pages = 48;

/// Sequences of a pool, and the planes of all its layers.
class Engine {
 public:
  Engine(Main main, const IndexFormat& format)
      : pool(make_pool({.num_pages = num_pages,
                        .page_size = page_size,
                        .max_sequences = 16,
                        .min_partial_tokens = 2})),
        layers(main, format, page_size, num_pages),
        expected_(main, format) {}

  /// False where there is no room.
  bool admit(const Tokens& prompt) {
    const Result<Admission> admission = pool.admit(prompt);
    if (!admission) return false;
    sequences.push_back(
        {admission->id, Tokens(prompt.begin(), prompt.begin() + admission->cached_tokens)});
    copy();
    const Tokens rest(prompt.begin() + admission->cached_tokens, prompt.end());
    if (extend(sequences.size() - 1, rest)) return true;
    release(sequences.size() - 1);
    return false;
  }
  bool extend(size_t i, const Tokens& tokens) {
    auto& [id, have] = sequences[i];
    if (!pool.reserve(id, static_cast<int32_t>(tokens.size())).is_ok()) return false;
    copy();
    for (const TokenId token : tokens) {
      const auto position = static_cast<int32_t>(have.size());
      layers.write(token, position, slot_of(id, position));
      have.push_back(token);
    }
    pool.commit(id, tokens).or_throw();
    return true;
  }
  void trim(size_t i, int32_t length) {
    pool.trim(sequences[i].first, length).or_throw();
    sequences[i].second.resize(static_cast<size_t>(length));
  }
  void fork(size_t i, int32_t length, size_t count) {
    std::vector<SequenceId> children(count);
    if (!pool.fork(sequences[i].first, length, children).is_ok()) return;
    const Tokens tokens(sequences[i].second.begin(), sequences[i].second.begin() + length);
    for (const SequenceId id : children) sequences.emplace_back(id, tokens);
    copy();
  }
  void release(size_t i) {
    pool.release(sequences[i].first).or_throw();
    sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(i));
  }
  /// Every slot of every sequence has its K, V and index keys.
  void check() {
    ASSERT_EQ(pool.check_invariants().message(), "");
    for (const auto& [id, tokens] : sequences) {
      for (size_t t = 0; t < tokens.size(); ++t) {
        const auto position = static_cast<int32_t>(t);
        ASSERT_EQ(layers.bytes_of(slot_of(id, position)), expected(tokens[t], position))
            << "token " << t << " of " << tokens.size();
      }
    }
  }

  PagePool pool;
  IndexedLayers layers;
  std::vector<std::pair<SequenceId, Tokens>> sequences;

 private:
  [[nodiscard]] int64_t slot_of(SequenceId id, int32_t position) const {
    const int64_t row = pool.row_start(id).value();
    return int64_t{pool.table().entries[row + position / page_size]} * page_size +
           position % page_size;
  }
  void copy() {
    copy_pages(layers.planes(), layers.planes(), take_copies(pool), serial_executor()).or_throw();
  }
  const std::vector<std::byte>& expected(TokenId token, int32_t position) {
    const auto [at, is_new] = known_.try_emplace({token, position});
    if (is_new) at->second = expected_.of(token, position);
    return at->second;
  }

  ExpectedRows expected_;
  std::map<std::pair<TokenId, int32_t>, std::vector<std::byte>> known_;
};

TEST(IndexCache, of_a_shared_page_is_copied_before_it_is_written) {
  for (const IndexFormat& format : index_formats) {
    SCOPED_TRACE(format.name);
    Engine engine(Main::latent, format);
    ASSERT_TRUE(engine.admit(count_from(10, 10)));
    engine.fork(0, 10, 1);
    ASSERT_EQ(row(engine.pool, engine.sequences[0].first, 2),
              row(engine.pool, engine.sequences[1].first, 2));
    ASSERT_TRUE(engine.extend(0, {50, 51}));
    ASSERT_TRUE(engine.extend(1, {60, 61, 62}));
    EXPECT_NE(row(engine.pool, engine.sequences[0].first, 3)[2],
              row(engine.pool, engine.sequences[1].first, 3)[2]);
    engine.check();
    engine.trim(0, 6);
    ASSERT_TRUE(engine.extend(0, {70, 71, 72}));
    engine.check();
  }
}

TEST(IndexCache, has_its_rows_whatever_sequences_do) {
  Rng rng(test_seed());
  int forks = 0, cuts = 0;
  for (const Main main : {Main::kv, Main::latent}) {
    for (const IndexFormat& format : index_formats) {
      SCOPED_TRACE(format.name);
      Engine engine(main, format);
      for (int round = 0; round < 60; ++round) {
        // few tokens, so that prompts begin alike
        Tokens some(static_cast<size_t>(rng.int_between(1, 14)));
        for (TokenId& token : some) token = rng.int_between(0, 1);
        const size_t count = engine.sequences.size();
        if (count == 0 || (count < 8 && rng.chance(0.3))) {
          engine.admit(some);
        } else {
          const auto i = static_cast<size_t>(rng.between(0, static_cast<int64_t>(count) - 1));
          const auto length = static_cast<int32_t>(engine.sequences[i].second.size());
          switch (rng.int_between(0, 3)) {
            case 0:
              if (length + std::ssize(some) < 100) engine.extend(i, some);
              break;
            case 1: engine.trim(i, rng.int_between(0, length)), ++cuts; break;
            case 2:
              if (count < 8)
                engine.fork(i, rng.int_between(0, length), static_cast<size_t>(rng.between(1, 3))),
                    ++forks;
              break;
            default: engine.release(i);
          }
        }
        ASSERT_NO_FATAL_FAILURE(engine.check()) << round;
      }
      EXPECT_GT(engine.pool.stats().hit_tokens, 0);
    }
  }
  EXPECT_GT(forks, 20);
  EXPECT_GT(cuts, 20);
}

}  // namespace
}  // namespace folio::test
