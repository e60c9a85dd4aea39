// SPDX-License-Identifier: Apache-2.0
/// cli/replay/recorder.h: what a replay's report shows, kept while the replay runs.
///
/// Time is counted in steps and in requests that were admitted; the seconds of an age are those of
/// the trace's timestamps. What is kept is bounded, whatever the trace's length: samples of the
/// time lines, histograms, a map of pages by time, and 8 bytes a page where pages have ages.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "folio/pool/page_pool.h"
#include "load/trace.h"
#include "parts/bounded_series.h"
#include "replay/scheduler.h"

namespace folio::cli {

inline constexpr size_t most_samples = 1024;
inline constexpr size_t most_heat_columns = 128;
inline constexpr size_t most_heat_rows = 48;
inline constexpr size_t most_positions = 64;

/// Pages of one group.
struct GroupPages {
  int64_t used = 0, cached = 0;  ///< at the end of a sample, when the last step had all its pages
  int64_t evicted = 0;           ///< in it
};

/// Some steps in a row.
struct StepSample {
  int64_t end = 0;    ///< steps of the replay so far
  int64_t steps = 1;  ///< of these, in this sample
  std::vector<GroupPages> groups = {};
  /// in it: pages, or with groups tokens, that prompts looked for and found
  int64_t asked = 0, found = 0;
  int64_t free_pages = 0;        ///< at its end, without groups
  int64_t everything_bytes = 0;  ///< at its end, with groups, if all layers kept all tokens
  double seconds = 0.0;          ///< of all its steps
  double most_seconds = 0.0;     ///< of one
  void merge(const StepSample& later);
};

/// Some requests, or with groups steps, in a row: how often pages of each range were found and
/// written.
struct HeatColumn {
  int64_t end = 0;  ///< requests admitted, or steps, so far
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

/// What all replays record.
class Recorder {
 public:
  /// The end of a step that took `seconds`.
  void end_step(double seconds);

  [[nodiscard]] const std::vector<StepSample>& steps() const { return steps_.samples(); }
  /// For each group a row for each range of places, one group behind the other.
  [[nodiscard]] const std::vector<HeatColumn>& heat() const { return heat_.samples(); }
  [[nodiscard]] size_t heat_rows() const { return rows_; }  ///< of one group
  [[nodiscard]] int64_t places_per_row() const { return places_per_row_; }
  [[nodiscard]] const PositionHistogram& positions() const { return positions_; }

 protected:
  /// `places` where pages lie. The trace outlives the recorder.
  Recorder(std::span<const TraceRequest> trace, int64_t places);

  [[nodiscard]] HeatColumn column(int64_t end, size_t groups) const;
  [[nodiscard]] size_t row_of(int64_t place) const {
    return static_cast<size_t>(place / places_per_row_);
  }

  [[nodiscard]] const TraceRequest& traced(int64_t request) const {
    return trace_[static_cast<size_t>(request)];
  }
  /// The next step has this, without its time.
  void begin_step(StepSample step) {
    now_ = std::move(step);
    now_.end = ++steps_so_far_;
  }
  [[nodiscard]] StepSample& now() { return now_; }
  void add_heat(HeatColumn column) { heat_.add(std::move(column)); }
  void add_prompt(int64_t tokens, int64_t found) { positions_.add(tokens, found); }
  void add_found(int64_t begin, int64_t end) { positions_.add_found(begin, end); }

 private:
  std::span<const TraceRequest> trace_;
  StepSample now_;
  int64_t steps_so_far_ = 0;
  BoundedSeries<HeatColumn> heat_{most_heat_columns};
  PositionHistogram positions_;
  int64_t places_per_row_;
  size_t rows_;
  BoundedSeries<StepSample> steps_{most_samples};
};

/// A request that got all its pages: `row`, of which the first `found` were found with
/// `found_tokens` tokens of its prompt.
struct AdmittedRequest {
  int64_t request = 0;
  std::span<const uint32_t> row;
  int64_t found = 0;
  int64_t found_tokens = 0;
};

/// Of a pool without groups: the heat map's places are page ids, its time is in requests, and
/// evicted pages have ages.
class PageRecorder : public Recorder {
 public:
  /// `pages` of the pool.
  PageRecorder(std::span<const TraceRequest> trace, uint32_t pages)
      : Recorder(trace, pages), pages_(pages) {}

  /// Once in each step: what was admitted in it, in order; `stats` as they are then, before a page
  /// is given up.
  void admitted(std::span<const AdmittedRequest> requests, const PoolStats& stats);
  /// A request is about to give up its pages.
  void releasing(std::span<const uint32_t> row);

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
  std::vector<PageUse> pages_;
  uint32_t last_ = 0;  // request that was admitted
  int64_t admitted_ = 0;
  PoolStats before_ = {};  // of the step before
  Log2Histogram idle_requests_, idle_seconds_, finds_;
};

/// Of a pool with groups: the heat map's places are the slabs of the arena, which belong now to one
/// group and then to another, its time is in steps.
class GroupRecorder : public Recorder {
 public:
  /// `arena_bytes` that the groups share.
  GroupRecorder(std::span<const TraceRequest> trace, const PagePool& pool,
                std::span<const GroupOptions> groups, int64_t arena_bytes);

  /// Once in each step, when it has all its pages.
  void begin_step(const PagePool& pool, const Step& step, int64_t everything_bytes);

  [[nodiscard]] int64_t slab_bytes() const { return slab_bytes_; }
  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// Of one group.
  [[nodiscard]] int64_t page_bytes(size_t group) const { return groups_[group].page_bytes; }

 private:
  struct Tokens {
    int64_t begin, end;
    int64_t found;  ///< by the sequence, when it was admitted
  };
  void admit(const AdmittedSequence& admission);
  /// Counts the pages of the sequence's tokens, in each group those that it has. A page inside
  /// which `begin` or `end` lies belongs to what is in front of them; but one inside which a hit
  /// ends is written, as a copy, except of states.
  void count(const PagePool& pool, SequenceId id, Tokens tokens, std::vector<uint32_t>& counts);

  int64_t arena_bytes_;
  int64_t slab_bytes_;
  std::vector<GroupFigures> groups_;  // as they were in the step before
  std::vector<GroupRule> rules_;
};

}  // namespace folio::cli
