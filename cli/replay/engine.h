// SPDX-License-Identifier: Apache-2.0
/// cli/replay/engine.h: the model's side of a replay: the cache's memory, and append and attend for
/// the layers of each group of the pool.
///
/// Groups share the memory as they share the pool's arena: page p of a group lies at p times its
/// bytes, so that a slab that goes from one group to another holds what the first one left.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/options.h"
#include "replay/layer_runner.h"
#include "replay/verify.h"

namespace folio::cli {

struct EngineOptions {
  std::vector<LayerRunnerOptions> groups;  ///< with attention; at least one
  VerifyOptions verify = {};
};

class Engine {
 public:
  /// Chooses the kernels. Takes no memory of size yet. Errors: those of LayerRunner::create
  static Result<Engine> create(const EngineOptions& options, const Executor& executor);

  /// What the cache, the steps and verifying requests of at most `longest` tokens take.
  [[nodiscard]] double required_bytes(int64_t longest) const;
  /// Errors: out_of_memory
  Status allocate();

  /// Computes a step. `copies` of each group of the pool come first. Errors: internal where a group
  /// has no page for a token that its layers see; those of the library
  Status run(const Step& step, const PagePool& pool,
             std::span<const std::span<const PageCopy>> copies);
  /// When the step is in the cache: verifies the requests that have ended with it.
  void check(const Step& step);

  [[nodiscard]] LayerTotals totals() const;
  [[nodiscard]] VerifySummary verified() const;
  [[nodiscard]] std::string kernels() const;

 private:
  struct Group {
    LayerRunner runner;
    std::unique_ptr<Verifier> verifier;  // may be null
  };
  std::vector<Group> groups_;
  Executor executor_ = {};
  Buffer blocks_, scales_;
  std::vector<int64_t> rows_;  // of the step, in one group
  bool poison_ = false;        // the cache starts as NaN instead of what its memory holds
};

}  // namespace folio::cli
