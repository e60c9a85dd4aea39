// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_wrong_hit_test.cpp: the pool with a fault, which other tests must notice,
/// has it exactly once.
#include <gtest/gtest.h>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

TEST(PagePoolWrongHit, one_hit_is_a_page_of_another_request_and_all_others_are_right) {
  PagePool pool = make_pool({.num_pages = 20, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 8));
  prefill(pool, count_from(50, 8));
  const SequenceId wrong = pool.admit(count_from(0, 9)).value().id;
  EXPECT_EQ(pool.length(wrong).value(), 8);
  EXPECT_EQ(row(pool, wrong, 2)[0], row(pool, a, 2)[0]);
  EXPECT_NE(row(pool, wrong, 2)[1], row(pool, a, 2)[1]);
  pool.release(wrong).or_throw();
  const SequenceId right = pool.admit(count_from(0, 9)).value().id;
  EXPECT_EQ(row(pool, right, 2), row(pool, a, 2));
}

}  // namespace
}  // namespace folio::test
