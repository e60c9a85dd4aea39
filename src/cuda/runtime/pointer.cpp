// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/pointer.cpp: asks the driver whose memory a pointer names.
#include "cuda/runtime/pointer.h"

#include <iterator>

#include "cuda/runtime/driver.h"
#include "cuda/runtime/loaded.h"

namespace folio::cuda {
namespace {

// CUpointer_attribute
constexpr int memory_type = 2;
constexpr int is_managed = 8;
constexpr int device_ordinal = 9;
// CUmemorytype; 0, which it has not, stands for memory that the driver does not know.
constexpr unsigned pageable = 0;
constexpr unsigned host = 1;

struct PointerFacts {
  unsigned type = pageable;
  unsigned managed = 0;
  int ordinal = -1;
};

Status refused(const char* function, const char* argument, Device device, const char* what,
               Pinned pinned) {
  return fail(Errc::invalid_argument, "{}: {} is {}, expected memory of CUDA device {}{}", function,
              argument, what, device.index,
              pinned == Pinned::allowed ? " or pinned host memory" : "");
}

}  // namespace

Status check_device_pointer(const char* function, const char* argument, Device device,
                            const void* pointer, Pinned pinned) noexcept {
  if (Status s = check_device(function, device); !s.is_ok()) return s;
  if (pointer == nullptr) return refused(function, argument, device, "null", pinned);
  const Result<const Driver*> found = driver(function);
  if (!found) return found.error();
  PointerFacts facts;
  const int asked[] = {memory_type, is_managed, device_ordinal};
  void* answers[] = {&facts.type, &facts.managed, &facts.ordinal};
  const DriverResult result =
      (*found)->pointer_attributes(static_cast<unsigned>(std::size(asked)), asked, answers,
                                   reinterpret_cast<uintptr_t>(pointer));
  if (result != 0) return (*found)->failure(function, "cuPointerGetAttributes", result);
  if (facts.type == pageable)
    return refused(function, argument, device, "pageable host memory", pinned);
  if (facts.managed != 0) return {};
  if (facts.type == host) {
    if (pinned == Pinned::allowed) return {};
    return refused(function, argument, device, "pinned host memory", pinned);
  }
  if (facts.ordinal == device.index) return {};
  return refused(function, argument, device, "another device's memory", pinned);
}

}  // namespace folio::cuda
