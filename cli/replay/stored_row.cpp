// SPDX-License-Identifier: Apache-2.0
/// cli/replay/stored_row.cpp: appends to planes of one slot.
#include "replay/stored_row.h"

#include "reference/append.h"
#include "reference/attention.h"

namespace folio::cli {
namespace {

MemorySpan memory_of(std::vector<double>& memory, int64_t bytes) {
  if (bytes == 0) return {};
  memory.resize(static_cast<size_t>(bytes) / sizeof(double) + 1);
  return {memory.data(), bytes};
}

}  // namespace

StoredRow::StoredRow(const KVShape& shape) {
  KVShape one = shape;
  one.num_layers = one.num_heads = one.page_size = 1;
  one.is_mla = true;
  const MemorySpan blocks = memory_of(blocks_, page_bytes(one).value());
  const MemorySpan scales = memory_of(scales_, scale_page_bytes(one).value());
  view_ = make_planes(one, 1, blocks, scales).value().front().key;
}

std::vector<double> StoredRow::of(std::span<const float> row) {
  constexpr int64_t first_slot = 0;
  AppendArgs args;
  args.k = dense_tensor<3>(row.data(), DType::f32, {1, 1, view_.head_size});
  args.key = view_;
  args.slots = &first_slot;
  reference::append({}, args);
  PagedKVView stored = view_;
  stored.hadamard = {};
  return reference::row_of(stored, {0, 0}, 0);
}

}  // namespace folio::cli
