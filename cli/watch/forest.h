// SPDX-License-Identifier: Apache-2.0
/// cli/watch/forest.h: names and their parents as trees. Nodes are numbers from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/tier/event_index.h"
#include "watch/census.h"

namespace folio::cli {

class Forest {
 public:
  /// So many names are to come at most.
  explicit Forest(size_t most) { names_.reserve(most); }
  /// In ascending order of names, each once.
  void add(const tier::IndexedName& name) { names_.push_back(name); }
  /// Behind the last name; what stands below may be asked then. O(n log n)
  void grow();

  [[nodiscard]] int64_t size() const { return std::ssize(names_); }
  /// The largest tree first.
  [[nodiscard]] std::span<const uint32_t> roots() const { return roots_; }
  /// All nodes that have a root, parents before children.
  [[nodiscard]] std::span<const uint32_t> order() const { return order_; }

  [[nodiscard]] const PageName& name(size_t node) const { return names_[node].name; }
  [[nodiscard]] uint32_t media(size_t node) const { return names_[node].media; }
  /// It has a parent that is not there.
  [[nodiscard]] bool is_cut(size_t root) const { return names_[root].has_parent; }
  /// With the most names behind them first.
  [[nodiscard]] std::span<const uint32_t> children(size_t node) const {
    return std::span(children_).subspan(first_[node], first_[node + 1] - first_[node]);
  }
  /// Of it and all behind it.
  [[nodiscard]] int64_t names(size_t node) const { return known_[node].names; }
  [[nodiscard]] int64_t endings(size_t node) const { return known_[node].endings; }
  /// Names of the longest path from it on.
  [[nodiscard]] int64_t height(size_t node) const { return known_[node].height; }
  /// Where its root stands among `roots`.
  [[nodiscard]] size_t tree(size_t node) const { return known_[node].tree; }

 private:
  struct Known {
    uint32_t names = 1, endings = 0, height = 1, tree = 0;
  };
  void find_children();
  void find_order();
  void sum_up();
  void sort_by_size();

  std::vector<tier::IndexedName> names_;
  std::vector<uint32_t> parents_;           // of each; `none`
  std::vector<uint32_t> first_, children_;  // children of node i: first_[i] .. first_[i + 1]
  std::vector<uint32_t> roots_, order_;
  std::vector<Known> known_;
};

/// The forest in at most most_rows rows and most_segments segments: a row for each ending, as long
/// as there are rows; the largest ones.
std::vector<PrefixSegment> picture_of(const Forest& forest);

}  // namespace folio::cli
