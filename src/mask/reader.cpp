// SPDX-License-Identifier: Apache-2.0
/// src/mask/reader.cpp: from a mask to the cheapest batch that says the same.
#include <new>
#include <utility>
#include <vector>

#include "folio/attention/mask_matrix.h"
#include "folio/core/buffer.h"
#include "mask/alibi.h"
#include "mask/arrays.h"
#include "mask/bias.h"
#include "mask/cells.h"
#include "mask/rows.h"
#include "mask/runs.h"
#include "mask/shape.h"

namespace folio::inline v1::mask {
namespace {

/// What a MaskReader keeps.
struct Memory {
  Rows rows;
  Arrays arrays;
  Cells cells;
  RoundedDistances rounded;
  std::vector<int64_t> positions;
  Buffer bias;
};

/// One mask on its way. The memory's members throw std::bad_alloc.
class Reading {
 public:
  Reading(Memory& memory, const Shape& shape, const MaskOptions& options)
      : memory_(memory), shape_(shape), options_(options) {}

  Result<MaskedBatch> batch() {
    masked_.tokens = static_cast<int32_t>(shape_.tokens());
    memory_.arrays.clear();
    if (masked_.tokens > 0) {
      memory_.rows.scan(shape_);
      const bool per_head = shape_.heads > 1 && shape_.keys > 0;
      const bool is_plain = !per_head && !memory_.rows.is_weighted();
      if (is_plain) {
        add_streams(false);
      } else if (per_head || options_.slopes == nullptr || !add_streams(true)) {
        if (Status s = make_bias(); !s.is_ok()) return s;
      }
    }
    finish();
    return masked_;
  }

 private:
  /// False where `alibi` is asked for and the numbers are others.
  bool add_streams(bool alibi) {
    const Rows& rows = memory_.rows;
    masked_.form = rows.has_holes() ? MaskForm::cells : MaskForm::runs;
    masked_.alibi = alibi;
    masked_.alibi_positions = alibi && rows.has_holes();
    for (int64_t s = 0; s < shape_.streams; ++s) {
      const uint32_t first = first_row(shape_, options_, s);
      if (rows.has_holes()) {
        if (!memory_.cells.add(memory_.arrays, shape_, rows, s, first, alibi ? &shape_ : nullptr))
          return false;
        continue;
      }
      const Span* const spans = rows.spans(s);
      if (alibi && !find_positions(shape_, spans, s, memory_.rounded, memory_.positions))
        return false;
      add_runs(memory_.arrays, spans, shape_.queries, first,
               alibi ? memory_.positions.data() : nullptr);
    }
    return true;
  }

  Status make_bias() {
    memory_.arrays.clear();
    masked_.form = MaskForm::bias;
    masked_.alibi = masked_.alibi_positions = false;
    for (int64_t s = 0; s < shape_.streams; ++s)
      add_spans(memory_.arrays, memory_.rows.spans(s), shape_.queries,
                first_row(shape_, options_, s));
    if (options_.slopes != nullptr) return write_bias(masked_, shape_, options_, memory_.bias);
    point_bias(masked_, shape_);
    return {};
  }

  /// Positions of keys of one sequence after the other, as a row for each sequence.
  void spread_positions() {
    Arrays& arrays = memory_.arrays;
    const auto size = static_cast<size_t>(arrays.size()),
               stride = static_cast<size_t>(arrays.longest);
    arrays.alibi_positions.resize(std::max(arrays.alibi_positions.size(), size * stride));
    for (size_t b = 0; b < size; ++b)
      std::copy_n(arrays.key_positions.begin() + arrays.row_starts[b], arrays.contexts[b],
                  arrays.alibi_positions.begin() + static_cast<int64_t>(b * stride));
  }

  void finish() {
    const Arrays& arrays = memory_.arrays;
    if (masked_.alibi_positions) spread_positions();
    masked_.page_size = masked_.form == MaskForm::cells ? 1 : unbounded_page_size;
    masked_.context = arrays.longest;
    masked_.batch = arrays.batch();
    if (masked_.alibi) masked_.batch.query_positions = arrays.query_positions.data();
    if (!masked_.alibi_positions) return;
    masked_.batch.alibi_positions = arrays.alibi_positions.data();
    masked_.batch.alibi_positions_stride = arrays.longest;
  }

  Memory& memory_;
  const Shape& shape_;
  const MaskOptions& options_;
  MaskedBatch masked_ = {};
};

Result<MaskedBatch> read(void*& memory, const Result<Shape>& shape, const MaskOptions& options) {
  if (!shape) return shape.error();
  try {
    if (memory == nullptr) memory = new Memory;
    return Reading(*static_cast<Memory*>(memory), *shape, options).batch();
  } catch (...) {  // std::bad_alloc, std::length_error: vectors throw nothing else
    return fail(Errc::out_of_memory,
                "MaskReader::read: no memory for a mask of {} streams, {} queries and {} keys",
                shape->streams, shape->queries, shape->keys);
  }
}

}  // namespace

AttentionProblem masked_problem(const AttentionProblem& problem,
                                const MaskedBatch& masked) noexcept {
  AttentionProblem p = problem;
  p.key.page_size = masked.page_size;
  if (!p.value_in_key) p.value.page_size = masked.page_size;
  p.mask = Mask::full();
  p.intervals = true;
  p.tree = p.selection = false;
  p.alibi = masked.alibi;
  p.alibi_positions = masked.alibi_positions;
  p.bias = masked.form == MaskForm::bias;
  p.bias_dtype = p.bias ? masked.bias.dtype : DType::f32;
  p.bias_per_sequence = masked.bias_per_sequence;
  return p;
}

Result<MaskedBatch> MaskReader::read(const MaskMatrix& mask, const MaskOptions& options) noexcept {
  return mask::read(memory_, mask::check_matrix(mask, options), options);
}

Result<MaskedBatch> MaskReader::read(const MaskBits& mask, const MaskOptions& options) noexcept {
  return mask::read(memory_, mask::check_bits(mask, options), options);
}

void MaskReader::release(void* memory) noexcept { delete static_cast<Memory*>(memory); }

}  // namespace folio::inline v1::mask
