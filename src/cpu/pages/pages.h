// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages.h: what summaries of pages ask of an instruction set: rows joined to a
/// summary, and queries against summaries.
///
/// Kernels know no tables beyond a row of entries. What `begin`, `widen`, `add` and `store` write
/// is the same whatever the instruction set; scores round in an order of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "folio/cache/page_summaries.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"
#include "kernel/capability.h"
#include "kernel/index_kernel.h"

namespace folio::inline v1 {
namespace pages {

/// Queries that are scored at once, at most.
inline constexpr int32_t queries_at_once = 4;

/// Floats of a part of a query: whole registers of any instruction set.
FOLIO_ALWAYS_INLINE constexpr int64_t padded(int64_t head_size) {
  return (head_size + 15) / 16 * 16;
}

/// Floats of `queries_at_once` prepared queries.
FOLIO_ALWAYS_INLINE constexpr int64_t prepared_floats(int64_t head_size) {
  return 2 * queries_at_once * padded(head_size);
}

/// Summaries of one KV head.
struct Source {
  const std::byte* data = nullptr;  ///< row 0 of page 0
  DType dtype = DType::invalid;
  SummaryKind kind = SummaryKind::bounds;
  int32_t head_size = 0;
  int64_t num_pages = 0;
  int64_t page_stride_bytes = 0;
  int64_t row_stride_bytes = 0;
};

/// The two rows of a page's bounds, of f32, bf16 or f16.
struct BoundRows {
  DType dtype = DType::invalid;
  std::byte* low = nullptr;
  std::byte* high = nullptr;
  int64_t n = 0;  ///< channels, of one head or of several
};

/// Rows of as many channels: floats, or of the type of the bounds.
struct KeyRows {
  DType dtype = DType::invalid;
  const std::byte* data = nullptr;
  int64_t stride_bytes = 0;
  int64_t count = 0;
};

/// Terms of log_sum: (sum of weight * e^(score - greatest)), over weights above 0.
struct LogSum {
  float greatest = 0.0f;  ///< -inf: there are none; +inf: sum is without meaning
  float sum = 0.0f;
};

/// Bounds of nothing: above everything, and below.
using Begin = void(const BoundRows& to) noexcept;
/// Bounds of what they bound and of the rows, too. A channel that has met NaN stays NaN.
using Widen = void(const BoundRows& to, const KeyRows& rows) noexcept;
/// sums [n] of `count` rows of n floats more.
using Add = void(const float* rows, int64_t count, int64_t n, float* sums) noexcept;
/// Floats to elements of f32, bf16 or f16, to nearest.
using Store = void(DType dtype, const float* from, std::byte* to, int64_t n) noexcept;
/// A query's row times scale, cut into its parts above and below 0 (bounds), or as it is (mean);
/// `to`: [2, padded(n)].
using Prepare = void(DType dtype, SummaryKind kind, const std::byte* from, float scale, float* to,
                     int64_t n) noexcept;
/// scores[r * stride + p] of `queries` prepared rows, 1, 2 or 4, for the pages entries[p]: -inf of
/// unassigned ones, +inf in place of NaN, else at least the lowest float.
using Score = void(const Source& source, const float* prepared, int32_t queries,
                   const uint32_t* entries, int64_t pages, float* scores, int64_t stride) noexcept;
using SumOfExps = LogSum(const float* scores, const float* weights, int64_t n) noexcept;

/// One build. Thread safety: pure but for what is written; allocates nothing.
struct Kernel {
  std::string_view name;
  Capabilities needs = {};
  Begin* begin = nullptr;
  Widen* widen = nullptr;
  Add* add = nullptr;
  Store* store = nullptr;
  Prepare* prepare = nullptr;
  Score* score = nullptr;
  SumOfExps* sum_of_exps = nullptr;
  CollectScores* collect = nullptr;
};

/// Every build, best first.
[[nodiscard]] std::span<const Kernel* const> kernels() noexcept;

/// The best build that this machine runs.
[[nodiscard]] const Kernel& kernel() noexcept;

}  // namespace pages

namespace baseline {
extern const pages::Kernel pages_kernel;
}

namespace x86_64_v3 {
extern const pages::Kernel pages_kernel;
}

namespace x86_64_v4 {
extern const pages::Kernel pages_kernel;
}

}  // namespace folio::inline v1
