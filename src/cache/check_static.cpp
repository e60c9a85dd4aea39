// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_static.cpp: refuses, with a reason, what the static cache types cannot say.
#include "folio/cache/check_static.h"

#include <limits>

#include "cache/check_alignment.h"
#include "core/checked.h"
#include "folio/cache/page_table.h"

namespace folio::inline v1::detail {
namespace {

constexpr int64_t max_rows = std::numeric_limits<int32_t>::max();  // TMA coordinates
constexpr int64_t table_alignment = 32;                            // bytes: eight entries

int64_t granules(const StaticGeometry& g) {
  return (int64_t{g.params.head_size} + g.quantization_granularity - 1) /
         g.quantization_granularity;
}

/// num_pages * rows_per_page <= 2^31 - 1, without overflow on the way.
Status check_row_count(const StaticGeometry& g, int64_t num_pages, int64_t rows_per_page) {
  if (!(CheckedSize(num_pages) * rows_per_page).is_at_most(max_rows)) {
    return fail(Errc::invalid_argument,
                "{}: num_pages {} times the row stride {} exceeds 2^31 - 1, the rows that a tensor "
                "map can address",
                g.function, num_pages, rows_per_page);
  }
  return {};
}

/// `span` holds `rows` rows of `row_size` elements.
Status check_span(const StaticGeometry& g, const char* what, const MemorySpan& span, int64_t rows,
                  int64_t row_size, DType dtype) {
  const int64_t element_bytes = bit_width(dtype) / 8;
  if (span.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null", g.function, what);
  if (!is_aligned(span.data, element_bytes)) {
    return fail(Errc::invalid_argument, "{}: {}.data is not aligned to its {} byte elements",
                g.function, what, element_bytes);
  }
  const CheckedSize bytes = CheckedSize(rows) * row_size * element_bytes;
  if (!bytes.is_at_most(memory_bytes_max)) {
    return fail(Errc::invalid_argument, "{}: {} would need more than 2^56 bytes", g.function, what);
  }
  if (span.bytes < bytes.value()) {
    return fail(Errc::invalid_argument, "{}: {} has {} bytes, expected at least {}", g.function,
                what, span.bytes, bytes.value());
  }
  return {};
}

Status check_constants(const StaticGeometry& g, const PagedKVView& view) {
  if (view.data == nullptr)
    return fail(Errc::invalid_argument, "{}: view.data is null", g.function);
  if (view.dtype != g.dtype) {
    return fail(Errc::invalid_argument, "{}: view.dtype is {}, the cache type's is {}", g.function,
                view.dtype, g.dtype);
  }
  if (view.num_heads != g.params.num_heads) {
    return fail(Errc::invalid_argument, "{}: view.num_heads is {}, the cache type's is {}",
                g.function, view.num_heads, g.params.num_heads);
  }
  if (view.head_size != g.params.head_size) {
    return fail(Errc::invalid_argument, "{}: view.head_size is {}, the cache type's is {}",
                g.function, view.head_size, g.params.head_size);
  }
  if (g.page_size != 0 && view.page_size != g.page_size) {
    return fail(Errc::invalid_argument, "{}: view.page_size is {}, the cache type's is {}",
                g.function, view.page_size, g.page_size);
  }
  if (view.page_size < 1)
    return fail(Errc::invalid_argument, "{}: view.page_size is {}, expected at least 1", g.function,
                view.page_size);
  if (view.num_pages < 1)
    return fail(Errc::invalid_argument, "{}: view.num_pages is {}, expected at least 1", g.function,
                view.num_pages);
  if (view.hadamard != Hadamard{} || view.has_channel_scales || view.channel_scales != nullptr)
    return fail(
        Errc::invalid_argument,
        "{}: the view has {}, the cache type says nothing of them: expected rows as they are",
        g.function, view.hadamard != Hadamard{} ? "a hadamard rotation" : "channel_scales");
  return {};
}

/// Strides of values or of scales: packed token-major rows of `row_bytes`, whole rows from page to
/// page.
struct Strides {
  const char* what;
  int64_t page, slot, head, head_bytes;
};

Status check_packed_strides(const StaticGeometry& g, const PagedKVView& view, const Strides& s) {
  const CheckedSize checked_row = CheckedSize(s.head_bytes) * view.num_heads;
  if (!checked_row.is_at_most(memory_bytes_max)) {
    return fail(Errc::invalid_argument,
                "{}: {} has rows of {} heads of {} bytes, expected at most 2^56 bytes", g.function,
                s.what, view.num_heads, s.head_bytes);
  }
  const int64_t row_bytes = checked_row.value();
  // The stride of a dimension with one element is never used.
  if (view.num_heads > 1 && s.head != s.head_bytes) {
    return fail(Errc::invalid_argument,
                "{}: {}.head_stride_bytes is {}, expected {}: a static cache is token-major with "
                "packed rows",
                g.function, s.what, s.head, s.head_bytes);
  }
  if (view.page_size > 1 && s.slot != row_bytes) {
    return fail(Errc::invalid_argument,
                "{}: {}.slot_stride_bytes is {}, expected {}: a static cache is token-major with "
                "packed rows",
                g.function, s.what, s.slot, row_bytes);
  }
  if (s.page < 0 || s.page % row_bytes != 0) {
    return fail(Errc::invalid_argument,
                "{}: {}.page_stride_bytes is {}, expected a multiple of the row's {} bytes",
                g.function, s.what, s.page, row_bytes);
  }
  if (view.num_pages > 1 && s.page / row_bytes < view.page_size) {
    return fail(Errc::invalid_argument,
                "{}: {}.page_stride_bytes is {}, less than a page of {} rows of {} bytes",
                g.function, s.what, s.page, view.page_size, row_bytes);
  }
  if (!(CheckedSize(view.num_pages) * s.page).is_at_most(memory_bytes_max)) {
    return fail(Errc::invalid_argument,
                "{}: {}.page_stride_bytes is {} over {} pages, expected a reach of at most 2^56 "
                "bytes",
                g.function, s.what, s.page, view.num_pages);
  }
  return check_row_count(g, view.num_pages, s.page / row_bytes);
}

Status check_packed_scales(const StaticGeometry& g, const PagedKVView& view) {
  const ScaleView& scales = view.scales;
  if (g.scale_dtype == DType::invalid) {
    if (scales.data != nullptr || scales.tensor_scale != nullptr) {
      return fail(Errc::invalid_argument, "{}: the view has scales, the cache type has none",
                  g.function);
    }
    return {};
  }
  if (scales.data == nullptr)
    return fail(Errc::invalid_argument, "{}: view.scales.data is null, the cache type is quantised",
                g.function);
  if (scales.dtype != g.scale_dtype) {
    return fail(Errc::invalid_argument, "{}: view.scales.dtype is {}, the cache type's is {}",
                g.function, scales.dtype, g.scale_dtype);
  }
  if (scales.granularity != g.quantization_granularity) {
    return fail(Errc::invalid_argument, "{}: view.scales.granularity is {}, the cache type's is {}",
                g.function, scales.granularity, g.quantization_granularity);
  }
  if (scales.tensor_scale != nullptr) {
    return fail(
        Errc::invalid_argument,
        "{}: view.scales.tensor_scale is given, a static cache has one scale per granule only",
        g.function);
  }
  const int64_t scale_bytes = bit_width(g.scale_dtype) / 8;
  if (!is_aligned(scales.data, scale_bytes)) {
    return fail(Errc::invalid_argument,
                "{}: view.scales.data is not aligned to its {} byte elements", g.function,
                scale_bytes);
  }
  if (granules(g) > 1 && scales.granule_stride_bytes != scale_bytes) {
    return fail(
        Errc::invalid_argument,
        "{}: view.scales.granule_stride_bytes is {}, expected {}: a static cache has packed scales",
        g.function, scales.granule_stride_bytes, scale_bytes);
  }
  return check_packed_strides(g, view,
                              {"view.scales", scales.page_stride_bytes, scales.slot_stride_bytes,
                               scales.head_stride_bytes, granules(g) * scale_bytes});
}

/// What the vector reads of `populate` rely on.
Status check_padding(const StaticGeometry& g, const CacheTables& tables) {
  if (!is_aligned(tables.lookup_table, table_alignment)) {
    return fail(Errc::invalid_argument, "{}: tables.lookup_table is not aligned to {} bytes",
                g.function, table_alignment);
  }
  if (tables.lut_stride % 8 != 0) {
    return fail(Errc::invalid_argument, "{}: tables.lut_stride is {}, expected a multiple of 8",
                g.function, tables.lut_stride);
  }
  const int64_t pages = (int64_t{tables.max_cache_length} + g.page_size - 1) / g.page_size;
  if (tables.lut_cols < PageTable::padded_columns(pages)) {
    return fail(Errc::invalid_argument,
                "{}: tables.lut_cols is {}, expected at least {} for {} pages: align8 and 16 more",
                g.function, tables.lut_cols, PageTable::padded_columns(pages), pages);
  }
  return {};
}

}  // namespace

Status check_tables(const StaticGeometry& g, const CacheTables& tables,
                    int32_t page_size) noexcept {
  if (tables.batch > 0 && tables.cache_lengths == nullptr) {
    return fail(Errc::invalid_argument, "{}: tables.cache_lengths is null", g.function);
  }
  if (tables.batch > 0 && tables.lookup_table == nullptr) {
    return fail(Errc::invalid_argument, "{}: tables.lookup_table is null", g.function);
  }
  if (!is_aligned(tables.cache_lengths, sizeof(uint32_t)) ||
      !is_aligned(tables.lookup_table, sizeof(uint32_t))) {
    return fail(Errc::invalid_argument,
                "{}: tables.cache_lengths or tables.lookup_table is not aligned to 4 bytes",
                g.function);
  }
  if (tables.lut_stride < tables.lut_cols) {
    return fail(Errc::invalid_argument, "{}: tables.lut_stride is {}, less than lut_cols {}",
                g.function, tables.lut_stride, tables.lut_cols);
  }
  if (!(CheckedSize(tables.batch) * tables.lut_stride).is_at_most(memory_bytes_max / 4)) {
    return fail(Errc::invalid_argument,
                "{}: tables.lut_stride is {} over {} rows, expected at most 2^54 entries in all",
                g.function, tables.lut_stride, tables.batch);
  }
  if (g.page_size != 0) return check_padding(g, tables);
  if (tables.lut_cols < 1) {
    return fail(Errc::invalid_argument, "{}: tables.lut_cols is {}, expected at least 1",
                g.function, tables.lut_cols);
  }
  if (tables.max_cache_length > static_cast<uint32_t>(page_size)) {
    return fail(Errc::invalid_argument,
                "{}: tables.max_cache_length is {}, more than the {} tokens of a sequence's page",
                g.function, tables.max_cache_length, page_size);
  }
  return {};
}

Status check_storage(const StaticGeometry& g, const StorageTensor& storage) noexcept {
  if (storage.num_pages < 1) {
    return fail(Errc::invalid_argument, "{}: num_pages is {}, expected at least 1", g.function,
                storage.num_pages);
  }
  if (storage.num_layers < 1) {
    return fail(Errc::invalid_argument, "{}: num_layers is {}, expected at least 1", g.function,
                storage.num_layers);
  }
  if (storage.page_size < 1) {
    return fail(Errc::invalid_argument, "{}: max_length is {}, expected at least 1", g.function,
                storage.page_size);
  }
  // Below 2^63: two factors are below 2^31, the third is at most 2.
  const int64_t rows_per_page =
      int64_t{storage.num_layers} * storage.page_size * (g.params.is_mla ? 1 : 2);
  Status status = check_row_count(g, storage.num_pages, rows_per_page);
  if (!status.is_ok()) return status;
  const int64_t rows = storage.num_pages * rows_per_page;
  const int64_t row_size = int64_t{g.params.num_heads} * g.params.head_size;
  status = check_span(g, "blocks", storage.blocks, rows, row_size, g.dtype);
  if (!status.is_ok()) return status;
  if (g.scale_dtype != DType::invalid) {
    return check_span(g, "scales", storage.scales, rows, g.params.num_heads * granules(g),
                      g.scale_dtype);
  }
  if (storage.scales.data != nullptr) {
    return fail(Errc::invalid_argument, "{}: scales are given, the cache type has none",
                g.function);
  }
  return {};
}

Status check_view(const StaticGeometry& g, const PagedKVView& view) noexcept {
  Status status = check_constants(g, view);
  if (!status.is_ok()) return status;
  const int64_t element_bytes = bit_width(g.dtype) / 8;
  if (!is_aligned(view.data, element_bytes)) {
    return fail(Errc::invalid_argument, "{}: view.data is not aligned to its {} byte elements",
                g.function, element_bytes);
  }
  status = check_packed_strides(g, view,
                                {"view", view.page_stride_bytes, view.slot_stride_bytes,
                                 view.head_stride_bytes, view.head_size * element_bytes});
  if (!status.is_ok()) return status;
  return check_packed_scales(g, view);
}

Status check_layer(const char* function, int64_t layer, int64_t num_layers) noexcept {
  if (layer >= 0 && layer < num_layers) return {};
  return fail(Errc::invalid_argument, "{}: layer_idx is {}, expected 0 to {}", function, layer,
              num_layers - 1);
}

}  // namespace folio::inline v1::detail
