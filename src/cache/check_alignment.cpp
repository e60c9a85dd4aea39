// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_alignment.cpp: the checks of addresses and strides.
#include "cache/check_alignment.h"

namespace folio::inline v1 {
namespace {

/// "the size of bf16", in two words for a message.
struct Reason {
  std::string_view what;
  std::string_view of;
};

Reason reason_of(const Alignment& alignment) {
  if (alignment.element == DType::invalid) return {"", alignment.reason};
  return {"the size of ", name(alignment.element)};
}

}  // namespace

bool is_aligned(const void* data, int64_t bytes) noexcept {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

Status check_aligned(const char* function, const char* name, const char* member, const void* data,
                     const Alignment& alignment) noexcept {
  if (is_aligned(data, alignment.bytes)) return {};
  const Reason reason = reason_of(alignment);
  return fail(Errc::invalid_argument,
              "{}: {}{} is not aligned, expected a multiple of {} bytes ({}{})", function, name,
              member, alignment.bytes, reason.what, reason.of);
}

Status check_strides(const char* function, const char* name, std::span<const Stride> strides,
                     const Alignment& alignment) noexcept {
  for (const Stride& stride : strides) {
    if (stride.bytes % alignment.bytes == 0) continue;
    const Reason reason = reason_of(alignment);
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected a multiple of {} bytes ({}{})",
                function, name, stride.name, stride.bytes, alignment.bytes, reason.what, reason.of);
  }
  return {};
}

}  // namespace folio::inline v1
