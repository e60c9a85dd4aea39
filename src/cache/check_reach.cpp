// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_reach.cpp: every product of an index and a stride, checked once.
#include "cache/check_reach.h"

#include <span>

#include "cache/check_view.h"
#include "core/checked.h"

namespace folio::inline v1 {
namespace {

/// Of a table of pages.
constexpr int64_t entries_max = memory_bytes_max / int64_t{sizeof(uint32_t)};

struct Dimension {
  const char* stride;
  int64_t stride_bytes;
  int64_t extent;
};

Status check_dimensions(const char* function, const char* of, std::span<const Dimension> dims) {
  for (const Dimension& dim : dims) {
    if (reach_bytes(dim.extent, dim.stride_bytes).is_at_most(memory_bytes_max)) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.{} is {} over {} elements, expected a reach of at most 2^56 bytes",
                function, of, dim.stride, dim.stride_bytes, dim.extent);
  }
  return {};
}

}  // namespace

Status check_reach(const char* function, const char* plane, const PagedKVView& view,
                   int64_t num_pages) noexcept {
  // a run of unbounded pages is as long as the plane
  const int64_t slots = view.page_size == unbounded_page_size ? num_pages : view.page_size;
  // of a token, as the float32 that it is worked on as
  if (!(CheckedSize(view.num_heads) * view.head_size * 4).is_at_most(memory_bytes_max)) {
    return fail(Errc::invalid_argument,
                "{}: {} has num_heads {} and head_size {}, expected rows of at most 2^54 elements",
                function, plane, view.num_heads, view.head_size);
  }
  const Dimension dims[] = {{"page_stride_bytes", view.page_stride_bytes, num_pages},
                            {"slot_stride_bytes", view.slot_stride_bytes, slots},
                            {"head_stride_bytes", view.head_stride_bytes, view.num_heads}};
  if (Status s = check_dimensions(function, plane, dims); !s.is_ok()) return s;
  const ScaleView& scales = view.scales;
  if (scales.dtype == DType::invalid || scales.granularity < 1) return {};  // none, or no data
  const Dimension scale_dims[] = {
      {"scales.page_stride_bytes", scales.page_stride_bytes, num_pages},
      {"scales.slot_stride_bytes", scales.slot_stride_bytes, slots},
      {"scales.head_stride_bytes", scales.head_stride_bytes, view.num_heads},
      {"scales.granule_stride_bytes", scales.granule_stride_bytes,
       granules_of(view.head_size, scales.granularity)},
      {"scales.zero_offset_bytes", scales.zero_offset_bytes, 2}};
  return check_dimensions(function, plane, scale_dims);
}

Status check_reach(const char* function, const char* name, const ConstTensor<3>& tensor) noexcept {
  CheckedSize bytes = 4;  // of the tensor as float32
  for (const int64_t extent : tensor.extent) bytes *= extent;
  if (!bytes.is_at_most(memory_bytes_max)) {
    return fail(Errc::invalid_argument,
                "{}: {} has shape [{}, {}, {}], expected at most 2^54 elements", function, name,
                tensor.extent[0], tensor.extent[1], tensor.extent[2]);
  }
  const Dimension dims[] = {{"stride_bytes[0]", tensor.stride_bytes[0], tensor.extent[0]},
                            {"stride_bytes[1]", tensor.stride_bytes[1], tensor.extent[1]}};
  return check_dimensions(function, name, dims);
}

Status check_row_stride(const char* function, const Batch& batch) noexcept {
  const PageTable& table = batch.table;
  if (table.row_starts != nullptr || batch.size <= 1) return {};
  if (table.row_stride >= 0 && reach_bytes(batch.size, table.row_stride).is_at_most(entries_max))
    return {};
  return fail(Errc::invalid_argument,
              "{}: batch.table.row_stride is {} over {} rows, expected at least 0 and at most "
              "2^54 entries in all",
              function, table.row_stride, batch.size);
}

Status check_rows(const char* function, const Batch& batch) noexcept {
  const PageTable& table = batch.table;
  if (table.row_starts == nullptr) return check_row_stride(function, batch);
  for (int32_t b = 0; b < batch.size; ++b) {
    if (table.row_starts[b] >= 0 && table.row_starts[b] <= entries_max) continue;
    return fail(Errc::invalid_argument,
                "{}: batch.table.row_starts[{}] is {}, expected 0 to 2^54 entries", function, b,
                table.row_starts[b]);
  }
  return {};
}

}  // namespace folio::inline v1
