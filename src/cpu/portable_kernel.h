// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable_kernel.h: paged attention for every problem of the supported set, one source for every instruction set.
///
/// A task is up to 64 rows: query tokens x q heads of a group, of one KV head or, where these are few, of several. Keys come in
/// tiles of 64, staged as f32 and transposed, so that inner loops know one type and a score needs no horizontal sum. Tiles and
/// spans lie at absolute multiples of the key index; every span starts from an empty state and spans are folded in ascending order
/// by one function: per_query.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/portable_softmax.h"
#include "cpu/portable_stage.h"
#include "cpu/sequence.h"
#include "cpu/tiles.h"

namespace folio {
inline namespace v1 {
namespace portable {

template <class I>
class PortableKernel {
 public:
  static void run(const KernelCall& call, const Task& task, void* memory, std::byte* partials) {
    PortableKernel k(call, task, memory);
    k.load_queries();
    k.find_visible();
    k.clear(k.s_.total);
    k.find_tile(static_cast<int64_t>(task.span_begin) * span_keys, *k.now_);
    for (int span = task.span_begin; span < task.span_end; ++span) {
      k.run_span(span);
      if (partials == nullptr) {
        for (int r = 0; r < k.rows_; ++r) Softmax<I>::fold(k.s_.total, k.s_.span, r, k.s_.v_head);
      } else {
        k.store_partial(partials + (span - task.span_begin) * partial_bytes(k.problem_));
      }
    }
    if (partials == nullptr) k.emit();
  }

  static void finish(const KernelCall& call, const Task& task, void* memory, const std::byte* partials) {
    PortableKernel k(call, task, memory);
    k.clear(k.s_.total);
    for (int span = task.span_begin; span < task.span_end; ++span) {
      const std::byte* at = partials + (span - task.span_begin) * partial_bytes(k.problem_);
      const State part = state_at(reinterpret_cast<float*>(const_cast<std::byte*>(at)), k.s_.v_head);
      for (int r = 0; r < k.rows_; ++r) Softmax<I>::fold(k.s_.total, part, r, k.s_.v_head);
    }
    k.emit();
  }

 private:
  using V = Simd<I>;

  PortableKernel(const KernelCall& call, const Task& task, void* memory)
      : problem_(*call.problem),
        args_(*call.args),
        batch_(*call.batch),
        task_(task),
        sequence_(sequence_of(batch_, task.sequence)),
        s_(scratch_at(memory, problem_)),
        group_(problem_.q_heads / problem_.key.num_heads),
        head_rows_(task.row_end - task.row_begin),
        rows_(task.heads * head_rows_),
        first_token_(task.row_begin / group_),
        tokens_((task.row_end - 1) / group_ - first_token_ + 1) {}

  [[nodiscard]] int token_of(int r) const { return (task_.row_begin + r % head_rows_) / group_; }
  [[nodiscard]] int q_head_of(int r) const {
    return (task_.head + r / head_rows_) * group_ + (task_.row_begin + r % head_rows_) % group_;
  }

  void load_queries() {
    for (int r = 0; r < rows_; ++r) {
      const std::byte* from = static_cast<const std::byte*>(args_.q.data) +
                              (sequence_.first_query + token_of(r)) * args_.q.stride_bytes[0] +
                              q_head_of(r) * args_.q.stride_bytes[1];
      float* to = s_.q + static_cast<int64_t>(r) * s_.head;
      Rows<I>::widen(problem_.q_dtype, &from, 1, to, s_.head, problem_.key.head_size);
      for (int d = 0; d < problem_.key.head_size; ++d) to[d] *= problem_.scale;
    }
    if (s_.v_head != problem_.v_head_size)  // columns behind the head: read by whole vectors, never written out
      for (int key = 0; key < key_tile; ++key)
        for (int d = problem_.v_head_size; d < s_.v_head; ++d) s_.values[static_cast<int64_t>(key) * s_.v_head + d] = 0.0f;
  }

  void find_visible() {
    for (int t = 0; t < tokens_; ++t) {
      Visible v = visible_of(problem_, batch_, sequence_, first_token_ + t);
      if (I::mutant == Mutant::window_off_by_one && v.keys.begin > 0) --v.keys.begin;
      s_.visible[t] = v;
      hull_ = t == 0 ? v : hull(hull_, v);
    }
  }

  void clear(const State& state) const {
    for (int r = 0; r < rows_; ++r) {
      state.maximum[r] = -__builtin_inff();
      state.denominator[r] = 0.0f;
      float* output = state.output + static_cast<int64_t>(r) * s_.v_head;
      for (int d = 0; d < s_.v_head; ++d) output[d] = 0.0f;
    }
  }

  /// The first tile from key `first` on of which some row sees a key that lies in a page.
  void find_tile(int64_t first, KeyTile& tile) const {
    const uint32_t* table_row = batch_.table.entries + batch_.table.row_start(task_.sequence);
    const int64_t last = static_cast<int64_t>(task_.span_end) * span_keys;
    const int64_t end = last < sequence_.context ? last : sequence_.context;
    tile.seen = 0;
    for (tile.first = first; tile.seen == 0 && tile.first < end; tile.first += tile.seen == 0 ? key_tile : 0) {
      if (seen_in_tile(hull_, tile.first) == 0) continue;
      for (int t = 0; t < tokens_; ++t) tile.seen |= seen_in_tile(s_.visible[t], tile.first);
      Stage<I>::walk(args_.key, table_row, tile);
    }
  }

  /// Runs the tiles of one span from an empty state; `now_` is the first tile not yet run.
  void run_span(int span) {
    clear(s_.span);
    const int64_t end = static_cast<int64_t>(span + 1) * span_keys;
    while (now_->seen != 0 && now_->first < end) {
      find_tile(now_->first + key_tile, *next_);
      run_tile();
      KeyTile* const done = now_;
      now_ = next_;
      next_ = done;
    }
  }

  void run_tile() {
    const int keys = 64 - __builtin_clzll(now_->seen);
    for (int t = 0; t < tokens_; ++t) s_.seen[t] = seen_in_tile(s_.visible[t], now_->first) & now_->seen;
    Ahead ahead{next_, task_.head, task_.heads, 0};
    for (; ahead.head < task_.heads; ++ahead.head) {
      const int begin = ahead.head * head_rows_, end = begin + head_rows_;
      Stage<I>::keys(s_, args_.key, *now_, ahead, problem_.value_in_key ? problem_.v_head_size : 0);
      if (!problem_.value_in_key) Stage<I>::values(s_, args_.value, *now_, ahead, keys);
      Tiles<I>::scores(s_, begin, end, problem_.key.head_size);
      for (int r = begin; r < end; ++r) Softmax<I>::row(s_, r, s_.seen[token_of(r) - first_token_], terms_of(r, now_->first));
      Tiles<I>::values(s_, begin, end, keys);
    }
  }

  [[nodiscard]] LogitTerms terms_of(int r, int64_t first) const {
    LogitTerms terms;
    terms.softcap = problem_.softcap;
    const int head = q_head_of(r), token = token_of(r);
    if (problem_.alibi) {
      terms.alibi = true;
      terms.slope = args_.alibi_slopes[head];
      terms.distance = static_cast<float>(sequence_.query_position + token - sequence_.key_position - first);
    }
    if (problem_.bias) {
      const int64_t row = sequence_.first_query + token;
      terms.bias = reinterpret_cast<const float*>(static_cast<const std::byte*>(args_.bias.data) +
                                                  (args_.bias.extent[0] == 1 ? 0 : head) * args_.bias.stride_bytes[0] +
                                                  row * args_.bias.stride_bytes[1]) +
                   first;
      const int64_t left = sequence_.context - first;
      terms.bias_keys = left < key_tile ? static_cast<int>(left) : key_tile;
    }
    return terms;
  }

  void store_partial(std::byte* to) const {
    const State part = state_at(reinterpret_cast<float*>(to), s_.v_head);
    const auto bytes = static_cast<size_t>(rows_) * sizeof(float);
    __builtin_memcpy(part.output, s_.span.output, bytes * static_cast<size_t>(s_.v_head));
    __builtin_memcpy(part.maximum, s_.span.maximum, bytes);
    __builtin_memcpy(part.denominator, s_.span.denominator, bytes);
  }

  /// Output and lse of all rows: the sink logit enters here, once; adding +0 leaves no negative zero.
  void emit() const {
    for (int r = 0; r < rows_; ++r) {
      const int head = q_head_of(r);
      const int64_t row = sequence_.first_query + token_of(r);
      float* output = s_.total.output + static_cast<int64_t>(r) * s_.v_head;
      float maximum = s_.total.maximum[r], denominator = s_.total.denominator[r];
      if (problem_.sink_logits) {
        const int times = I::mutant == Mutant::sink_counted_per_split ? task_.span_end - task_.span_begin : 1;
        for (int i = 0; i < times; ++i) add_sink(args_.sink_logits[head], maximum, denominator);
      }
      const float own = s_.total.maximum[r] == maximum ? 1.0f : V::exp_one(s_.total.maximum[r] - maximum);
      const bool empty = s_.total.denominator[r] == 0.0f;
      const float factor = empty ? 0.0f : own / denominator;
      for (int d = 0; d < s_.v_head; ++d) output[d] = empty ? 0.0f : output[d] * factor + 0.0f;
      Rows<I>::narrow(
          problem_.out_dtype, output,
          static_cast<std::byte*>(args_.out.data) + row * args_.out.stride_bytes[0] + head * args_.out.stride_bytes[1],
          problem_.v_head_size);
      if (args_.lse != nullptr)
        args_.lse[row * problem_.q_heads + head] =
            denominator == 0.0f ? -__builtin_inff() : maximum + __builtin_logf(denominator);
    }
  }

  static void add_sink(float sink, float& maximum, float& denominator) {
    if (sink == -__builtin_inff()) return;
    const float joined = sink > maximum ? sink : maximum;
    denominator = denominator * V::exp_one(maximum - joined) + V::exp_one(sink - joined);
    maximum = joined;
  }

  const AttentionProblem& problem_;
  const AttentionArgs& args_;
  const Batch& batch_;
  const Task& task_;
  const Sequence sequence_;
  const Scratch s_;
  const int group_;
  const int head_rows_;  // rows of each head
  const int rows_;       // of all heads of the task; row r is of head r / head_rows_
  const int first_token_;
  const int tokens_;  // query tokens that the rows belong to
  Visible hull_;
  KeyTile tiles_[2];
  KeyTile* now_ = &tiles_[0];
  KeyTile* next_ = &tiles_[1];
};

}  // namespace portable
}  // namespace v1
}  // namespace folio
