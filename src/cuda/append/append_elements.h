// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/append_elements.h: append and rotate for any rows: what append_units.h leaves.
#pragma once

#include "cuda/append/element_rows.h"
#include "cuda/append/token_place.h"

namespace folio::cuda {

/// A warp takes a part of a token's heads in one plane.
struct AppendElements {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 0;
  static constexpr int blocks_per_processor = 4;
  using Args = AppendCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const Args& call) {
    for_each_part(t, call, threads / 32,
                  [&](auto plane, int64_t token, const folio::detail::PageRun& place,
                      const float* angles, int32_t begin, int32_t end) {
                    write(t, call, decltype(plane)::value, token, place, angles, begin, end);
                  });
  }

 private:
  template <class Thread>
  FOLIO_DEVICE static void write(Thread& t, const Args& call, int plane, int64_t token,
                                 const folio::detail::PageRun& place, const float* angles,
                                 int32_t begin, int32_t end) {
    const ConstTensor<3>& source = call.planes[plane].source;
    RowSource from;
    from.data = static_cast<const std::byte*>(source.data) + token * source.stride_bytes[0];
    from.dtype = source.dtype;
    from.head_stride_bytes = source.stride_bytes[1];
    from.is_written = call.in_place;
    RowTransform transform;
    if (plane == 0) {
      transform = {angles,    call.rope.first_dim, call.rope.dims, call.rope.interleaved,
                   call.norm, call.norm_eps};
    }
    RowTarget to;
    to.view = call.planes[plane].target;
    to.data = folio::detail::row_of(to.view, place.page, place.slot, 0);
    if (to.view.scales.data != nullptr) {
      to.scales = static_cast<std::byte*>(to.view.scales.data) +
                  folio::detail::scale_offset_bytes(to.view.scales, place.page, place.slot, 0, 0);
      to.tensor_scale = tensor_scale_of(t, to.view.scales);
    }
    ElementRows<Thread>(t, from, transform, to).write(begin, end);
  }
};

}  // namespace folio::cuda
