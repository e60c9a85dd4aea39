// SPDX-License-Identifier: Apache-2.0
/// tests/cli/report/report_test.cpp: quantiles, and reports of runs with and without figures.
#include "report/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

namespace folio::cli {
namespace {

using testing::HasSubstr;

TEST(Report, quantile_is_the_nearest_rank) {
  EXPECT_EQ(quantile({}, 0.5), 0.0);
  EXPECT_EQ(quantile({7.0}, 0.99), 7.0);
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.5), 2.0);
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.99), 4.0);
  EXPECT_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.0), 1.0);
}

TEST(Report, nothing_is_divided_by_zero) {
  ReplayOptions options;
  options.verify.wanted = true;
  const std::string text = summary_of(options, {}) + json_of(options, {});
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_EQ(text.find("inf"), std::string::npos) << text;
}

TEST(Report, json_has_null_for_an_infinite_error) {
  ReplayFigures figures;
  figures.verify.max_relative_rms = HUGE_VAL;
  EXPECT_THAT(json_of({}, figures), HasSubstr("\"max_relative_rms\": null"));
}

}  // namespace
}  // namespace folio::cli
