// SPDX-License-Identifier: Apache-2.0
/// tests/attention/bits_threads_test.cpp: one plan gives the same bits on any threads, in any
/// order.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "attention/long_case.h"
#include "support/attention_case.h"
#include "support/executors.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

TEST(BitsThreads, one_plan_gives_the_same_bits_on_any_threads_in_any_order) {
  const uint64_t seed = test_seed();
  for_each_kernel_case(long_options(Reproducible::per_plan, 8), [&](AttentionCase& c,
                                                                    const std::string& kernel) {
    Result<PreparedCase> p = prepare_case(c, kernel, c.limits());
    ASSERT_TRUE(p.has_value()) << p.error().message();
    ASSERT_GT(p->plan.num_tasks, 4) << "the case must be cut";
    c.poison_output();
    ASSERT_TRUE(
        attend(p->attention, p->plan, c.args(), p->workspace.span(), serial_executor()).is_ok());
    ASSERT_TRUE(matches_reference(c, {0, c.tokens(), 17}));
    const std::vector<std::byte> bits = c.output_bits();

    for (int threads = 1; threads <= 8; ++threads) {
      ShufflingExecutor shuffling(threads, seed + static_cast<uint64_t>(threads));
      c.poison_output();
      p->workspace.fill(0xff);
      ASSERT_TRUE(attend(p->attention, p->plan, c.args(), p->workspace.span(), shuffling.executor())
                      .is_ok());
      EXPECT_EQ(c.output_bits(), bits) << threads << " threads";
    }
  });
}

struct TaskCall {
  const PreparedCase* prepared;
  const AttentionArgs* args;
};

void run_task(void* arg, int64_t i) noexcept {
  const TaskCall& call = *static_cast<TaskCall*>(arg);
  const Status status = attend_task(call.prepared->attention, call.prepared->plan, *call.args,
                                    call.prepared->workspace.span(), i);
  EXPECT_TRUE(status.is_ok()) << status.message();
}

TEST(BitsThreads, tasks_by_hand_give_the_bits_of_attend) {
  const uint64_t seed = test_seed();
  for_each_kernel_case(
      long_options(Reproducible::per_plan, 3), [&](AttentionCase& c, const std::string& kernel) {
        ASSERT_EQ(run_case(c, kernel).message(), "");
        const std::vector<std::byte> bits = c.output_bits();
        Result<PreparedCase> p = prepare_case(c, kernel, c.limits());
        for (const int threads : {1, 2, 3, 8}) {  // 8 callers for 3 places: some wait
          c.poison_output();
          p->workspace.fill(0xff);
          ASSERT_TRUE(prepare(p->attention, p->plan, c.args(), p->workspace.span()).is_ok());
          TaskCall call{&*p, &c.args()};
          ShufflingExecutor(threads, seed).run(p->plan.num_tasks, run_task, &call);
          EXPECT_EQ(c.output_bits(), bits) << threads << " threads";
        }
      });
}

}  // namespace
}  // namespace folio::test
