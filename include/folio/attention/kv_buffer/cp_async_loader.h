// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/cp_async_loader.h: the loader of a warp: rows in units of 16 bytes by
/// cp.async, any page size, any strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/lane_iterator.h"
#include "folio/attention/kv_buffer/shape.h"
#include "folio/attention/kv_buffer/shared_view.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::detail {

/// What lane loaders have in common: where staging is, and its elements.
template <class Shape, class Machine>
class LaneStaging {
 public:
  using smem_type = typename Shape::smem_type;
  using machine_type = Machine;
  template <class L>
  using View = kv_buffer::SharedView<Machine, smem_type, L>;
  static constexpr bool is_for_lanes = true;
  /// Of a unit of 16 bytes; the swizzle moves units as a whole.
  static constexpr int unit = Shape::simd_width;
  static constexpr uint32_t stage_bytes =
      static_cast<uint32_t>(Shape::smem_stage_size) * uint32_t{sizeof(smem_type)};
  static_assert(Shape::warp_size == 32, "LaneStaging: warps have 32 lanes");
  static_assert(Shape::smem_dtype == Shape::operand_type::dtype,
                "LaneStaging: stages what is stored");
  static_assert(Shape::bk_smem % unit == 0, "LaneStaging: a row of a block is whole units");

  FOLIO_DEVICE_FUNCTION explicit LaneStaging(kv_buffer::SharedPointer<Machine, smem_type> smem)
      : memory(smem) {}

  /// Address of a staged element.
  FOLIO_DEVICE_FUNCTION uint32_t address_of(int stage, int key, int column) const {
    const auto offset = static_cast<uint32_t>(Shape::smem_offset(key, column));
    return memory.address + static_cast<uint32_t>(stage) * stage_bytes +
           offset * uint32_t{sizeof(smem_type)};
  }
  FOLIO_DEVICE_FUNCTION smem_type at(int stage, int key, int column) const {
    return machine().template load_shared<smem_type>(address_of(stage, key, column));
  }
  FOLIO_DEVICE_FUNCTION Machine& machine() const { return *memory.machine; }

 protected:
  kv_buffer::SharedPointer<Machine, smem_type> memory;
};

}  // namespace folio::inline v1::detail

namespace folio::inline v1::kv_buffer {

/// A load step is 32 rows of a block: each lane resolves one row, then all copy units of 16 bytes,
/// neighbours side by side. What is not aligned, or hangs over the end of a row, goes element by
/// element. Beyond the contract:
///
///     buffer.load_from_dram<s>(); buffer.loader().commit();      as often as there are stages
///     buffer.loader().wait<Pending>(); t.sync_block();           then stage contents can be read
///
/// Called by whole warps. Who reuses a stage lets all warps read it first.
template <class Shape, class Machine>
class CpAsyncLoader : public detail::LaneStaging<Shape, Machine> {
 public:
  using Base = detail::LaneStaging<Shape, Machine>;
  using smem_type = typename Shape::smem_type;
  static constexpr int num_steps = Shape::total_tiles;
  static constexpr int units_per_row = Shape::bk_smem / Base::unit;

  using Base::Base;

  template <class Source>
  FOLIO_DEVICE_FUNCTION void begin(int, const Source&) {}

  template <class Source>
  FOLIO_DEVICE_FUNCTION void load(int stage, const Source& source, int step) {
    Machine& t = this->machine();
    const LoadUnit part = Shape::load_unit(step);
    const int first_key = part.row_group * Shape::warp_tile_rows;
    const int lane = t.lane();
    const auto mine = reinterpret_cast<uint64_t>(source.row(first_key + lane));
    FOLIO_UNROLL
    for (int i = 0; i < units_per_row; ++i) {
      const int index = i * Shape::warp_size + lane;
      const int row = index / units_per_row;
      const int column = part.block * Shape::bk_smem + index % units_per_row * Base::unit;
      const uint64_t low = t.shuffle(static_cast<uint32_t>(mine), row);
      const uint64_t high = t.shuffle(static_cast<uint32_t>(mine >> 32), row);
      const auto* from = reinterpret_cast<const smem_type*>(high << 32 | low);
      const int there = from != nullptr ? source.columns - column : 0;
      copy_unit(t, this->address_of(stage, first_key + row, column), from + column, there);
    }
  }

  /// Closes this thread's group of copies.
  FOLIO_DEVICE_FUNCTION void commit() { this->machine().commit_copies(); }
  /// All but the last `Pending` groups of this thread have landed.
  template <int Pending>
  FOLIO_DEVICE_FUNCTION void wait() {
    this->machine().template wait_copies<Pending>();
  }

 private:
  /// The unit whose first `there` elements are in memory.
  FOLIO_DEVICE_FUNCTION static void copy_unit(Machine& t, uint32_t to, const smem_type* from,
                                              int there) {
    const bool is_empty = there <= 0;
    const bool is_aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0;
    if (is_empty || (there >= Base::unit && is_aligned))
      return t.copy_async(to, is_empty ? nullptr : from, !is_empty);
    detail::SharedUnit<smem_type> elements;
    FOLIO_UNROLL
    for (int i = 0; i < Base::unit; ++i)
      if (i < there) elements.lane[i] = t.read(from + i);
    t.store_shared(to, elements);
  }
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::CpAsyncLoader;
}  // namespace folio::inline v1
