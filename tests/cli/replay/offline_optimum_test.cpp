// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/offline_optimum_test.cpp: no choice of victims finds more, and what is left out
/// of the proof is counted by hand.
#include "replay/offline_optimum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "support/random.h"

namespace folio::cli {
namespace {

using Ids = std::vector<int32_t>;

std::vector<TraceRequest> trace_of(const std::vector<Ids>& requests) {
  std::vector<TraceRequest> trace;
  for (const Ids& ids : requests) {
    const auto length = static_cast<int32_t>(ids.size()) * mooncake_tokens_per_block;
    trace.push_back({.input_length = length, .hash_ids = ids});
  }
  return trace;
}

/// Requests over a few ids, each of which has one parent.
std::vector<Ids> random_requests(test::Rng& rng, int32_t count) {
  constexpr int32_t ids = 9;
  Ids parents;
  for (int32_t id = 0; id < ids; ++id) parents.push_back(rng.int_between(-1, id - 1));
  std::vector<Ids> requests;
  for (int32_t i = 0; i < count; ++i) {
    Ids chain;
    for (int32_t id = rng.int_between(0, ids - 1); id >= 0; id = parents[static_cast<size_t>(id)])
      chain.push_back(id);
    std::reverse(chain.begin(), chain.end());
    requests.push_back(chain);
  }
  return requests;
}

/// Tries every set of ids to keep. Caches are sets of bits.
class Exhaustive {
 public:
  Exhaustive(std::vector<Ids> requests, int capacity)
      : requests_(std::move(requests)), capacity_(capacity) {}

  int64_t most_hits(size_t request = 0, uint32_t cached = 0) {
    if (request == requests_.size()) return 0;
    const auto known = best_.find({request, cached});
    if (known != best_.end()) return known->second;
    const Ids& ids = requests_[request];
    uint32_t held = 0;
    for (const int32_t id : ids) held |= 1U << id;
    const auto missing =
        std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return (cached >> id & 1) == 0; });
    int64_t best = 0;
    const uint32_t others = cached & ~held;
    for (uint32_t kept = others;; kept = (kept - 1) & others) {  // every subset
      if (std::popcount(kept | held) <= capacity_)
        best = std::max(best, most_hits(request + 1, kept | held));
      if (kept == 0) break;
    }
    return best_[{request, cached}] = best + (missing - ids.begin());
  }

 private:
  std::vector<Ids> requests_;
  int capacity_;
  std::map<std::pair<size_t, uint32_t>, int64_t> best_;
};

TEST(OfflineOptimum, no_choice_of_victims_finds_more) {
  test::Rng rng(test::test_seed());
  for (int round = 0; round < 150; ++round) {
    const std::vector<Ids> requests = random_requests(rng, rng.int_between(1, 12));
    size_t longest = 0;
    for (const Ids& ids : requests) longest = std::max(longest, ids.size());
    for (const auto capacity : {longest, longest + 1, longest + 2}) {
      const BlockCounts counts =
          offline_optimum(trace_of(requests), static_cast<int64_t>(capacity));
      EXPECT_EQ(counts.hit_blocks, Exhaustive(requests, static_cast<int>(capacity)).most_hits())
          << "round " << round << ", capacity " << capacity;
    }
  }
}

TEST(OfflineOptimum, counts_a_small_trace_as_by_hand) {
  // 2 blocks: [1] and [2]; [3] evicts 2, which comes after 1; [1] hits; [2] evicts 3; [1] hits
  const std::vector<TraceRequest> trace = trace_of({{1}, {2}, {3}, {1}, {2}, {1}});
  EXPECT_EQ(offline_optimum(trace, 2),
            (BlockCounts{6, 2, 2 * mooncake_tokens_per_block, 2, 2 * 516}));
  EXPECT_EQ(offline_optimum(trace, 1), (BlockCounts{6, 0, 0, 5, 0}));
  EXPECT_EQ(offline_optimum(trace, 3),
            (BlockCounts{6, 3, 3 * mooncake_tokens_per_block, 0, 3 * 516}));
}

TEST(OfflineOptimum, a_partial_last_block_has_its_own_tokens_only) {
  std::vector<TraceRequest> trace = trace_of({{1, 2}, {1, 2}});
  for (TraceRequest& request : trace) request.input_length = mooncake_tokens_per_block + 7;
  EXPECT_EQ(offline_optimum(trace, 2).hit_tokens, mooncake_tokens_per_block + 7);
}

TEST(OfflineOptimum, an_id_twice_in_a_request_takes_one_block) {
  const std::vector<TraceRequest> trace = trace_of({{1, 1, 2}, {1, 1, 2}});
  EXPECT_EQ(offline_optimum(trace, 2).evicted_blocks, 0);
}

TEST(OfflineOptimum, no_requests_no_counts) { EXPECT_EQ(offline_optimum({}, 1), BlockCounts()); }

}  // namespace
}  // namespace folio::cli
