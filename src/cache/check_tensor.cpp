// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_tensor.cpp: the border checks of tensors and of memory.
#include "cache/check_tensor.h"

#include "cache/check_alignment.h"
#include "cache/check_reach.h"

namespace folio::inline v1 {
namespace {

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

Status check_tensor_strides(const char* function, const char* name, const ConstTensor<3>& tensor) {
  const Alignment natural = natural_alignment(tensor.dtype);
  if (tensor.stride_bytes[2] != natural.bytes)
    return fail(Errc::invalid_argument,
                "{}: {}.stride_bytes[2] is {}, expected {} (the last dimension is contiguous {})",
                function, name, tensor.stride_bytes[2], natural.bytes, tensor.dtype);
  const Stride strides[] = {{"stride_bytes[0]", tensor.stride_bytes[0]},
                            {"stride_bytes[1]", tensor.stride_bytes[1]}};
  return check_strides(function, name, strides, natural);
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
  if (Status s = check_tensor_strides(function, name, tensor); !s.is_ok()) return s;
  if (extent[0] == 0) return {};
  if (tensor.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected [{}, {}, {}] (from {})",
                function, name, extent[0], extent[1], extent[2], expected.from);
  if (Status s =
          check_aligned(function, name, ".data", tensor.data, natural_alignment(tensor.dtype));
      !s.is_ok())
    return s;
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
