// SPDX-License-Identifier: Apache-2.0
/// python/src/dtype_names.cpp: one table of names, one of DLPack's codes.
#include "dtype_names.h"

#include <nanobind/stl/string.h>

#include <string>

#include "array.h"

namespace folio::python {
namespace {

using Code = nb::dlpack::dtype_code;

struct Name {
  std::string_view name;
  DType dtype;
};
/// Beside those of folio/core/dtype.h.
constexpr Name other_names[] = {
    {"float32", DType::f32},
    {"float", DType::f32},
    {"float16", DType::f16},
    {"half", DType::f16},
    {"bfloat16", DType::bf16},
    {"float8_e4m3fn", DType::f8_e4m3},
    {"fp8_e4m3", DType::f8_e4m3},
    {"fp8", DType::f8_e4m3},
    {"float8_e5m2", DType::f8_e5m2},
    {"fp8_e5m2", DType::f8_e5m2},
    {"float8_e8m0fnu", DType::f8_e8m0},
    {"int8", DType::i8},
    {"int4", DType::i4},
    {"uint4", DType::u4},
    {"float4_e2m1fn", DType::f4_e2m1},
};

struct Coded {
  Code code;
  uint8_t bits;
  DType dtype;
};
constexpr Coded codes[] = {
    {Code::Float, 32, DType::f32},
    {Code::Float, 16, DType::f16},
    {Code::Bfloat, 16, DType::bf16},
    {Code::Float8_E4M3FN, 8, DType::f8_e4m3},
    {Code::Float8_E5M2, 8, DType::f8_e5m2},
    {Code::Float8_E8M0FNU, 8, DType::f8_e8m0},
    {Code::Int, 8, DType::i8},
};

/// Whether arrays, planes or scales may have it.
bool is_served(DType dtype) { return detail::is_supported(dtype) || detail::is_row_dtype(dtype); }

/// What planes may have, as a sentence lists it: "f32, f16, ... or" the last.
std::string names_of_planes() {
  std::string text, last;
  for (int i = 1; i < detail::num_dtypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!detail::is_row_dtype(dtype)) continue;
    if (!last.empty()) text += (text.empty() ? "" : ", ") + last;
    last = name(dtype);
  }
  return text + " or " + last;
}

}  // namespace

DType dtype_named(std::string_view text) {
  for (int i = 1; i < detail::num_dtypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_served(dtype) && name(dtype) == text) return dtype;
  }
  for (const Name& n : other_names)
    if (n.name == text) return n.dtype;
  return DType::invalid;
}

std::string dlpack_name(nb::dlpack::dtype type) {
  std::string text;
  switch (static_cast<Code>(type.code)) {
    case Code::Int: text = "int"; break;
    case Code::UInt: text = "uint"; break;
    case Code::Float: text = "float"; break;
    case Code::Complex: text = "complex"; break;
    case Code::Bool: return "bool";
    default: return "DLPack type " + std::to_string(type.code) + ":" + std::to_string(type.bits);
  }
  return text + std::to_string(type.bits);
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  for (const Coded& c : codes)
    if (c.dtype == dtype) return {static_cast<uint8_t>(c.code), c.bits, 1};
  return {};
}

DType dtype_of_dlpack(nb::dlpack::dtype type) {
  for (const Coded& c : codes)
    if (type.code == static_cast<uint8_t>(c.code) && type.bits == c.bits && type.lanes == 1)
      return c.dtype;
  return DType::invalid;
}

DType dtype_of(nb::handle object, const char* name) {
  std::string text;
  if (nb::hasattr(object, "name") && !nb::isinstance<nb::str>(object)) {  // numpy.dtype
    text = nb::cast<std::string>(nb::str(object.attr("name")));
  } else if (nb::isinstance<nb::type_object>(object)) {  // numpy.float32, ml_dtypes.bfloat16
    text = nb::cast<std::string>(object.attr("__name__"));
  } else {
    text = nb::cast<std::string>(nb::str(object));
    if (text.starts_with("torch.")) text.erase(0, 6);
  }
  const DType dtype = dtype_named(text);
  if (dtype == DType::invalid)
    refuse_argument("{}: expected {}, got {}", name, names_of_planes(), text);
  return dtype;
}

}  // namespace folio::python
