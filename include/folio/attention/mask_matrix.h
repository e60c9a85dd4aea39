// SPDX-License-Identifier: Apache-2.0
/// folio/attention/mask_matrix.h: masks given as matrices become batches: which query sees which
/// key, of engines that hand over a matrix and no table.
///
/// A matrix has a row of keys for each query of each stream (caches of one allocation that the same
/// call attends over: key j of stream s is row first_rows[s] + j of the plane). MaskReader finds
/// the cheapest batch that says the same, for an Attention with `intervals`:
///
///     runs    every query sees one run of keys. Queries whose runs climb and overlap share a table
///             row over one unbounded page, whose entry is the first key's row of the plane
///     cells   some query sees keys with holes between (caches that several sequences share,
///             shifted contexts): pages of one key. Queries that follow one another and share keys
///             are one table row as long as the keys can be listed so that each sees an interval
///     bias    numbers that are neither 0 nor hidden, and no ALiBi: an array for
///             AttentionArgs::bias; a table row per stream, over one unbounded page
///
/// Masks of ALiBi, -|position of query - position of key|, are found where slopes are given, and
/// become the batch's positions: runs and cells then serve with AttentionProblem::alibi.
///
/// Tokens are ordered by streams: token = stream * queries + query. Queries that see nothing have
/// empty intervals.
#pragma once

#include <cstdint>
#include <utility>

#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "folio/core/any_tensor.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1::mask {

/// [streams, 1 or q_heads, queries, keys] of f16, bf16 or f32; keys are contiguous, the other
/// strides arbitrary (0: all share one). -inf: hidden; 0 or -0: seen; any other number is seen and,
/// times the head's slope where slopes are given, joins the logit. Only read.
struct MaskMatrix {
  ConstTensor<4> values = {};
};

/// Bit j % 8 of byte j / 8 of a row: the query sees key j. Bits behind the last key of a row's last
/// byte are ignored. Only read.
struct MaskBits {
  const void* bits = nullptr;
  int64_t streams = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t stream_stride_bytes = 0;  ///< 0: all streams share one
  int64_t query_stride_bytes = 0;
};

enum class MaskForm : uint8_t { runs = 0, cells = 1, bias = 2 };

struct MaskOptions {
  /// [streams] row of the plane of each stream's key 0; null: stream * keys
  const int64_t* first_rows = nullptr;
  /// [q_heads] finite numbers that the mask's are multiplied by, those of ALiBi; null: none. Masks
  /// are tried as ALiBi's only where there are slopes
  const float* slopes = nullptr;
  int32_t q_heads = 0;  ///< of slopes and of masks per head; without them 0 will do
};

/// What MaskReader::read found. The batch, and a bias that was written, lie in the reader's memory
/// until it reads again, moves or ends; a bias in place is the caller's matrix.
struct MaskedBatch {
  MaskForm form = MaskForm::runs;
  /// of the planes to attend over, whose page stride equals their slot stride: unbounded_page_size,
  /// or 1 (form cells)
  int32_t page_size = unbounded_page_size;
  /// the terms to create the problem with. alibi: with the caller's slopes as alibi_slopes
  bool alibi = false;
  bool alibi_positions = false;  ///< alibi of form cells: batch.alibi_positions is given
  bool bias_per_sequence = false;
  int32_t tokens = 0;   ///< streams * queries: limits.tokens at the least
  int32_t context = 0;  ///< the longest: limits.context at the least, where it is not 0
  Batch batch = {};     ///< with visible_begin and visible_end; limits.batch: its size
  /// form bias: [1 or q_heads, tokens, keys], with bias_per_sequence [1 or q_heads, queries, keys];
  /// its dtype is the problem's bias_dtype. Already multiplied by slopes
  ConstTensor<3> bias = {};
  int64_t bias_sequence_stride_bytes = 0;
};

/// `problem` as attention over the batch takes it: page sizes, intervals, alibi, alibi_positions,
/// bias, its dtype and form are set, tree and selection cleared; all else stays.
[[nodiscard]] FOLIO_EXPORT AttentionProblem masked_problem(const AttentionProblem& problem,
                                                           const MaskedBatch& masked) noexcept;

/// Reads masks; keeps its memory between calls, so that a mask no larger than one before allocates
/// nothing. Thread safety: distinct objects are independent; one object is externally synchronised.
class MaskReader {
 public:
  MaskReader() noexcept = default;
  MaskReader(const MaskReader&) = delete;
  MaskReader(MaskReader&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  MaskReader& operator=(MaskReader other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MaskReader() {
    if (memory_ != nullptr) release(memory_);
  }

  /// What the matrix says, as a batch. Every value is looked at once.
  ///
  /// Runs and cells say exactly what the matrix says: visibility, and of ALiBi distances that round
  /// to its values in its dtype (of f16, integers up to 2048 are exact). Form bias keeps every
  /// number, NaN and +inf too; intervals cover what any head sees, -inf hides the rest. The matrix
  /// itself is the bias unless there are slopes: then the products, as f32.
  ///
  /// Errors: invalid_argument, naming the argument, for null data of a matrix with elements, an
  ///         unknown dtype, keys that are not contiguous, extents below 0, heads that are neither 1
  ///         nor q_heads, strides or pointers that break the elements' alignment or reach beyond
  ///         2^56 bytes, streams * queries or keys of 2^31 or more, rows of the plane from 2^32 - 1
  ///         on, slopes that are not finite; out_of_memory. What was read before is lost then.
  [[nodiscard]] FOLIO_EXPORT Result<MaskedBatch> read(const MaskMatrix& mask,
                                                      const MaskOptions& options = {}) noexcept;
  /// Form runs or cells, without ALiBi: slopes have nothing to multiply.
  [[nodiscard]] FOLIO_EXPORT Result<MaskedBatch> read(const MaskBits& mask,
                                                      const MaskOptions& options = {}) noexcept;

 private:
  FOLIO_EXPORT static void release(void* memory) noexcept;

  void* memory_ = nullptr;
};

}  // namespace folio::inline v1::mask

namespace folio::inline v1 {  // flat names, for one release
using mask::MaskBits;
using mask::masked_problem;
using mask::MaskedBatch;
using mask::MaskForm;
using mask::MaskMatrix;
using mask::MaskOptions;
using mask::MaskReader;
}  // namespace folio::inline v1
