// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/page_case.h: random problems of select_pages over K that has summaries, and what
/// should come of them, computed in double from the definition.
#pragma once

#include <memory>
#include <vector>

#include "folio/sparse/pages.h"
#include "support/guarded_memory.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {

struct PageOptions {
  bool is_exact = true;  ///< small whole numbers: scores have no rounding
  bool windows = true;   ///< masks other than causal
  double unassigned = 0.1;
};

class PageCase {
 public:
  PageCase(Rng& rng, const PageOptions& options);

  [[nodiscard]] int64_t tokens() const { return offsets_.back(); }
  [[nodiscard]] int32_t lists() const {
    return args.lists == PageLists::per_kv_head ? args.summaries.rows.num_heads : 1;
  }
  [[nodiscard]] int64_t count() const { return int64_t{args.k_pages} * args.page_size; }
  [[nodiscard]] int32_t q_heads() const { return static_cast<int32_t>(args.q.extent[1]); }
  /// Runs with workspace for `parallelism` tasks; lists and missed in memory of their own.
  void select(const Executor& executor, int32_t parallelism);

  /// A page that the query sees.
  struct Seen {
    int64_t page = 0;  ///< of the plane
    std::vector<int64_t> keys;
  };
  [[nodiscard]] int32_t sequence_of(int64_t token) const;
  /// Assigned ones, in ascending order of keys.
  [[nodiscard]] std::vector<Seen> seen_by(int64_t token) const;
  [[nodiscard]] double score(int64_t token, int32_t q_head, int64_t page) const;
  /// Numbers of the pages of a list, of those that the query sees.
  [[nodiscard]] std::vector<size_t> chosen(int64_t token, int32_t list,
                                           const std::vector<Seen>& seen) const;
  [[nodiscard]] std::vector<int32_t> expected(int64_t token, int32_t list) const;
  [[nodiscard]] const int32_t* list(int64_t token, int32_t list) const {
    return selected.data() + (token * lists() + list) * args.stride;
  }
  [[nodiscard]] double q_at(int64_t token, int32_t q_head, int32_t d) const;
  [[nodiscard]] double scale() const;

  TestPlane key, rows;
  PageArgs args = {};
  Batch batch = {};
  std::vector<int32_t> selected;
  std::vector<float> missed;

 private:
  static PlaneSpec key_spec(Rng& rng);
  static PlaneSpec summary_spec(const PlaneSpec& key, Rng& rng, SummaryKind kind);
  PageCase(Rng& rng, const PageOptions& options, const PlaneSpec& spec, SummaryKind kind);
  void make_batch(Rng& rng, const PageOptions& options);
  void fill(Rng& rng, const PageOptions& options);
  [[nodiscard]] bool sees(int32_t sequence, int64_t token, int64_t key_index) const;

  std::vector<int32_t> offsets_ = {0}, lengths_, positions_, key_positions_, begins_, ends_;
  std::vector<uint32_t> entries_;
  std::vector<int64_t> starts_;
  std::unique_ptr<GuardedMemory> q_, table_;
};

}  // namespace folio::test
