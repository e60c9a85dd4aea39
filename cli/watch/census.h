// SPDX-License-Identifier: Apache-2.0
/// cli/watch/census.h: what an index has at one moment: names by group and medium, and the prefixes
/// that they form.
///
/// A name stands for a page and everything before it, so names and their parents are trees: a root
/// is the first page of prompts, a path down from it one prompt's beginning. What comes from the
/// network may be anything: parents that are not there, circles of parents, chains of any length.
/// All work is O(names log names), and nothing calls itself deeper than there are rows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "folio/tier/event_index.h"

namespace folio::cli {

constexpr int32_t most_media = 16, most_trees = 20, most_rows = 32;
constexpr size_t most_segments = 512;

/// By medium, as `Census::media` has them.
using PerMedium = std::array<int64_t, most_media>;

struct GroupCount {
  tier::IndexedGroup group;
  int64_t names = 0;
  PerMedium in = {};
};

struct PrefixTree {
  PageName root;
  int64_t names = 0;
  int64_t endings = 0;  ///< names that nothing continues
  int64_t longest = 0;  ///< names of the longest path
  int64_t shared = 0;   ///< names that all endings begin with: all, where there is one ending
  PerMedium in = {};
  bool is_cut = false;  ///< its first page has a parent, which is not there
};

/// Names behind one another, in the same media and without a branch, as the picture has them.
struct PrefixSegment {
  int32_t row = 0, rows = 1;       ///< of most_rows; what continues it stands in these rows
  int64_t start = 0, length = 0;   ///< names
  uint32_t media = 0;              ///< bit i: all of them are in `Census::media[i]`
  int64_t names = 0, endings = 0;  ///< of it and all behind it
  int64_t others = 0;              ///< siblings for which there was no row: it stands for these
};

struct Prefixes {
  int32_t group = -1;      ///< whose they are; -1: nothing is told yet
  int32_t block_size = 0;  ///< tokens of a name; 0: not told
  int64_t trees = 0, cut_trees = 0;
  int64_t names = 0, endings = 0, longest = 0;
  int64_t shared = 0;               ///< names with more than one ending behind them
  int64_t unshared = 0;             ///< names there would be if prompts shared none
  int64_t in_circles = 0;           ///< names without a root
  std::vector<PrefixTree> largest;  ///< at most most_trees, the largest first
  std::vector<PrefixSegment> segments;
};

struct Census {
  std::vector<std::string> media;  ///< as told, any bytes
  PerMedium in = {};               ///< names of all groups
  std::vector<GroupCount> groups;
  Prefixes prefixes;
  [[nodiscard]] int64_t names() const {
    int64_t all = 0;
    for (const GroupCount& count : groups) all += count.names;
    return all;
  }
};

Census census_of(const tier::EventIndex& index);

}  // namespace folio::cli
