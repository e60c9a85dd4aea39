// SPDX-License-Identifier: Apache-2.0
/// tier/manager/joint_plan.h: where the pages of a prompt are in each group, and how long a hit all
/// of them can serve.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::inline v1::tier {

/// Of the leading pages behind a sequence's own, which are whole and have all that a hit of them
/// needs: page i is the first one behind + i. Throws std::bad_alloc.
class JointPlan {
 public:
  /// A tier's index, or one of these.
  using Place = int32_t;
  static constexpr Place nowhere = -1, here = -2;

  JointPlan() = default;  ///< of no groups
  /// `rules` of all groups, the leading one first.
  JointPlan(std::span<const GroupOptions> rules, int32_t page_size, int32_t first_page)
      : rules_(rules.begin(), rules.end()),
        page_size_(page_size),
        first_page_(first_page),
        places_(rules.size()),
        names_(rules.size()) {}

  /// Leading pages that are in memory or in tiers.
  [[nodiscard]] size_t reach() const { return places_.front().size(); }
  void resize(size_t reach) {
    for (auto& places : places_) places.resize(reach, nowhere);
  }
  [[nodiscard]] size_t num_groups() const { return rules_.size(); }
  [[nodiscard]] int32_t first_page() const { return first_page_; }
  [[nodiscard]] Place& place(size_t group, size_t page) { return places_[group][page]; }
  [[nodiscard]] Place place(size_t group, size_t page) const { return places_[group][page]; }
  /// Of a group's pages, as far as they are known.
  [[nodiscard]] std::vector<PageName>& names(size_t group) { return names_[group]; }
  [[nodiscard]] const std::vector<PageName>& names(size_t group) const { return names_[group]; }

  /// Leading pages of the first `pages` that tiers have.
  [[nodiscard]] int64_t count_below(size_t pages) const {
    return std::count_if(places_.front().begin(),
                         places_.front().begin() + static_cast<std::ptrdiff_t>(pages),
                         [](Place place) { return place >= 0; });
  }
  /// Whether a hit that ends behind `pages` of these pages needs the group's page `page`.
  [[nodiscard]] bool needs(size_t group, size_t page, size_t pages) const;
  /// The longest hit of at most so many pages that all groups can serve; with pages that are here
  /// alone, or with those of tiers, too.
  [[nodiscard]] size_t longest(size_t at_most, bool only_here = false) const;

 private:
  /// Pages of the sequence and of these in front of what a hit of `pages` needs.
  [[nodiscard]] int64_t first_needed(size_t group, size_t pages) const {
    const int64_t tokens = (first_page_ + static_cast<int64_t>(pages)) * page_size_;
    return first_needed_token(rules_[group], tokens) / page_size_;
  }
  [[nodiscard]] int64_t sink_pages(size_t group) const {
    return (int64_t{rules_[group].sinks} + page_size_ - 1) / page_size_;
  }

  std::vector<GroupOptions> rules_;
  int32_t page_size_ = 0, first_page_ = 0;
  std::vector<std::vector<Place>> places_;  ///< [group][page]
  std::vector<std::vector<PageName>> names_;
};

}  // namespace folio::inline v1::tier
