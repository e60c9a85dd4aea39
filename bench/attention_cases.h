// SPDX-License-Identifier: Apache-2.0
/// bench/attention_cases.h: the grid of attention benches.
#pragma once

#include <string>
#include <vector>

#include "attention_workload.h"

namespace folio::bench {

/// Which roof a case is held against.
enum class RoofKind : uint8_t {
  read,        ///< R
  arithmetic,  ///< P of the fastest unit
  nearer,      ///< of these two the one that leaves less time
  fma,         ///< P of f32 multiply-adds: for f32 operands
  none,
};

struct Case {
  std::string shape;  ///< its name: operation/dtype/..., unique
  WorkloadShape workload;
  RoofKind roof = RoofKind::read;
  bool one_core = true;
  bool two_cores = false;
};

std::vector<Case> attention_cases();

/// Shape `faster` against shape `slower`: a ratio of times per token that the report states. Both
/// have the same lengths.
struct Comparison {
  std::string name;
  std::string slower;
  std::string faster;
};

std::vector<Comparison> comparisons();

}  // namespace folio::bench
