// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/prometheus_test.cpp: counters as text. With a path as argument the text is
/// written there instead, for prometheus_parser_test.py.
#include "folio/tier/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
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
  disk.is_resting = true;
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
        "folio_tier_resting{" + label + "} 1", "folio_tier_load_seconds_count{" + label + "} 5",
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
  EXPECT_THAT(refusal("a", {}), HasSubstr("the label of tier 1 has 0 bytes"));
  EXPECT_THAT(refusal(std::string(65, 'x'), "b"), HasSubstr("the label of tier 0 has 65 bytes"));
  EXPECT_THAT(refusal("a\nb", "b"), HasSubstr("printable"));
  EXPECT_THAT(refusal("\xff", "b"), HasSubstr("printable"));
  EXPECT_THAT(refusal("a", "a"), HasSubstr("tiers 0 and 1 are both a"));
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
