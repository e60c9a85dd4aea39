// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/task_view.h: one task as an engine sees it: which rows, which queries they are,
/// and which keys each sees.
///
/// Row r of the task is row r % head_rows of head r / head_rows; all heads have the same query
/// tokens, so visibility is a matter of the local row alone. Where several sequences share a task,
/// its queries take the place of a sequence's tokens. ISA-safe: always-inline functions only.
#pragma once

#include <cstdint>

#include "cpu/skeleton/logit_terms.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/shown_keys.h"
#include "cpu/skeleton/state.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/visible_keys.h"
#include "kernel/sequence.h"
#include "kernel/task.h"

namespace folio::inline v1::skeleton {

/// How much of a tile a group of rows sees.
enum class Coverage : uint8_t { none, some, all };

class TaskView;

/// The rows of a task one after the other: which token and q head each is, without a division per
/// row.
class RowWalk {
 public:
  FOLIO_ALWAYS_INLINE explicit RowWalk(const TaskView& view);
  FOLIO_ALWAYS_INLINE void next();

  int row = 0;
  int token = 0;  // as the view counts them
  int q_head = 0;

 private:
  int group_, head_rows_, first_row_;
  int in_group_;   // q_head % group
  int local_ = 0;  // row of its head
};

/// Where rows of a task that follow one another stand in each state of a split.
struct StoredRows {
  const Split* split = nullptr;
  int64_t first = 0;
  int count = 0;
};

class TaskView {
 public:
  /// `visible`: memory for one Visible per query token of the task. `a_problem`: as the engine is
  /// to see it.
  FOLIO_ALWAYS_INLINE TaskView(const AttentionProblem& a_problem, const KernelCall& call,
                               const Task& a_task, Visible* visible)
      : problem(a_problem),
        args(*call.args),
        batch(*call.batch),
        task(a_task),
        sequence(keys_of_task(problem, batch, a_task)),
        group(problem.q_heads / problem.key.num_heads),
        head_rows(a_task.row_end - a_task.row_begin),
        rows(a_task.heads * head_rows),
        first_token(a_task.row_begin / group),
        tokens((a_task.row_end - 1) / group - first_token + 1),
        has_terms(problem.softcap != 0.0f || problem.alibi || problem.bias),
        is_plain_(!problem.intervals && !problem.tree),
        splits_(call.splits),
        queries_(a_task.first_query < 0 ? nullptr : call.shared_queries + a_task.first_query),
        visible_(visible) {}

  // `mutant` is a constant, see mutant.h

  /// Fills `visible`; the hull is what any row sees at the most.
  FOLIO_ALWAYS_INLINE void find_visible(Mutant mutant) {
    has_tree_ = problem.tree && mutant != Mutant::tree_ignored;
    for (int t = 0; t < tokens; ++t) {
      const int token = first_token + t;
      Visible v = problem.selection
                      ? Visible{{}, {0, sequence.context}}
                      : visible_of(problem, batch, sequence_at(token), number_of(token));
      if (mutant == Mutant::window_off_by_one && v.keys.begin > 0) --v.keys.begin;
      visible_[t] = v;
      hull_ = t == 0 ? v : hull(hull_, v);
      if (queries_ != nullptr) join_common(t == 0, v, sequence_at(token));
    }
  }

  /// Of the task's keys.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int spans() const {
    return (task.key_end + span_keys - 1) / span_keys - task.key_begin / span_keys;
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE int token_of(int r) const {
    return (task.row_begin + r % head_rows) / group;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int q_head_of(int r) const {
    return (task.head + r / head_rows) * group + (task.row_begin + r % head_rows) % group;
  }
  /// The head_size elements of row r of q.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* query(int r) const {
    return query(token_of(r), q_head_of(r));
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* query(int token, int q_head) const {
    if (turned_queries_ != nullptr) return turned_queries_ + row_of(token, q_head) * turned_stride_;
    return given_query(token, q_head);
  }
  /// The same as it was given, where engines see it turned.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* given_query(int token, int q_head) const {
    return static_cast<const std::byte*>(args.q.data) + query_row(token) * args.q.stride_bytes[0] +
           q_head * args.q.stride_bytes[1];
  }
  /// Rows of the task, `stride` bytes apart, stand for those that were given.
  FOLIO_ALWAYS_INLINE void use_turned_queries(const std::byte* queries, int64_t stride) {
    turned_queries_ = queries;
    turned_stride_ = stride;
  }
  /// The row of q, out and lse that token `token` has.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t query_row(int token) const {
    if (queries_ == nullptr) return sequence.first_query + token;
    return batch.query_offsets[queries_[token].sequence] + queries_[token].token;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int row_of(int token, int q_head) const {
    return (q_head / group - task.head) * head_rows + token * group + q_head % group -
           task.row_begin;
  }
  /// Where row r stands in a state that holds `padded_rows` rows of each head.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int padded_row(int r, int padded_rows, Mutant mutant) const {
    if (mutant == Mutant::heads_interleaved) return r % task.heads * padded_rows + r / task.heads;
    return r / head_rows * padded_rows + r % head_rows;
  }
  /// Row r, and those behind it that stand with it in a state.
  [[nodiscard]] FOLIO_ALWAYS_INLINE StoredRows stored_rows(int r, Mutant mutant) const {
    if (queries_ == nullptr) return {splits_ + task.split, r, rows};
    const int number = token_of(r) + (mutant == Mutant::states_to_next_query ? 1 : 0);
    const SharedQuery& query = queries_[number % tokens];
    const Split* const split = splits_ + query.split;
    const int head = task.head + r / head_rows, in_group = r % head_rows % group;
    const int64_t before =
        int64_t{head - split->whole.head} * (split->whole.row_end - split->whole.row_begin);
    return {split, before + query.token * group + in_group - split->whole.row_begin,
            group - in_group};
  }
  /// The list of keys of the task, whose rows are all of one token and, where heads have lists of
  /// their own, of one KV head.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const int32_t* selected(Mutant mutant) const {
    const int token = mutant == Mutant::selection_of_first_query ? 0 : first_token;
    int64_t list = sequence.first_query + token;
    if (problem.selection_per_head) {
      const int head = mutant == Mutant::selection_of_first_head ? 0 : task.head;
      list = list * problem.key.num_heads + head;
    }
    return batch.selected + list * batch.selected_stride;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE float sink_logit(int token, int q_head, Mutant mutant) const {
    if (mutant == Mutant::sink_of_first_query) token = 0;
    const int64_t stride = args.sink_stride != 0 ? args.sink_stride : problem.q_heads;
    const int64_t row = problem.sink_per_query ? query_row(token) : 0;
    return detail::load_scale(static_cast<const std::byte*>(args.sink_logits) +
                                  (row * stride + q_head) * bit_width(problem.sink_dtype) / 8,
                              problem.sink_dtype);
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE std::byte* output(int token, int q_head) const {
    return static_cast<std::byte*>(args.out.data) + query_row(token) * args.out.stride_bytes[0] +
           q_head * args.out.stride_bytes[1];
  }

  /// The keys [first, first + 64) that some row may see.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t seen_by_any(int64_t first) const {
    if (all_see(first)) return problem.bias ? shown_by_bias(first, ~uint64_t{0}) : ~uint64_t{0};
    uint64_t seen = seen_in_tile(hull_, first);
    // Tokens that follow one another see intervals that touch: the hull has no gaps.
    if (!follows_mask(first) && seen != 0) {
      seen = 0;
      for (int t = 0; t < tokens; ++t) seen |= seen_by_token(t, first);
    }
    return problem.bias && seen != 0 ? shown_by_bias(first, seen) : seen;
  }
  /// The keys of the tile that local row r (of any head) sees.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t seen_by_row(int r, const KeyTile& tile,
                                                         Mutant mutant = Mutant::none) const {
    const uint64_t seen = seen_by_token(token_of(r) - first_token, tile.first) & tile.seen;
    return mutant == Mutant::tile_edge_off_by_one ? seen & seen >> 1 : seen;
  }
  /// What the local rows [begin, end) see of the tile. `all`: each row sees each of the 64 keys.
  [[nodiscard]] FOLIO_ALWAYS_INLINE Coverage coverage(int begin, int end, const KeyTile& tile,
                                                      Mutant mutant = Mutant::none) const {
    if (all_see(tile.first)) return tile.seen == ~uint64_t{0} ? Coverage::all : Coverage::some;
    const int first = token_of(begin) - first_token, last = token_of(end - 1) - first_token;
    uint64_t any = 0, each = tile.seen;
    if (follows_mask(tile.first)) {  // intervals move one way from token to token
      any = seen_in_tile(hull(visible_[first], visible_[last]), tile.first) & tile.seen;
      if (mutant != Mutant::last_row_decides) each &= seen_in_tile(visible_[first], tile.first);
      each &= seen_in_tile(visible_[last], tile.first);
      if (any == 0) any = middle(first, last, tile);
    } else {
      for (int t = first; t <= last; ++t) {
        const uint64_t seen = seen_by_token(t, tile.first);
        any |= seen & tile.seen;
        each &= seen;
      }
    }
    return any == 0 ? Coverage::none : each == ~uint64_t{0} ? Coverage::all : Coverage::some;
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE LogitTerms terms_of(int r, int64_t first, Mutant mutant) const {
    LogitTerms terms;
    terms.softcap = problem.softcap;
    terms.keys = keys_of_tile(first);
    const int head = q_head_of(r), token = token_of(r);
    if (problem.alibi) {
      terms.alibi = true;
      terms.slope = args.alibi_slopes[head];
      const Sequence own = mutant == Mutant::terms_of_first_member ? sequence : sequence_at(token);
      int64_t of_first = own.key_position + first;
      if (problem.alibi_positions && mutant != Mutant::key_positions_ignored) {
        terms.positions =
            batch.alibi_positions + task.sequence * batch.alibi_positions_stride + first;
        of_first = terms.positions[0];
      }
      terms.distance = static_cast<float>(own.query_position + number_of(token) - of_first);
    }
    if (problem.bias) {
      terms.bias = bias_of(head, token, first, mutant);
      terms.bias_dtype = problem.bias_dtype;
    }
    return terms;
  }

  const AttentionProblem& problem;
  const AttentionArgs& args;
  const Batch& batch;
  const Task& task;
  const Sequence sequence;
  const int group;
  const int head_rows;  // rows of each head
  const int rows;       // of all heads
  const int first_token;
  const int tokens;      // query tokens that the rows belong to
  const bool has_terms;  // softcap, ALiBi or bias

 private:
  // Tokens are those of the task's sequence; of a shared task its queries, each of a sequence.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int number_of_sequence(int token) const {
    return queries_ == nullptr ? task.sequence : queries_[token].sequence;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE Sequence sequence_at(int token) const {
    return queries_ == nullptr ? sequence : sequence_of(batch, queries_[token].sequence);
  }
  /// Of the new tokens of its sequence.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int number_of(int token) const {
    return queries_ == nullptr ? token : queries_[token].token;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t seen_by_token(int t, int64_t first) const {
    const uint64_t seen = seen_in_tile(visible_[t], first);
    const int token = first_token + t;
    return has_tree_
               ? seen & tree_in_tile(problem, batch, sequence_at(token), number_of(token), first)
               : seen;
  }
  /// Keys that each query of a shared task sees, though it may be that there are others.
  FOLIO_ALWAYS_INLINE void join_common(bool is_first, const Visible& v, const Sequence& own) {
    const int64_t old_tokens = int64_t{own.context} - own.new_tokens;
    const int64_t end = has_tree_ && old_tokens < v.keys.end ? old_tokens : v.keys.end;
    if (is_first || v.keys.begin > common_begin_) common_begin_ = v.keys.begin;
    if (is_first || end < common_end_) common_end_ = end;
  }
  /// Whether the tile of key `first` lies among them.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool all_see(int64_t first) const {
    return first >= common_begin_ && first + tile_keys <= common_end_;
  }
  /// Whether visibility in the tile of key `first` follows from the mask alone: no intervals, and
  /// no new token that a tree may hide. Queries of a shared task do not follow one another.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool follows_mask(int64_t first) const {
    if (queries_ != nullptr) return false;
    return is_plain_ ||
           (!problem.intervals &&
            first + tile_keys <= static_cast<int64_t>(sequence.context) - sequence.new_tokens);
  }
  /// With selected keys the tiles are of the list: its length is the context.
  FOLIO_ALWAYS_INLINE static Sequence keys_of_task(const AttentionProblem& problem,
                                                   const Batch& batch, const Task& task) {
    Sequence s = sequence_of(batch, task.sequence);
    if (problem.selection) s.context = batch.selected_stride;
    return s;
  }
  /// The bias of key `first` and those behind it, for one query.
  [[nodiscard]] FOLIO_ALWAYS_INLINE const std::byte* bias_of(int q_head, int token, int64_t first,
                                                             Mutant mutant = Mutant::none) const {
    int64_t row = query_row(token), start = 0;
    if (problem.bias_per_sequence) {
      row = number_of(token);
      if (mutant != Mutant::bias_of_first_sequence)
        start = number_of_sequence(token) * args.bias_sequence_stride_bytes;
    }
    return static_cast<const std::byte*>(args.bias.data) + start +
           (args.bias.extent[0] == 1 ? 0 : q_head) * args.bias.stride_bytes[0] +
           row * args.bias.stride_bytes[1] + first * bit_width(problem.bias_dtype) / 8;
  }
  /// Of the keys [first, first + 64), how many the context holds.
  [[nodiscard]] FOLIO_ALWAYS_INLINE int keys_of_tile(int64_t first) const {
    const int64_t left = sequence.context - first;
    return left < tile_keys ? static_cast<int>(left) : tile_keys;
  }
  /// Of the keys `seen` of the tile of key `first`, those that some row sees with a bias other than
  /// -inf. Seldom more than one row is looked at: the last token sees most.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t shown_by_bias(int64_t first, uint64_t seen) const {
    const int row_end = task.row_begin + head_rows;
    const bool is_shared = args.bias.extent[0] == 1;
    uint64_t shown = 0;
    for (int t = tokens - 1; t >= 0; --t) {
      const uint64_t seen_here = seen_by_token(t, first) & seen;
      const int token = first_token + t;
      for (int h = 0; h < (is_shared ? 1 : task.heads); ++h)
        for (int g = 0; g < (is_shared ? 1 : group); ++g) {
          const int row = token * group + g;  // of its head
          if (!is_shared && (row < task.row_begin || row >= row_end)) continue;
          const uint64_t asked = seen_here & ~shown;
          if (asked == 0) continue;
          shown |= shown_by(bias_of((task.head + h) * group + g, token, first), problem.bias_dtype,
                            keys_of_tile(first), asked);
          if (shown == seen) return shown;
        }
    }
    return shown;
  }
  /// Rows at both ends may see nothing (positions before the first key, behind the last chunk)
  /// while those between do.
  [[nodiscard]] FOLIO_ALWAYS_INLINE uint64_t middle(int first, int last,
                                                    const KeyTile& tile) const {
    uint64_t any = 0;
    for (int t = first + 1; t < last; ++t) any |= seen_by_token(t, tile.first) & tile.seen;
    return any;
  }

  const bool is_plain_;  // visibility follows from the mask alone
  const Split* splits_;
  const SharedQuery* queries_;  // of a shared task; else null
  Visible* visible_;
  Visible hull_;
  int64_t common_begin_ = 0, common_end_ = 0;
  const std::byte* turned_queries_ = nullptr;
  int64_t turned_stride_ = 0;
  bool has_tree_ = false;
};

FOLIO_ALWAYS_INLINE RowWalk::RowWalk(const TaskView& view)
    : token(view.task.row_begin / view.group),
      q_head(view.task.head * view.group + view.task.row_begin % view.group),
      group_(view.group),
      head_rows_(view.head_rows),
      first_row_(view.task.row_begin),
      in_group_(view.task.row_begin % view.group) {}

FOLIO_ALWAYS_INLINE void RowWalk::next() {
  ++row;
  if (++local_ == head_rows_) {  // the next head begins with the same token
    local_ = 0;
    const int head = q_head / group_ + 1;
    token = first_row_ / group_;
    in_group_ = first_row_ % group_;
    q_head = head * group_ + in_group_;
  } else if (++in_group_ == group_) {
    in_group_ = 0;
    q_head -= group_ - 1;
    ++token;
  } else {
    ++q_head;
  }
}

}  // namespace folio::inline v1::skeleton
