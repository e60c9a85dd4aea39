// SPDX-License-Identifier: Apache-2.0
/// cli/replay/engine.cpp: groups of layers over one memory.
#include "replay/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "folio/attention/visible_keys.h"

namespace folio::cli {
namespace {

/// NaN in every floating type.
void poison(const Buffer& buffer) {
  if (buffer.bytes() != 0) std::memset(buffer.data(), 0xff, static_cast<size_t>(buffer.bytes()));
}

/// Errors: internal for a token that the step sees and that has no page
Status check_pages(const Step& step, PageTable table, std::span<const int64_t> rows,
                   const LayerRunnerOptions& group) {
  const int64_t page_size = group.shape.page_size;
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const Running& sequence = *step.entries[i].sequence;
    const int64_t end = step.context_lengths[i];
    const int64_t begin = visible_keys(group.mask, sequence.done, 0, end).keys.begin;
    for (int64_t page = begin / page_size; page * page_size < end; ++page) {
      if (table.entries[rows[i] + page] < group.pages) continue;
      return {Errc::internal,
              fmt::format("request {}: group {} has no page for token {}, which its layers see",
                          sequence.request, group.group, std::max(begin, page * page_size))};
    }
  }
  return {};
}

}  // namespace

Result<Engine> Engine::create(const EngineOptions& options, const Executor& executor) {
  Engine engine;
  engine.executor_ = executor;
  engine.poison_ = options.verify.wanted;
  for (const LayerRunnerOptions& group : options.groups) {
    auto runner = LayerRunner::create(group, executor);
    if (!runner) return runner.error();
    Group& added = engine.groups_.emplace_back(Group{std::move(*runner), nullptr});
    if (!options.verify.wanted) continue;
    const double scale = static_cast<double>(added.runner.attention().problem().scale);
    added.verifier =
        std::make_unique<Verifier>(VerifierOptions{group.model, group.shape, group.mask, scale,
                                                   options.verify.share, options.verify.seed},
                                   executor);
  }
  return engine;
}

double Engine::required_bytes(int64_t longest) const {
  double cache = 0.0, rest = 0.0;
  for (const Group& group : groups_) {
    cache = std::max(cache, static_cast<double>(group.runner.block_bytes()) +
                                static_cast<double>(group.runner.scale_bytes()));
    rest += group.runner.required_bytes();
    if (group.verifier) rest += group.verifier->required_bytes(longest);
  }
  return cache + rest;
}

Status Engine::allocate() {
  int64_t blocks = 0, scales = 0;
  for (const Group& group : groups_) {
    blocks = std::max(blocks, group.runner.block_bytes());
    scales = std::max(scales, group.runner.scale_bytes());
  }
  for (const auto& [buffer, bytes] : {std::pair{&blocks_, blocks}, std::pair{&scales_, scales}}) {
    auto memory = Buffer::allocate(bytes);
    if (!memory) return fail(Errc::out_of_memory, "replay: no memory for {} bytes", bytes);
    *buffer = std::move(*memory);
    if (poison_) poison(*buffer);
  }
  for (Group& group : groups_)
    if (Status s = group.runner.allocate(blocks_.span(), scales_.span()); !s.is_ok()) return s;
  return {};
}

Status Engine::run(const Step& step, const PagePool& pool,
                   std::span<const std::span<const PageCopy>> copies) {
  rows_.resize(step.ids.size());
  for (Group& group : groups_) {
    const LayerRunnerOptions& options = group.runner.options();
    if (Status s = pool.batch_rows(step.ids, rows_, options.group); !s.is_ok()) return s;
    const PageTable table = pool.table(options.group);
    if (Status s = check_pages(step, table, rows_, options); !s.is_ok()) return s;
    if (Status s = group.runner.run(step, step.batch(table, rows_), copies[options.group],
                                    group.verifier.get());
        !s.is_ok())
      return s;
  }
  return {};
}

void Engine::check(const Step& step) {
  for (Group& group : groups_) {
    if (!group.verifier) continue;
    for (const StepEntry& entry : step.entries) group.verifier->check(*entry.sequence);
  }
}

LayerTotals Engine::totals() const {
  LayerTotals totals;
  for (const Group& group : groups_) totals.add(group.runner.totals());
  return totals;
}

VerifySummary Engine::verified() const {
  VerifySummary all;
  for (const Group& group : groups_)
    if (group.verifier) all.add(group.verifier->summary());
  return all;
}

std::string Engine::kernels() const {
  std::string names;
  for (const Group& group : groups_) {
    const std::string name(group.runner.attention().kernel());
    if (names.find(name) != std::string::npos) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace folio::cli
