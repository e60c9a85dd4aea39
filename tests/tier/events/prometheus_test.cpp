// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/prometheus_test.cpp: counters as text. With a path as argument the text is
/// written there instead, for prometheus_parser_test.py.
#include "folio/tier/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string example() {
  const CacheManagerFigures manager{.asked_pages = 100,
                                    .found_pages = 60,
                                    .loaded_pages = 50,
                                    .shared_pages = 20,
                                    .changed_pages = 3};
  TierCounters disk;
  disk.loaded_tokens = 480;
  disk.load_outcomes[static_cast<size_t>(TierOutcome::corrupt)] = 2;
  disk.not_stored[static_cast<size_t>(StoreRefusal::budget)] = 5;
  disk.store_rests = {.begun = {0, 4, 0}, .last_reason = RestReason::late, .is_resting = true};
  disk.load_latency.counts[0] = 3;
  disk.load_latency.counts[2] = 1;
  disk.load_latency.counts[LatencyHistogram::num_buckets - 1] = 1;
  disk.load_latency.count = 5;
  disk.load_latency.sum_us = 12'500'000;
  const TierCounters host;
  TierFigures figures;
  figures.bytes = int64_t{1} << 40;
  const EventPublisherFigures events{.published_events = 7};
  const TierReading tiers[] = {{"host", &host}, {"a \"b\" \\c", &disk, &figures}};
  return prometheus_text({.manager = &manager, .tiers = tiers, .events = &events}).value();
}

TEST(Prometheus, says_what_tiers_count) {
  const std::string text = example();
  const std::string label = R"(tier="a \"b\" \\c")";
  for (const std::string& line :
       {std::string("folio_tiers_asked_pages_total 100"),
        std::string("folio_tiers_loaded_pages_total 50"),
        std::string("folio_tiers_shared_pages_total 20"),
        std::string("folio_tiers_changed_pages_total 3"),
        "folio_tier_load_tokens_total{" + label + "} 480",
        std::string("folio_tier_load_tokens_total{tier=\"host\"} 0"),
        "folio_tier_load_outcomes_total{outcome=\"corrupt\"," + label + "} 2",
        "folio_tier_not_stored_pages_total{reason=\"budget\"," + label + "} 5",
        "folio_tier_rests_total{direction=\"store\",reason=\"late\"," + label + "} 4",
        "folio_tier_rests_total{direction=\"load\",reason=\"late\"," + label + "} 0",
        "folio_tier_resting{direction=\"store\"," + label + "} 1",
        "folio_tier_resting{direction=\"load\"," + label + "} 0",
        "folio_tier_load_seconds_count{" + label + "} 5",
        "folio_tier_load_seconds_sum{" + label + "} 12.5",
        "folio_tier_bytes{" + label + "} 1099511627776",
        std::string("folio_events_published_total 7"),
        std::string("# TYPE folio_tier_load_seconds histogram")})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("folio_tier_bytes{tier=\"host\"}"))) << "no figures were given";
  EXPECT_EQ(prometheus_text({}).value(), "");
}

TEST(Prometheus, refuses_labels_that_cannot_be) {
  const auto refusal = [](std::string_view first, std::string_view second) {
    const TierReading tiers[] = {{first}, {second}};
    const Status refused = prometheus_text({.tiers = tiers}).error();
    EXPECT_EQ(refused.code(), Errc::invalid_argument);
    return std::string(refused.message());
  };
  EXPECT_THAT(refusal("a", {}), HasSubstr("tiers[1].tier has 0 bytes"));
  EXPECT_THAT(refusal(std::string(65, 'x'), "b"), HasSubstr("tiers[0].tier has 65 bytes"));
  EXPECT_THAT(refusal("a\nb", "b"), HasSubstr("printable"));
  EXPECT_THAT(refusal("\xff", "b"), HasSubstr("printable"));
  EXPECT_THAT(refusal("a", "a"), HasSubstr("tiers 0 and 1 are both a"));
  EXPECT_THAT(refusal("a", {static_cast<const char*>(nullptr), 3}), HasSubstr("tiers[1].tier has"));
  const std::span<const TierReading> nowhere(static_cast<const TierReading*>(nullptr), 3);
  EXPECT_THAT(std::string(prometheus_text({.tiers = nowhere}).error().message()),
              HasSubstr("prometheus_text: tiers is null, expected memory of size 3"));
}

TEST(Prometheus, says_counts_that_nobody_has) {
  TierCounters counters;
  counters.loaded_pages = counters.load_latency.counts[3] = -5;
  counters.loaded_bytes = counters.load_latency.sum_us = std::numeric_limits<int64_t>::min();
  counters.store_latency.counts[21] = counters.store_bytes = std::numeric_limits<int64_t>::max();
  const TierReading tiers[] = {{"a", &counters}};
  EXPECT_THAT(prometheus_text({.tiers = tiers}).value(), HasSubstr("folio_tier_load_bytes_total"));
}

}  // namespace
}  // namespace folio::test

int main(int argc, char** argv) {
  if (argc == 2 && argv[1][0] != '-') {
    std::ofstream(argv[1]) << folio::test::example();
    return 0;
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
