// SPDX-License-Identifier: Apache-2.0
/// tests/support/attention_case.h: one attention problem with all its memory, built to show faults.
///
/// By default page ids are permuted, prefixes are shared between sequences, and every buffer starts
/// as NaN: values, scales, gaps between strides, outputs. Only slots that some query sees are
/// written, through folio::append; all others stay NaN (dead slots). Table entries of pages that
/// nobody sees hold garbage. Pools, tables, lengths and outputs end at inaccessible memory, so
/// nothing is padded. The exact result comes from the reference, lazily. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "folio/cache/planes.h"
#include "reference/attention.h"
#include "support/guarded_memory.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace folio::test {

/// Who shares a scale. The first five are calibrated (slot stride 0) and written by the case;
/// append computes the others.
enum class ScaleKind {
  none,
  tensor,
  head,
  page,
  page_and_head,
  calibrated_granule,
  token_and_head,
  granule,
  behind_row
};
enum class TableForm { dense, csr, rows_in_larger };
/// Which pages sequences share: some begin with those of an earlier one, as far as both go; or they
/// have forked from one another (support/forked_pages.h).
enum class Sharing { beginnings, forks };
/// Which new tokens a query sees: all that the mask shows; those before it and itself; ancestors of
/// a random tree, some of whose nodes nobody sees; any bits.
enum class TreeForm { none, chain, random, bits };
enum class BiasForm { none, shared, per_head };
/// How the dimensions of the bias lie: as they are named, rows before heads, all backwards.
enum class BiasLayout { as_named, rows_first, backwards };
/// V beside K in one memory, in K's order: single rows in turn, runs (all heads of a slot, or all
/// slots of a head), or pages.
enum class Pair { none, of_rows, of_runs, of_pages };

struct ScaleOptions {
  ScaleKind kind = ScaleKind::none;
  DType dtype = DType::f32;
  int32_t granularity = 16;  ///< of the granule kinds
  bool tensor_scale = false;
  Zeros zeros = Zeros::none;  ///< of u4
};

/// What rows of a plane go through before they are quantised.
struct TurnOptions {
  Hadamard hadamard = {};
  bool channel_scales = false;
};

struct SequenceShape {
  int32_t new_tokens = 1;
  int32_t context = 1;
};

struct CaseOptions {
  std::vector<SequenceShape> sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {17, 130}};
  int32_t q_heads = 4;
  int32_t kv_heads = 2;
  int32_t head_size = 64;
  int32_t v_head_size = 0;  ///< 0: head_size
  int32_t page_size = 16;
  DType q_dtype = DType::f32;
  DType out_dtype = DType::f32;
  DType key_dtype = DType::f32;
  DType value_dtype = DType::f32;
  ScaleOptions key_scales = {};
  ScaleOptions value_scales = {};
  TurnOptions key_turn = {};
  TurnOptions value_turn = {};  ///< not with value_in_key
  StorageOrder key_order = StorageOrder::token_major;
  StorageOrder value_order = StorageOrder::token_major;
  int32_t gap_bytes = 0;  ///< between heads, slots and pages; a multiple of 4
  /// between heads and rows of q, out and bias; a multiple of 4; -1: gap_bytes
  int32_t row_gap_bytes = -1;
  bool value_in_key = false;
  Pair pair = Pair::none;  ///< not with value_in_key
  Mask mask = Mask::causal();
  float scale = 0.0f;
  float softcap = 0.0f;
  bool sink_logits = false;
  bool alibi = false;
  BiasForm bias = BiasForm::none;
  bool sink_per_query = false;  ///< these five: with their term alone
  DType sink_dtype = DType::f32;
  bool bias_per_sequence = false;
  DType bias_dtype = DType::f32;
  BiasLayout bias_layout = BiasLayout::as_named;
  bool alibi_positions = false;
  /// entries of each query's list of keys, at random among those of its sequence, with holes and
  /// keys twice; 0: no lists
  int32_t selected = 0;
  bool selected_per_head = false;  ///< with selected: each KV head has lists of its own
  bool intervals = false;
  TreeForm tree = TreeForm::none;
  bool lse = true;
  bool query_positions = false;  ///< given, and not the default
  bool key_positions = false;    ///< given, and not 0
  /// given as they stand, of each sequence; empty: as above
  std::vector<int32_t> first_query_positions = {};
  std::vector<int32_t> first_key_positions = {};
  TableForm table = TableForm::dense;
  double unassigned = 0.0;  ///< share of visible pages whose entry is no page
  double shared = 0.4;      ///< share of sequences that begin with the pages of an earlier one
  Sharing sharing = Sharing::beginnings;  ///< forks: whatever `shared` says
  Reproducible reproducible = Reproducible::per_plan;
  bool bf16_operands = false;
  bool int8_operands = false;
  int32_t parallelism = 1;
  float q_amplitude = 3.0f;  ///< larger: sharper softmax
  float outliers = 1.0f;     ///< one column in 29 of K and V is so many times the others
  uint64_t seed = 1;
};

/// One line that names everything which differs from the defaults; for failure messages.
std::string describe(const CaseOptions& options);

class AttentionCase {
 public:
  explicit AttentionCase(CaseOptions options);
  AttentionCase(const AttentionCase&) = delete;  // views and batch point into it
  AttentionCase& operator=(const AttentionCase&) = delete;

  [[nodiscard]] const CaseOptions& options() const { return options_; }
  [[nodiscard]] const AttentionProblem& problem() const { return problem_; }
  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] const AttentionArgs& args() const { return args_; }
  [[nodiscard]] AttentionLimits limits() const;
  [[nodiscard]] int64_t tokens() const { return batch_.query_offsets[batch_.size]; }
  [[nodiscard]] int32_t sequence_of(int64_t row) const;

  /// For tests that break or bend something.
  AttentionProblem& problem() { return problem_; }
  Batch& batch() { return batch_; }
  AttentionArgs& args() { return args_; }
  [[nodiscard]] uint32_t* table_entries() const { return table_.as<uint32_t>(); }
  /// Where they are f32.
  [[nodiscard]] const float* sink_logits() const {
    return static_cast<const float*>(args_.sink_logits);
  }
  [[nodiscard]] const GuardedMemory& output_memory() const { return out_; }
  [[nodiscard]] const GuardedMemory& query_memory() const { return q_; }
  [[nodiscard]] const GuardedMemory& bias_memory() const { return bias_; }

  /// The exact result of one query row and head; computed at first use from what the memory then
  /// holds.
  const reference::QueryResult& expected(int64_t row, int32_t q_head);
  void forget_expected() {
    expected_.clear();
    decoded_ = {};
  }

  /// Of the kernel whose output the case holds, or will; the bounds of matches_reference follow it.
  [[nodiscard]] const Precision& precision() const { return precision_; }
  void set_precision(const Precision& precision);

  /// Output and lse back to poison, as before any run.
  void poison_output();
  [[nodiscard]] double output(int64_t row, int32_t q_head, int64_t d) const;
  void set_output(int64_t row, int32_t q_head, int64_t d, double value);
  [[nodiscard]] float output_lse(int64_t row, int32_t q_head) const;
  /// Whether every byte of the output's memory that belongs to no element still is as poisoned.
  [[nodiscard]] bool output_gaps_untouched() const;
  /// All of the output's and lse's bytes, to compare bits.
  [[nodiscard]] std::vector<std::byte> output_bits() const;

 private:
  struct Plane {
    GuardedMemory values;
    GuardedMemory scales;
    float tensor_scale = 1.0f;
    std::vector<float> channel_scales;
  };

  void make_lengths();
  void make_tree();
  void make_problem();
  void make_pages();
  void mark_alive();
  void make_selection();
  void make_table();
  void make_planes();
  [[nodiscard]] PagedKVView plane_of(DType dtype, int32_t head_size, StorageOrder order,
                                     const ScaleOptions& scales) const;
  [[nodiscard]] int64_t pair_planes(PagedKVView& key, PagedKVView& value) const;
  void make_scales(Plane& plane, PagedKVView& view, const ScaleOptions& options, int64_t row_bytes);
  void calibrate(Plane& plane, const ScaleView& scales, double largest, std::byte* at);
  void make_turn(Plane& plane, PagedKVView& view, const TurnOptions& options);
  void fill_planes();
  void fill_blocks(const PagedKVView& view, const std::vector<int64_t>& slots);
  void make_queries();
  void make_terms();
  void make_sinks(std::vector<float> of_heads);
  void make_alibi_positions();
  void make_bias();

  CaseOptions options_;
  Rng rng_;
  AttentionProblem problem_;
  Batch batch_;
  AttentionArgs args_;
  Plane key_, value_;
  GuardedMemory query_offsets_, context_lengths_, query_positions_, key_positions_, visible_begin_,
      visible_end_, row_starts_, table_, tree_, selected_, alibi_positions_;
  GuardedMemory q_, out_, lse_, bias_, sink_logits_, alibi_slopes_;
  // [sequence][logical page] page id (unbounded: row of token 0); below 0: of forks, no page
  std::vector<std::vector<int64_t>> pages_;
  std::vector<std::vector<bool>> alive_;  // [sequence][key]: some query sees it
  int64_t num_pages_ = 0;
  Precision precision_;
  std::vector<std::optional<reference::QueryResult>> expected_;  // [row, q head]
  reference::DecodedRows decoded_;
};

}  // namespace folio::test
