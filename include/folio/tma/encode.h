// SPDX-License-Identifier: Apache-2.0
/// folio/tma/encode.h: from the description of a tensor map to the 128 bytes that a kernel is
/// given.
///
/// Needs no CUDA toolkit to build and no driver to load: the driver's entry points are looked up in
/// libcuda.so.1 when `encode` is first called. A kernel takes the object as a
/// `const __grid_constant__` argument. Programs link folio::folio, or folio::cuda, which silences a
/// remark of g++ on this header's alignment.
///
/// Errors: invalid_argument for whatever check() refuses, before anything reaches the driver, and
/// for a device that is no CUDA device;
///         unsupported for a device whose hardware has no tensor maps (below compute capability
///         9.0; gather4: below 10.0), and always where folio was built with FOLIO_CUDA=OFF; device
///         for a missing driver and for what the driver says no to, with its reason.
/// Effects: holds the device's primary context during the call. Where nothing else holds it the
/// call creates and destroys it, which
///          takes long: encode with the context alive, as it is after the first CUDA run-time call.
///          The memory described is not read.
/// Thread safety: usable from any thread.
#pragma once

#include <cstdint>

#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/tensor_map.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::tma {

/// The driver's CUtensorMap. Its bits are the driver's own and depend on the device.
struct alignas(64) EncodedTensorMap {
  uint64_t words[16] = {};
  bool operator==(const EncodedTensorMap&) const = default;
};
static_assert(sizeof(EncodedTensorMap) == 128);

[[nodiscard]] FOLIO_EXPORT Result<EncodedTensorMap> encode(const TensorMap& map,
                                                           Device device = {Device::Kind::cuda,
                                                                            0}) noexcept;
[[nodiscard]] FOLIO_EXPORT Result<EncodedTensorMap> encode(const RaggedTMA3DTile& tile,
                                                           Device device = {Device::Kind::cuda,
                                                                            0}) noexcept;
template <int Rank>
[[nodiscard]] Result<EncodedTensorMap> encode(const TMATensorTile<Rank>& tile,
                                              Device device = {Device::Kind::cuda, 0}) noexcept {
  if (Status status = tile.check("encode"); !status.is_ok()) return status;
  return encode(tile.map, device);
}

}  // namespace folio::inline v1::tma
