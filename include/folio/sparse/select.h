// SPDX-License-Identifier: Apache-2.0
/// folio/sparse/select.h: from the scores of an indexer to the lists that sparse attention takes
/// (Batch::selected).
///
/// Which keys are listed is exact and the same on every machine: the `k` greatest scores, of equal
/// ones that of the lower key. -inf is never listed, NaN comes behind every number, -0 equals 0. A
/// list is in ascending order of keys, -1 behind them: attention over it reads consecutive keys in
/// one run, and its bits do not depend on scores.
#pragma once

#include <cstdint>

#include "folio/cache/batch.h"
#include "folio/core/any_tensor.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/sparse/index.h"

namespace folio::inline v1 {

/// The most keys that a list can have.
inline constexpr int32_t top_max = 4096;

struct TopArgs {
  ConstTensor<2> scores = {};  ///< [tokens, keys], f32
  /// [tokens] how many of a row's scores there are, the others are not read; null: all
  const int32_t* lengths = nullptr;
  int32_t k = 0;               ///< 1 to top_max
  int32_t* indices = nullptr;  ///< [tokens, k], rows `stride` apart
  int64_t stride = 0;          ///< at least k
};

/// Bytes of a workspace in which `parallelism` tasks select at once; 0 for a k or a parallelism
/// that there cannot be.
[[nodiscard]] FOLIO_EXPORT int64_t select_top_bytes(int32_t k, int32_t parallelism) noexcept;

/// The k greatest scores of each row, by their indices.
///
/// Errors:  invalid_argument for k, shapes, dtype, strides or lengths out of range, null arrays, a
///          workspace that is misaligned (64 bytes) or too small for one task; nothing is written
///          then; internal if the executor throws or leaves out tasks: the lists are undefined then
/// Effects: allocates nothing; runs as many tasks at once as executor and workspace have room for
FOLIO_EXPORT Status select_top(const TopArgs& args, MemorySpan workspace,
                               const Executor& executor) noexcept;

/// Lists of key indices, and the planes whose slots they become.
struct RemapArgs {
  const int32_t* indices = nullptr;  ///< [tokens, count], rows `stride` apart
  int64_t stride = 0;                ///< at least count
  int32_t count = 0;
  int32_t page_size = 0;     ///< of the planes, as PagedKVView has it
  int64_t num_pages = 0;     ///< no more than 2^31 slots
  int32_t* slots = nullptr;  ///< [tokens, count], rows `slots_stride` apart; may be `indices`
  int64_t slots_stride = 0;
};

/// Key indices of each query's sequence to slots, by the batch's table: page id * page_size +
/// offset. -1 and keys of unassigned pages become -1. Of the batch it reads offsets, lengths and
/// table.
///
/// Errors:  invalid_argument for a broken batch, null arrays, sizes and strides out of range, an
///          index outside [-1, context length); nothing is written then; internal as select_top
/// Effects: allocates nothing; reads table entries of pages that hold a listed key
FOLIO_EXPORT Status remap(const Batch& batch, const RemapArgs& args,
                          const Executor& executor) noexcept;

/// What a list's entries are.
enum class ListEntries : uint8_t {
  slots = 0,  ///< of a plane, as Batch::selected has them
  keys = 1,   ///< indices of the sequence's keys
};

struct SelectArgs {
  ScoreArgs score = {};
  int32_t k = 0;             ///< 1 to limits.top
  int32_t* lists = nullptr;  ///< [tokens, k], rows `stride` apart
  int64_t stride = 0;        ///< at least k
  ListEntries entries = ListEntries::slots;
  /// the planes whose slots are listed, where they have other pages than the index cache, and their
  /// table; page_size 0: those of score.key, by the batch's table
  PageTable table = {};
  int32_t page_size = 0;
  int64_t num_pages = 0;
};

/// score_index, select_top and remap in one pass over the pages: as they would list, with memory
/// for tokens * k entries and a few tiles, never for tokens * keys.
///
/// Errors:  as score_index, select_top and remap, under its own name
/// Effects: as score_index
FOLIO_EXPORT Status select_keys(const Index& index, const Batch& batch, const SelectArgs& args,
                                MemorySpan workspace, const Executor& executor) noexcept;

}  // namespace folio::inline v1
