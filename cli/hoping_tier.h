// SPDX-License-Identifier: Apache-2.0
/// cli/hoping_tier.h: a tier that hopes to have pages when they are looked for, and not when they
/// are to be stored.
///
/// RedisTier's `find` says of a page that nobody has asked the server for that it is there
/// (UnknownPages::hoped). That is right before a load, which finds out, and wrong before a store.
#pragma once

#include <memory>
#include <utility>

#include "folio/tier/tier.h"

namespace folio::cli {

class HopingTier final : public Tier {
 public:
  explicit HopingTier(std::unique_ptr<Tier> tier) : tier_(std::move(tier)) {}

  enum class Mood : uint8_t { hopes = 0, doubts = 1 };
  void set(Mood mood) { mood_ = mood; }

  int32_t find(std::span<const PageName> names) noexcept override {
    return mood_ == Mood::hopes ? tier_->find(names) : 0;
  }
  Result<TierTicket> load(std::span<const TierPage> pages, int64_t deadline_ms,
                          LoadOrder order) noexcept override {
    return tier_->load(pages, deadline_ms, order);
  }
  uint32_t landed(TierTicket ticket) const noexcept override { return tier_->landed(ticket); }
  Result<TierTicket> store(std::span<const TierPage> pages) noexcept override {
    return tier_->store(pages);
  }
  Status drop(std::span<const PageName> names) noexcept override { return tier_->drop(names); }
  void cancel(TierTicket ticket) noexcept override { tier_->cancel(ticket); }
  size_t poll(std::span<TierCompletion> completions) noexcept override {
    return tier_->poll(completions);
  }
  TierFigures figures() const noexcept override { return tier_->figures(); }
  Status last_fault() const noexcept override { return tier_->last_fault(); }

 private:
  std::unique_ptr<Tier> tier_;
  Mood mood_ = Mood::hopes;
};

}  // namespace folio::cli
