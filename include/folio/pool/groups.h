// SPDX-License-Identifier: Apache-2.0
/// folio/pool/groups.h: what the layers of a hybrid model keep, group by group.
///
/// Layers whose pages have equal bytes and equal rules form a *group*. Every group has a table of
/// its own; all share one arena of bytes, cut into *slabs*. A slab is as long as the least common
/// multiple of the groups' pages and belongs to one group while any of its pages is used or cached;
/// page i of a group lies at byte i * page_bytes of the arena, whoever has the slab.
///
/// Group 0 *leads*: its rule is `full`, and its pages have the tokens by which all is found. A
/// model without full attention has a leading group of 0 bytes a page.
#pragma once

#include <cstdint>

namespace folio::inline v1::pool {

/// What a query needs of the tokens before it.
enum class GroupRule : uint8_t {
  full = 0,     ///< all: attention, latent attention (MLA) too
  window = 1,   ///< the last `window`, itself included, and the first `sinks`
  chunked = 2,  ///< those of its own chunk: from the last multiple of `chunk` on
  /// one state of fixed size after the last token: recurrent layers, such as Mamba's
  state = 3,
};

struct GroupOptions {
  GroupRule rule = GroupRule::full;
  /// Of one page over all layers of the group, 1 .. 2^40; of the leading group also 0
  int64_t page_bytes = 0;
  int32_t window = 0;  ///< tokens, >= 1; rule `window` only
  /// tokens, 0 .. window - 1; rule `window` only. For layers that are cut, not for a model's own
  /// window layers (Mask::sink_tokens)
  int32_t sinks = 0;
  int32_t chunk = 0;  ///< tokens, >= 1; rule `chunked` only
  /// tokens of a page of states: a multiple of page_size, >= 1 page; rule `state` only. The page of
  /// token i has the state after the last token so far of i's page. It can be found once no token
  /// can change it: at a multiple of `checkpoint`, or at a page's end without room behind it.
  int32_t checkpoint = 0;
};

/// The first of the `tokens` tokens so far that a query behind them needs of the group (for
/// `state`: the last, whose state it is), those of `sinks` apart. 0 for 0 tokens or fewer.
/// Expects options that a pool takes.
[[nodiscard]] constexpr int64_t first_needed_token(const GroupOptions& group,
                                                   int64_t tokens) noexcept {
  int64_t first = 0;
  switch (group.rule) {
    case GroupRule::full: break;
    case GroupRule::window: first = tokens - group.window + 1; break;
    case GroupRule::chunked: first = tokens / group.chunk * group.chunk; break;
    case GroupRule::state: first = tokens - 1; break;
  }
  return first > 0 ? first : 0;
}

/// A group as the pool has laid it out, and its pages now; used + cached + free = num_pages, and
/// free ones may lie in slabs that others have.
struct GroupFigures {
  int64_t num_pages = 0;   ///< of its view of the arena; the sentinel of its table
  int64_t page_bytes = 0;  ///< of the view: as given, or more where the slabs would be too large
  int32_t page_size = 0;   ///< tokens
  int64_t used_pages = 0, cached_pages = 0, free_pages = 0;
  int64_t evicted_pages = 0;  ///< since create
  int64_t peak_used_pages = 0;
  bool operator==(const GroupFigures&) const = default;
};

/// The tokens that the next step of a prompt should have, where a group of states has pages of
/// `checkpoint` tokens: at most `budget`, and such that it ends where a state can be kept: at a
/// multiple of `checkpoint` or else of `page_size`, if the prompt's `length` tokens have one.
/// `done` tokens are in the cache. 0 where an argument is out of range: expects 0 <= done <=
/// length, budget, page_size, checkpoint >= 1.
[[nodiscard]] constexpr int32_t tokens_to_checkpoint(int32_t done, int32_t length, int32_t budget,
                                                     int32_t page_size,
                                                     int32_t checkpoint) noexcept {
  if (done < 0 || length < done || budget < 1 || page_size < 1 || checkpoint < 1) return 0;
  const int32_t end = done + (budget < length - done ? budget : length - done);
  const int64_t next = (int64_t{done} / checkpoint + 1) * checkpoint;
  if (next <= end) {  // from inside a page of states only to its end
    const int64_t last = done % checkpoint == 0 ? int64_t{end} / checkpoint * checkpoint : next;
    return static_cast<int32_t>(last) - done;
  }
  const int32_t page_end = end / page_size * page_size;
  return end == length && page_end > done ? page_end - done : end - done;
}

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::GroupFigures;
using pool::GroupOptions;
using pool::GroupRule;
using pool::tokens_to_checkpoint;
}  // namespace folio::inline v1
