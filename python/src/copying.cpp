// SPDX-License-Identifier: Apache-2.0
/// python/src/copying.cpp: refusals by name, with what to do instead.
#include "copying.h"

#include <map>
#include <string>
#include <string_view>

#include "errors.h"

namespace folio::python {
namespace {

const char* instead_of(std::string_view type) {
  static const std::map<std::string_view, const char*> advice = {
      {"Pages", "it describes memory of others; copy that, and make Pages of the copy"},
      {"PagePool", "its sequences are those of one engine; make another, and admit them there"},
      {"CacheManager", "it is of one pool; make another over another pool"},
      {"Transfer", "it is one call of a tier; store or load again"},
      {"Step", "it reads arrays of others; make another of the same"},
      {"Batch", "it reads arrays of others; make another of the same"},
  };
  const auto found = advice.find(type);
  return found != advice.end() ? found->second : "make another of the same arguments";
}

nb::object refuse_copy(nb::handle self, nb::handle /*protocol*/) {
  const auto name = nb::cast<std::string>(self.type().attr("__name__"));
  throw Error(
      fail(Errc::unsupported, "{}: cannot be copied or pickled: {}", name, instead_of(name)));
}

}  // namespace

void refuse_copies(nb::module_& m) {
  const nb::object refusal = nb::cpp_function(&refuse_copy, nb::name("__reduce_ex__"),
                                              nb::is_method(), nb::arg("protocol"));
  for (const auto& [name, value] : nb::cast<nb::dict>(m.attr("__dict__"))) {
    const bool copies =
        PyType_Check(value.ptr()) == 0 || nb::cast<nb::object>(value.attr("__dict__"))
                                              .attr("__contains__")("__setstate__")
                                              .is(nb::bool_(true));
    if (!copies) nb::setattr(value, "__reduce_ex__", refusal);
  }
}

}  // namespace folio::python
