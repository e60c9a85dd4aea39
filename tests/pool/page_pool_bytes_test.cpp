// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_bytes_test.cpp: what a page takes beside its tokens: at most 96 bytes with
/// any one policy or option, names (32 bytes) excepted, and 120 with all options.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {
namespace {

struct OptionSet {
  std::string_view name;
  void (*turn_on)(PoolOptions&);
  double most_bytes = 96;
  Eviction eviction = Eviction::lru;
};

constexpr auto keep = [](PoolOptions& options) { options.max_retention_ms = 3'600'000; };
constexpr auto copy = [](PoolOptions& options) { options.min_partial_tokens = 4; };
constexpr auto observe = [](PoolOptions& options) {
  options.readers = options.histograms = true;
  options.event_capacity = 1000;
  options.max_spans = 64;
};

const OptionSet option_sets[] = {
    {"retention", keep},
    {"partial_hits", copy},
    {"readers", [](PoolOptions& options) { options.readers = true; }},
    {"events", [](PoolOptions& options) { options.event_capacity = 1000; }},
    {"items", [](PoolOptions& options) { options.max_spans = 64; }},
    {"histograms", [](PoolOptions& options) { options.histograms = true; }},
    // together they are beyond the 96 bytes of each alone
    {"everything", [](PoolOptions& options) { keep(options), copy(options), observe(options); },
     120},
    {"no_reuse", [](PoolOptions& options) { options.prefix_reuse = false; }},
};

std::vector<OptionSet> each_policy() {
  std::vector<OptionSet> sets;
  for (size_t i = 0; i < std::size(pool::eviction_names); ++i) {
    sets.push_back({.name = pool::eviction_names[i],
                    .turn_on = [](PoolOptions&) {},
                    .eviction = static_cast<Eviction>(i)});
  }
  return sets;
}

class BytesOfAPage : public testing::TestWithParam<OptionSet> {
 protected:
  static PoolOptions options_with(const OptionSet& set, uint32_t pages, int32_t page_size) {
    PoolOptions options{.num_pages = pages,
                        .page_size = page_size,
                        .max_sequences = 1,
                        .max_pages_per_sequence = 1,
                        .eviction = set.eviction};
    set.turn_on(options);
    return options;
  }

  /// Of `pages` pages: what a pool has more than one with a single page, each page's share of it,
  /// without its tokens. Arrays begin at multiples of 64: 64 bytes an array are nobody's.
  static double bytes_beside_tokens(const OptionSet& set, uint32_t pages, int32_t page_size) {
    const int64_t all = PagePool::required_bytes(options_with(set, pages, page_size)).value();
    const int64_t one = PagePool::required_bytes(options_with(set, 1, page_size)).value();
    const double more = static_cast<double>(all - one) / static_cast<double>(pages - 1);
    return more - double{sizeof(TokenId)} * page_size;
  }
};

TEST_P(BytesOfAPage, are_within_the_budget_at_every_number_of_pages) {
  constexpr uint32_t k = 1 << 17;
  for (const uint32_t pages : {k - 1, k, k + 1, 3 * (k / 2), 10'000'000u, (1u << 23) + 1}) {
    for (const int32_t page_size : {16, 17, 64, 512}) {
      const double bytes = bytes_beside_tokens(GetParam(), pages, page_size);
      EXPECT_LE(bytes, GetParam().most_bytes + 0.01) << pages << " pages of " << page_size;
      EXPECT_GT(bytes, 32) << "tokens are not counted twice";
    }
  }
}

constexpr auto name_of = [](const auto& of) { return std::string(of.param.name); };
INSTANTIATE_TEST_SUITE_P(Policies, BytesOfAPage, testing::ValuesIn(each_policy()), name_of);
INSTANTIATE_TEST_SUITE_P(Options, BytesOfAPage, testing::ValuesIn(option_sets), name_of);

}  // namespace
}  // namespace folio::test
