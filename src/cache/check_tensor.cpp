// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_tensor.cpp: the border checks of tensors and of memory.
#include "cache/check_tensor.h"

#include <algorithm>
#include <cstdlib>

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

/// The bytes [begin, end) that a tensor's elements lie between, whatever the signs of its strides.
struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

AddressRange range_of(const ConstTensor<3>& tensor, int64_t tokens) {
  int64_t low = 0, high = tensor.extent[2] * tensor.stride_bytes[2];
  const int64_t reaches[] = {(tokens - 1) * tensor.stride_bytes[0],
                             (tensor.extent[1] - 1) * tensor.stride_bytes[1]};
  for (const int64_t reach : reaches) (reach < 0 ? low : high) += reach;
  const auto base = reinterpret_cast<uintptr_t>(tensor.data);
  return {base + static_cast<uintptr_t>(low), base + static_cast<uintptr_t>(high)};
}

/// Runs of bytes, one per token, `stride` apart, and those of another tensor at the same stride.
struct Runs {
  int64_t tokens = 0;
  int64_t stride = 0;
  int64_t bytes = 0;
  int64_t other_bytes = 0;
};

/// Whether some of them share bytes, the other's beginning `shift` bytes behind: for some
/// difference of tokens d, shift + d * stride lies in (-other_bytes, bytes).
bool do_meet(const Runs& runs, int64_t shift) {
  const int64_t stride = runs.tokens > 1 ? std::abs(runs.stride) : 1;
  const int64_t below = -runs.other_bytes - shift;
  const int64_t quotient = below / stride - (below % stride < 0 ? 1 : 0);  // rounded down
  const int64_t first = std::max(quotient + 1, 1 - runs.tokens);
  return first < runs.tokens && shift + first * stride < runs.bytes;
}

/// Whether elements of two tensors of one shape share bytes. Tokens at one stride are told apart,
/// and so are heads (slices of one fused row lie between one another); of different strides only
/// the bytes that they lie between.
bool overlaps(const ConstTensor<3>& a, const ConstTensor<3>& b) {
  const int64_t tokens = a.extent[0];
  const AddressRange x = range_of(a, tokens), y = range_of(b, tokens);
  if (x.end <= y.begin || y.end <= x.begin) return false;
  const int64_t stride = a.stride_bytes[0];
  if (tokens > 1 && (stride != b.stride_bytes[0] || stride == 0)) return true;
  if (a.stride_bytes[1] != b.stride_bytes[1]) {
    const AddressRange one = range_of(a, 1), other = range_of(b, 1);
    return do_meet({tokens, stride, static_cast<int64_t>(one.end - one.begin),
                    static_cast<int64_t>(other.end - other.begin)},
                   static_cast<int64_t>(other.begin - one.begin));
  }
  const Runs heads{tokens, stride, a.extent[2] * a.stride_bytes[2],
                   b.extent[2] * b.stride_bytes[2]};
  const auto shift = static_cast<int64_t>(reinterpret_cast<uintptr_t>(b.data) -
                                          reinterpret_cast<uintptr_t>(a.data));
  for (int64_t head = 1 - a.extent[1]; head < a.extent[1]; ++head) {
    if (do_meet(heads, shift + head * a.stride_bytes[1])) return true;
  }
  return false;
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

bool is_same(const ConstTensor<3>& a, const ConstTensor<3>& b) noexcept {
  return a.data == b.data && a.dtype == b.dtype && a.stride_bytes[0] == b.stride_bytes[0] &&
         a.stride_bytes[1] == b.stride_bytes[1];
}

Status check_apart(const char* function, const char* name, const ConstTensor<3>& out,
                   const char* source_name, const ConstTensor<3>& source) noexcept {
  if (is_same(source, out) || !overlaps(source, out)) return {};
  return fail(Errc::invalid_argument,
              "{}: {} lies in memory of {} with another place, dtype or strides, expected {} "
              "itself or other memory",
              function, name, source_name, source_name);
}

Status check_memory(const char* function, const char* name, const MemorySpan& memory, int64_t bytes,
                    int64_t alignment) noexcept {
  if (memory.data == nullptr && bytes > 0)
    return fail(Errc::invalid_argument, "{}: {} is null, expected {} bytes", function, name, bytes);
  if (memory.bytes < bytes)
    return fail(Errc::invalid_argument, "{}: {} has {} bytes, expected at least {}", function, name,
                memory.bytes, bytes);
  if (is_aligned(memory.data, alignment)) return {};
  return fail(Errc::invalid_argument, "{}: {} is not aligned, expected a multiple of {} bytes",
              function, name, alignment);
}

}  // namespace folio::inline v1
