// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/tests/slopes_test.cpp: ALiBi's slopes, by hand.
#include "slopes.h"

#include <gmock/gmock.h>

namespace ggml_folio {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

TEST(Slopes, powers_of_two_halve_from_head_to_head) {
  EXPECT_THAT(alibi_slopes(8, 8.0f), ElementsAre(0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f,
                                                 0.0078125f, 0.00390625f));
}

TEST(Slopes, heads_behind_the_power_of_two_lie_between) {
  // 4 heads of 2^(-2 (h + 1)), then 2^(-1 (2 i + 1)).
  EXPECT_THAT(alibi_slopes(6, 8.0f),
              ElementsAre(FloatEq(0.25f), FloatEq(0.0625f), FloatEq(0.015625f),
                          FloatEq(0.00390625f), FloatEq(0.5f), FloatEq(0.125f)));
}

TEST(Slopes, one_head_has_the_whole_bias) {
  EXPECT_THAT(alibi_slopes(1, 8.0f), ElementsAre(FloatEq(0.00390625f)));
}

}  // namespace
}  // namespace ggml_folio
