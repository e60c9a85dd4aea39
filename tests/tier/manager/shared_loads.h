// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/shared_loads.h: prompts that a tier alone has, and loads that end page by
/// page as the test says.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "tier/device/unreachable_device.h"
#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {

class SharedLoads : public ::testing::Test {
 protected:
  using Tokens = PatternEngine::Tokens;
  static constexpr uint32_t num_pages = 40;
  static inline const Tokens prompt = count_from(0, 17);  // four full pages
  static inline const Tokens longer = count_from(0, 25);  // six
  static constexpr int64_t device_bytes = int64_t{num_pages} * PatternEngine::page_bytes;

  SharedLoads() : SharedLoads(nullptr) {}
  /// Pages lie in its memory; null: in the host's.
  explicit SharedLoads(std::shared_ptr<UnreachableDevice> device)
      : device_(std::move(device)), engine_(options()) {
    if (device_ != nullptr) tier_.seen_by = device_->seen_by();
    put_down(longer);
  }

  /// In the tier alone.
  void put_down(const Tokens& tokens) {
    EXPECT_NE(engine_.admit(tokens), nullptr);
    engine_.settle();
    EXPECT_TRUE(engine_.compute(0));
    engine_.release(0);
    engine_.settle();
    engine_.pool().clear().or_throw();
    tier_.load_calls = 0;
    tier_.ends_at_once = false;
  }
  void end_pages(size_t count) {
    for (size_t i = 0; i < count; ++i) tier_.end();
    engine_.manager().poll();
    engine_.check();
  }
  [[nodiscard]] int64_t used_pages() { return engine_.pool().stats().used_pages; }
  [[nodiscard]] const uint32_t* row(size_t i) {
    return engine_.pool().table().entries + engine_.pool().row_start(engine_.id(i)).value();
  }
  void finish() {
    tier_.ends_at_once = true;
    engine_.settle();
    engine_.check();
    for (size_t i = 0; i < engine_.living(); ++i) EXPECT_TRUE(engine_.compute(i));
    engine_.check();
    engine_.finish();
  }

  const std::shared_ptr<UnreachableDevice> device_;
  ManualTier tier_;
  ManualClock clock_;
  PatternEngine engine_;

 private:
  PatternEngine::Options options() {
    PatternEngine::Options options{
        .num_pages = num_pages,
        .tiers = {{.tier = &tier_}},
        .max_spans = 4,
        .manager = {.load_deadline_ms = 10, .clock = clock_.clock(), .device = device_}};
    if (device_ != nullptr) {
      options.device = device_->memory();
      options.seen = device_->seen();
    }
    return options;
  }
};

}  // namespace folio::test
