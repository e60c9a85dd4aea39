// SPDX-License-Identifier: Apache-2.0
/// cli/replay/recorder.h: what a replay's report shows, kept while the replay runs.
///
/// Time is counted in steps and in requests that were admitted; the seconds of an age are those of
/// the trace's timestamps. What is kept is bounded, whatever the trace's length: samples of the
/// time lines, histograms, a map of page ranges by time, and 8 bytes a page.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"
#include "load/trace.h"
#include "parts/bounded_series.h"

namespace folio::cli {

inline constexpr size_t most_samples = 1024;
inline constexpr size_t most_heat_columns = 128;
inline constexpr size_t most_heat_rows = 48;
inline constexpr size_t most_positions = 64;

/// Some steps in a row.
struct StepSample {
  int64_t end = 0;    ///< steps of the replay so far
  int64_t steps = 1;  ///< of these, in this sample
  /// at its end, when the last step had all its pages
  int64_t used_pages = 0, cached_pages = 0, free_pages = 0;
  int64_t lookup_pages = 0, hit_pages = 0, evicted_pages = 0;  ///< in it
  double seconds = 0.0;                                        ///< of all its steps
  double most_seconds = 0.0;                                   ///< of one
  void merge(const StepSample& later);
};

/// Some requests in a row: how often pages of each range of page ids were found and written.
struct HeatColumn {
  int64_t end = 0;  ///< requests admitted so far
  std::vector<uint32_t> found, written;
  void merge(const HeatColumn& later);
};

/// Of counts: 0, 1, 2 and 3, 4 to 7, ...: bucket i holds what has i significant bits.
struct Log2Histogram {
  std::array<int64_t, 65> counts = {};
  void add(int64_t value) { ++counts[static_cast<size_t>(std::bit_width(uint64_t(value)))]; }
};

/// Tokens that were looked for and found at each position of the prompts, in a bounded number of
/// ranges as wide as the longest prompt needs.
class PositionHistogram {
 public:
  void add(int64_t prompt, int64_t found);
  /// More of a prompt that was added: the tokens from `begin` to `end`.
  void add_found(int64_t begin, int64_t end);
  struct Range {
    int64_t tokens = 0, found = 0;
  };
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  [[nodiscard]] int64_t width() const { return width_; }  ///< tokens of a range

 private:
  int64_t width_ = 512;  // at first
  std::vector<Range> ranges_;
};

/// A request that got all its pages: `row`, of which the first `found` were found with
/// `found_tokens` tokens of its prompt.
struct AdmittedRequest {
  int64_t request = 0;
  std::span<const uint32_t> row;
  int64_t found = 0;
  int64_t found_tokens = 0;
};

class Recorder {
 public:
  /// `pages` of the pool. The trace outlives the recorder.
  Recorder(std::span<const TraceRequest> trace, uint32_t pages);

  /// Once in each step: what was admitted in it, in order; `stats` as they are then, before a page
  /// is given up.
  void admitted(std::span<const AdmittedRequest> requests, const PoolStats& stats);
  /// A request is about to give up its pages.
  void releasing(std::span<const uint32_t> row);
  /// The end of a step that took `seconds`.
  void end_step(double seconds);

  [[nodiscard]] const std::vector<StepSample>& steps() const { return steps_.samples(); }
  [[nodiscard]] const std::vector<HeatColumn>& heat() const { return heat_.samples(); }
  /// Page ids of a row of the heat map.
  [[nodiscard]] int64_t pages_per_row() const { return pages_per_row_; }
  [[nodiscard]] const PositionHistogram& positions() const { return positions_; }
  /// Of evicted pages: requests and whole seconds since their last use, and how often they had been
  /// found.
  [[nodiscard]] const Log2Histogram& idle_requests() const { return idle_requests_; }
  [[nodiscard]] const Log2Histogram& idle_seconds() const { return idle_seconds_; }
  [[nodiscard]] const Log2Histogram& finds() const { return finds_; }

 private:
  void evicted(uint32_t page, int64_t request);
  void admit(const AdmittedRequest& a, int64_t& still_free);

  struct PageUse {
    uint32_t last_request = 0;  // that held it
    uint32_t finds = 0;         // of its present content
  };
  std::span<const TraceRequest> trace_;
  std::vector<PageUse> pages_;
  int64_t pages_per_row_;
  size_t rows_;
  uint32_t now_ = 0;  // the last request that was admitted
  int64_t admitted_ = 0;
  PoolStats now_stats_ = {}, before_ = {};  // of this step, and of the one before
  int64_t steps_so_far_ = 0;
  BoundedSeries<StepSample> steps_{most_samples};
  BoundedSeries<HeatColumn> heat_{most_heat_columns};
  PositionHistogram positions_;
  Log2Histogram idle_requests_, idle_seconds_, finds_;
};

}  // namespace folio::cli
