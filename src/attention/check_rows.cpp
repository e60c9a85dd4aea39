// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_rows.cpp: checks of planes whose rows are read, computed or written.
#include "attention/check_rows.h"

#include <limits>

#include "cache/check_view.h"
#include "cpu/append/rows.h"

namespace folio::inline v1 {
namespace {

bool is_quantised(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

Status check_computed(const char* function, const char* plane, const PagedKVView& view) {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr || scales.slot_stride_bytes == 0) return {};
  if (!is_quantised(view.dtype)) {
    return fail(
        Errc::invalid_argument,
        "{}: {} has dtype {} and computed scales (slot stride {}), expected f8_e4m3, f8_e5m2 or i8",
        function, plane, view.dtype, scales.slot_stride_bytes);
  }
  if (scales.page_stride_bytes != 0 || view.num_pages <= 1) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.scales.page_stride_bytes is 0 with slot stride {}, expected a scale for each "
              "token (or slot stride 0: calibrated)",
              function, plane, scales.slot_stride_bytes);
}

}  // namespace

Status check_head_size(const char* function, const char* plane, int32_t head_size,
                       const char* reason) noexcept {
  if (head_size <= rows::head_size_max) return {};
  return fail(Errc::unsupported, "{}: {}.head_size is {}, expected at most {} ({})", function,
              plane, head_size, rows::head_size_max, reason);
}

Status check_readable_scales(const char* function, const char* plane, const PagedKVView& view,
                             Memory memory) noexcept {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr) return {};
  const float* factor = memory == Memory::cpu ? scales.tensor_scale : nullptr;
  if (factor != nullptr && !(*factor > 0.0f && *factor <= std::numeric_limits<float>::max())) {
    return fail(Errc::invalid_argument,
                "{}: {}.scales.tensor_scale is {}, expected a positive finite number", function,
                plane, static_cast<double>(*factor));
  }
  return check_head_size(function, plane, view.head_size, "it has scales");
}

Status check_writable_scales(const char* function, const char* plane, const PagedKVView& view,
                             Memory memory) noexcept {
  if (Status s = check_readable_scales(function, plane, view, memory); !s.is_ok()) return s;
  return check_computed(function, plane, view);
}

Status check_writable(const char* function, const char* plane, const PagedKVView& view,
                      Memory memory) noexcept {
  const PlaneTypes types = memory == Memory::cpu ? PlaneTypes::with_blocks : PlaneTypes::elements;
  if (Status s = check_view(function, plane, view, types); !s.is_ok()) return s;
  if (Status s = check_places(function, plane, view); !s.is_ok()) return s;
  return check_writable_scales(function, plane, view, memory);
}

}  // namespace folio::inline v1
