// SPDX-License-Identifier: Apache-2.0
/// tests/compile_fail/visit_dtype_results.cpp: a visit gives one type, whatever the element.
// expect: visit_dtype: f returns the same type for each element type
#include "folio/core/visit_dtype.h"

using namespace folio;
#ifndef FOLIO_BAD
const Result<float> largest = visit_dtype(
    DType::i8, []<class T>(std::type_identity<T>) { return to_float(from_float<T>(1e30f)); });
#else
const Result<float> largest =
    visit_dtype(DType::i8, []<class T>(std::type_identity<T>) { return from_float<T>(1e30f); });
#endif
