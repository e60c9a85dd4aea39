// SPDX-License-Identifier: Apache-2.0
/// python/src/exchange.cpp: finds a type's table once.
#include "exchange.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "executor.h"

namespace folio::python {
namespace {

struct Known {
  std::atomic<PyTypeObject*> type = nullptr;  // a reference that is never given back
  const DLPackExchangeApi* api = nullptr;
  PyObject* is_neg = nullptr;  // the type's method of that name, a reference; null: it has none
};
// Types of arrays in a process are few; what comes after the last place is looked up every time.
std::array<Known, 16> known;
std::mutex adding;

PyObject* attribute_of(PyTypeObject* type, const char* name) {
  PyObject* found = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

const DLPackExchangeApi* look_up(PyTypeObject* type) {
  PyObject* capsule = attribute_of(type, "__dlpack_c_exchange_api__");
  if (capsule == nullptr) return nullptr;
  const auto* api =
      static_cast<const DLPackExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  Py_DECREF(capsule);
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

/// Of a type that has been seen and found room; null for others.
const Known* known_of(PyTypeObject* type) {
  for (const Known& k : known) {
    PyTypeObject* t = k.type.load(std::memory_order_acquire);
    if (t == type) return &k;
    if (t == nullptr) break;
  }
  return nullptr;
}

}  // namespace

const DLPackExchangeApi* exchange_api_of(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (const Known* k = known_of(type)) return k->api;
  const DLPackExchangeApi* api = look_up(type);
  // A library with tensors may have brought threads.
  if (api != nullptr) share_openmp_threads();
  PyObject* is_neg = api != nullptr ? attribute_of(type, "is_neg") : nullptr;
  const std::lock_guard lock(adding);
  for (Known& k : known) {
    if (k.type.load(std::memory_order_relaxed) == type) break;
    if (k.type.load(std::memory_order_relaxed) == nullptr) {
      Py_INCREF(type);
      k.api = api;
      k.is_neg = std::exchange(is_neg, nullptr);
      k.type.store(type, std::memory_order_release);
      break;
    }
  }
  Py_XDECREF(is_neg);
  return api;
}

bool is_negated(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  const Known* k = known_of(type);
  const nb::object method =
      k != nullptr ? nb::borrow(k->is_neg) : nb::steal(attribute_of(type, "is_neg"));
  return method.is_valid() && nb::cast<bool>(method(object));
}

}  // namespace folio::python
