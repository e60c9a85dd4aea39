// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutant_cases.h: what tables of mutants are made of: scenarios as cases of an
/// engine, and which of them catch a fault.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/kernel_list.h"
#include "attention/mutants.h"
#include "cpu/features.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {

/// A run that is right for the shipped kernel, with the test that makes such runs.
struct MutantScenario {
  std::string_view test;
  void (*apply)(CaseOptions& o);
  void (*bend)(AttentionCase& c) = nullptr;  ///< behind what append has written
};

/// Whether the pool's last page is in use: a mutant that reads one scale too far would fault there
/// instead of being wrong.
inline bool uses_last_page(const AttentionCase& c) {
  for (int32_t b = 0; b < c.batch().size; ++b) {
    for (int64_t p = 0; p * c.options().page_size < c.batch().context_lengths[b]; ++p) {
      if (c.table_entries()[c.batch().table.row_start(b) + p] == c.args().key.num_pages - 1)
        return true;
    }
  }
  return false;
}

inline CaseOptions without_last_page(CaseOptions options) {
  while (uses_last_page(AttentionCase(options))) ++options.seed;
  return options;
}

/// Small cases, of each scenario one; `adapt` makes of it what the engine takes.
class MutantCases {
 public:
  using Adapt = void(CaseOptions& o);

  MutantCases(const Kernel& kernel, std::span<const MutantScenario> scenarios, Adapt* adapt) {
    for (const MutantScenario& scenario : scenarios) {
      auto c = std::make_unique<AttentionCase>(without_last_page(options_of(scenario, adapt)));
      if (refusal(kernel, c->problem(), machine_capabilities()) != nullptr)
        c = nullptr;
      else if (scenario.bend != nullptr)
        scenario.bend(*c);
      cases_.push_back(std::move(c));
    }
  }

  static CaseOptions options_of(const MutantScenario& scenario, Adapt* adapt) {
    CaseOptions options;
    options.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {1, 30}, {2, 300}};
    options.head_size = 32;
    options.kv_heads = 1;
    options.q_heads = 2;
    options.page_size = 8;
    options.parallelism = 4;
    scenario.apply(options);
    adapt(options);
    return options;
  }

  /// What a mutant of the engine is caught by: a letter for each scenario that the engine accepts.
  /// x: caught; -: passes.
  [[nodiscard]] std::string caught_by(const MutantEngine& engine, Mutant mutant) const {
    std::string found;
    for (const std::unique_ptr<AttentionCase>& c : cases_) {
      if (c == nullptr) {
        found += ' ';
        continue;
      }
      *engine.mutant = mutant;
      EXPECT_TRUE(run_kernel(*c, engine.kernel).is_ok());
      *engine.mutant = Mutant::none;
      found += matches_reference(*c) ? '-' : 'x';
    }
    return found;
  }

 private:
  std::vector<std::unique_ptr<AttentionCase>> cases_;  // null: the engine refuses it
};

}  // namespace folio::test
