// SPDX-License-Identifier: Apache-2.0
/// src/sparse/check_lists.cpp: the checks that the calls of sparse attention have in common.
#include "sparse/check_lists.h"

#include <algorithm>

#include "attention/positions.h"
#include "cache/check_alignment.h"
#include "cache/check_reach.h"
#include "core/checked.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/sparse/select.h"

namespace folio::inline v1 {
namespace {

Status check_stride(const char* function, const char* name, int64_t stride, int64_t rows,
                    int64_t element_bytes) {
  const CheckedSize reach = reach_bytes(rows, stride) * element_bytes;
  if (reach.is_at_most(memory_bytes_max)) return {};
  return fail(Errc::invalid_argument,
              "{}: {} is {} over {} rows, expected a reach of at most 2^56 bytes", function, name,
              stride, rows);
}

}  // namespace

Status check_matrix(const char* function, const char* name, const ConstTensor<2>& matrix,
                    const ExpectedMatrix& expected) noexcept {
  if (matrix.dtype != expected.dtype)
    return fail(Errc::invalid_argument, "{}: {} has dtype {}, expected {}", function, name,
                matrix.dtype, expected.dtype);
  if (matrix.extent[0] != expected.extent[0] || matrix.extent[1] != expected.extent[1])
    return fail(Errc::invalid_argument, "{}: {} has shape [{}, {}], expected [{}, {}] (from {})",
                function, name, matrix.extent[0], matrix.extent[1], expected.extent[0],
                expected.extent[1], expected.from);
  if (matrix.extent[0] == 0 || matrix.extent[1] == 0) return {};
  if (matrix.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected [{}, {}]", function, name,
                matrix.extent[0], matrix.extent[1]);
  const Alignment natural = natural_alignment(matrix.dtype);
  if (matrix.stride_bytes[1] != natural.bytes)
    return fail(Errc::invalid_argument,
                "{}: {}.stride_bytes[1] is {}, expected {} (the last dimension is contiguous {})",
                function, name, matrix.stride_bytes[1], natural.bytes, matrix.dtype);
  const Stride strides[] = {{"stride_bytes[0]", matrix.stride_bytes[0]}};
  if (Status s = check_strides(function, name, strides, natural); !s.is_ok()) return s;
  if (Status s = check_aligned(function, name, ".data", matrix.data, natural); !s.is_ok()) return s;
  if (Status s = check_stride(function, name, matrix.stride_bytes[0], matrix.extent[0], 1);
      !s.is_ok())
    return s;
  return check_stride(function, name, natural.bytes, matrix.extent[1], 1);
}

Status check_lists(const char* function, const Lists& lists) noexcept {
  if (lists.stride < lists.count)
    return fail(Errc::invalid_argument, "{}: {} is {}, expected at least {} (entries of a list)",
                function, lists.stride_name, lists.stride, lists.count);
  if (lists.tokens == 0 || lists.count == 0) return {};
  if (lists.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {} is null, expected [{}, {}]", function, lists.name,
                lists.tokens, lists.count);
  constexpr Alignment of_int32{4, DType::invalid, "the size of int32"};
  if (Status s = check_aligned(function, lists.name, "", lists.data, of_int32); !s.is_ok())
    return s;
  return check_stride(function, lists.stride_name, lists.stride, lists.tokens, sizeof(int32_t));
}

Status check_k(const char* function, int32_t k, int32_t most, const char* limit) noexcept {
  if (k >= 1 && k <= most) return {};
  return fail(Errc::invalid_argument, "{}: k is {}, expected 1 to {} ({})", function, k, most,
              limit);
}

Status check_slots(const char* function, int32_t page_size, int64_t num_pages) noexcept {
  if (page_size < 1)
    return fail(Errc::invalid_argument, "{}: page_size is {}, expected at least 1", function,
                page_size);
  constexpr int64_t slots_max = int64_t{1} << 31;
  const int64_t most = page_size == unbounded_page_size ? slots_max : slots_max / page_size;
  if (num_pages >= 0 && num_pages <= most) return {};
  return fail(Errc::invalid_argument,
              "{}: num_pages is {}, expected 0 to {} (slots of int32, page_size {})", function,
              num_pages, most, page_size);
}

Status check_sequences(const char* function, const Batch& batch, int32_t context_max,
                       const char* limit) noexcept {
  if (batch.size == 0) return {};
  if (Status s = check_size(function, batch); !s.is_ok()) return s;
  if (Status s = check_ascending(function, batch); !s.is_ok()) return s;
  if (batch.context_lengths == nullptr)
    return fail(Errc::invalid_argument,
                "{}: batch.context_lengths is null, expected one length per sequence", function);
  int32_t longest = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    const int32_t context = batch.context_lengths[b];
    if (context < 0 || context > context_max)
      return fail(Errc::invalid_argument,
                  "{}: batch.context_lengths[{}] is {}, expected 0 to {} ({})", function, b,
                  context, context_max, limit);
    longest = std::max(longest, context);
  }
  if (longest > 0 && batch.table.entries == nullptr)
    return fail(Errc::invalid_argument, "{}: batch.table.entries is null, expected a page table",
                function);
  return check_rows(function, batch);
}

}  // namespace folio::inline v1
