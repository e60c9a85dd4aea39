// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/kernel_of.h: the table of one build. Templates on a tag type, evaluated where they
/// are compiled.
#pragma once

#include "cpu/index/index.h"
#include "cpu/pages/bounds.h"
#include "cpu/pages/means.h"
#include "cpu/pages/pages.h"
#include "cpu/pages/scores.h"

namespace folio::inline v1::pages {

template <class I>
consteval Kernel kernel_of(std::string_view name, const Capabilities& needs,
                           CollectScores* collect) {
  return {.name = name,
          .needs = needs,
          .begin = Bounds<I>::begin,
          .widen = Bounds<I>::widen,
          .add = Means<I>::add,
          .store = Means<I>::store,
          .prepare = Scores<I>::prepare,
          .score = Scores<I>::score,
          .sum_of_exps = Scores<I>::sum_of_exps,
          .collect = collect};
}

}  // namespace folio::inline v1::pages
