// SPDX-License-Identifier: Apache-2.0
/// cli/watch/census.cpp: names counted, and put together to trees.
#include "watch/census.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "watch/forest.h"

namespace folio::cli {
namespace {

/// Whose prefixes are shown: of the first group that needs all its blocks, or the first one.
int32_t leading_group(const tier::EventIndex& index) {
  for (int32_t i = 0; i < index.num_groups(); ++i)
    if (const tier::IndexedGroup group = index.group(i);
        !group.has_rule || group.rule == GroupRule::full)
      return i;
  return index.num_groups() > 0 ? 0 : -1;
}

void count_media(uint32_t media, PerMedium& in) {
  for (; media != 0; media &= media - 1) ++in[static_cast<size_t>(std::countr_zero(media))];
}

struct Counting {
  Census& census;
  Forest& forest;
  int32_t leading;  ///< group number; -1: none

  void add(const tier::IndexedName& name) {
    count_media(name.media, census.in);
    for (GroupCount& count : census.groups) {
      if (count.group.group != name.group) continue;
      ++count.names;
      count_media(name.media, count.in);
    }
    if (name.group == leading) forest.add(name);
  }
};

/// How far all endings of a tree go together.
int64_t shared_of(const Forest& forest, size_t root) {
  int64_t names = 1;
  for (auto children = forest.children(root); children.size() == 1;
       children = forest.children(children[0]))
    ++names;
  return names;
}

Prefixes prefixes_of(const Forest& forest) {
  Prefixes found;
  found.trees = std::ssize(forest.roots());
  found.in_circles = forest.size() - std::ssize(forest.order());
  found.names = std::ssize(forest.order());
  for (const uint32_t node : forest.order()) {
    found.unshared += forest.endings(node);
    found.shared += forest.endings(node) > 1 ? 1 : 0;
  }
  for (const uint32_t root : forest.roots()) {
    found.endings += forest.endings(root);
    found.longest = std::max<int64_t>(found.longest, forest.height(root));
    found.cut_trees += forest.is_cut(root) ? 1 : 0;
  }
  const auto count = std::min<size_t>(forest.roots().size(), most_trees);
  std::vector<PrefixTree>& largest = found.largest;
  for (const uint32_t root : forest.roots().first(count))
    largest.push_back({.root = forest.name(root),
                       .names = forest.names(root),
                       .endings = forest.endings(root),
                       .longest = forest.height(root),
                       .shared = shared_of(forest, root),
                       .is_cut = forest.is_cut(root)});
  for (const uint32_t node : forest.order())
    if (const size_t tree = forest.tree(node); tree < count)
      count_media(forest.media(node), largest[tree].in);
  found.segments = picture_of(forest);
  return found;
}

}  // namespace

Census census_of(const tier::EventIndex& index) {
  Census census;
  for (int32_t i = 0; i < std::min(index.num_media(), most_media); ++i)
    census.media.emplace_back(index.medium(i));
  for (int32_t i = 0; i < index.num_groups(); ++i)
    census.groups.push_back({.group = index.group(i)});
  const int32_t leading = leading_group(index);
  Forest forest(static_cast<size_t>(index.figures().names));
  Counting counting{census, forest, leading < 0 ? -1 : index.group(leading).group};
  index.visit(
      [](void* self, const tier::IndexedName& name) noexcept {
        static_cast<Counting*>(self)->add(name);
      },
      &counting);
  forest.grow();
  census.prefixes = prefixes_of(forest);
  census.prefixes.group = counting.leading;
  if (leading >= 0) census.prefixes.block_size = index.group(leading).block_size;
  return census;
}

}  // namespace folio::cli
