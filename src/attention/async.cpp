// SPDX-License-Identifier: Apache-2.0
/// src/attention/async.cpp: the calls that put work on a device's stream. No device has kernels
/// yet, and the CPU has no streams: they say so.
#include "attention/internals.h"
#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/plan.h"

namespace folio::inline v1 {
namespace {

Status no_streams(const char* function, const char* instead, Device device) {
  if (device.kind == Device::Kind::cpu)
    return fail(Errc::unsupported, "{}: the CPU has no streams, expected a call of {}", function,
                instead);
  return fail(Errc::unsupported, "{}: device: folio is built without CUDA kernels", function);
}

Status no_streams(const char* function, const char* instead, const Attention& attention) {
  if (kernel_entry(attention) != nullptr) return no_streams(function, instead, attention.device());
  return fail(Errc::invalid_argument,
              "{}: attention is empty, expected one made by Attention::create", function);
}

}  // namespace

Result<AttentionPlan> plan_async(const Attention& attention, const Batch&, MemorySpan,
                                 Stream) noexcept {
  return no_streams("plan_async", "plan", attention);
}

Status attend_async(const Attention& attention, const AttentionPlan&, const AttentionArgs&,
                    MemorySpan, Stream) noexcept {
  return no_streams("attend_async", "attend", attention);
}

Status append_async(const Batch&, const AppendArgs&, Device device, Stream) noexcept {
  return no_streams("append_async", "append", device);
}

}  // namespace folio::inline v1
