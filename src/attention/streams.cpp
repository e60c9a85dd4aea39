// SPDX-License-Identifier: Apache-2.0
/// src/attention/streams.cpp: devices and arrays of calls on streams.
#include "attention/streams.h"

#include "cuda/runtime/launch.h"

namespace folio::inline v1 {

Status check_streams(const char* function, const char* instead, Device device) noexcept {
  if (device.kind == Device::Kind::cuda) {
    const Result<cuda::DeviceFacts> facts = cuda::device_facts(function, device);
    return facts ? Status() : facts.error();
  }
  if (device.kind == Device::Kind::cpu)
    return fail(Errc::unsupported, "{}: the CPU has no streams, expected a call of {}", function,
                instead);
  return fail(Errc::invalid_argument, "{}: device.kind is {}, expected cpu (0) or cuda (1)",
              function, static_cast<int32_t>(device.kind));
}

Status check_arrays(const char* function, Device device, std::initializer_list<NamedArray> arrays,
                    cuda::Pinned pinned) noexcept {
  for (const NamedArray& array : arrays) {
    if (array.data == nullptr) continue;
    if (Status s = cuda::check_device_pointer(function, array.name, device, array.data, pinned);
        !s.is_ok())
      return s;
  }
  return {};
}

}  // namespace folio::inline v1
