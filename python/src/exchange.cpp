// SPDX-License-Identifier: Apache-2.0
/// python/src/exchange.cpp: finds a type's table once.
#include "exchange.h"

#include <array>
#include <atomic>
#include <mutex>

#include "executor.h"

namespace folio::python {
namespace {

struct Known {
  std::atomic<PyTypeObject*> type = nullptr;  // a reference that is never given back
  const DLPackExchangeApi* api = nullptr;
};
// Types of arrays in a process are few; what comes after the last place is looked up every time.
std::array<Known, 16> known;
std::mutex adding;

const DLPackExchangeApi* look_up(PyTypeObject* type) {
  PyObject* capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* api =
      static_cast<const DLPackExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  Py_DECREF(capsule);
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

}  // namespace

const DLPackExchangeApi* exchange_api_of(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  for (const Known& k : known) {
    PyTypeObject* t = k.type.load(std::memory_order_acquire);
    if (t == type) return k.api;
    if (t == nullptr) break;
  }
  const DLPackExchangeApi* api = look_up(type);
  // A library with tensors may have brought threads.
  if (api != nullptr) share_openmp_threads();
  const std::lock_guard lock(adding);
  for (Known& k : known) {
    if (k.type.load(std::memory_order_relaxed) == type) break;
    if (k.type.load(std::memory_order_relaxed) == nullptr) {
      Py_INCREF(type);
      k.api = api;
      k.type.store(type, std::memory_order_release);
      break;
    }
  }
  return api;
}

}  // namespace folio::python
