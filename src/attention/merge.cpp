// SPDX-License-Identifier: Apache-2.0
/// src/attention/merge.cpp: check, then one task per range of (token, head) rows; parts are folded
/// in the order given.
#include "folio/attention/merge.h"

#include <cmath>
#include <limits>

#include "attention/convert.h"
#include "attention/row_ranges.h"
#include "cache/check_tensor.h"
#include "core/run_on.h"

namespace folio::inline v1 {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float minus_infinity = -infinity;

struct Call {
  std::span<const Partial> parts;
  AnyTensor<3> out = {};
  float* lse = nullptr;
  NarrowRow narrow = nullptr;
  RowRanges ranges = {};
};

const std::byte* row_of(const ConstTensor<3>& tensor, int64_t token, int64_t head) {
  return static_cast<const std::byte*>(tensor.data) + token * tensor.stride_bytes[0] +
         head * tensor.stride_bytes[1];
}

std::byte* row_of(const AnyTensor<3>& tensor, int64_t token, int64_t head) {
  return static_cast<std::byte*>(tensor.data) + token * tensor.stride_bytes[0] +
         head * tensor.stride_bytes[1];
}

float lse_of(const Partial& part, int64_t row) {
  return part.lse[row] == infinity ? minus_infinity : part.lse[row];
}

/// The largest lse of a row; NaN if one of them is.
float largest_lse(const Call& call, int64_t row) {
  float largest = minus_infinity;
  for (const Partial& part : call.parts) {
    if (const float lse = lse_of(part, row); !(lse <= largest)) largest = lse;
    if (std::isnan(largest)) break;
  }
  return largest;
}

/// exp(lse - largest); parts of weight 0 are not read.
float weight(const Partial& part, int64_t row, float largest) {
  const float lse = lse_of(part, row);
  return lse == minus_infinity ? 0.0f : std::exp(lse - largest);
}

void add_weighted(const Partial& part, int64_t token, int64_t head, int64_t first, int64_t n,
                  float factor, float* sums) {
  float values[convert_chunk];
  const int64_t element = bit_width(part.out.dtype) / 8;
  widen_row_of(part.out.dtype)(row_of(part.out, token, head) + first * element, n, values);
  for (int64_t i = 0; i < n; ++i) sums[i] += factor * values[i];
}

/// One row of one head. Every part is read before the same elements are written, so `out` may be
/// one of the parts.
void merge_row(const Call& call, int64_t token, int64_t head) {
  const int64_t row = token * call.out.extent[1] + head;
  const int64_t element = bit_width(call.out.dtype) / 8;
  const float largest = largest_lse(call, row);
  float total = 0.0f;
  for (const Partial& part : call.parts) total += weight(part, row, largest);
  for (int64_t first = 0; first < call.out.extent[2]; first += convert_chunk) {
    const int64_t n = std::min(convert_chunk, call.out.extent[2] - first);
    float sums[convert_chunk] = {};
    for (const Partial& part : call.parts) {
      const float factor = weight(part, row, largest);
      if (factor != 0.0f) add_weighted(part, token, head, first, n, factor, sums);
    }
    if (total != 0.0f) {
      for (int64_t i = 0; i < n; ++i) sums[i] /= total;
    }
    call.narrow(sums, n, row_of(call.out, token, head) + first * element);
  }
  if (call.lse != nullptr)
    call.lse[row] = total != 0.0f ? largest + std::log(total) : minus_infinity;
}

void merge_rows(void* arg, int64_t task) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  const int64_t heads = call.out.extent[1];
  for (int64_t row = call.ranges.begin(task); row < call.ranges.end(task); ++row)
    merge_row(call, row / heads, row % heads);
}

Status check_part(size_t index, const Partial& part, const AnyTensor<3>& out) {
  const ElementName name("parts", index, "out");
  const ExpectedTensor expected{{out.extent[0], out.extent[1], out.extent[2]}, "out"};
  if (Status s = check_tensor("merge", name, part.out, expected); !s.is_ok()) return s;
  if (part.lse == nullptr) {
    return fail(Errc::invalid_argument, "merge: parts[{}].lse is null, expected [{}, {}]", index,
                out.extent[0], out.extent[1]);
  }
  return check_apart("merge", "out", out, name, part.out);
}

Status check(std::span<const Partial> parts, const AnyTensor<3>& out, const Executor& executor) {
  if (Status s = check_executor("merge", executor); !s.is_ok()) return s;
  if (parts.empty())
    return fail(Errc::invalid_argument, "merge: parts has 0 entries, expected at least 1");
  if (out.extent[0] < 0 || out.extent[1] < 1 || out.extent[2] < 1) {
    return fail(Errc::invalid_argument,
                "merge: out has shape [{}, {}, {}], expected tokens >= 0 and the others >= 1",
                out.extent[0], out.extent[1], out.extent[2]);
  }
  if (out.extent[0] == 0) return {};
  const ExpectedTensor same{{out.extent[0], out.extent[1], out.extent[2]}, "out"};
  if (Status s = check_tensor("merge", "out", out, same); !s.is_ok()) return s;
  if (Status s = check_places("merge", "out", out); !s.is_ok()) return s;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (Status s = check_part(i, parts[i], out); !s.is_ok()) return s;
  }
  return {};
}

}  // namespace

Status merge(std::span<const Partial> parts, const AnyTensor<3>& out, float* lse,
             const Executor& executor) noexcept {
  if (Status s = check(parts, out, executor); !s.is_ok()) return s;
  if (out.extent[0] == 0) return {};
  const Result<int64_t> threads = concurrency_of("merge", executor);
  if (!threads) return threads.error();
  Call call{parts, out, lse, narrow_row_of(out.dtype), {}};
  call.ranges = row_ranges(out.extent[0] * out.extent[1],
                           out.extent[2] * 4 * static_cast<int64_t>(parts.size() + 1), *threads);
  return run_on("merge", executor, call.ranges.tasks, merge_rows, &call);
}

}  // namespace folio::inline v1
