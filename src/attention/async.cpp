// SPDX-License-Identifier: Apache-2.0
/// src/attention/async.cpp: append on a device's stream.
#include "folio/attention/append.h"

namespace folio::inline v1 {
namespace {

Status no_streams(const char* function, const char* instead, Device device) {
  if (device.kind == Device::Kind::cpu)
    return fail(Errc::unsupported, "{}: the CPU has no streams, expected a call of {}", function,
                instead);
  return fail(Errc::unsupported, "{}: device: folio is built without CUDA kernels", function);
}

}  // namespace

Status append_async(const Batch&, const AppendArgs&, Device device, Stream) noexcept {
  return no_streams("append_async", "append", device);
}

}  // namespace folio::inline v1
