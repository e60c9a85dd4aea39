// SPDX-License-Identifier: Apache-2.0
/// tests/cli/watch/exposition_test.cpp: Prometheus texts, and which of their metrics are known.
#include "watch/exposition.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/random.h"
#include "watch/history.h"
#include "watch/known_metrics.h"

namespace folio::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> names;
  const Status status =
      read_exposition(text, [&](const MetricSample& sample) { names.emplace_back(sample.name); });
  if (!status.is_ok()) names.emplace_back(status.message());
  return names;
}

TEST(Exposition, is_read_line_by_line) {
  std::vector<double> values;
  std::vector<std::string> labels;
  const auto take = [&](const MetricSample& sample) {
    values.push_back(sample.value);
    labels.emplace_back(sample.label("a"));
  };
  EXPECT_TRUE(read_exposition("# HELP x What it is\n"
                              "# TYPE x counter\n"
                              "x 1\r\n"
                              "\n"
                              "  x{a=\"one\"} 2.5e3 1395066363000\n"
                              "x { b=\"\", a=\"q\\\"b\\\\n\\n}\" , } +Inf\n"
                              "x_bucket{le=\"1\"} 5 # {trace=\"t\"} 0.6\n"
                              "x{a=\"\xc3\xa4\"} -Inf\n"
                              "x NaN\n"
                              "# EOF",
                              take)
                  .is_ok());
  EXPECT_THAT(labels, ElementsAre("", "one", "q\"b\\n\n}", "", "\xc3\xa4", ""));
  ASSERT_EQ(values.size(), 6U);
  EXPECT_EQ(values[1], 2500);
  EXPECT_TRUE(std::isinf(values[2]) && values[2] > 0);
  EXPECT_EQ(values[3], 5);
  EXPECT_TRUE(std::isinf(values[4]) && values[4] < 0);
  EXPECT_TRUE(std::isnan(values[5]));
  EXPECT_THAT(names_of(""), ElementsAre());
}

TEST(Exposition, that_is_none_says_where_and_what_was_expected) {
  const std::pair<const char*, const char*> bad[] = {
      {"<!DOCTYPE html>", "line 1 is '<!DOCTYPE html>', expected a metric's name"},
      {"x 1\n{\"status\": 404}", "line 2 is '{\"status\": 404}', expected a metric's name"},
      {"x", "expected a number behind a metric"},
      {"x one", "expected a number behind a metric"},
      {"x 1x", "expected a number behind a metric"},
      {"x{a=\"1\" 2", "expected ',' or '}' behind a label"},
      {"x{a=1} 2", "expected a label's text between '\"'"},
      {"x{a=\"1", "expected a label's text between '\"'"},
      {"x{a=\"1\\", "expected a label's text between '\"'"},
      {"x{a} 2", "expected '=' behind the name of a label"},
      {"x{=\"1\"} 2", "expected the name of a label or '}'"},
      {"x 1 now", "expected a timestamp behind a value"},
      {"x 1 2 3", "expected the line's end behind a timestamp"},
      {"\x1b[2J 1", "line 1 is '?[2J 1', expected"},
  };
  for (const auto& [text, reason] : bad) {
    const Status status = read_exposition(text, [](const MetricSample&) {});
    EXPECT_EQ(status.code(), Errc::invalid_argument) << text;
    EXPECT_THAT(status.message(), HasSubstr(reason)) << text;
  }
  std::string many = "x{";
  for (int i = 0; i < 65; ++i) many += "l" + std::to_string(i) + "=\"\",";
  EXPECT_THAT(names_of(many + "} 1").back(), HasSubstr("at most 64 labels"));
}

/// Texts with bytes changed, inserted and cut: each is read or refused by its line.
TEST(Exposition, bears_any_bytes) {
  test::Rng rng{test::test_seed()};
  const std::string text =
      "# TYPE x counter\nx{a=\"o\\\"n\\\\e\",b=\"2\"} 2.5e3 1395066363000\ny +Inf # {t=\"1\"} 2\n"
      "vllm:prefix_cache_hits_total{source=\"host\"} 1\nvllm:prefix_cache_queries_total 4\n";
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string changed = text;
    for (int64_t i = rng.between(1, 4); i > 0 && !changed.empty(); --i) {
      const auto at = static_cast<size_t>(rng.between(0, std::ssize(changed) - 1));
      const auto byte = static_cast<char>(rng.between(0, 255));
      switch (rng.between(0, 3)) {
        case 0: changed[at] = byte; break;
        case 1: changed.insert(at, 1, byte); break;
        case 2: changed.erase(at, 1); break;
        default: changed.resize(at); break;
      }
    }
    const Result<MetricsReading> reading = read_metrics(changed);
    if (reading) continue;
    ++refused;
    ASSERT_THAT(reading.error().message(), HasSubstr("line ")) << changed;
  }
  EXPECT_GT(refused, 500);
}

/// Names and rates.
std::vector<std::pair<std::string, double>> rates_of(std::string_view text) {
  std::vector<std::pair<std::string, double>> rates;
  const MetricsReading reading = read_metrics(text).value();
  for (const HitCount& count : reading.hits)
    rates.emplace_back(count.name, count.hits / count.queries);
  return rates;
}

TEST(KnownMetrics, of_engines_are_added_over_labels_that_do_not_matter) {
  using Pair = std::pair<std::string, double>;
  EXPECT_THAT(rates_of("vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 100.0\n"
                       "vllm:prefix_cache_queries_total{engine=\"1\",model_name=\"m\"} 300.0\n"
                       "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 100.0\n"
                       "vllm:prefix_cache_hits_total{engine=\"1\",model_name=\"m\"} 200.0\n"
                       "vllm:prompt_tokens_cached_by_source_total{source=\"host\"} 40\n"
                       "vllm:external_prefix_cache_queries_total 10\n"
                       "vllm:external_prefix_cache_hits_total 5\n"),
              ElementsAre(Pair("prefix cache", 0.75), Pair("external prefix cache", 0.5),
                          Pair("from: host", 0.1)));
  EXPECT_THAT(
      rates_of("sglang:prefill_effective_tokens_total{mode=\"input\"} 50\n"
               "sglang:prefill_effective_tokens_total{mode=\"device_hit\"} 30\n"
               "sglang:prefill_effective_tokens_total{mode=\"host_hit\"} 20\n"
               "sglang:prefill_effective_tokens_total{mode=\"storage_hit\"} 0\n"),
      ElementsAre(Pair("device memory", 0.3), Pair("host memory", 0.2), Pair("storage", 0.0)));
  EXPECT_THAT(rates_of("folio_lookup_pages_total 8\nfolio_hit_pages_total 2\n"
                       "folio_tier_lookup_pages_total{tier=\"disk\"} 4\n"
                       "folio_tier_lookup_pages_total{tier=\"host\"} 6\n"
                       "folio_tier_found_pages_total{tier=\"disk\"} 1\n"
                       "folio_tier_found_pages_total{tier=\"host\"} 6\n"),
              ElementsAre(Pair("pool", 0.25), Pair("tier: disk", 0.25), Pair("tier: host", 1.0)));
}

TEST(KnownMetrics, that_are_shares_are_averaged_and_others_added) {
  const MetricsReading reading = read_metrics(
                                     "sglang:cache_hit_rate{tp_rank=\"0\"} 0.25\n"
                                     "sglang:cache_hit_rate{tp_rank=\"1\"} 0.75\n"
                                     "sglang:num_running_reqs{dp_rank=\"0\"} 2\n"
                                     "sglang:num_running_reqs{dp_rank=\"1\"} 3\n"
                                     "unknown 5\n"
                                     "vllm:kv_cache_usage_perc NaN\n")
                                     .value();
  EXPECT_EQ(reading.samples, 6);
  ASSERT_EQ(reading.readings.size(), 2U);
  EXPECT_EQ(reading.readings[0].value, 0.5);
  EXPECT_TRUE(reading.readings[0].is_share);
  EXPECT_EQ(reading.readings[1].name, "requests running");
  EXPECT_EQ(reading.readings[1].value, 5);
}

TEST(KnownMetrics, are_bounded_whatever_labels_say) {
  std::string text = "vllm:prefix_cache_queries_total 1\n";
  for (int i = 0; i < 1000; ++i) {
    const std::string label = "\"s" + std::to_string(i) + "\"} 1\n";
    text += "vllm:prompt_tokens_cached_by_source_total{source=" + label;
    text += "folio_pages{state=" + label;
    text += "folio_tier_pages{tier=" + label;
  }
  const MetricsReading reading = read_metrics(text).value();
  EXPECT_EQ(reading.hits.size(), 8U);
  EXPECT_EQ(reading.readings.size(), most_readings);
}

TEST(KnownMetrics, of_no_finite_sum_are_left_out) {
  const MetricsReading reading = read_metrics(
                                     "vllm:prefix_cache_hits_total{a=\"0\"} 1e308\n"
                                     "vllm:prefix_cache_hits_total{a=\"1\"} 1e308\n"
                                     "vllm:prefix_cache_queries_total 1\n"
                                     "vllm:num_requests_running{a=\"0\"} 1e308\n"
                                     "vllm:num_requests_running{a=\"1\"} 1e308\n"
                                     "vllm:num_requests_waiting 2\n")
                                     .value();
  EXPECT_TRUE(reading.hits.empty());
  ASSERT_EQ(reading.readings.size(), 1U);
  EXPECT_EQ(reading.readings[0].value, 2);
}

TEST(Hits, are_increments_also_where_an_engine_begins_anew) {
  Hits hits;
  const auto take = [&](double found, double asked) {
    MetricsReading reading;
    reading.hits.push_back(
        {.name = "cache", .unit = "tokens", .metric = "m", .hits = found, .queries = asked});
    WatchSample sample;
    hits.take(reading, sample);
    return std::pair(sample.hits[0], sample.queries[0]);
  };
  EXPECT_EQ(take(50, 100), std::pair(0.0, 0.0)) << "what was before nobody saw";
  EXPECT_EQ(take(60, 120), std::pair(10.0, 20.0));
  EXPECT_EQ(take(60, 120), std::pair(0.0, 0.0));
  EXPECT_EQ(take(5, 10), std::pair(5.0, 10.0));
  EXPECT_EQ(take(5, 30), std::pair(0.0, 20.0));
  ASSERT_EQ(hits.caches().size(), 1U);
  EXPECT_EQ(hits.caches()[0].queries, 30);
}

}  // namespace
}  // namespace folio::cli
