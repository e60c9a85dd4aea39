// SPDX-License-Identifier: Apache-2.0
/// python/src/errors.cpp: raises the exception class of a failure's code.
#include "errors.h"

#include <nanobind/stl/string.h>

#include <string>

namespace folio::python {
namespace {

struct Classes {
  PyObject* error = nullptr;
  PyObject* unsupported = nullptr;
  PyObject* out_of_pages = nullptr;
};
Classes classes;  // live as long as the module: never given back

PyObject* class_of(Errc code) {
  switch (code) {
    case Errc::unsupported: return classes.unsupported;
    case Errc::out_of_pages: return classes.out_of_pages;
    default: return classes.error;
  }
}

void raise(const Error& error) {
  // A message has a last byte, and that may be in the middle of a letter.
  const std::string text(error.status().message());
  const nb::object message =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  nb::object exception = nb::borrow(class_of(error.code()))(message);
  exception.attr("code") = name(error.code());
  PyErr_SetObject(class_of(error.code()), exception.ptr());
}

}  // namespace

void bind_errors() {
  const nb::module_ errors = nb::module_::import_("folio_kv.errors");
  classes.error = nb::object(errors.attr("Error")).release().ptr();
  classes.unsupported = nb::object(errors.attr("Unsupported")).release().ptr();
  classes.out_of_pages = nb::object(errors.attr("OutOfPages")).release().ptr();
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      raise(e);
    }
  });
}

}  // namespace folio::python
