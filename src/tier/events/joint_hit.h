// SPDX-License-Identifier: Apache-2.0
/// tier/events/joint_hit.h: the longest length of a prompt that every group of an engine can serve.
///
/// Lengths are looked at from the shortest on. Of each group two numbers are enough: the blocks so
/// far, and how many of the last of them it has without a gap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "folio/tier/event_index.h"

namespace folio::inline v1::tier {

class JointHit {
 public:
  /// Of groups with a rule. `name_tokens`: of a name; 0: a name is a block of every group.
  JointHit(std::span<const IndexedGroup> groups, int32_t name_tokens) noexcept {
    for (const IndexedGroup& group : groups) {
      const Part part = part_of(group, name_tokens);
      if (part.can_be_seen) parts_[num_parts_++] = part;
    }
  }

  [[nodiscard]] bool is_restricted() const noexcept { return num_parts_ > 0; }
  /// A name is looked up only where it may matter: false when no longer length can be served.
  [[nodiscard]] bool can_grow() const noexcept { return can_grow_; }
  /// The next name is there in these groups: bit i for group i.
  void add(uint64_t groups) noexcept {
    ++length_;
    bool all = true;
    for (Part& part : std::span(parts_).first(num_parts_)) {
      if (length_ % part.block_names != 0) {
        all = false;
        continue;
      }
      ++part.blocks;
      part.run = (groups >> part.group & 1) != 0 ? part.run + 1 : 0;
      all = serves(part) && all;
      if (part.rule == GroupRule::full && part.run < part.blocks) can_grow_ = false;
    }
    if (all) hit_ = length_;
  }
  [[nodiscard]] int32_t hit() const noexcept { return static_cast<int32_t>(hit_); }

 private:
  struct Part {
    bool can_be_seen = true;
    int32_t group = 0;
    GroupRule rule = GroupRule::full;
    int64_t block_names = 1;
    int64_t block_tokens = 0, chunk = 0;
    int64_t window_blocks = 0;
    int64_t blocks = 0, run = 0;
  };

  static Part part_of(const IndexedGroup& group, int32_t name_tokens) noexcept {
    Part part{.group = group.group, .rule = group.rule, .chunk = group.chunk};
    const int64_t tokens = group.block_size == 0 ? name_tokens : group.block_size;
    part.block_tokens = tokens;
    const bool needs_tokens = group.rule == GroupRule::window || group.rule == GroupRule::chunked;
    part.can_be_seen = tokens == 0 ? !needs_tokens : name_tokens == 0 || tokens % name_tokens == 0;
    if (!part.can_be_seen) return part;
    if (name_tokens != 0) part.block_names = tokens / name_tokens;
    if (group.rule == GroupRule::window)
      part.window_blocks = std::max<int64_t>((group.window - 1 + tokens - 1) / tokens, 1);
    return part;
  }

  static bool serves(const Part& part) noexcept {
    switch (part.rule) {
      case GroupRule::full: return part.run == part.blocks;
      case GroupRule::window: return part.run >= std::min(part.blocks, part.window_blocks);
      case GroupRule::chunked: {
        const int64_t begin = part.blocks * part.block_tokens / part.chunk * part.chunk;
        return part.run >= part.blocks - begin / part.block_tokens;
      }
      case GroupRule::state: return part.run > 0;
    }
    return false;
  }

  std::array<Part, EventIndex::max_groups> parts_;
  size_t num_parts_ = 0;
  int64_t length_ = 0, hit_ = 0;
  bool can_grow_ = true;
};

}  // namespace folio::inline v1::tier
