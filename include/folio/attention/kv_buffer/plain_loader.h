// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/plain_loader.h: the default loader: stored elements, copied into the
/// seed's blocked layout.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/shape.h"
#include "folio/attention/kv_buffer/source.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::kv_buffer {

/// Stage: blocks of BN rows x bk_smem columns, swizzled. A load step is 32 rows of a block, what
/// one warp moves at once.
template <class Shape>
class PlainLoader {
 public:
  using smem_type = typename Shape::smem_type;
  static constexpr int num_steps = Shape::total_tiles;
  static_assert(Shape::smem_dtype == Shape::operand_type::dtype,
                "PlainLoader: stages what is stored");

  FOLIO_HOST_DEVICE explicit PlainLoader(smem_type* smem) : smem_(smem) {}

  FOLIO_HOST_DEVICE void begin(int, const KVSource<Shape>&) {}

  FOLIO_HOST_DEVICE void load(int stage, const KVSource<Shape>& source, int step) {
    const LoadUnit part = Shape::load_unit(step);
    smem_type* to = smem_ + int64_t{stage} * Shape::smem_stage_size;
    const int first = part.block * Shape::bk_smem;
    for (int key = part.row_group * Shape::warp_tile_rows;
         key < (part.row_group + 1) * Shape::warp_tile_rows; ++key) {
      const std::byte* row = source.row(key);
      for (int column = first; column < first + Shape::bk_smem; ++column) {
        smem_type value = {};
        if (row != nullptr && column < source.columns)
          __builtin_memcpy(&value, row + int64_t{column} * int64_t{sizeof(smem_type)},
                           sizeof(smem_type));
        to[Shape::smem_offset(key, column)] = value;
      }
    }
  }

  FOLIO_HOST_DEVICE smem_type at(int stage, int key, int column) const {
    return smem_[int64_t{stage} * Shape::smem_stage_size + Shape::smem_offset(key, column)];
  }

 private:
  smem_type* smem_;
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::PlainLoader;
}  // namespace folio::inline v1
