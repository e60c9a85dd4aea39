// SPDX-License-Identifier: Apache-2.0
/// tests/support/test_plane.h: planes of any geometry in guarded memory: gaps between rows, both
/// storage orders, scales of every form.
///
/// All bytes start as 0xff (NaN, where they are elements or scales). The last element, and the last
/// scale, end where an inaccessible page begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "folio/cache/paged_kv_view.h"
#include "folio/cache/planes.h"
#include "support/guarded_memory.h"

namespace folio::test {

/// Which indices a scale depends on; the strides of the others are 0.
struct ScaleSpec {
  DType dtype = DType::invalid;
  int32_t granularity = 0;
  bool page = false, slot = false, head = false, granule = false;
  bool is_inline = false;     ///< behind the values of each head's row; implies all four
  float tensor_scale = 0.0f;  ///< 0: none
};

struct PlaneSpec {
  DType dtype = DType::f32;
  int32_t num_heads = 2;
  int32_t head_size = 16;
  int32_t page_size = 4;
  int64_t num_pages = 5;
  StorageOrder order = StorageOrder::token_major;
  int64_t gap = 0;  ///< elements between rows, and between pages
  ScaleSpec scales = {};
};

class TestPlane {
 public:
  explicit TestPlane(const PlaneSpec& spec)
      : tensor_scale_(std::make_unique<float>(spec.scales.tensor_scale)) {
    view.dtype = spec.dtype;
    view.num_heads = spec.num_heads;
    view.head_size = spec.head_size;
    view.page_size = spec.page_size;
    view.num_pages = spec.num_pages;
    const int64_t element = folio::detail::is_block(spec.dtype) ? 2 : bit_width(spec.dtype) / 8;
    const ScaleSpec& s = spec.scales;
    const int64_t scale = bit_width(s.dtype) / 8;
    const int64_t granules =
        s.granularity > 0 ? (spec.head_size + s.granularity - 1) / s.granularity : 0;
    const int64_t values = row_bytes(spec.dtype, spec.head_size);
    const int64_t scale_offset = s.is_inline ? (values + scale - 1) / scale * scale : 0;
    int64_t row = s.is_inline ? scale_offset + granules * scale : values;
    const int64_t unit = std::max(element, s.is_inline ? scale : int64_t{1});
    row = (row + unit - 1) / unit * unit;
    lay_out(spec, row, spec.gap * unit);
    memory_ = GuardedMemory(bytes_of(view, s.is_inline ? row : values), unit);
    view.data = memory_.data();
    if (s.dtype == DType::invalid) return;
    view.scales.dtype = s.dtype;
    view.scales.granularity = s.granularity;
    if (s.tensor_scale != 0.0f) view.scales.tensor_scale = tensor_scale_.get();
    if (s.is_inline) {
      view.scales.data = memory_.data() + scale_offset;
      view.scales.page_stride_bytes = view.page_stride_bytes;
      view.scales.slot_stride_bytes = view.slot_stride_bytes;
      view.scales.head_stride_bytes = view.head_stride_bytes;
      view.scales.granule_stride_bytes = scale;
    } else {
      lay_out_scales(spec, granules, scale);
    }
  }

  /// The bytes of values and scales: two planes of one spec compare with `==`.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all(memory_.data(), memory_.data() + memory_.bytes());
    all.insert(all.end(), scale_memory_.data(), scale_memory_.data() + scale_memory_.bytes());
    return all;
  }
  void set_bytes(const std::vector<std::byte>& all) {
    std::memcpy(memory_.data(), all.data(), static_cast<size_t>(memory_.bytes()));
    if (scale_memory_.bytes() == 0) return;
    std::memcpy(scale_memory_.data(), all.data() + memory_.bytes(),
                static_cast<size_t>(scale_memory_.bytes()));
  }
  [[nodiscard]] bool slack_untouched() const {
    return memory_.slack_untouched() && scale_memory_.slack_untouched();
  }

  /// Of blocks: where the one begins whose first element is d.
  [[nodiscard]] std::byte* element(int64_t page, int64_t slot, int64_t head, int64_t d) const {
    return static_cast<std::byte*>(view.data) + page * view.page_stride_bytes +
           slot * view.slot_stride_bytes + head * view.head_stride_bytes + row_bytes(view.dtype, d);
  }
  [[nodiscard]] std::byte* scale(int64_t page, int64_t slot, int64_t head, int64_t d) const {
    const ScaleView& s = view.scales;
    return static_cast<std::byte*>(s.data) + page * s.page_stride_bytes +
           slot * s.slot_stride_bytes + head * s.head_stride_bytes +
           d / s.granularity * s.granule_stride_bytes;
  }

  PagedKVView view = {};

 private:
  void lay_out(const PlaneSpec& spec, int64_t row, int64_t gap) {
    if (spec.order == StorageOrder::token_major) {
      view.head_stride_bytes = row + gap;
      view.slot_stride_bytes = spec.num_heads * view.head_stride_bytes + gap;
      view.page_stride_bytes = spec.page_size * view.slot_stride_bytes + gap;
    } else {
      view.slot_stride_bytes = row + gap;
      view.head_stride_bytes = spec.page_size * view.slot_stride_bytes + gap;
      view.page_stride_bytes = spec.num_heads * view.head_stride_bytes + gap;
    }
  }
  void lay_out_scales(const PlaneSpec& spec, int64_t granules, int64_t scale) {
    ScaleView& s = view.scales;
    const int64_t gap = spec.gap * scale;
    int64_t bytes = scale;
    const auto add = [&](bool wanted, int64_t extent, int64_t& stride) {
      if (!wanted) return;
      stride = bytes + (bytes > scale ? gap : 0);
      bytes += (extent - 1) * stride;
    };
    add(spec.scales.granule, granules, s.granule_stride_bytes);
    add(spec.scales.head, spec.num_heads, s.head_stride_bytes);
    add(spec.scales.slot, spec.page_size, s.slot_stride_bytes);
    add(spec.scales.page, spec.num_pages, s.page_stride_bytes);
    scale_memory_ = GuardedMemory(bytes, scale);
    s.data = scale_memory_.data();
  }
  static int64_t bytes_of(const PagedKVView& v, int64_t last_row) {
    return (v.num_pages - 1) * v.page_stride_bytes + (v.page_size - 1) * v.slot_stride_bytes +
           (v.num_heads - 1) * v.head_stride_bytes + last_row;
  }

  GuardedMemory memory_;
  GuardedMemory scale_memory_;
  std::unique_ptr<float> tensor_scale_;
};

}  // namespace folio::test
