// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/pages.h: what summaries of pages ask of an instruction set: rows joined to a
/// summary, and queries against summaries.
///
/// Kernels know no tables beyond a row of entries. What `load`, `widen`, `add` and `store` write is
/// the same whatever the instruction set; scores round in an order of each.
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

enum class Rounding : uint8_t { down, nearest, up };

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

/// Terms of log_sum: (sum of weight * e^(score - greatest)), over weights above 0.
struct LogSum {
  float greatest = 0.0f;  ///< -inf: there are none; +inf: sum is without meaning
  float sum = 0.0f;
};

/// Elements of f32, bf16 or f16 to floats.
using Load = void(DType dtype, const std::byte* from, float* to, int64_t n) noexcept;
/// And back.
using Store = void(DType dtype, Rounding rounding, const float* from, std::byte* to,
                   int64_t n) noexcept;
/// low and high [n] of `count` rows of n floats more. NaN stays.
using Widen = void(const float* rows, int64_t count, int64_t n, float* low, float* high) noexcept;
using Add = void(const float* rows, int64_t count, int64_t n, float* sums) noexcept;
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
  Load* load = nullptr;
  Store* store = nullptr;
  Widen* widen = nullptr;
  Add* add = nullptr;
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
