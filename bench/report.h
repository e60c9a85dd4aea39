// SPDX-License-Identifier: Apache-2.0
/// bench/report.h: the rows that benches produce: JSON for machines, a table for people.
///
/// The file holds {context, rows, ratios} of one process; the context names machine, commit,
/// compiler, flags and when the process began. A row is {kernel, shape, threads, ms, gb_per_s,
/// gflop_per_s, roof, percent_of_roof, machine, commit}; `roof` is {name, gb_per_s or gflop_per_s,
/// how}. A row replaces an earlier one of the same kernel, shape and threads. Not thread safe.
#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace folio::bench {

/// What every bench of ours understands beside Google Benchmark's own flags; taken out of argv.
struct ReportOptions {
  std::string json;                ///< --json=FILE; empty: no file
  std::string commit = "unknown";  ///< --commit=ID
  std::string kernel;              ///< --kernel=NAME; empty: what Attention::create selects
};
ReportOptions take_options(int& argc, char** argv);

struct Roof {
  std::string name;         ///< R, P or C; empty: the row has no roof
  double per_second = 0.0;  ///< bytes (R, C) or floating-point operations (P)
  std::string how;          ///< the pattern or unit that was fastest
};

struct Row {
  std::string kernel;
  std::string shape;
  int threads = 1;
  double seconds = 0.0;  ///< median
  double bytes = 0.0;    ///< that one run must read (R) or move (C)
  double flops = 0.0;    ///< that one run must do
  Roof roof;

  [[nodiscard]] double percent_of_roof() const;  ///< 0 without roof
};

/// A figure made of several rows, or of one row's workers.
struct Ratio {
  std::string name;
  double value = 0.0;
};

class Report {
 public:
  explicit Report(ReportOptions options);

  void set(const Row& row);
  void set(const Ratio& ratio);
  /// The row of that shape and number of threads; null if there is none.
  [[nodiscard]] const Row* find(const std::string& shape, int threads) const;

  /// Writes the file if one was asked for, and prints the table. Throws std::runtime_error if the
  /// file cannot be written.
  void finish() const;

  [[nodiscard]] const ReportOptions& options() const { return options_; }

 private:
  ReportOptions options_;
  std::string machine_;
  std::time_t began_;
  std::vector<Row> rows_;
  std::vector<Ratio> ratios_;
};

/// Raises a row's roof to those that the report has of its shape on fewer cores: more cores can do
/// what fewer can.
void raise_to_fewer(Row& row, const Report& report);

/// "Intel Xeon ..., family 6, model 207, 2 processors".
std::string machine_name();

}  // namespace folio::bench
