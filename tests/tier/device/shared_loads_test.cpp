// SPDX-License-Identifier: Apache-2.0
/// tests/tier/device/shared_loads_test.cpp: sequences of a pool in a device's memory that share a
/// load, and copies that fail meanwhile.
#include "tier/manager/shared_loads.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "folio/tier/host_tier.h"
#include "support/temporary_folder.h"

namespace folio::test {
namespace {

class SharedLoadsOnDevice : public SharedLoads {
 protected:
  SharedLoadsOnDevice() : SharedLoads(std::make_shared<UnreachableDevice>(device_bytes)) {}

  [[nodiscard]] CacheManagerFigures figures() { return engine_.manager().figures(); }
  void admit(std::span<const Tokens> prompts) {
    for (const Tokens& tokens : prompts) ASSERT_NE(engine_.admit(tokens), nullptr);
  }
  /// Of all sequences but the first one, whose load it is.
  StepTicket step_of_those_who_wait() {
    std::vector<SequenceId> ids;
    for (size_t i = 1; i < engine_.living(); ++i) ids.push_back(engine_.id(i));
    return engine_.pool().begin_step(ids).value();
  }
  /// All compute what they lack, nothing stays held, and the next loads are none the worse.
  void finish_and_load_again() {
    device_->failing_copies = 0;
    finish();
    EXPECT_LE(device_->allocations(), 1) << "a slab is kept for the next page";
    tier_.ends_at_once = false;
    admit(std::vector{longer, longer});
    end_pages(6);
    for (const size_t i : {0U, 1U}) EXPECT_EQ(engine_.load_state(i), LoadState::loaded);
    finish();
  }
};

TEST_F(SharedLoadsOnDevice, give_all_the_same_pages) {
  admit(std::vector{prompt, prompt, prompt});
  end_pages(2);
  EXPECT_EQ(engine_.length(2), 8) << "as they come";
  end_pages(2);
  for (const size_t i : {0U, 1U, 2U}) EXPECT_EQ(engine_.load_state(i), LoadState::loaded);
  EXPECT_EQ(used_pages(), 4);
  EXPECT_EQ(figures().shared_pages, 4 + 4);
  finish_and_load_again();
}

// ---- Held by a step: the bytes are copied

TEST_F(SharedLoadsOnDevice, copy_bytes_to_sequences_that_a_step_holds) {
  admit(std::vector{prompt, prompt, prompt});
  const StepTicket step = step_of_those_who_wait();
  const std::vector<uint32_t> before(row(1), row(1) + 4);
  end_pages(4);
  EXPECT_EQ(std::vector<uint32_t>(row(1), row(1) + 4), before) << "a step may read its row";
  for (const size_t i : {0U, 1U, 2U}) EXPECT_EQ(engine_.load_state(i), LoadState::loaded);
  EXPECT_EQ(used_pages(), 4 + 4 + 4);
  EXPECT_EQ(figures().shared_pages, 4 + 4);
  engine_.pool().end_step(step).or_throw();
  finish_and_load_again();
}

TEST_F(SharedLoadsOnDevice, go_on_by_the_same_pages_where_the_step_ends) {
  admit(std::vector{prompt, prompt});
  const StepTicket step = step_of_those_who_wait();
  end_pages(2);
  EXPECT_EQ(used_pages(), 4 + 4);
  engine_.pool().end_step(step).or_throw();
  end_pages(2);
  EXPECT_EQ(engine_.load_state(1), LoadState::loaded);
  EXPECT_EQ(used_pages(), 2 + 2 + 2) << "two each of their own, two of both";
  finish_and_load_again();
}

/// Each page is two copies: out of the device, and into it.
class SharedLoadsOnDeviceBroken : public SharedLoadsOnDevice,
                                  public ::testing::WithParamInterface<int> {};

TEST_P(SharedLoadsOnDeviceBroken, end_for_those_alone_whose_copy_fails) {
  admit(std::vector{prompt, prompt, prompt});
  const StepTicket step = step_of_those_who_wait();
  device_->good_copies = GetParam();
  device_->failing_copies = 1;
  end_pages(4);
  const int32_t pages = GetParam() / 2;  // before that
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  EXPECT_EQ(engine_.load_state(1), LoadState::cut_short);
  EXPECT_EQ(engine_.length(1), pages * PatternEngine::page_size);
  EXPECT_EQ(engine_.load_state(2), LoadState::loaded);
  EXPECT_EQ(figures().loaded_pages, 4 + pages + 4);
  EXPECT_EQ(figures().shared_pages, pages + 4);
  EXPECT_EQ(figures().lost_pages, 4 - pages);
  EXPECT_EQ(engine_.manager().counters(0).value().lost_pages, 0) << "the tier did its part";
  engine_.pool().end_step(step).or_throw();
  finish_and_load_again();
}

TEST_P(SharedLoadsOnDeviceBroken, end_for_all_who_wait_where_no_copy_succeeds_any_more) {
  admit(std::vector{prompt, prompt, prompt});
  const StepTicket step = step_of_those_who_wait();
  device_->good_copies = GetParam();
  device_->failing_copies = 1000;
  end_pages(4);
  const int32_t pages = GetParam() / 2;
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  for (const size_t i : {1U, 2U}) EXPECT_EQ(engine_.load_state(i), LoadState::cut_short);
  EXPECT_EQ(engine_.length(1), pages * PatternEngine::page_size);
  EXPECT_EQ(engine_.length(2), 0);
  EXPECT_EQ(figures().shared_pages, pages);
  EXPECT_EQ(figures().lost_pages, 4 - pages + 4);
  engine_.pool().end_step(step).or_throw();
  finish_and_load_again();
}

INSTANTIATE_TEST_SUITE_P(good_copies, SharedLoadsOnDeviceBroken, ::testing::Values(0, 1, 2, 5, 7));

TEST_F(SharedLoadsOnDevice, lose_what_a_sequence_behind_a_failed_copy_was_to_bring) {
  admit(std::vector{prompt, longer, longer});  // the second one brings two pages more
  ASSERT_EQ(tier_.pending.size(), 4U + 2U);
  const StepTicket step = step_of_those_who_wait();
  device_->failing_copies = 1;
  end_pages(4);
  EXPECT_EQ(engine_.length(1), 0);
  EXPECT_EQ(engine_.load_state(2), LoadState::cut_short);
  EXPECT_EQ(engine_.length(2), 16) << "of the first one's";
  EXPECT_EQ(figures().lost_pages, 6 + 2);
  EXPECT_EQ(engine_.manager().counters(0).value().lost_pages, 2);
  end_pages(2);
  EXPECT_EQ(engine_.manager().counters(0).value().loading_pages, 0);
  engine_.pool().end_step(step).or_throw();
  finish_and_load_again();
}

TEST_F(SharedLoadsOnDevice, end_where_the_host_has_no_memory_for_copies) {
  admit(std::vector{prompt, prompt, prompt});
  const StepTicket step = step_of_those_who_wait();
  device_->has_no_memory = true;
  end_pages(4);
  EXPECT_EQ(engine_.load_state(0), LoadState::loaded);
  for (const size_t i : {1U, 2U}) EXPECT_EQ(engine_.length(i), 0);
  EXPECT_EQ(figures().lost_pages, 4 + 4);
  device_->has_no_memory = false;
  engine_.pool().end_step(step).or_throw();
  finish_and_load_again();
}

// ---- The tier's own copy

enum class Kind { host, disk };

/// Three sequences wait for one load of a tier, whose copy to the device fails.
class FailedLoadsOnDevice : public ::testing::TestWithParam<Kind> {
 protected:
  using Tokens = PatternEngine::Tokens;
  static constexpr uint32_t num_pages = 40;

  FailedLoadsOnDevice() {
    EXPECT_NE(engine_.admit(prompt_), nullptr);
    EXPECT_TRUE(engine_.compute(0));
    engine_.release(0);
    engine_.settle();
    engine_.pool().clear().or_throw();
  }
  std::unique_ptr<Tier> make() {
    const TierOptions options{.max_bytes = 8 << 20, .device = device_};
    if (GetParam() == Kind::host) return make_host_tier(options).value();
    return make_disk_tier(folder_.path(), options, {.segment_bytes = 1 << 20}).value();
  }

  const Tokens prompt_ = count_from(0, 17);
  TemporaryFolder folder_;
  std::shared_ptr<UnreachableDevice> device_ =
      std::make_shared<UnreachableDevice>(int64_t{num_pages} * PatternEngine::page_bytes);
  std::unique_ptr<Tier> tier_ = make();
  PatternEngine engine_{{.num_pages = num_pages,
                         .tiers = {{.tier = tier_.get()}},
                         .manager = {.load_deadline_ms = 0, .device = device_},
                         .device = device_->memory(),
                         .seen = device_->seen()}};
};

TEST_P(FailedLoadsOnDevice, are_lost_to_all_who_wait) {
  device_->failing_copies = 1;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(engine_.admit(prompt_)->loading_tokens, 16);
  engine_.settle();
  engine_.check();
  const int32_t pages = engine_.length(0) / PatternEngine::page_size;
  EXPECT_LT(pages, 4);
  for (const size_t i : {0U, 1U, 2U}) {
    EXPECT_EQ(engine_.load_state(i), LoadState::cut_short);
    EXPECT_EQ(engine_.length(i), pages * PatternEngine::page_size);
  }
  const TierCounters counters = engine_.manager().counters(0).value();
  EXPECT_GE(counters.load_outcomes[static_cast<size_t>(TierOutcome::failed)], 1);
  EXPECT_EQ(counters.lost_pages, 4 - pages);
  EXPECT_EQ(engine_.manager().figures().lost_pages, 3 * (4 - pages));
  EXPECT_EQ(engine_.manager().figures().shared_pages, 2 * pages);
  for (const size_t i : {0U, 1U, 2U}) EXPECT_TRUE(engine_.compute(i));
  engine_.check();
  engine_.finish();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(engine_.admit(prompt_)->loading_tokens, 16);
  engine_.settle();
  for (const size_t i : {0U, 1U, 2U}) EXPECT_EQ(engine_.load_state(i), LoadState::loaded);
  engine_.check();
  engine_.finish();
}

INSTANTIATE_TEST_SUITE_P(Tiers, FailedLoadsOnDevice, ::testing::Values(Kind::host, Kind::disk),
                         [](const auto& p) { return p.param == Kind::host ? "host" : "disk"; });

}  // namespace
}  // namespace folio::test
