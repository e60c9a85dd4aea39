// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_rows.cpp: checks of planes whose rows are read, computed or written.
#include "attention/check_rows.h"

#include <limits>

#include "cache/check_view.h"
#include "cpu/append/rows.h"

namespace folio::inline v1 {
namespace {

bool is_turned(const PagedKVView& view) {
  return view.hadamard.block != 0 || view.has_channel_scales;
}

bool is_quantised(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 ||
         detail::is_packed(dtype);
}

/// Factors that rows can be divided by.
Status check_channels(const char* function, const char* plane, const PagedKVView& view,
                      Memory memory) {
  if (!is_turned(view) || memory != Memory::cpu) return {};
  const int64_t columns = view.has_channel_scales ? int64_t{view.num_heads} * view.head_size : 0;
  for (int64_t i = 0; i < columns; ++i) {
    const float scale = view.channel_scales[i];
    if (scale > 0.0f && scale <= std::numeric_limits<float>::max()) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.channel_scales[{}] is {}, expected a positive finite number", function,
                plane, i, static_cast<double>(scale));
  }
  return check_head_size(function, plane, view.head_size, "its rows are turned");
}

Status check_computed(const char* function, const char* plane, const PagedKVView& view) {
  const ScaleView& scales = view.scales;
  if (scales.data == nullptr || scales.slot_stride_bytes == 0) return {};
  if (!is_quantised(view.dtype)) {
    return fail(Errc::invalid_argument,
                "{}: {} has dtype {} and computed scales (slot stride {}), expected f8_e4m3, "
                "f8_e5m2, i8 or "
                "a packed format",
                function, plane, view.dtype, scales.slot_stride_bytes);
  }
  if (detail::is_packed(view.dtype) && view.num_heads > 1 && scales.head_stride_bytes == 0) {
    return fail(Errc::unsupported,
                "{}: {}.scales.head_stride_bytes is 0 with slot stride {}, expected scales of each "
                "head ({})",
                function, plane, scales.slot_stride_bytes, view.dtype);
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
  if (Status s = check_channels(function, plane, view, memory); !s.is_ok()) return s;
  if (scales.data == nullptr) return {};
  const float* factor = memory == Memory::cpu ? scales.tensor_scale : nullptr;
  if (factor != nullptr && !(*factor > 0.0f && *factor <= std::numeric_limits<float>::max())) {
    return fail(Errc::invalid_argument,
                "{}: {}.scales.tensor_scale is {}, expected a positive finite number", function,
                plane, static_cast<double>(*factor));
  }
  return check_head_size(function, plane, view.head_size, "it has scales");
}

Status check_turn(const char* function, const char* plane, const PagedKVView& view,
                  Memory memory) noexcept {
  if (Status s = check_hadamard(function, plane, view.hadamard, view.head_size); !s.is_ok())
    return s;
  if (Status s = check_channel_scales(function, plane, view); !s.is_ok()) return s;
  if (memory != Memory::cpu && is_turned(view))
    return fail(Errc::invalid_argument,
                "{}: {} has {}, expected none: only CPUs turn and scale rows", function, plane,
                view.has_channel_scales ? "channel_scales" : "a hadamard rotation");
  return check_channels(function, plane, view, memory);
}

Status check_writable_scales(const char* function, const char* plane, const PagedKVView& view,
                             Memory memory) noexcept {
  if (Status s = check_readable_scales(function, plane, view, memory); !s.is_ok()) return s;
  return check_computed(function, plane, view);
}

Status check_writable(const char* function, const char* plane, const PagedKVView& view,
                      Memory memory) noexcept {
  const PlaneTypes types = memory == Memory::cpu ? PlaneTypes::any : PlaneTypes::elements;
  if (Status s = check_view(function, plane, view, types); !s.is_ok()) return s;
  if (Status s = check_places(function, plane, view); !s.is_ok()) return s;
  return check_writable_scales(function, plane, view, memory);
}

}  // namespace folio::inline v1
