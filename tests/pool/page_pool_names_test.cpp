// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_names_test.cpp: names are of contents, not of pages, and are computed when
/// somebody asks, once.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "pool/pool_helpers.h"
#include "support/random.h"

namespace folio::test {
namespace {

/// Names that spell what they are of, as far as there is room. Counts what it is asked.
struct Speller {
  int roots = 0, pages = 0;
  int fail_after = INT_MAX;  ///< calls

  PageNamer namer() {
    PageNamer made;
    made.context = this;
    made.root = [](void* self, std::string_view salt, uint64_t adapter, PageName& name) {
      auto& speller = *static_cast<Speller*>(self);
      ++speller.roots;
      name = spelled("r" + std::string(salt) + "/" + std::to_string(adapter));
      return --speller.fail_after >= 0;
    };
    made.page = [](void* self, const PageName& parent, std::span<const TokenId> tokens,
                   PageName& name) {
      auto& speller = *static_cast<Speller*>(self);
      ++speller.pages;
      name = page(parent, {tokens.begin(), tokens.end()});
      return --speller.fail_after >= 0;
    };
    return made;
  }
  static PageName spelled(const std::string& text) {
    PageName name;
    for (size_t i = 0; i < text.size(); ++i)
      name.bytes[i % 32] = static_cast<std::byte>(static_cast<int>(name.bytes[i % 32]) * 31 +
                                                  static_cast<int>(text[i]) + 1);
    return name;
  }
  static PageName page(const PageName& parent, const Tokens& tokens) {
    std::string text(reinterpret_cast<const char*>(parent.bytes.data()), 32);
    for (const TokenId token : tokens) text += ' ' + std::to_string(token);
    return spelled(text);
  }
  /// Of page `last` of a sequence with these tokens.
  static PageName of(const Tokens& tokens, int32_t page_size, int32_t last,
                     const SequenceOptions& options = {}) {
    PageName name =
        spelled("r" + std::string(options.salt) + "/" + std::to_string(options.adapter));
    for (int32_t p = 0; p <= last; ++p)
      name = page(name, {tokens.begin() + p * page_size, tokens.begin() + (p + 1) * page_size});
    return name;
  }
};

TEST(PagePoolNames, are_of_the_page_and_everything_before_it) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .namer = speller.namer()});
  const Tokens tokens = count_from(0, 14);
  const SequenceOptions options{.salt = "tenant", .adapter = 7};
  const SequenceId id = prefill(pool, tokens, options);
  for (int32_t p = 0; p < 3; ++p)
    EXPECT_EQ(pool.name(id, p).value(), Speller::of(tokens, 4, p, options)) << p;
}

TEST(PagePoolNames, are_computed_when_somebody_asks_and_once) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .namer = speller.namer()});
  const Tokens tokens = count_from(0, 17);
  const SequenceId a = prefill(pool, tokens);
  EXPECT_EQ(speller.pages + speller.roots, 0) << "nobody has asked";
  pool.name(a, 1).or_throw();
  EXPECT_EQ(speller.pages, 2);
  pool.name(a, 3).or_throw();
  pool.name(a, 2).or_throw();
  pool.name(a, 0).or_throw();
  EXPECT_EQ(speller.pages, 4);
  EXPECT_EQ(speller.roots, 1);
  const SequenceId b = pool.admit(tokens).value().id;  // the same pages
  EXPECT_EQ(pool.name(b, 3).value(), pool.name(a, 3).value());
  EXPECT_EQ(speller.pages, 4);
  pool.release(a).or_throw();
  pool.release(b).or_throw();
  const SequenceId again = pool.admit(tokens).value().id;
  EXPECT_EQ(pool.name(again, 3).value(), Speller::of(tokens, 4, 3));
  EXPECT_EQ(speller.pages, 4) << "cached pages keep their names";
  expect_sound(pool);
}

TEST(PagePoolNames, of_equal_contents_are_equal_wherever_they_lie) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .namer = speller.namer()});
  const Tokens tokens = count_from(0, 8);
  const SequenceId a = prefill(pool, tokens), b = prefill(pool, tokens);  // the second page twice
  EXPECT_NE(row(pool, a, 2)[1], row(pool, b, 2)[1]);
  EXPECT_EQ(pool.name(a, 1).value(), pool.name(b, 1).value());
}

TEST(PagePoolNames, go_with_the_content_of_a_page_that_is_evicted) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 2, .page_size = 2, .namer = speller.namer()});
  for (TokenId first = 0; first < 40; first += 10) {
    const SequenceId id = prefill(pool, count_from(first, 4));
    for (int32_t p = 0; p < 2; ++p)
      EXPECT_EQ(pool.name(id, p).value(), Speller::of(count_from(first, 4), 2, p));
    pool.release(id).or_throw();
  }
  EXPECT_EQ(speller.pages, 8);
}

RC_GTEST_PROP(PagePoolNames, of_all_full_pages_are_right_after_any_forks_trims_and_releases, ()) {
  Rng rng(*rc::gen::arbitrary<uint64_t>());
  Speller speller;
  PagePool pool = make_pool({.num_pages = 24, .page_size = 2, .namer = speller.namer()});
  std::vector<std::pair<SequenceId, Tokens>> alive;
  for (int i = 0; i < 200; ++i) {
    const int64_t kind = rng.between(0, 5);
    if (alive.empty() || (kind == 0 && alive.size() < 4)) {
      const Tokens prompt = {0, 0, rng.int_between(0, 1), 0, rng.int_between(0, 1)};
      if (pool.stats().used_pages > 12) continue;
      alive.emplace_back(prefill(pool, prompt), prompt);
      continue;
    }
    auto& [id, tokens] = rng.pick(alive);
    if (kind == 1) {
      tokens.resize(static_cast<size_t>(rng.between(0, static_cast<int64_t>(tokens.size()))));
      pool.trim(id, static_cast<int32_t>(tokens.size())).or_throw();
    } else if (kind == 2 && alive.size() < 4 && pool.stats().used_pages < 20) {
      const auto fork = pool.fork(id, static_cast<int32_t>(tokens.size())).value();
      alive.emplace_back(fork, Tokens(tokens));
    } else if (kind == 3) {
      pool.release(id).or_throw();
      std::swap(alive.back(), *std::find_if(alive.begin(), alive.end(),
                                            [&](const auto& a) { return a.first == id; }));
      alive.pop_back();
    } else if (tokens.size() < 9 && pool.stats().used_pages < 20) {
      const Tokens more = {rng.int_between(0, 1)};
      pool.reserve(id, 1).or_throw();
      take_copies(pool);
      pool.commit(id, more).or_throw();
      tokens = tokens + more;
    }
    for (const auto& [s, its] : alive) {
      if (!rng.chance(0.2)) continue;
      for (int32_t p = 0; p < static_cast<int32_t>(its.size()) / 2; ++p)
        RC_ASSERT(pool.name(s, p).value() == Speller::of(its, 2, p));
    }
  }
  RC_ASSERT(pool.check_invariants().is_ok());
}

// ---- Errors

TEST(PagePoolNames, that_the_namer_refuses_are_an_error_and_are_asked_for_again) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .namer = speller.namer()});
  const Tokens tokens = count_from(0, 12);
  const SequenceId id = prefill(pool, tokens);
  speller.fail_after = 0;
  EXPECT_EQ(pool.name(id, 2).error().code(), Errc::internal);  // the root
  speller.fail_after = 2;
  EXPECT_EQ(pool.name(id, 2).error().message(),
            "PagePool::name: the namer gives no name to page 1");
  speller.fail_after = INT_MAX;
  const int asked = speller.pages;
  EXPECT_EQ(pool.name(id, 2).value(), Speller::of(tokens, 4, 2));
  EXPECT_EQ(speller.pages - asked, 2) << "the first page has its name";
}

TEST(PagePoolNames, of_pages_that_are_not_full_are_refused) {
  Speller speller;
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .namer = speller.namer()});
  const SequenceId id = prefill(pool, count_from(0, 7));
  pool.reserve(id, 9).or_throw();
  for (const int32_t p : {-1, 1, 2, INT32_MIN, INT32_MAX})
    EXPECT_EQ(pool.name(id, p).error().code(), Errc::invalid_argument) << p;
  EXPECT_EQ(pool.name({}, 0).error().code(), Errc::invalid_argument);
  pool.release(id).or_throw();
  EXPECT_EQ(pool.name(id, 0).error().code(), Errc::invalid_argument);
  PagePool other = std::move(pool);
  EXPECT_EQ(pool.name(id, 0).error().code(), Errc::invalid_argument);  // NOLINT
}

TEST(PagePoolNames, need_a_namer_with_both_functions_and_prefix_reuse) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  EXPECT_EQ(pool.name(prefill(pool, count_from(0, 8)), 0).error().code(), Errc::unsupported);
  Speller speller;
  PoolOptions options{.num_pages = 8, .prefix_reuse = false, .namer = speller.namer()};
  EXPECT_EQ(PagePool::create(options).error().code(), Errc::invalid_argument);
  options.prefix_reuse = true;
  options.namer.root = nullptr;
  EXPECT_EQ(PagePool::create(options).error().message(),
            "PagePool::create: namer.root is null, expected a function, as namer.page is one");
  options.namer = speller.namer();
  options.namer.page = nullptr;
  EXPECT_EQ(PagePool::create(options).error().message(),
            "PagePool::create: namer.page is null, expected a function, as namer.root is one");
}

}  // namespace
}  // namespace folio::test
