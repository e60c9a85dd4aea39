// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/fake_driver.cpp: a libcuda.so.1 that notes its arguments, so that calls into the
/// driver are tested without one.
#include "cuda/fake_driver.h"

#include <algorithm>
#include <cstring>

namespace {

folio::test::FakeDriver fake;

}  // namespace

extern "C" {

folio::test::FakeDriver* fake_driver() { return &fake; }

int cuInit(unsigned) { return ++fake.inits, 0; }
int cuGetErrorName(int result, const char** name) {
  *name = result == 1     ? "CUDA_ERROR_INVALID_VALUE"
          : result == 101 ? "CUDA_ERROR_INVALID_DEVICE"
                          : nullptr;
  return *name == nullptr ? 1 : 0;
}
int cuGetErrorString(int result, const char** text) {
  *text = result == 1 ? "invalid argument" : "invalid device ordinal";
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = 40 + index;
  return index >= 0 && index < fake.num_devices ? 0 : 101;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? fake.major : attribute == 76 ? fake.minor : -1;
  return device >= 40 ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &fake;
  fake.retained += fake.retain_result == 0 ? 1 : 0;
  return fake.retain_result;
}
int cuDevicePrimaryCtxRelease_v2(int) { return --fake.retained, 0; }
int cuCtxPushCurrent_v2(void* context) {
  fake.pushed += context == &fake && fake.push_result == 0 ? 1 : 0;
  return fake.push_result;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = &fake;
  return --fake.pushed, 0;
}
int cuTensorMapEncodeTiled(void* map, int dtype, uint32_t rank, void* base, const uint64_t* dims,
                           const uint64_t* strides, const uint32_t* box,
                           const uint32_t* element_strides, int interleave, int swizzle,
                           int l2_promotion, int oob_fill) {
  folio::test::EncodeCall& call = fake.encoded;
  const int count = call.count + 1;
  call = {count,    dtype,           rank, base, {}, {}, {}, {}, interleave, swizzle, l2_promotion,
          oob_fill, fake.pushed == 1};
  for (uint32_t i = 0; i < std::min(rank, 5u); ++i) {
    call.dims[i] = dims[i];
    if (i > 0) call.strides[i - 1] = strides[i - 1];
    call.box[i] = box[i];
    call.element_strides[i] = element_strides[i];
  }
  std::memset(map, 0x5a, 128);
  return fake.encode_result;
}

}  // extern "C"
