// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid_recorder.h: what the report of a model with groups shows, kept while it runs.
///
/// Bounded as in recorder.h, whatever the trace's length. The map of pages is one of the arena: a
/// row is a range of slabs, which belong now to one group and then to another.
#pragma once

#include <cstdint>
#include <vector>

#include "folio/pool/page_pool.h"
#include "load/trace.h"
#include "parts/bounded_series.h"
#include "replay/recorder.h"
#include "replay/scheduler.h"

namespace folio::cli {

/// Pages of one group.
struct GroupPages {
  int64_t used = 0, cached = 0;  ///< at the end of a sample, when the last step had all its pages
  int64_t evicted = 0;           ///< in it
};

/// Some steps in a row.
struct HybridSample {
  int64_t end = 0;    ///< steps of the replay so far
  int64_t steps = 1;  ///< of these, in this sample
  std::vector<GroupPages> groups = {};
  int64_t everything_bytes = 0;  ///< at its end, if all layers kept all tokens
  int64_t prompt_tokens = 0;     ///< of the requests that are new in it
  int64_t hit_tokens = 0;        ///< found in it
  double seconds = 0.0;          ///< of the pool in all its steps
  double most_seconds = 0.0;     ///< in one
  void merge(const HybridSample& later);
};

class HybridRecorder {
 public:
  /// `arena_bytes` that the groups share. The trace outlives the recorder.
  HybridRecorder(std::span<const TraceRequest> trace, const PagePool& pool,
                 std::span<const GroupOptions> groups, int64_t arena_bytes);

  /// Once in each step, when it has all its pages.
  void begin_step(const PagePool& pool, const Step& step, int64_t everything_bytes);
  /// The end of a step in which the pool took `seconds`.
  void end_step(double seconds);

  [[nodiscard]] const std::vector<HybridSample>& steps() const { return steps_.samples(); }
  /// By steps: for each group a row for each range of slabs, one group behind the other.
  [[nodiscard]] const std::vector<HeatColumn>& heat() const { return heat_.samples(); }
  [[nodiscard]] size_t heat_rows() const { return rows_; }  ///< of one group
  [[nodiscard]] int64_t slab_bytes() const { return slab_bytes_; }
  [[nodiscard]] int64_t slabs_per_row() const { return slabs_per_row_; }
  [[nodiscard]] const PositionHistogram& positions() const { return positions_; }
  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// Of one group.
  [[nodiscard]] int64_t page_bytes(size_t group) const { return groups_[group].page_bytes; }
  [[nodiscard]] size_t num_groups() const { return groups_.size(); }

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

  std::span<const TraceRequest> trace_;
  std::vector<GroupFigures> groups_;  // as they were in the step before
  std::vector<GroupRule> rules_;
  int64_t arena_bytes_;
  int64_t slab_bytes_ = 1;
  int64_t slabs_per_row_ = 1;
  size_t rows_ = 1;
  int64_t steps_so_far_ = 0;
  HybridSample now_;
  BoundedSeries<HybridSample> steps_{most_samples};
  BoundedSeries<HeatColumn> heat_{most_heat_columns};
  PositionHistogram positions_;
};

}  // namespace folio::cli
