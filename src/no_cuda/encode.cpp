// SPDX-License-Identifier: Apache-2.0
/// src/no_cuda/encode.cpp: folio_cuda of a build without CUDA: the same checks, then a refusal.
#include "folio/tma/encode.h"

namespace folio::inline v1::tma {

Result<EncodedTensorMap> encode(const TensorMap& map, Device device) noexcept {
  if (const Fault fault = map.fault(); !fault.is_none()) return describe("encode", fault);
  if (device.kind != Device::Kind::cuda)
    return fail(Errc::invalid_argument, "encode: the device is no CUDA device");
  return fail(Errc::unsupported, "encode: folio was built without CUDA (FOLIO_CUDA=OFF)");
}

Result<EncodedTensorMap> encode(const RaggedTMA3DTile& tile, Device device) noexcept {
  if (const Fault fault = tile.fault(); !fault.is_none()) return describe("encode", fault);
  return encode(tile.map, device);
}

}  // namespace folio::inline v1::tma
