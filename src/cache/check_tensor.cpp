// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_tensor.cpp: the border checks of tensors and of memory.
#include "cache/check_tensor.h"

#include "cache/check_reach.h"

namespace folio::inline v1 {
namespace {

bool is_aligned(const void* data, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0;
}

Status check_type(const char* function, const char* name, DType dtype,
                  const ExpectedTensor& expected) {
  if (expected.dtype == DType::invalid) {
    if (is_activation_dtype(dtype)) return {};
    return fail(Errc::invalid_argument, "{}: {} has dtype {}, expected f32, bf16 or f16", function,
                name, dtype);
  }
  if (dtype == expected.dtype) return {};
  return fail(Errc::invalid_argument, "{}: {} has dtype {}, expected {} (from {})", function, name,
              dtype, expected.dtype, expected.from);
}

Status check_strides(const char* function, const char* name, const ConstTensor<3>& tensor,
                     int64_t element) {
  if (tensor.stride_bytes[2] != element)
    return fail(Errc::invalid_argument,
                "{}: {}.stride_bytes[2] is {}, expected {} (the last dimension is contiguous {})",
                function, name, tensor.stride_bytes[2], element, tensor.dtype);
  for (int d = 0; d < 2; ++d) {
    if (tensor.stride_bytes[d] % element == 0) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.stride_bytes[{}] is {}, expected a multiple of {} bytes (the size of {})",
                function, name, d, tensor.stride_bytes[d], element, tensor.dtype);
  }
  return {};
}

}  // namespace

Status check_tensor(const char* function, const char* name, const ConstTensor<3>& tensor,
                    const ExpectedTensor& expected) noexcept {
  if (Status s = check_type(function, name, tensor.dtype, expected); !s.is_ok()) return s;
  const int64_t(&extent)[3] = expected.extent;
  if (tensor.extent[0] != extent[0] || tensor.extent[1] != extent[1] ||
      tensor.extent[2] != extent[2])
    return fail(Errc::invalid_argument,
                "{}: {} has shape [{}, {}, {}], expected [{}, {}, {}] (from {})", function, name,
                tensor.extent[0], tensor.extent[1], tensor.extent[2], extent[0], extent[1],
                extent[2], expected.from);
  const int64_t element = bit_width(tensor.dtype) / 8;
  if (Status s = check_strides(function, name, tensor, element); !s.is_ok()) return s;
  if (extent[0] == 0) return {};
  if (tensor.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected [{}, {}, {}] (from {})",
                function, name, extent[0], extent[1], extent[2], expected.from);
  if (!is_aligned(tensor.data, element))
    return fail(Errc::invalid_argument,
                "{}: {}.data is not aligned, expected a multiple of {} bytes (the size of {})",
                function, name, element, tensor.dtype);
  return check_reach(function, name, tensor);
}

Status check_places(const char* function, const char* name, const ConstTensor<3>& tensor) noexcept {
  for (int d = 0; d < 2; ++d) {
    if (tensor.stride_bytes[d] != 0 || tensor.extent[d] <= 1) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.stride_bytes[{}] is 0 over {} elements, expected a place for each",
                function, name, d, tensor.extent[d]);
  }
  return {};
}

Status check_aligned(const char* function, const char* name, const void* data,
                     DType element) noexcept {
  const int64_t bytes = bit_width(element) / 8;
  if (is_aligned(data, bytes)) return {};
  return fail(Errc::invalid_argument,
              "{}: {} is not aligned, expected a multiple of {} bytes (the size of {})", function,
              name, bytes, element);
}

Status check_memory(const char* function, const char* name, const MemorySpan& memory, int64_t bytes,
                    int64_t alignment) noexcept {
  if (memory.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {} is null, expected {} bytes", function, name, bytes);
  if (memory.bytes < bytes)
    return fail(Errc::invalid_argument, "{}: {} has {} bytes, expected at least {}", function, name,
                memory.bytes, bytes);
  if (is_aligned(memory.data, alignment)) return {};
  return fail(Errc::invalid_argument, "{}: {} is not aligned, expected a multiple of {} bytes",
              function, name, alignment);
}

}  // namespace folio::inline v1
