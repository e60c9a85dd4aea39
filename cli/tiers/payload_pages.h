// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/payload_pages.h: the payloads of a pool's pages, each kind in memory of its own, and
/// whether a sequence's are those of its tokens.
///
/// Rows are looked at when a call needs them: the pool changes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "folio/core/buffer.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/cache_manager.h"
#include "tiers/payload_pattern.h"
#include "tiers/tiers.h"

namespace folio::cli {

class PayloadPages {
 public:
  PayloadPages() = default;
  /// For the groups of the pool, one kind each. Errors: invalid_argument for payloads of 2 GiB;
  /// out_of_memory
  static Result<PayloadPages> create(const PagePool& pool, std::span<const PageKind> kinds);

  /// Says where pages are, and which of windows and chunks go down; the payloads outlive the
  /// manager.
  void describe(CacheManagerOptions& options, int32_t hit_interval);

  /// The page `position` of the sequence becomes full with the pattern's last token, in each group
  /// that has it.
  void fill(SequenceId id, int64_t position, const PagePattern& pattern) const;
  /// The sequence has so many tokens: its states are those behind the last one.
  void fill_states(SequenceId id, int64_t tokens, const PagePattern& pattern) const;

  struct Fault {
    uint32_t group = 0;
    int64_t page = 0;         ///< of the leading ones, with whose last token it ends
    bool is_missing = false;  ///< from the row; else its bytes are wrong
  };
  /// Whether the row has what a hit of `tokens`, whole pages, needs of each group, and with the
  /// right bytes; `pattern` becomes that of these tokens. The first fault; `checked` counts pages.
  [[nodiscard]] std::optional<Fault> fault_of(SequenceId id, std::span<const TokenId> tokens,
                                              PagePattern& pattern, int64_t& checked) const;
  /// Changes a bit of the last page of a hit of so many tokens, in the last group.
  void damage(SequenceId id, int64_t tokens) const;

 private:
  struct Group {
    GroupOptions rule;
    int32_t page_size = 0;
    int64_t num_pages = 0;
    int64_t bytes = 0;  ///< of a page
    Buffer memory;
    std::vector<KVPlanes> planes;
    tier::StatePages states;
    int32_t layer = 0;  ///< of the manager: one for each group
  };
  /// Null where the row has no page.
  [[nodiscard]] MemorySpan page_at(SequenceId id, uint32_t group, int64_t position) const;
  [[nodiscard]] bool has_states(const Group& group) const {
    return group.rule.rule == GroupRule::state;
  }

  const PagePool* pool_ = nullptr;
  std::vector<Group> groups_;
  std::vector<tier::GroupOfCache> of_cache_;
};

}  // namespace folio::cli
