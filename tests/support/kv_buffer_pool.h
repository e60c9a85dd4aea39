// SPDX-License-Identifier: Apache-2.0
/// tests/support/kv_buffer_pool.h: a pool full of NaN, and the buffers of a block of warps that
/// read it.
#pragma once

#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "folio/attention/kv_buffer.h"
#include "folio/attention/operand/view_operand.h"
#include "folio/core/element.h"
#include "support/guarded_memory.h"
#include "support/kv_buffer_entries.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {

template <class Instance>
class Block;
template <class Instance>
class BlockApart;

/// An instance that the test program itself is compiled for. HasScales: the pool has scales, which
/// staged elements are multiplied by.
template <class C, DType D, bool HasScales = false>
struct BufferInstance {
  using Config = C;
  using BlockType = Block<BufferInstance>;
  static constexpr DType dtype = D;
  static constexpr bool has_scales = HasScales;
  static constexpr bool applies_scales = true;
  static bool can_run() { return true; }
};

/// One that is compiled for another instruction set. `C` has the constants of its Config.
template <class C, DType D, BufferEntries (*Entries)(), bool (*CanRun)(), bool HasScales = false,
          bool AppliesScales = true>
struct BufferInstanceApart {
  using Config = C;
  using BlockType = BlockApart<BufferInstanceApart>;
  static constexpr DType dtype = D;
  static constexpr bool has_scales = HasScales;
  static constexpr bool applies_scales = AppliesScales;
  static bool can_run() { return CanRun(); }
  static BufferEntries entries() { return Entries(); }
};

/// How a pool is laid out and which of its keys exist.
struct PoolSpec {
  int32_t page_size = 16;  ///< 0: unbounded
  StorageOrder order = StorageOrder::token_major;
  int64_t context = 0;
  int32_t missing_columns = 0;  ///< head_size is so much smaller than cache_depth
  int64_t gap = 0;
  bool has_hole = false;  ///< logical page 1 is unassigned
};

/// A plane of one sequence in which everything is NaN (-1 in i8) but the keys that were stored:
/// values and scales. The last byte of the plane and of the table's row are followed by memory that
/// faults.
template <class Instance>
class Pool {
 public:
  using Shape = KVBufferShape<ViewMHAOperand<Instance::dtype>, typename Instance::Config>;
  using stored_type = element_t<Instance::dtype>;
  static constexpr int64_t heads = 3;

  Pool(const PoolSpec& spec, Rng& rng) : spec_(spec), plane_(plane_spec(spec)) {
    if (spec.page_size == 0) {
      plane_.view.page_size = unbounded_page_size;
      plane_.view.slot_stride_bytes = plane_.view.page_stride_bytes;
      if (Instance::has_scales)
        plane_.view.scales.slot_stride_bytes = plane_.view.scales.page_stride_bytes;
    }
    const int64_t columns =
        spec.page_size == 0 ? 1 : (spec.context + spec.page_size - 1) / spec.page_size;
    row_ = GuardedMemory(columns * 4, 4);
    std::vector<uint32_t> ids(static_cast<size_t>(columns));
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<uint32_t>(spec.page_size == 0 ? 2 : i + 1);
    rng.shuffle(ids);
    if (spec.has_hole && columns > 1)
      ids[1] = rng.chance(0.5) ? 0xffffffffu : static_cast<uint32_t>(plane_.view.num_pages);
    std::memcpy(row_.data(), ids.data(), ids.size() * 4);
  }

  /// Stores key `token` of all heads.
  void store(int64_t token) {
    const auto [page, slot] = place(token);
    if (page < 0) return;
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t d = 0; d < plane_.view.head_size; ++d) {
        const auto element = from_float<stored_type>(value(token, head, d));
        std::memcpy(plane_.element(page, slot, head, d), &element, sizeof element);
        if (Instance::has_scales && d % plane_.view.scales.granularity == 0) {
          const float factor = scale(token, head);
          std::memcpy(plane_.scale(page, slot, head, d), &factor, sizeof factor);
        }
      }
    }
  }

  /// What staged element (token, column) of a head is: zero unless it was stored.
  float expected(int64_t token, int64_t head, int64_t column) const {
    const int64_t d = Shape::head_dim_offset + column;
    if (column >= Shape::depth || d >= plane_.view.head_size || token >= spec_.context ||
        place(token).first < 0)
      return 0.0f;
    const float factor =
        Instance::has_scales && Instance::applies_scales ? scale(token, head) : 1.0f;
    return value(token, head, d) * factor;
  }

  [[nodiscard]] PagedKVView view() const { return plane_.view; }
  [[nodiscard]] ViewMHAOperand<Instance::dtype> operand() const {
    return {plane_.view, {table(), 0, nullptr}, nullptr, 0};
  }
  [[nodiscard]] const uint32_t* table() const { return row_.template as<uint32_t>(); }
  /// Scale of (token, head): a power of two.
  static float scale(int64_t token, int64_t head) { return (token + head) % 3 == 0 ? 0.5f : 2.0f; }

 private:
  static PlaneSpec plane_spec(const PoolSpec& spec) {
    PlaneSpec plane{
        .dtype = Instance::dtype, .num_heads = heads, .order = spec.order, .gap = spec.gap};
    plane.head_size = (Shape::cache_depth > Shape::depth + Shape::head_dim_offset
                           ? Shape::cache_depth
                           : Shape::depth + Shape::head_dim_offset) -
                      spec.missing_columns;
    plane.page_size = spec.page_size == 0 ? 1 : spec.page_size;
    plane.num_pages = spec.page_size == 0
                          ? spec.context + 2
                          : (spec.context + spec.page_size - 1) / spec.page_size + 1;
    if (Instance::has_scales)
      plane.scales = {.dtype = DType::f32,
                      .granularity = plane.head_size,
                      .page = true,
                      .slot = true,
                      .head = true};
    return plane;
  }
  /// 1 ... 8 with a sign: exact in every type, and without a period that a wrong row, page or head
  /// could hide behind.
  static float value(int64_t token, int64_t head, int64_t d) {
    const uint64_t mixed =
        static_cast<uint64_t>((token * heads + head) * 1024 + d) * 0x9e3779b97f4a7c15u >> 48;
    return static_cast<float>(mixed % 8 + 1) * (mixed / 8 % 2 == 0 ? 1.0f : -1.0f);
  }
  [[nodiscard]] std::pair<int64_t, int64_t> place(int64_t token) const {
    if (spec_.page_size == 0) return {table()[0], token};
    const int64_t page = table()[token / spec_.page_size];
    return {page < plane_.view.num_pages ? page : -1, token % spec_.page_size};
  }

  PoolSpec spec_;
  TestPlane plane_;
  GuardedMemory row_;
};

/// The buffers of a block's warps over one staging memory, which is NaN at first.
template <class Instance>
class Block {
 public:
  using Buffer = KVBuffer<ViewMHAOperand<Instance::dtype>, typename Instance::Config>;
  using smem_type = typename Buffer::smem_type;
  static constexpr auto stage_bytes = Buffer::smem_stage_size * int64_t{sizeof(smem_type)};

  Block(const ViewMHAOperand<Instance::dtype>& operand, int64_t head, int64_t end)
      : smem_(Buffer::num_smem_stages * stage_bytes, 64) {
    for (uint32_t warp = 0; warp < Buffer::num_warps; ++warp)
      warps_.emplace_back(operand, 0, head,
                          typename Buffer::SmemParentType{smem_.template as<smem_type>(), {}}, end,
                          warp);
  }
  void set_tile(const KeyTile& keys, int64_t head) {
    for (Buffer& warp : warps_) warp.kv_cache_iter.set_tile(keys, head);
  }
  void load(int stage) {
    for (Buffer& warp : warps_) {
      warp.begin_load(stage);
      while (warp.load_from_dram_step()) {}
    }
  }
  [[nodiscard]] float at(int stage, int key, int column) const {
    return static_cast<float>(to_float(warps_.front().loader().at(stage, key, column)));
  }
  Buffer& warp(size_t i) { return warps_[i]; }
  void clear() { smem_.fill(0); }
  [[nodiscard]] smem_type* smem() const { return smem_.template as<smem_type>(); }

 private:
  GuardedMemory smem_;
  std::deque<Buffer> warps_;
};

/// The buffer of an instance that is compiled apart.
template <class Instance>
class BlockApart {
 public:
  using Operand = ViewMHAOperand<Instance::dtype>;
  using Shape = KVBufferShape<Operand, typename Instance::Config>;
  static constexpr int64_t stage_bytes =
      Shape::smem_stage_size * int64_t{bit_width(Shape::smem_dtype) / 8};

  BlockApart(const Operand& operand, int64_t head, int64_t end)
      : smem_(Shape::num_smem_stages * stage_bytes, 64), buffer_(entries_.object_bytes, 64) {
    entries_.make(buffer_.data(), &operand, head, smem_.data(), end);
  }
  void set_tile(const KeyTile& keys, int64_t head) {
    entries_.set_tile(buffer_.data(), keys, head);
  }
  void load(int stage) { entries_.load(buffer_.data(), stage); }
  [[nodiscard]] float at(int stage, int key, int column) const {
    return entries_.at(buffer_.data(), stage, key, column);
  }

 private:
  BufferEntries entries_ = Instance::entries();
  GuardedMemory smem_;
  GuardedMemory buffer_;
};

}  // namespace folio::test
