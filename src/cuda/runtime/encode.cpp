// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/encode.cpp: hands a checked description to cuTensorMapEncodeTiled.
#include "folio/tma/encode.h"

#include "cuda/runtime/driver.h"

namespace folio::inline v1::tma {
namespace {

// CUdevice_attribute.
constexpr int compute_capability_major = 75;
constexpr int compute_capability_minor = 76;

Status check_hardware(const cuda::Driver& driver, int device, const TensorMap& map) noexcept {
  int major = 0, minor = 0;
  if (const int result = driver.device_attribute(&major, compute_capability_major, device);
      result != 0)
    return driver.failure("encode", "cuDeviceGetAttribute", result);
  if (const int result = driver.device_attribute(&minor, compute_capability_minor, device);
      result != 0)
    return driver.failure("encode", "cuDeviceGetAttribute", result);
  const bool is_gather = map.use == Use::gather4;
  if (major < (is_gather ? 10 : 9))
    return fail(Errc::unsupported, "encode: {} compute capability {}.0, device {} has {}.{}",
                is_gather ? "gather4 needs" : "tensor maps need", is_gather ? 10 : 9, device, major,
                minor);
  return {};
}

}  // namespace

Result<EncodedTensorMap> encode(const TensorMap& map, Device device) noexcept {
  if (const Fault fault = map.fault(); !fault.is_none()) return describe("encode", fault);
  if (device.kind != Device::Kind::cuda)
    return fail(Errc::invalid_argument, "encode: the device is no CUDA device");
  const Result<const cuda::Driver*> found = cuda::driver("encode");
  if (!found) return found.error();
  const cuda::Driver& driver = **found;
  if (driver.tensor_map_encode_tiled == nullptr)
    return cuda::Driver::lacks("encode", "cuTensorMapEncodeTiled");
  int id = 0;
  if (const int result = driver.device_get(&id, device.index); result != 0)
    return driver.failure("encode", "cuDeviceGet", result);
  if (Status status = check_hardware(driver, id, map); !status.is_ok()) return status;
  cuda::PrimaryContext context(driver, id);
  if (Status status = context.enter("encode"); !status.is_ok()) return status;

  uint64_t dims[TensorMap::max_rank], strides[TensorMap::max_rank] = {};
  uint32_t box[TensorMap::max_rank], element_strides[TensorMap::max_rank];
  for (int i = 0; i < TensorMap::max_rank; ++i) {
    dims[i] = static_cast<uint64_t>(map.dim[i]);
    // the driver knows that of dimension 0
    if (i > 0) strides[i - 1] = static_cast<uint64_t>(map.stride_bytes[i]);
    box[i] = static_cast<uint32_t>(map.box[i]);
    element_strides[i] = static_cast<uint32_t>(map.element_stride[i]);
  }
  EncodedTensorMap out;
  const int result = driver.tensor_map_encode_tiled(
      &out, static_cast<int>(map.dtype), static_cast<uint32_t>(map.rank),
      reinterpret_cast<void*>(map.base), dims, strides, box, element_strides,
      static_cast<int>(map.interleave), static_cast<int>(map.swizzle),
      static_cast<int>(map.l2_promotion), static_cast<int>(map.oob_fill));
  if (result != 0) return driver.failure("encode", "cuTensorMapEncodeTiled", result);
  return out;
}

Result<EncodedTensorMap> encode(const RaggedTMA3DTile& tile, Device device) noexcept {
  if (const Fault fault = tile.fault(); !fault.is_none()) return describe("encode", fault);
  return encode(tile.map, device);
}

}  // namespace folio::inline v1::tma
