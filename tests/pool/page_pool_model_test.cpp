// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_model_test.cpp: random calls on a pool that a naive model watches, under
/// each eviction policy.
/// RapidCheck prints the seed and shrinks.
///
/// Built twice: with the real hash, and with one of 4 bits, where collisions are certain.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "pool/pool_calls.h"

namespace folio::test {
namespace {

void any_calls(Eviction eviction) {
  const bool prefix_reuse = *rc::gen::inRange(0, 8) != 0;
  PoolOptions options{.num_pages = static_cast<uint32_t>(*rc::gen::inRange(1, 20)),
                      .page_size = *rc::gen::inRange(1, 5),
                      .max_sequences = static_cast<uint32_t>(*rc::gen::inRange(1, 8)),
                      .max_pages_per_sequence = static_cast<uint32_t>(*rc::gen::inRange(0, 10)),
                      .max_namespaces = static_cast<uint32_t>(*rc::gen::inRange(0, 3)),
                      .prefix_reuse = prefix_reuse,
                      .eviction = eviction,
                      .max_retention_ms = prefix_reuse ? *rc::gen::element(0, 100, 5000) : 0,
                      .watermark_pages = *rc::gen::inRange(0, 4) == 0 ? 1U : 0U,
                      .lookahead_tokens = *rc::gen::inRange(0, 4) == 0 ? 2 : 0};
  // half of the pools tell of events
  if (prefix_reuse)
    options.event_capacity = static_cast<uint32_t>(std::max(0, *rc::gen::inRange(-10, 11)));
  options.histograms = *rc::gen::arbitrary<bool>();
  if (prefix_reuse && *rc::gen::inRange(0, 3) != 0)
    options.min_partial_tokens =
        *rc::gen::inRange(options.page_size > 1 ? 1 : 0, options.page_size);
  if (prefix_reuse)
    options.max_spans = static_cast<uint32_t>(std::max(0, *rc::gen::inRange(-1, 4)));
  options.max_io_pins = static_cast<uint32_t>(*rc::gen::inRange(0, 5));
  const auto calls = *rc::gen::scale(20.0, rc::gen::arbitrary<std::vector<PoolCall>>());
  PoolModel model(options);
  for (const PoolCall& call : calls) apply(model, call);
  give_all_back(model);
  RC_CLASSIFY(model.keeps(), "retention");
  RC_CLASSIFY(model.stats().hit_pages != 0, "hits");
  RC_CLASSIFY(model.stats().evicted_pages != 0, "evictions");
  RC_CLASSIFY(model.stats().hit_tokens != model.stats().hit_pages * options.page_size,
              "hits inside a page");
  RC_CLASSIFY(model.item_hits() != 0, "hits behind items");
}

class PagePoolModel : public testing::TestWithParam<size_t> {};

TEST_P(PagePoolModel, any_sequence_of_calls_does_what_the_naive_pool_does) {
  rc::detail::checkGTest([] { any_calls(static_cast<Eviction>(GetParam())); });
}

INSTANTIATE_TEST_SUITE_P(Policies, PagePoolModel,
                         testing::Range(size_t{0}, std::size(pool::eviction_names)),
                         [](const auto& of) {
                           return std::string(pool::eviction_names[of.param]);
                         });

}  // namespace
}  // namespace folio::test
