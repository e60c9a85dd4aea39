// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/engine.h: the engine of both AVX-512 kernels: one source for f32 and for pairs of
/// bf16.
///
/// A task's rows lie in blocks (layout.h) of one KV head. For each tile and head: rows of K and V
/// where they lie or staged (row_loader.h), then per block scores, weights, outputs. The next
/// head's or tile's rows are staged between the products of the first block. Rows do not influence
/// one another and every product adds in one order: per_query. ISA-safe: templates on a tag type.
#pragma once

#include <type_traits>

#include "cpu/avx512/few_rows.h"
#include "cpu/avx512/few_softmax.h"
#include "cpu/avx512/few_values.h"
#include "cpu/avx512/products.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/avx512/softmax.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/convert/row_scales.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/lane_rows.h"
#include "cpu/softmax/state_math.h"
#include "cpu/softmax/terms.h"
#include "folio/core/element.h"

namespace folio::inline v1::avx512 {

template <class I>
class Engine : public Layout<I::per_word> {
 public:
  using Base = Layout<I::per_word>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  struct Math : softmax::StateMath<I, skeleton::Log2Units> {
    static float exp(float x) { return exp2_one(x); }
  };

  Engine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(Base::scratch_at(memory, view.problem)),
        steps_(Base::steps(problem_)),
        width_(Base::width(problem_)),
        is_few_(view.head_rows <= Base::few_rows),
        padded_rows_(static_cast<int>(skeleton::round_up(view.head_rows, lanes))),
        factor_(__builtin_fabsf(problem_.scale)),
        has_key_scales_(is_per_row(view.args.key)),
        has_value_scales_(!problem_.value_in_key && is_per_row(view.args.value)),
        upcoming_(view, is_few_),
        key_type_(widened_type(view.args.key)),
        value_type_(problem_.value_in_key ? key_type_ : widened_type(view.args.value)),
        keys_(plane(view.args.key), view.batch.table,
              {.read_as_vectors = problem_.value_in_key ? problem_.v_head_size : 0,
               .is_fetching = upcoming_.is_fetching(),
               .is_as_stored = key_type_ != DType::invalid},
              s_.keys),
        values_(plane(problem_.value_in_key ? view.args.key : view.args.value), view.batch.table,
                {.read_as_vectors = problem_.v_head_size,
                 .is_fetching = upcoming_.is_fetching(),
                 .is_as_stored = value_type_ != DType::invalid},
                s_.values) {}

  static int tiles_at_once() { return 1; }
  static bool begins_rows() { return true; }
  [[nodiscard]] int state_row(int r) const {
    if (mutant() == Mutant::heads_interleaved)
      return r % view_.task.heads * padded_rows_ + r / view_.task.heads;
    return r / view_.head_rows * padded_rows_ + r % view_.head_rows;
  }

  void load_queries() const {
    const int rows = is_few_ ? few_padded(view_.head_rows) : padded_rows_;
    for (int h = 0; h < view_.task.heads && rows > view_.head_rows; ++h)
      __builtin_memset(query_block(h, 0), 0,
                       static_cast<size_t>(rows) * static_cast<size_t>(steps_) * 4);
    int h = 0, local = 0;
    for (skeleton::RowWalk at(view_); at.row < view_.rows; at.next()) {
      const std::byte* words = view_.query(at.token, at.q_head);
      if (I::per_word == 1 || problem_.q_dtype != operand_type) {
        Rows<I>::template row_to<Operand>(problem_.q_dtype)(
            words, reinterpret_cast<Operand*>(s_.row), problem_.key.head_size);
        words = reinterpret_cast<const std::byte*>(s_.row);
      }
      pack_query(words, h, local);
      if (++local < view_.head_rows) continue;
      local = 0;
      ++h;
    }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    if (loaded_ != &tile) {
      begin(tile, 0);
      finish();
    }
    const int heads = view_.task.heads;
    for (int h = 0; h < heads; ++h) {
      stage_ ^= 1;
      key_groups_ = keys_.groups(stage_);
      value_groups_ = problem_.value_in_key ? key_groups_ : values_.groups(stage_);
      gather_scales(tile, h);
      loaded_ = h + 1 < heads ? &tile : known > 1 ? tiles[1] : nullptr;
      if (loaded_ != nullptr) begin(*loaded_, h + 1 < heads ? h + 1 : 0);
      request(known > 1 ? tiles[1] : nullptr, h);
      attend(state, tile, h);
      finish();
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[576];
    I::natural_order(output, factor, row, width_);
    Rows<I>::narrow(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  using P = Products<I>;
  using S = Softmax<I>;
  using Base::row_block;
  using Operand = std::conditional_t<I::per_word == 1, float, bf16>;
  static constexpr DType operand_type = dtype_of<Operand>;
  static constexpr int masked_rows = Tuning<I::per_word>::masked_rows;

  /// Scales that a kernel of 16-bit operands can apply to scores and weights: they do not vary
  /// along the row.
  static bool is_per_row(const PagedKVView& view) {
    return I::per_word == 2 && view.scales.data != nullptr &&
           (view.scales.granularity >= view.head_size || view.scales.granule_stride_bytes == 0);
  }
  /// Without the scales that are not applied to elements.
  static PagedKVView plane(PagedKVView view) {
    if (is_per_row(view)) view.scales = {};
    return mutant() == Mutant::dense_page_stride ? with_dense_pages(view) : view;
  }
  /// What the products of few rows widen themselves, from rows of whole 16 bytes; invalid: words.
  [[nodiscard]] DType widened_type(const PagedKVView& view) const {
    const bool has_element_scales = view.scales.data != nullptr && !is_per_row(view);
    const bool is_byte =
        view.dtype == DType::i8 || view.dtype == DType::f8_e4m3 || view.dtype == DType::f8_e5m2;
    const bool is_widened =
        I::per_word == 2 && is_few_ && is_byte && !has_element_scales && view.head_size % 16 == 0;
    return is_widened ? view.dtype : DType::invalid;
  }
  template <class Use>
  static void with_stored(DType type, Use use) {
    if constexpr (I::per_word == 2) {
      if (type == DType::i8) return use(Bytes<I, DType::i8>{});
      if (type == DType::f8_e4m3) return use(Bytes<I, DType::f8_e4m3>{});
      if (type == DType::f8_e5m2) return use(Bytes<I, DType::f8_e5m2>{});
    }
    use(Words<I>{});
  }
  [[nodiscard]] int64_t query_stride(int block) const {
    if (is_few_) return few_padded(view_.head_rows);
    const int left = padded_rows_ - block * row_block;
    return left < row_block ? left : row_block;
  }
  [[nodiscard]] uint32_t* query_block(int head, int block) const {
    return s_.q + int64_t{head * padded_rows_ + block * row_block} * steps_;
  }

  /// The words of local row `row` of head h.
  void pack_query(const std::byte* words, int h, int row) const {
    const int block = row / row_block;
    const int64_t stride = query_stride(block);
    uint32_t* const to = query_block(h, block) + row % row_block;
    const uint32_t sign = problem_.scale < 0.0f ? I::sign_bits : 0;
    for (int i = 0; i < steps_; ++i) to[i * stride] = load_word(words + int64_t{i} * 4) ^ sign;
  }

  /// Says what comes after head h: the stage being loaded, and the next tile.
  void request(const KeyTile* next, int h) {
    if (!upcoming_.is_fetching()) return;
    const bool is_known = loaded_ != nullptr;
    upcoming_.begin(is_known ? keys_.fetches(stage_ ^ 1) : nullptr,
                    is_known && !problem_.value_in_key ? values_.fetches(stage_ ^ 1) : nullptr,
                    loaded_, next, h);
  }
  void begin(const KeyTile& tile, int h) {
    is_loading_ = keys_.begin(tile, view_.task.head + h, stage_ ^ 1);
    if (!problem_.value_in_key) is_loading_ |= values_.begin(tile, view_.task.head + h, stage_ ^ 1);
  }
  /// One piece of what comes next, of K and of V.
  void step() {
    if (!is_loading_) return;
    const bool more_keys = keys_.step(), more_values = !problem_.value_in_key && values_.step();
    is_loading_ = more_keys || more_values;
  }
  void finish() {
    while (is_loading_) step();
  }

  /// Brings the scales of head h that multiply scores and weights.
  void gather_scales(const KeyTile& tile, int h) const {
    const int head = view_.task.head + h;
    if (has_key_scales_) RowScales<I>::gather(view_.args.key, tile, head, s_.key_scales);
    if (has_value_scales_) RowScales<I>::gather(view_.args.value, tile, head, s_.value_scales);
  }

  void attend(const skeleton::State& state, const KeyTile& tile, int h) {
    for (int begin = 0; begin < view_.head_rows; begin += row_block) {
      const int end = begin + row_block < view_.head_rows ? begin + row_block : view_.head_rows;
      const skeleton::Coverage covered = view_.coverage(begin, end, tile, mutant());
      if (covered == skeleton::Coverage::none) continue;
      if (is_few_) return attend_few(state, tile, h, covered != skeleton::Coverage::all);
      if (covered == skeleton::Coverage::all) {
        attend_rows(state, tile, h, begin, end, false);
      } else {
        for (int part = begin; part < end; part += masked_rows)
          attend_rows(state, tile, h, part, part + masked_rows < end ? part + masked_rows : end,
                      true);
      }
    }
  }

  /// Local rows [begin, end) of a block. Those that see nothing of the tile keep their state.
  void attend_rows(const skeleton::State& state, const KeyTile& tile, int h, int begin, int end,
                   bool is_masked) {
    const int vectors = (end - begin + lanes - 1) / lanes;
    const int keys = is_masked ? see(tile, begin, end, P::keys_beside(vectors)) : tile_keys;
    if (keys == 0) return;
    score(h, begin, vectors, keys);
    for (int v = 0; v < vectors; ++v)
      weigh(state, tile, h, begin + v * lanes, end, v, keys, is_masked);
    Pace pace = upcoming_.beside_values(P::value_steps(end - begin, keys, width_));
    P::template values<Words<I>>(s_.weights, value_groups_, keys,
                                 state.output + int64_t{h * padded_rows_ + begin} * width_,
                                 end - begin, width_, pace);
  }
  /// Finds what local rows [begin, end) see of a tile; returns how far that reaches, a multiple of
  /// `step`.
  int see(const KeyTile& tile, int begin, int end, int step) {
    uint64_t any = 0;
    for (int r = 0; r < skeleton::round_up(end - begin, lanes); ++r) {
      seen_[r] = begin + r < end ? view_.seen_by_row(begin + r, tile, mutant()) : 0;
      any |= seen_[r];
    }
    return any == 0 ? 0 : static_cast<int>(skeleton::round_up(64 - __builtin_clzll(any), step));
  }

  void score(int h, int begin, int vectors, int keys) {
    const int block = begin / row_block;
    ScoreCall call;
    call.q = query_block(h, block) + begin % row_block;
    call.q_stride = query_stride(block);
    call.steps = steps_;
    Pace pace = upcoming_.beside_scores(view_.head_rows <= row_block, P::score_steps(keys, steps_));
    call.pace = &pace;
    const int together = P::keys_beside(vectors);
    for (int k = 0; k < keys; k += together) {
      const TileRows* const group = key_groups_ + k / TileGroups::group_rows;
      call.keys = *group;
      call.keys.data += k % TileGroups::group_rows * call.keys.stride_bytes;
      call.to = s_.scores + k * row_block;
      P::scores(vectors, call);
      step();
    }
  }
  /// All rows of a head, at most 8: attend_rows with keys in the lanes.
  void attend_few(const skeleton::State& state, const KeyTile& tile, int h, bool is_masked) {
    const int keys = is_masked ? see(tile, 0, view_.head_rows, TileGroups::group_rows) : tile_keys;
    if (keys == 0) return;
    const int padded = few_padded(view_.head_rows);
    score_few(h, padded, keys);
    weigh_few(state, tile, h, padded, keys, is_masked);
    with_stored(value_type_, [&]<class Stored>(const Stored&) {
      using Values = FewValues<I, Stored>;
      Pace pace = upcoming_.beside_values(Values::steps(padded, keys, width_));
      Values::add({.weights = s_.weights,
                   .rows = padded,
                   .groups = value_groups_,
                   .keys = keys,
                   .output = state.output + int64_t{h * padded_rows_} * width_,
                   .width = width_,
                   .pace = &pace});
    });
  }
  void score_few(int h, int padded, int keys) {
    for (int k = 0; k < keys; k += TileGroups::group_rows) step();
    with_stored(key_type_, [&]<class Stored>(const Stored&) {
      using Few = FewRows<I, Stored>;
      const int groups = keys / TileGroups::group_rows;
      Pace pace = upcoming_.beside_scores(true, Few::score_steps(groups, steps_));
      Few::scores(groups, {.q = query_block(h, 0),
                           .rows = padded,
                           .steps = steps_,
                           .groups = key_groups_,
                           .pace = &pace,
                           .scales = has_key_scales_ ? s_.key_scales : nullptr,
                           .to = s_.scores});
    });
  }
  void weigh_few(const skeleton::State& state, const KeyTile& tile, int h, int padded, int keys,
                 bool is_masked) {
    Column c = column(state, h, 0, view_.head_rows, keys);
    for (int r = 0; r < c.rows; ++r) {
      float* const scores = s_.scores + r * FewSoftmax<I>::score_stride;
      if (view_.has_terms)
        softmax::Terms<I, skeleton::Log2Units>::of_row(
            scores, [this](int) { return factor_; },
            view_.terms_of(h * view_.head_rows + r, tile.first, mutant()));
      if (is_masked) FewSoftmax<I>::hide(s_.scores, r, keys, seen_[r]);
    }
    c.scores = s_.scores;
    c.weights = s_.weights;
    FewSoftmax<I>::weigh(c, padded);
  }

  /// The sixteen rows from `first` on, vector `v` of the block's scores.
  void weigh(const skeleton::State& state, const KeyTile& tile, int h, int first, int end, int v,
             int keys, bool is_masked) {
    float* const scores = s_.scores + v * lanes;
    if (has_key_scales_) S::scale(s_.key_scales, scores, keys);
    Column c = column(state, h, first, end - first < lanes ? end - first : lanes, keys);
    if (view_.has_terms) add_terms(tile, h, first, c.rows, scores, keys);
    if (is_masked) softmax::LaneRows<I>{scores, row_block, keys}.hide(seen_ + v * lanes);
    c.scores = scores;
    c.weights = s_.weights + v * lanes;
    S::weigh(c);
  }
  /// Local rows from `first` on and their state, without scores and weights.
  [[nodiscard]] Column column(const skeleton::State& state, int h, int first, int rows,
                              int keys) const {
    Column c;
    c.rows = rows;
    c.keys = keys;
    c.factor = view_.has_terms ? 1.0f : factor_ * log2_e;
    c.value_scales = has_value_scales_                          ? s_.value_scales
                     : problem_.value_in_key && has_key_scales_ ? s_.key_scales
                                                                : nullptr;
    const int64_t at = h * padded_rows_ + first;
    c.maximum = state.maximum + at;
    c.denominator = state.denominator + at;
    c.output = state.output + at * width_;
    c.width = width_;
    return c;
  }

  void add_terms(const KeyTile& tile, int h, int first, int rows, float* scores, int keys) const {
    const auto terms_of = [&](int r) {
      return view_.terms_of(h * view_.head_rows + first + (r < rows ? r : 0), tile.first, mutant());
    };
    softmax::Terms<I, skeleton::Log2Units>::of_rows(scores, row_block, keys, factor_, terms_of);
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Scratch s_;
  const int steps_;
  const int width_;
  const bool is_few_;
  const int padded_rows_;  // of each head
  const float factor_;
  const bool has_key_scales_;  // applied to scores and weights
  const bool has_value_scales_;
  Upcoming upcoming_;
  const DType key_type_;  // that the products widen; invalid: they read words
  const DType value_type_;
  Plane<I, true> keys_;
  Plane<I, false> values_;
  const TileRows* key_groups_ = nullptr;
  const TileRows* value_groups_ = nullptr;
  // what the stage after this one holds, for the head that comes next
  const KeyTile* loaded_ = nullptr;
  int stage_ = 1;
  bool is_loading_ = false;
  uint64_t seen_[row_block];
};

}  // namespace folio::inline v1::avx512
