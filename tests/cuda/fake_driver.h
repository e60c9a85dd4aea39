// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_driver.h: what the libcuda.so.1 of the tests was asked, and what it is to
/// answer.
#pragma once

#include <cstdint>

namespace folio::test {

/// The arguments of the last cuTensorMapEncodeTiled.
struct EncodeCall {
  int count = 0;
  int dtype = -1;
  uint32_t rank = 0;
  void* base = nullptr;
  uint64_t dims[5] = {};
  uint64_t strides[4] = {};
  uint32_t box[5] = {};
  uint32_t element_strides[5] = {};
  int interleave = -1, swizzle = -1, l2_promotion = -1, oob_fill = -1;
  bool in_context = false;
};

struct FakeDriver {
  // Answers.
  int num_devices = 1;
  int major = 9, minor = 0;
  int encode_result = 0, retain_result = 0, push_result = 0;
  // What came.
  int inits = 0, retained = 0, pushed = 0;  ///< the last two count open ones
  EncodeCall encoded;
};

/// The library exports `FakeDriver* fake_driver()`; the test finds it as folio finds the rest.
using FakeDriverFunction = FakeDriver*();

}  // namespace folio::test
