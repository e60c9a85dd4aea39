// SPDX-License-Identifier: Apache-2.0
/// src/cache/planes.cpp: strides of the seeds' storage tensor.
#include "folio/cache/planes.h"

#include "cache/check_tensor.h"
#include "cache/check_view.h"
#include "core/checked.h"

namespace folio::inline v1 {
namespace {

constexpr int64_t bits_max = int64_t{1} << 62;

int64_t planes_per_layer(const KVShape& shape) { return shape.is_mla ? 1 : 2; }

int64_t slots_of(const KVShape& shape) {
  return shape.page_size == unbounded_page_size ? 1 : shape.page_size;
}

int32_t granularity_of(const KVShape& shape) {
  return shape.quantization_granularity > 0 ? shape.quantization_granularity : shape.head_size;
}

/// Elements of the scales' type that a granule has: its scale, and room for a zero point.
int64_t scale_elements(const KVShape& shape) {
  return shape.zeros == Zeros::patterns || shape.zeros == Zeros::minimum ? 2 : 1;
}

Status check_scales_of_shape(const char* function, const KVShape& shape) {
  if (detail::is_block(shape.dtype) && shape.scale_dtype != DType::invalid) {
    return fail(Errc::invalid_argument,
                "{}: shape.scale_dtype is {}, expected none: the scales of {} lie in its blocks",
                function, shape.scale_dtype, shape.dtype);
  }
  const bool is_missing = detail::is_packed(shape.dtype) && shape.scale_dtype == DType::invalid;
  if (is_missing ||
      (shape.scale_dtype != DType::invalid && !detail::is_scale_dtype(shape.scale_dtype))) {
    return fail(Errc::invalid_argument,
                "{}: shape.scale_dtype is {}, expected f32, f16, bf16, f8_e8m0 or f8_e4m3",
                function, shape.scale_dtype);
  }
  if (shape.quantization_granularity < 0) {
    return fail(Errc::invalid_argument,
                "{}: shape.quantization_granularity is {}, expected at least 0", function,
                shape.quantization_granularity);
  }
  return check_zeros(function, "shape", "zeros", shape.dtype, shape.scale_dtype, shape.zeros);
}

Status check_shape(const char* function, const KVShape& shape) {
  const struct {
    const char* name;
    int32_t value;
  } extents[] = {{"num_layers", shape.num_layers},
                 {"num_heads", shape.num_heads},
                 {"head_size", shape.head_size},
                 {"page_size", shape.page_size}};
  for (const auto& extent : extents) {
    if (extent.value >= 1) continue;
    return fail(Errc::invalid_argument, "{}: shape.{} is {}, expected at least 1", function,
                extent.name, extent.value);
  }
  if (!detail::is_row_dtype(shape.dtype)) {
    return fail(Errc::invalid_argument,
                "{}: shape.dtype is {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2, i8, a packed or "
                "a block format",
                function, shape.dtype);
  }
  if (shape.head_size % block_elements(shape.dtype) != 0) {
    return fail(Errc::invalid_argument, "{}: shape.head_size is {}, expected a multiple of {} ({})",
                function, shape.head_size, block_elements(shape.dtype), shape.dtype);
  }
  if (Status s = check_scales_of_shape(function, shape); !s.is_ok()) return s;
  return check_hadamard(function, "shape", shape.hadamard, shape.head_size);
}

/// Bytes of one page over all layers, of elements of `dtype`, `row` of them per head.
Result<int64_t> tensor_page_bytes(const char* function, const KVShape& shape, DType dtype,
                                  int64_t row) {
  const bool is_block = detail::is_block(dtype);
  CheckedSize bits = is_block ? 8 : bit_width(dtype);
  for (const int64_t extent :
       {is_block ? row_bytes(dtype, row) : row, int64_t{shape.num_heads}, slots_of(shape),
        int64_t{shape.num_layers}, planes_per_layer(shape)}) {
    bits *= extent;
  }
  if (!bits.is_at_most(bits_max))
    return fail(Errc::invalid_argument,
                "{}: shape has more than 2^62 bits per page, expected fewer", function);
  if (bits.value() % 8 != 0) {
    return fail(Errc::invalid_argument, "{}: shape has {} bits per page, expected whole bytes",
                function, bits.value());
  }
  return bits.value() / 8;
}

Result<int64_t> block_bytes(const char* function, const KVShape& shape) {
  return tensor_page_bytes(function, shape, shape.dtype, shape.head_size);
}

Result<int64_t> scale_bytes(const char* function, const KVShape& shape) {
  if (shape.scale_dtype == DType::invalid) return int64_t{0};
  return tensor_page_bytes(
      function, shape, shape.scale_dtype,
      scale_elements(shape) * granules_of(shape.head_size, granularity_of(shape)));
}

/// Strides of one tensor of planes; all planes of a tensor have the same.
struct PlaneStrides {
  int64_t page = 0, slot = 0, head = 0;
  int64_t plane = 0;  ///< from K to V is num_layers times this
};

/// `row` bytes per head of a token, `page_stride` as the shape has it. Unbounded pages: each plane
/// is one run of `num_pages` rows, the planes stand one after the other.
PlaneStrides strides_of(const KVShape& shape, int64_t num_pages, int64_t row, int64_t page_stride) {
  const bool unbounded = shape.page_size == unbounded_page_size;
  const int64_t slots = unbounded ? num_pages : shape.page_size;
  PlaneStrides s;
  s.slot = shape.order == StorageOrder::token_major ? shape.num_heads * row : row;
  s.head = shape.order == StorageOrder::token_major ? row : slots * row;
  s.plane = slots * shape.num_heads * row;
  s.page = unbounded ? s.slot : s.plane * shape.num_layers * planes_per_layer(shape);
  if (page_stride != 0) s.page = page_stride;
  return s;
}

/// A page stride that the shape gives, of pages of `page` bytes.
Status check_page_stride(const KVShape& shape, const char* name, int64_t stride, int64_t page,
                         const Alignment& alignment) {
  if (stride == 0) return {};
  if (shape.page_size == unbounded_page_size) {
    return fail(Errc::invalid_argument,
                "make_planes: shape.{} is {}, expected 0 (pages are unbounded)", name, stride);
  }
  if (stride < page) {
    return fail(Errc::invalid_argument,
                "make_planes: shape.{} is {}, expected 0 or at least a page's {} bytes", name,
                stride, page);
  }
  const Stride strides[] = {{name, stride}};
  return check_strides("make_planes", "shape", strides, alignment);
}

Status check_page_strides(const KVShape& shape, int64_t page, int64_t scale_page) {
  if (Status s = check_page_stride(shape, "page_stride_bytes", shape.page_stride_bytes, page,
                                   natural_alignment(shape.dtype));
      !s.is_ok())
    return s;
  if (shape.scale_dtype != DType::invalid) {
    return check_page_stride(shape, "scale_page_stride_bytes", shape.scale_page_stride_bytes,
                             scale_page, natural_alignment(shape.scale_dtype));
  }
  if (shape.scale_page_stride_bytes == 0) return {};
  return fail(Errc::invalid_argument,
              "make_planes: shape.scale_page_stride_bytes is {}, expected 0 (shape.scale_dtype is "
              "invalid)",
              shape.scale_page_stride_bytes);
}

/// Bytes from the first page's first to the last page's last.
Result<int64_t> tensor_bytes(int64_t num_pages, int64_t page, int64_t page_stride) {
  if (num_pages == 0) return int64_t{0};
  const int64_t stride = page_stride != 0 ? page_stride : page;
  const CheckedSize bytes = reach_bytes(num_pages, stride) + page;
  if (bytes.is_at_most(bits_max / 8)) return bytes.value();
  return fail(Errc::invalid_argument,
              "make_planes: {} pages of {} bytes are more than 2^62 bits, expected fewer",
              num_pages, stride);
}

Status check_tensors(const KVShape& shape, int64_t num_pages, MemorySpan blocks,
                     MemorySpan scales) {
  if (num_pages < 0 || num_pages > 0xffffffff) {
    return fail(Errc::invalid_argument,
                "make_planes: num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)",
                num_pages);
  }
  const Result<int64_t> page = block_bytes("make_planes", shape);
  if (!page) return page.error();
  const Result<int64_t> scale_page = scale_bytes("make_planes", shape);
  if (!scale_page) return scale_page.error();
  if (Status s = check_page_strides(shape, *page, *scale_page); !s.is_ok()) return s;
  const Result<int64_t> bytes = tensor_bytes(num_pages, *page, shape.page_stride_bytes);
  if (!bytes) return bytes.error();
  const Result<int64_t> bytes_of_scales =
      tensor_bytes(num_pages, *scale_page, shape.scale_page_stride_bytes);
  if (!bytes_of_scales) return bytes_of_scales.error();
  if (blocks.data == nullptr) return {};
  if (Status s = check_memory("make_planes", "blocks", blocks, *bytes,
                              natural_alignment(shape.dtype).bytes);
      !s.is_ok())
    return s;
  if (shape.scale_dtype == DType::invalid) {
    if (scales.data == nullptr) return {};
    return fail(Errc::invalid_argument,
                "make_planes: scales are given, expected none (shape.scale_dtype is invalid)");
  }
  if (scales.data == nullptr) {
    return fail(Errc::invalid_argument,
                "make_planes: scales are null, expected {} bytes (shape.scale_dtype is {})",
                *bytes_of_scales, shape.scale_dtype);
  }
  return check_memory("make_planes", "scales", scales, *bytes_of_scales,
                      bit_width(shape.scale_dtype) / 8);
}

std::byte* offset(void* data, int64_t bytes) {
  return data != nullptr ? static_cast<std::byte*>(data) + bytes : nullptr;
}

/// The view of plane number `plane` of the tensors: layers of K, then layers of V.
PagedKVView plane_view(const KVShape& shape, int64_t num_pages, MemorySpan blocks,
                       MemorySpan scales, int64_t plane) {
  const PlaneStrides s = strides_of(shape, num_pages, row_bytes(shape.dtype, shape.head_size),
                                    shape.page_stride_bytes);
  PagedKVView view;
  view.data = offset(blocks.data, plane * s.plane);
  view.dtype = shape.dtype;
  view.num_heads = shape.num_heads;
  view.head_size = shape.head_size;
  view.page_size = shape.page_size;
  view.num_pages = num_pages;
  view.page_stride_bytes = s.page;
  view.slot_stride_bytes = s.slot;
  view.head_stride_bytes = s.head;
  view.hadamard = shape.hadamard;
  if (shape.scale_dtype == DType::invalid) return view;
  const int64_t element = bit_width(shape.scale_dtype) / 8,
                granule = element * scale_elements(shape);
  const PlaneStrides t =
      strides_of(shape, num_pages, granules_of(shape.head_size, granularity_of(shape)) * granule,
                 shape.scale_page_stride_bytes);
  view.scales.data = blocks.data != nullptr ? offset(scales.data, plane * t.plane) : nullptr;
  view.scales.dtype = shape.scale_dtype;
  view.scales.granularity = granularity_of(shape);
  view.scales.page_stride_bytes = t.page;
  view.scales.slot_stride_bytes = t.slot;
  view.scales.head_stride_bytes = t.head;
  view.scales.granule_stride_bytes = granule;
  view.scales.zeros = shape.zeros;
  if (granule != element) view.scales.zero_offset_bytes = element;
  return view;
}

}  // namespace

Result<int64_t> page_bytes(const KVShape& shape) noexcept {
  if (Status s = check_shape("page_bytes", shape); !s.is_ok()) return s;
  return block_bytes("page_bytes", shape);
}

Result<int64_t> scale_page_bytes(const KVShape& shape) noexcept {
  if (Status s = check_shape("scale_page_bytes", shape); !s.is_ok()) return s;
  return scale_bytes("scale_page_bytes", shape);
}

Result<std::vector<KVPlanes>> make_planes(const KVShape& shape, int64_t num_pages,
                                          MemorySpan blocks, MemorySpan scales) noexcept {
  if (Status s = check_shape("make_planes", shape); !s.is_ok()) return s;
  if (Status s = check_tensors(shape, num_pages, blocks, scales); !s.is_ok()) return s;
  try {
    std::vector<KVPlanes> planes(static_cast<size_t>(shape.num_layers));
    for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
      KVPlanes& p = planes[static_cast<size_t>(layer)];
      p.key = plane_view(shape, num_pages, blocks, scales, layer);
      if (!shape.is_mla)
        p.value = plane_view(shape, num_pages, blocks, scales, shape.num_layers + layer);
    }
    return planes;
  } catch (...) {
    return fail(Errc::out_of_memory, "make_planes: no memory for the views of {} layers",
                shape.num_layers);
  }
}

}  // namespace folio::inline v1
