// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/task_runner.h: the skeleton of every CPU attention kernel: walk, spans, fold,
/// output. An engine does the rest.
///
///     for each span of 2,048 keys:  empty state -> tiles of 64 keys that some row sees ->
///                                   engine.run -> fold or store as partial
///
/// Tiles and spans lie at absolute multiples of the key index, every span starts from an empty
/// state, and spans are folded in ascending order by one function, whether they were kept in
/// scratch memory or stored by another task. Hence a kernel whose engine treats rows independently
/// is per_query.
///
/// An engine is a class with
///
///     struct Math { base of its logits and the arithmetic of one row:
///       static float exp(float x);                    base^x, x <= 0: exactly 1 at 0 and 0 at -inf
///       using Units;                                  of its logits (units.h)
///       static void fold(float* to, const float* from, int n, float keep, float add);
///           to = to * keep + from * add
///     }
///     using InstructionSet;                           a tag type of cpu/vec
///     static Mutant mutant();                         a constant: none, but for tests
///     static constexpr int tiles_max;                 tiles of one run at the most
///     static constexpr int ahead_max;                 known tiles behind those, at the most, for
///                                                     prefetching
///     static int state_rows(const AttentionProblem&);     rows of a State (>= geometry.rows,
///                                                         padding included)
///     static int width(const AttentionProblem&);      columns of a State
///     static int64_t scratch_bytes(const AttentionProblem&);   its own, beside what the runner
///                                                              takes
///     Engine(const TaskView&, void* memory);          a constructor that may also begin a scope
///                                                     (tile configuration)
///     int tiles_at_once() const;                      1 ... tiles_max, for this task
///     bool begins_rows() const;                       writes a row's output before it adds to it:
///                                                     the output of an empty row is anything
///     void load_queries();
///     void run(const State&, KeyTile* const* tiles, int count, int known);
///                                                     tiles [0, count) in order into the state of
///                                                     all heads; [count, known) come next
///     int state_row(int r) const;                         where row r of the task lies in a State
///     void write_row(const float* output, float factor, std::byte* to) const;
///                                                     output * factor + 0 (no negative zero) as
///                                                     out_dtype, natural column order
///
/// ISA-safe as far as the engine is: everything is a template on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/profile.h"
#include "cpu/skeleton/task_memory.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/skeleton/tile_queue.h"
#include "kernel/units.h"

namespace folio::inline v1::skeleton {

template <class Engine>
class TaskRunner {
 public:
  /// Kernel::run.
  static void run(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
    TaskRunner runner(call, task, memory);
    runner.run_spans(partials);
    if (partials == nullptr) runner.emit();
  }

  /// Kernel::finish.
  static void finish(const KernelCall& call, const Task& task, void* memory,
                     const std::byte* partials) {
    TaskRunner runner(call, task, memory);
    for (int i = 0; i < task.states; ++i) {
      std::byte* const at = const_cast<std::byte*>(partials) + i * task.partial_bytes;
      runner.fold_stored(state_at(at, runner.view_.rows, runner.width_));
    }
    runner.emit();
  }

 private:
  using Math = typename Engine::Math;
  using Turned = TurnedRows<typename Engine::InstructionSet>;
  static constexpr float minus_infinity = -__builtin_inff();

  TaskRunner(const KernelCall& call, const Task& task, void* memory)
      : memory_(memory, *call.problem),
        call_(call),
        view_(memory_.turned.seen_of(*call.problem), call, task, memory_.visible),
        width_(Engine::width(view_.problem)),
        engine_(view_, memory_.engine),
        used_(engine_.state_row(view_.rows - 1) + 1) {
    clear(memory_.total);
  }

  void turn_queries() {
    const TurnedMemory& turned = memory_.turned;
    if (turned.queries == nullptr) return;
    for (RowWalk at(view_); at.row < view_.rows; at.next())
      Turned::turn_query(view_.args.key, at.q_head / view_.group, call_.problem->q_dtype,
                         view_.given_query(at.token, at.q_head),
                         reinterpret_cast<float*>(turned.queries + at.row * turned.query_stride));
    view_.use_turned_queries(turned.queries, turned.query_stride);
  }

  void run_spans(std::byte* partials) {
    turn_queries();
    engine_.load_queries();
    view_.find_visible(Engine::mutant());
    const Task& task = view_.task;
    TileQueue<Engine> queue(view_, memory_.tiles);
    const int at_once = engine_.tiles_at_once();
    const bool stores_spans = partials != nullptr && task.states > 1;
    for (int64_t end = task.key_begin, span = 0; end < task.key_end; ++span) {
      clear(memory_.span);
      if (!engine_.begins_rows()) clear_output(memory_.span, 0, used_);
      end = (end / span_keys + 1) * span_keys;
      bool any = false;
      for (int count = 0; (count = queue.next(at_once, end)) > 0;) {
        engine_.run(memory_.span, queue.tiles(), count, queue.known());
        queue.drop(count);
        any = true;
      }
      if (stores_spans) {
        store(memory_.span, task.first_state + span, partials);
      } else if (any) {
        fold_own();
      }
    }
    if (partials != nullptr && !stores_spans) store(memory_.total, task.first_state, partials);
  }

  /// Empty rows, whose output is anything, and those that pad them to a vector.
  void clear(const State& state) const {
    const int padded = static_cast<int>(round_up(used_, 16)),
              most = Engine::state_rows(view_.problem);
    for (int i = 0; i < (padded < most ? padded : most); ++i) {
      state.maximum[i] = minus_infinity;
      state.denominator[i] = 0.0f;
    }
  }

  void clear_output(const State& state, int state_row, int count) const {
    const auto row = static_cast<size_t>(width_) * sizeof(float);
    __builtin_memset(state.output + static_cast<int64_t>(state_row) * width_, 0,
                     static_cast<size_t>(count) * row);
  }

  /// State `number` of the task's rows, which stand in a split one after the other, without those
  /// that pad a State.
  void store(const State& state, int64_t number, std::byte* partials) const {
    for (int r = 0; r < view_.rows;) {
      const StoredRows to = view_.stored_rows(r, Engine::mutant());
      const Split& split = *to.split;
      const Task& whole = split.whole;
      const State part = state_at(partials + split.first_byte + number * whole.partial_bytes,
                                  int64_t{whole.heads} * (whole.row_end - whole.row_begin), width_);
      for (int i = 0; i < to.count; ++i, ++r)
        store_row(state, engine_.state_row(r), part, to.first + i);
    }
  }
  void store_row(const State& state, int64_t from, const State& part, int64_t to) const {
    __builtin_memcpy(part.output + to * width_, state.output + from * width_,
                     static_cast<size_t>(width_) * sizeof(float));
    part.maximum[to] = state.maximum[from];
    part.denominator[to] = state.denominator[from];
  }

  /// The first span that saw anything becomes the total as it is: the same as to fold it into an
  /// empty one.
  void fold_own() {
    if (has_total_ || Engine::mutant() == Mutant::partials_in_bf16) return fold(memory_.span);
    const State span = memory_.span;
    memory_.span = memory_.total;
    memory_.total = span;
    has_total_ = true;
  }

  void fold(const State& span) const {
    for (int r = 0; r < view_.rows; ++r) fold_row(span, engine_.state_row(r), engine_.state_row(r));
  }
  void fold_stored(const State& part) const {
    for (int r = 0; r < view_.rows; ++r) fold_row(part, r, engine_.state_row(r));
  }

  /// total[row] = total[row] (+) span[from]. A span that saw nothing changes nothing and its output
  /// is not read.
  void fold_row(const State& span, int from, int row) const {
    const State& total = memory_.total;
    const float other = span.maximum[from];
    if (other == minus_infinity && span.denominator[from] == 0.0f) return;
    const float old = total.maximum[row];
    if (old == minus_infinity && total.denominator[row] == 0.0f) clear_output(total, row, 1);
    const float maximum = other > old ? other : old;
    const float reference = maximum == minus_infinity ? 0.0f : maximum;
    const float keep = Math::exp(old - reference), add = Math::exp(other - reference);
    Math::fold(total.output + int64_t{row} * width_, span.output + int64_t{from} * width_, width_,
               keep, add);
    total.maximum[row] = maximum;
    total.denominator[row] = total.denominator[row] * keep + span.denominator[from] * add;
  }

  /// Output and lse of all rows: the sink logit enters here, once.
  void emit() const {
    // rows of the output are scattered: their lines are fetched before they are written
    const int ahead = machine_profile().rows.outputs_ahead;
    RowWalk at(view_), coming(view_);
    for (int i = 0; i < ahead && coming.row < view_.rows; ++i) coming.next();
    for (; at.row < view_.rows; at.next()) {
      if (coming.row < view_.rows) {
        fetch_to_write(view_.output(coming.token, coming.q_head));
        coming.next();
      }
      emit_row(at);
    }
  }

  void emit_row(const RowWalk& at) const {
    const int state_row = engine_.state_row(at.row);
    const float own = memory_.total.maximum[state_row];
    float maximum = own, denominator = memory_.total.denominator[state_row];
    const bool empty = denominator == 0.0f;
    if (empty) clear_output(memory_.total, state_row, 1);
    float sink = minus_infinity;
    if (view_.problem.sink_logits) {
      sink = view_.sink_logit(at.token, at.q_head, Engine::mutant());
      const int times = Engine::mutant() == Mutant::sink_counted_per_split ? view_.spans() : 1;
      for (int i = 0; i < times; ++i) add_sink(Math::Units::of(sink), maximum, denominator);
    }
    const float factor =
        empty ? 0.0f : (own == maximum ? 1.0f : Math::exp(own - maximum)) / denominator;
    write_row(memory_.total.output + static_cast<int64_t>(state_row) * width_, factor, at);
    if (view_.args.lse == nullptr) return;
    const int64_t row = view_.query_row(at.token);
    float lse = Math::Units::natural(maximum) + __builtin_logf(denominator);
    if (empty) lse = sink;  // exactly, whatever the base
    view_.args.lse[row * view_.problem.q_heads + at.q_head] = lse;
  }

  void write_row(const float* output, float factor, const RowWalk& at) const {
    std::byte* const to = view_.output(at.token, at.q_head);
    const AttentionProblem& problem = *call_.problem;
    if (!is_turned(value_plane(problem))) return engine_.write_row(output, factor, to);
    float* const row = memory_.turned.row;
    engine_.write_row(output, factor, reinterpret_cast<std::byte*>(row));
    const PagedKVView& value = problem.value_in_key ? view_.args.key : view_.args.value;
    Turned::write_output(value, at.q_head / view_.group, row, problem.v_head_size,
                         problem.out_dtype, to);
  }

  void fetch_to_write(const std::byte* row) const {
    const int bytes = view_.problem.v_head_size * bit_width(call_.problem->out_dtype) / 8;
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 1);
  }

  static void add_sink(float sink, float& maximum, float& denominator) {
    if (sink == minus_infinity) return;
    const float joined = sink > maximum ? sink : maximum;
    denominator = denominator * Math::exp(maximum - joined) + Math::exp(sink - joined);
    maximum = joined;
  }

  TaskMemory<Engine> memory_;
  const KernelCall& call_;
  TaskView view_;
  const int width_;
  Engine engine_;
  const int used_;  // state_rows that hold rows of the task
  bool has_total_ = false;
};

}  // namespace folio::inline v1::skeleton
