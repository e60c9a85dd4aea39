// SPDX-License-Identifier: Apache-2.0
/// cli/watch/forest.cpp: children, sizes and order of names.
#include "watch/forest.h"

#include <algorithm>
#include <limits>

namespace folio::cli {
namespace {

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

}  // namespace

void Forest::find_children() {
  const size_t count = names_.size();
  parents_.assign(count, none);
  first_.assign(count + 1, 0);
  const auto before = [](const tier::IndexedName& a, const PageName& b) { return a.name < b; };
  for (size_t i = 0; i < count; ++i) {
    if (!names_[i].has_parent) continue;
    const PageName& parent = names_[i].parent;
    const auto at = std::lower_bound(names_.begin(), names_.end(), parent, before);
    if (at == names_.end() || at->name != parent) continue;
    parents_[i] = static_cast<uint32_t>(at - names_.begin());
    ++first_[parents_[i] + 1];
  }
  for (size_t i = 0; i < count; ++i) first_[i + 1] += first_[i];
  children_.resize(first_[count]);
  std::vector<uint32_t> next(first_.begin(), first_.end());
  for (size_t i = 0; i < count; ++i)
    if (parents_[i] != none) children_[next[parents_[i]]++] = static_cast<uint32_t>(i);
}

/// Names of a circle have no root, and so no place.
void Forest::find_order() {
  for (size_t i = 0; i < names_.size(); ++i)
    if (parents_[i] == none) roots_.push_back(static_cast<uint32_t>(i));
  order_.assign(roots_.begin(), roots_.end());
  for (size_t i = 0; i < order_.size(); ++i)
    for (const uint32_t child : children(order_[i])) order_.push_back(child);
}

void Forest::sum_up() {
  known_.resize(names_.size());
  for (size_t i = order_.size(); i-- > 0;) {
    Known& node = known_[order_[i]];
    if (node.endings == 0) node.endings = 1;
    const uint32_t parent = parents_[order_[i]];
    if (parent == none) continue;
    known_[parent].names += node.names;
    known_[parent].endings += node.endings;
    known_[parent].height = std::max(known_[parent].height, node.height + 1);
  }
}

void Forest::sort_by_size() {
  const auto larger = [&](uint32_t a, uint32_t b) {
    return known_[a].names != known_[b].names ? known_[a].names > known_[b].names : a < b;
  };
  std::sort(roots_.begin(), roots_.end(), larger);
  for (const uint32_t node : order_)
    std::sort(children_.begin() + first_[node], children_.begin() + first_[node + 1], larger);
  for (size_t i = 0; i < roots_.size(); ++i) known_[roots_[i]].tree = static_cast<uint32_t>(i);
  for (const uint32_t node : order_)
    if (parents_[node] != none) known_[node].tree = known_[parents_[node]].tree;
}

void Forest::grow() {
  find_children();
  find_order();
  sum_up();
  sort_by_size();
}

// ---- The picture

namespace {

class Picture {
 public:
  explicit Picture(const Forest& forest) : forest_(forest) {}

  /// Siblings that begin behind `start` names, in rows [row, row + rows); rows >= 1.
  void draw(std::span<const uint32_t> siblings, int32_t row, int32_t rows, int64_t start) {
    // Where not all endings have a row, half of the rows are for branches of the largest siblings.
    size_t shown = 0;
    int64_t wanted = 0;  // rows beyond one each
    while (shown < siblings.size() && static_cast<int32_t>(shown) < rows) {
      if (2 * static_cast<int32_t>(shown) > rows && static_cast<int64_t>(shown) + wanted >= rows)
        break;
      wanted += forest_.endings(siblings[shown++]) - 1;
    }
    const int64_t left_out = std::ssize(siblings) - static_cast<int64_t>(shown);
    siblings = siblings.first(shown);
    int64_t spare = rows - std::ssize(siblings);
    for (const uint32_t sibling : siblings) {
      // Each has a row, and of what is left a share by its endings; no more than it has.
      const int64_t more = forest_.endings(sibling) - 1;
      const int64_t share = wanted <= spare ? more : more * spare / std::max<int64_t>(wanted, 1);
      const auto height = static_cast<int32_t>(1 + share);
      follow(sibling, row, height, start, sibling == siblings.back() ? left_out : 0);
      row += height;
      spare -= share;
      wanted -= more;
    }
  }

  std::vector<PrefixSegment> segments;

 private:
  /// From `node` on, until it branches in as many ways as there are rows for.
  void follow(uint32_t node, int32_t row, int32_t rows, int64_t start, int64_t others) {
    for (;;) {
      if (segments.size() == most_segments) return;
      PrefixSegment segment{.row = row,
                            .rows = rows,
                            .start = start,
                            .length = 1,
                            .media = forest_.media(node),
                            .names = forest_.names(node),
                            .endings = forest_.endings(node),
                            .others = others};
      auto children = forest_.children(node);
      while (children.size() == 1 && forest_.media(children[0]) == segment.media) {
        node = children[0];
        children = forest_.children(node);
        ++segment.length;
      }
      start += segment.length;
      segments.push_back(segment);
      if (children.empty()) return;
      if (rows > 1 && children.size() > 1) return draw(children, row, rows, start);
      others = std::ssize(children) - 1;
      node = children[0];
    }
  }

  const Forest& forest_;
};

}  // namespace

std::vector<PrefixSegment> picture_of(const Forest& forest) {
  Picture picture(forest);
  if (!forest.roots().empty()) picture.draw(forest.roots(), 0, most_rows, 0);
  return std::move(picture.segments);
}

}  // namespace folio::cli
