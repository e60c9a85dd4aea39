// SPDX-License-Identifier: Apache-2.0
/// tests/attention/hidden_keys_test.cpp: every kernel keeps what folio/attention/attend.h promises
/// of NaN and infinity in keys that some queries of a sequence do not see.
#include <gtest/gtest.h>

#include <string>

#include "support/hidden_keys.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

TEST(HiddenKeys, of_nan_and_infinity_reach_what_attend_h_says_and_no_more) {
  for (const HiddenKeyCase& one : hidden_key_cases())
    for_each_kernel_case(one.options, {Adapt::shapes, one.arrange},
                         [&](AttentionCase& c, const std::string& kernel) {
                           ASSERT_TRUE(run_case(c, kernel).is_ok());
                           EXPECT_TRUE(keeps_hidden_keys_out(c, one)) << one.name;
                         });
}

}  // namespace
}  // namespace folio::test
