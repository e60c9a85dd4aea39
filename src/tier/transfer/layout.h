// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/layout.h: what the layers of an end are like, group by group, and how those of two
/// ends meet.
///
/// An end of one kind of pages has one group, which leads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "folio/tier/transfer.h"
#include "tier/transfer/geometry.h"

namespace folio::inline v1::tier {

inline constexpr size_t most_groups = 8;
inline constexpr size_t most_layers = size_t{1} << 12;

/// As peers tell it to one another.
struct GroupLayout {
  Geometry pages = {};  ///< of a leading group without layers only the page's size
  GroupRule rule = GroupRule::full;
  int32_t window = 0, sinks = 0, chunk = 0;
  int32_t page_tokens = 0;  ///< of states: from one page to the next

  void fields(auto& f) {
    pages.fields(f), f(pages.state_rows), f(rule), f(window), f(sinks), f(chunk), f(page_tokens);
  }
  [[nodiscard]] bool is_state() const noexcept { return rule == GroupRule::state; }
  [[nodiscard]] int32_t pages_for(int32_t tokens) const noexcept {
    return static_cast<int32_t>((int64_t{tokens} + page_tokens - 1) / page_tokens);
  }
  /// Of `tokens` tokens, those in front of the first page that a token behind them needs, the
  /// sinks' pages apart.
  [[nodiscard]] int32_t first_kept(int32_t tokens) const noexcept;
  /// So many tokens at the front are kept, whatever comes.
  [[nodiscard]] int32_t sink_tokens(int32_t tokens) const noexcept;
};

struct Layout {
  std::vector<GroupLayout> groups = {};
  // by layer of the model
  std::vector<uint8_t> group_of = {};
  std::vector<uint32_t> shared_crc = {};  ///< which Geometry has of layers together

  void fields(auto& f) { f(groups), f(group_of), f(shared_crc); }
  [[nodiscard]] const GroupLayout& of(size_t layer) const noexcept {
    return groups[group_of[layer]];
  }
  /// What this layer is like.
  [[nodiscard]] Geometry at(size_t layer) const noexcept {
    Geometry geometry = of(layer).pages;
    geometry.shared_crc = shared_crc[layer];
    return geometry;
  }
  [[nodiscard]] size_t num_layers() const noexcept { return group_of.size(); }
  [[nodiscard]] int32_t page_size() const noexcept { return groups[0].page_tokens; }
};

/// An end's pages, by layer of the model: planes or a state.
struct EndPages {
  Layout layout = {};
  std::vector<KVPlanes> planes = {};
  std::vector<StatePages> states = {};
  // by group
  std::vector<int64_t> num_pages = {};
  std::vector<uint32_t> pool_group = {};  ///< in whose pages its layers lie

  /// Its pages are those of another group here.
  [[nodiscard]] bool is_guest(size_t group) const noexcept { return pool_group[group] != group; }
};
/// Errors: invalid_argument naming what of `end` is wrong, unsupported for pages that no handover
/// can take, out_of_memory
[[nodiscard]] Result<EndPages> pages_of(const char* function, const TransferEnd& end) noexcept;
/// Of one kind of pages.
[[nodiscard]] Layout layout_of(const Geometry& geometry);
/// Of all layers, num_sections each. Errors: invalid_argument for pages that do not lie in
/// `end.regions`, out_of_memory
[[nodiscard]] Result<std::vector<Place>> places_of(const char* function, const TransferEnd& end,
                                                   const EndPages& pages) noexcept;

/// What a peer says its layers are like: every number is in a range in which no size overflows.
[[nodiscard]] Status check_layout(const Layout& layout) noexcept;

/// Layers that are in one group of the sender and in one of the receiver, have heads in common and
/// land alike: their pieces are of the same pages.
struct Bundle {
  uint8_t from = 0, to = 0;
  HeadRange heads = {};  ///< of the model
  bool is_direct = false;
  int32_t layers = 0;
};
struct Bundles {
  std::vector<Bundle> all = {};
  std::vector<int32_t> of = {};  ///< by layer; -1: no heads in common

  [[nodiscard]] const Bundle* of_layer(size_t layer) const noexcept {
    return of[layer] < 0 ? nullptr : &all[static_cast<size_t>(of[layer])];
  }
  [[nodiscard]] bool has(bool is_direct) const noexcept;
  /// Whether bytes land in the pages of the receiver's group.
  [[nodiscard]] bool is_direct_to(uint32_t group) const noexcept;
};
/// Of layouts that have been checked. `may_be_direct`: the receiver lets peers write to its pages.
/// Errors: unsupported with the reason, naming a layer, its groups and what both sides have; throws
/// std::bad_alloc
[[nodiscard]] Result<Bundles> bundles_of(const Layout& sender, const Layout& receiver,
                                         bool may_be_direct);

/// Tokens whose pages are to be filled in a group of the receiver.
struct TokenRun {
  uint32_t group = 0;
  int32_t first = 0, end = 0;
  bool operator==(const TokenRun&) const = default;
};
/// Whether a receiver of that layout can ask for these, in the order of groups and tokens, of a
/// prompt of so many. Null, or what is wrong.
[[nodiscard]] const char* fault_of(const Layout& receiver, std::span<const TokenRun> runs,
                                   int32_t tokens) noexcept;
/// Pages of a run that has no fault.
[[nodiscard]] inline size_t num_pages(const Layout& receiver, const TokenRun& run) noexcept {
  const GroupLayout& group = receiver.groups[run.group];
  if (group.is_state()) return 1;
  return static_cast<size_t>(group.pages_for(run.end) - run.first / group.page_tokens);
}
/// Entries of the sender's row that have some of the runs of `bundle.to`, ascending; of states the
/// last.
[[nodiscard]] std::vector<int32_t> entries_of(const Layout& sender, const Bundle& bundle,
                                              std::span<const TokenRun> runs, int32_t tokens);
/// Tokens of a piece, which is what entry `entry` has of a prompt.
[[nodiscard]] int32_t tokens_of(const GroupLayout& sender, int32_t entry, int32_t tokens) noexcept;

}  // namespace folio::inline v1::tier
