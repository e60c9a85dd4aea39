// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/planes.cpp: tensor maps of one layer's planes.
#include "cuda/attention/planes.h"

#include "folio/cache/tma_plane.h"
#include "folio/tma/encode.h"
#include "folio/tma/page_tile.h"

namespace folio::cuda {
namespace {

Status encode_plane(const char* name, Device device, const PagedKVView& view,
                    tma::EncodedTensorMap& to) {
  const tma::TileSpec spec{.swizzle = tma::Swizzle::b128, .rows = keys_of_box};
  const auto chunks =
      view.page_size >= keys_of_box ? tma::ChunksPerCopy::all : tma::ChunksPerCopy::one;
  const auto tile = tma::page_tile(tma::plane_of(view), spec, chunks);
  if (Status s = tile.check(name); !s.is_ok()) return s;
  Result<tma::EncodedTensorMap> encoded = tma::encode(tile.map, device);
  if (!encoded) return encoded.error();
  to = *encoded;
  return {};
}

}  // namespace

Status encode_planes(Device device, AttendTileCall& call) noexcept {
  if (Status s = encode_plane("key", device, call.call.args.key, call.key); !s.is_ok()) return s;
  return encode_plane("value", device, call.call.args.value, call.value);
}

}  // namespace folio::cuda
