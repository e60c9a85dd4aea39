// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/filled_tier.h: a tier that has a prompt of a hybrid model, and engines that
/// load from it.
#pragma once

#include <string>
#include <vector>

#include "tier/manager/group_engine.h"
#include "tier/manager/manual_tier.h"

namespace folio::test {

inline ModelShape shape(const std::string& name) {
  for (const ModelShape& model : model_shapes())
    if (model.name == name) return model;
  return {};
}

inline GroupEngine::Tokens tokens(int32_t count) {
  GroupEngine::Tokens all;
  for (int32_t t = 0; t < count; ++t) all.push_back(t);
  return all;
}

/// A tier that one engine has filled with a prompt of `pages` pages, and their names by group.
class Filled {
 public:
  Filled(const std::string& model, int32_t pages, int32_t hit_interval = 0,
         StorePolicy policy = StorePolicy::write_back)
      : model_(shape(model)) {
    GroupEngine engine({.model = model_,
                        .pages = 64 + 2 * pages,
                        .tiers = {{.tier = &tier, .policy = policy}},
                        .max_io_pins = 512,
                        .hit_interval = hit_interval});
    engine.admit(tokens(pages * GroupEngine::page_size + 1));
    engine.compute(0);
    for (uint32_t g = 0; g < model_.groups.size(); ++g)
      for (int32_t p = 0; p < pages; ++p)
        names_.push_back(engine.pool().name(engine.id(0), p, g).value());
    pages_ = pages;
    engine.finish();
    tier.finds = tier.finds_of_each = 0;
  }
  [[nodiscard]] const PageName& name(uint32_t group, int32_t page) const {
    return names_[static_cast<size_t>(static_cast<int32_t>(group) * pages_ + page)];
  }
  [[nodiscard]] std::vector<int32_t> stored(uint32_t group) const {
    std::vector<int32_t> pages;
    for (int32_t p = 0; p < pages_; ++p)
      if (tier.pages.contains(name(group, p))) pages.push_back(p);
    return pages;
  }
  /// Loads from the tier, and stores nothing.
  [[nodiscard]] GroupEngine::Options reader() {
    return {.model = model_,
            .pages = 64,
            .tiers = {{.tier = &tier, .policy = StorePolicy::none}},
            .manager = {.load_deadline_ms = 0}};
  }

  ManualTier tier;

 private:
  ModelShape model_;
  int32_t pages_ = 0;
  std::vector<PageName> names_;
};

/// Admits a prompt of so many pages, and waits.
inline int32_t loaded(GroupEngine& engine, int32_t pages) {
  const size_t i = engine.living();
  engine.admit(tokens(pages * GroupEngine::page_size + 1));
  engine.settle();
  engine.check();
  return engine.length(i) / GroupEngine::page_size;
}

}  // namespace folio::test
