// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_namespaces.cpp: where the naive pool's contents begin: salts and adapters,
/// and items, each before the page in which it begins.
#include <algorithm>

#include "pool/pool_model.h"

namespace folio::test {

int PoolModel::open_space(const Space& space) {
  auto known = std::find_if(spaces_.begin(), spaces_.end(),
                            [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end()) {
    if (spaces_.size() == size_t{options_.max_sequences} + options_.max_namespaces)
      forget_oldest(spaces_);
    contents_.push_back({});
    known = spaces_.insert(spaces_.end(), {space, static_cast<int>(contents_.size()) - 1});
  }
  ++known->users;
  return known->content;
}

void PoolModel::close_space(const Space& space) {
  const auto known = std::find_if(spaces_.begin(), spaces_.end(),
                                  [&](const KnownSpace& s) { return s.space == space; });
  --known->users;
  known->idle_since = ++clock_;
}

int PoolModel::enter_page(Sequence& s, size_t position) {
  const int before = position == 0 ? s.space_content : pages_[s.row[position - 1]].content;
  return items_.enter(s.items, before, position);
}

}  // namespace folio::test
