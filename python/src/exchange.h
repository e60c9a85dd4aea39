// SPDX-License-Identifier: Apache-2.0
/// python/src/exchange.h: DLPack's table of C functions, which a type of arrays offers as
/// `__dlpack_c_exchange_api__` (DLPack 1.2, dlpack.h: DLPackExchangeAPI).
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

namespace folio::python {

namespace nb = nanobind;

struct DLPackVersion {
  uint32_t major = 0;
  uint32_t minor = 0;
};

struct DLManagedTensorVersioned {
  DLPackVersion version = {};
  void* manager = nullptr;
  void (*deleter)(DLManagedTensorVersioned*) = nullptr;
  uint64_t flags = 0;
  nb::dlpack::dltensor tensor = {};
};

struct DLPackExchangeApi {
  DLPackVersion version = {};
  DLPackExchangeApi* previous = nullptr;
  int (*allocate)(nb::dlpack::dltensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind,
                                    const char* message)) = nullptr;
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out) = nullptr;
  int (*object_from_managed)(DLManagedTensorVersioned* tensor, void** out) = nullptr;
  int (*tensor_from_object)(void* object, nb::dlpack::dltensor* out) = nullptr;
  int (*current_stream)(int32_t device_type, int32_t device, void** out) = nullptr;
};

/// The table of the object's type; null where it has none that folio can use. The first call for a
/// type looks it up, later ones find it.
const DLPackExchangeApi* exchange_api_of(nb::handle object);

/// Whether the object's elements are the negatives of what its memory holds: torch keeps -x as a
/// bit, of which DLPack's table says nothing.
bool is_negated(nb::handle object);

}  // namespace folio::python
