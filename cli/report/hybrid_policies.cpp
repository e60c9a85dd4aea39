// SPDX-License-Identifier: Apache-2.0
/// cli/report/hybrid_policies.cpp: eviction policies of a model with groups side by side, as a
/// table.
#include <fmt/format.h>

#include <algorithm>

#include "report/hybrid_report.h"

namespace folio::cli {
namespace {

struct Column {
  std::string title;
  std::vector<std::string> cells;
};

/// Wide enough for what stands in them; the first one to the left.
std::string table_of(const std::vector<Column>& columns) {
  std::string text;
  for (size_t row = 0; row <= columns.front().cells.size(); ++row) {
    for (const Column& column : columns) {
      const bool is_first = &column == &columns.front();
      size_t width = column.title.size();
      for (const std::string& cell : column.cells) width = std::max(width, cell.size());
      const std::string& shown = row == 0 ? column.title : column.cells[row - 1];
      text +=
          is_first ? fmt::format("{:<{}}", shown, width) : fmt::format("{:>{}}", shown, width + 2);
    }
    text += '\n';
  }
  return text;
}

template <class Value>
Column column_of(std::string title, const HybridPolicies& runs, Value value) {
  Column column{std::move(title), {}};
  for (const HybridPolicy& run : runs) column.cells.push_back(value(run.figures));
  return column;
}

std::vector<Column> columns_of(const CacheChoice& cache, const HybridPolicies& runs) {
  const TraceDemand& demand = runs.front().figures.demand;
  using Figures = const HybridFigures&;
  Column policies{"policy", {}};
  for (const HybridPolicy& run : runs) policies.cells.push_back(name(run.policy));
  std::vector<Column> columns = {std::move(policies)};
  columns.push_back(column_of("hit tokens", runs,
                              [](Figures f) { return fmt::format("{}", f.groups.hit_tokens); }));
  columns.push_back(column_of("of tokens", runs, [&](Figures f) {
    return fmt::format("{:.4f}", hit_rate(f.groups, demand));
  }));
  if (cache.partial != 0) {
    columns.push_back(column_of(
        "in pages", runs, [](Figures f) { return fmt::format("{}", f.groups.partial_tokens); }));
  }
  columns.push_back(column_of("all kept", runs, [&](Figures f) {
    return f.uniform ? fmt::format("{:.4f}", hit_rate(*f.uniform, demand)) : "none";
  }));
  for (size_t g = 0; g < runs.front().figures.groups.groups.size(); ++g) {
    const GroupOptions& group = runs.front().figures.groups.groups[g].options;
    columns.push_back(column_of("evicted " + title_of(group), runs, [&](Figures f) {
      return fmt::format("{}", f.groups.groups[g].evicted_pages);
    }));
  }
  columns.push_back(
      column_of("evicted GiB", runs, [](Figures f) { return shown_gib(evicted_bytes(f.groups)); }));
  columns.push_back(column_of("peak GiB", runs, [](Figures f) {
    return shown_gib(static_cast<double>(f.groups.used.peak));
  }));
  columns.push_back(
      column_of("steps", runs, [](Figures f) { return fmt::format("{}", f.groups.steps); }));
  columns.push_back(column_of("preemptions", runs,
                              [](Figures f) { return fmt::format("{}", f.groups.preemptions); }));
  return columns;
}

}  // namespace

std::string summary_of(const ReplayOptions& options, const HybridModel& model,
                       const HybridPolicies& runs) {
  Summary text = summary_head(options, model, runs.front().figures);
  text.text += table_of(columns_of(options.cache, runs));
  text.line("all kept", "tokens found by as much memory whose layers all keep everything");
  text.line("optimum", no_optimum);
  return text.text;
}

}  // namespace folio::cli
