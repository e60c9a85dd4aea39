// SPDX-License-Identifier: Apache-2.0
/// folio/sparse/index.h: scores of an indexer: which keys matter to a query.
///
///   score[t, j] = sum_h weight[t, h] * f(scale * q[t, h, :] . k[j, h / group, :])
///
/// with f = relu or identity, -inf where j is not visible: hidden by mask or interval, behind the
/// context, in an unassigned page. In float32, heads added in ascending order, weights of either
/// sign.
///
/// An index cache is a plane of the same pages as K and V: one small head for each token (DeepSeek
/// V3.2 and GLM-5: 128 elements, bf16, or f8_e4m3 with a scale per token or block), written by
/// `append` without V, copied, stored and sent as other planes.
///
/// How exact: float32 rounds. With u = 2^-24 a head moves a score by |weight| * scale *
/// (head_size + 8) * u * sum_d |q k|, where K is turned by |weight| * scale * (log2(block) + 4) *
/// block * u * sum_d |q| max_d |k| beside, q and k as they are turned (a block of 1 where K has
/// channel scales alone); the sum of heads by q_heads * u * sum_h |weight * f|. Where q and K
/// have 16 bits or fewer, or bf16_operands lets it, a kernel may round their elements to bf16,
/// once they are scaled, which moves a head by |weight| * 2^-7 * scale * sum_d |q k|, and take what
/// is smaller than a normal number for 0. A NaN anywhere in a visible score makes that score NaN,
/// and no other; of keys that no query sees nothing is read.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/attention/mask.h"
#include "folio/cache/batch.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/dtype.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Who has a list of keys.
enum class IndexLists : uint8_t {
  per_query = 0,  ///< heads are added
  per_head = 1,   ///< each q head has its own; refused by every kernel so far
};

/// What selects a kernel. Of the view what AttentionProblem says of K: pointers and num_pages are
/// ignored, strides are those to expect.
struct IndexProblem {
  PagedKVView key = {};
  int32_t q_heads = 0;              ///< a multiple of key.num_heads, mostly 1
  DType q_dtype = DType::bf16;      ///< f32, bf16, f16
  bool has_weights = true;          ///< without: all 1
  DType weight_dtype = DType::f32;  ///< f32, bf16, f16
  bool relu = true;
  IndexLists lists = IndexLists::per_query;
  /// keys that share a score, the greatest of theirs, at a multiple of it; other than 1 is refused
  /// by every kernel so far
  int32_t block_keys = 1;
  Mask mask = Mask::causal();
  bool intervals = false;  ///< Batch::visible_begin / visible_end replace the mask
  float scale = 0.0f;      ///< 0: 1 / sqrt(key.head_size)
  /// q and K of f32 or f16 may be rounded to bf16 before they are multiplied, where that is faster
  bool bf16_operands = false;
  /// q comes turned as K is (RotateArgs::key). Without effect where K is not
  bool q_is_turned = false;
  bool operator==(const IndexProblem&) const = default;
};

/// Upper bounds over all batches of an Index's life.
struct IndexLimits {
  int32_t batch = 1;    ///< sequences in a step
  int32_t tokens = 1;   ///< query rows in a step
  int32_t context = 1;  ///< keys of one sequence
  int32_t top = 2048;   ///< keys of a list, at most top_max (folio/sparse/select.h)
  /// tasks that run at once, at most 16384. 0: as many as default_executor() runs at once when
  /// Index::create is called
  int32_t parallelism = 0;
  bool operator==(const IndexLimits&) const = default;
};

/// Null if some kernel serves the problem on `device`, else the reason why none does (a string that
/// lives as long as the program). Builds nothing.
[[nodiscard]] FOLIO_EXPORT const char* refuse(const IndexProblem& problem,
                                              Device device = {}) noexcept;

/// The kernel for one problem, and the limits. Immutable plain data: copy it freely, use it from
/// any thread. There is no plan: each call cuts its batch into tasks, in the workspace.
class Index {
 public:
  /// `kernel`: use this one (or refuse); empty: FOLIO_FORCE_INDEX_KERNEL, then the first that does
  /// not refuse. Errors: invalid_argument for a broken problem,
  /// limits out of their ranges or an unknown kernel name; unsupported with the reason.
  [[nodiscard]] FOLIO_EXPORT static Result<Index> create(const IndexProblem& problem,
                                                         const IndexLimits& limits,
                                                         Device device = {},
                                                         std::string_view kernel = {}) noexcept;

  /// The same problem and kernel within other limits: scores and lists keep their bits.
  /// Errors: invalid_argument for an empty Index or limits that create refuses.
  [[nodiscard]] FOLIO_EXPORT Result<Index> with_limits(const IndexLimits& limits) const noexcept;

  /// The name of the selected kernel, e.g. "index_any_x86_64_v3".
  [[nodiscard]] FOLIO_EXPORT std::string_view kernel() const noexcept;
  /// Bytes that suffice for every batch within the limits; 64-byte aligned memory is required.
  [[nodiscard]] int64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  [[nodiscard]] const IndexProblem& problem() const noexcept { return problem_; }
  /// As given, with parallelism resolved.
  [[nodiscard]] const IndexLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  friend struct IndexInternals;
  static Result<Index> sized(const char* function, Index index, const IndexLimits& limits) noexcept;

  IndexProblem problem_ = {};  // scale resolved
  IndexLimits limits_ = {};
  Device device_ = {};
  const void* kernel_ = nullptr;  // an entry of the list of index kernels
  int64_t workspace_bytes_ = 0;
};

/// What changes from layer to layer. What selects a kernel must equal the problem's; strides are
/// the call's own.
struct ScoreArgs {
  /// [tokens, q_heads, key.head_size], normalised and rotated as the keys are
  ConstTensor<3> q = {};
  ConstTensor<2> weights = {};  ///< [tokens, q_heads], with problem.has_weights
  PagedKVView key = {};
};

/// scores[t][j] of key first_key + j of t's sequence, f32: for engines with a selection of their
/// own, and to look at. select_keys (folio/sparse/select.h) needs no such array, whose size is
/// queries times keys.
///
/// Of the batch it reads offsets, lengths, positions, table and, with problem.intervals, those of
/// each query; Batch::tree is unsupported, selected and alibi_positions are not looked at.
///
/// Errors:  invalid_argument for an empty Index, a batch beyond the limits, arguments of another
///          geometry than the problem, a workspace too small or misaligned; unsupported for a tree.
///          Nothing is written then; internal if the executor throws or leaves out tasks: the
///          scores are undefined then
/// Effects: allocates nothing; at most limits.parallelism tasks run at once; bits depend on neither
///          threads, limits nor what else is in the batch
FOLIO_EXPORT Status score_index(const Index& index, const Batch& batch, const ScoreArgs& args,
                                int32_t first_key, const AnyTensor<2>& scores, MemorySpan workspace,
                                const Executor& executor) noexcept;

}  // namespace folio::inline v1
