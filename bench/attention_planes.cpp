// SPDX-License-Identifier: Apache-2.0
/// bench/attention_planes.cpp: K, V and scales of an attention workload: where they lie.
#include "attention_memory.h"
#include "attention_workload.h"
#include "reference/elements.h"

namespace folio::bench {
namespace {

KVShape kv_shape(const WorkloadShape& s, int32_t head_size, bool is_single) {
  KVShape shape{.num_layers = 1,
                .num_heads = s.kv_heads,
                .head_size = head_size,
                .page_size = s.page_size,
                .dtype = s.dtype,
                .is_mla = is_single,
                .order = s.order};
  if (is_scaled(s.dtype)) shape.scale_dtype = DType::f32;
  if (s.scales == ScaleForm::granule_of_32) shape.quantization_granularity = 32;
  if (folio::detail::is_packed(s.dtype)) {  // as NVFP4, or as q4_0
    const bool is_float = s.dtype == DType::f4_e2m1;
    shape.scale_dtype = is_float ? DType::f8_e4m3 : DType::f16;
    shape.quantization_granularity = is_float ? 16 : 32;
  }
  shape.hadamard = s.hadamard;
  return shape;
}

/// One scale for all tokens.
bool is_shared(ScaleForm form) { return form == ScaleForm::head || form == ScaleForm::tensor; }

int64_t all_page_bytes(const WorkloadShape& s, int32_t head_size, bool is_single) {
  const KVShape shape = kv_shape(s, head_size, is_single);
  return page_bytes(shape).value() + (is_shared(s.scales) ? 0 : scale_page_bytes(shape).value());
}

}  // namespace

int64_t Workload::page_bytes_of_both() const {
  const bool is_split = !shape_.value_in_key && v_head_size_ != shape_.head_size;
  const int64_t bytes = all_page_bytes(shape_, shape_.head_size, shape_.value_in_key || is_split);
  return is_split ? bytes + all_page_bytes(shape_, v_head_size_, true) : bytes;
}

void Workload::make_planes() {
  const int64_t pages = pages_of_batch() * batches_;
  const bool is_split = !shape_.value_in_key && v_head_size_ != shape_.head_size;
  const KVShape key_shape = kv_shape(shape_, shape_.head_size, shape_.value_in_key || is_split);
  const int64_t key_bytes = page_bytes(key_shape).value() * pages;
  int64_t value_bytes = 0;
  if (is_split) value_bytes = page_bytes(kv_shape(shape_, v_head_size_, true)).value() * pages;
  std::byte* const memory = kv_memory(key_bytes + value_bytes, shape_.dtype).data();
  MemorySpan scales;
  if (is_scaled(shape_.dtype)) {
    scales_ = std::make_unique<HugeMemory>(scale_page_bytes(key_shape).value() * pages);
    const double one = 1.0 / largest(shape_.dtype);
    repeat(random_elements(key_shape.scale_dtype, 0.5 * one, 1.5 * one), scales_->data(),
           scales_->bytes());
    scales = {scales_->data(), scales_->bytes()};
  }
  planes_ = folio::make_planes(key_shape, pages, {memory, key_bytes}, scales).value()[0];
  if (is_split)
    planes_.value = folio::make_planes(kv_shape(shape_, v_head_size_, true), pages,
                                       {memory + key_bytes, value_bytes})
                        .value()[0]
                        .key;
  if (shape_.is_paired) pair_planes();
  if (is_shared(shape_.scales)) share_scales();
  if (shape_.scales == ScaleForm::behind_row) put_scales_behind_rows(pages);
}

/// Memory of their own: rows, each with its scale behind it, 16 bytes further apart than without.
void Workload::put_scales_behind_rows(int64_t pages) {
  const int64_t row = folio::row_bytes(shape_.dtype, shape_.head_size), stride = row + 16;
  const int64_t heads = shape_.kv_heads, slots = shape_.page_size;
  const int64_t plane_bytes = pages * heads * slots * stride;
  rows_ = std::make_unique<HugeMemory>(2 * plane_bytes);
  repeat(rows_with_scales(shape_.dtype, row, stride), rows_->data(), rows_->bytes());
  const bool is_head_major = shape_.order == StorageOrder::head_major;
  std::byte* data = rows_->data();
  for (PagedKVView* const view : {&planes_.key, &planes_.value}) {
    view->data = data;
    view->slot_stride_bytes = stride * (is_head_major ? 1 : heads);
    view->head_stride_bytes = stride * (is_head_major ? slots : 1);
    view->page_stride_bytes = stride * heads * slots;
    view->scales = {.data = data + row,
                    .dtype = DType::f32,
                    .granularity = shape_.head_size,
                    .page_stride_bytes = view->page_stride_bytes,
                    .slot_stride_bytes = view->slot_stride_bytes,
                    .head_stride_bytes = view->head_stride_bytes};
    data += plane_bytes;
  }
}

/// The scales that stay are 1 over the largest element, as rows have them on average.
void Workload::share_scales() {
  for (PagedKVView* const view : {&planes_.key, &planes_.value}) {
    for (int32_t head = 0; head < shape_.kv_heads; ++head)
      reference::store(
          static_cast<std::byte*>(view->scales.data) + head * view->scales.head_stride_bytes,
          DType::f32, 1.0 / largest(shape_.dtype));
    view->scales.page_stride_bytes = view->scales.slot_stride_bytes = 0;
    if (shape_.scales == ScaleForm::tensor) view->scales.head_stride_bytes = 0;
  }
}

/// The same memory as rows of K with those of V beside them.
void Workload::pair_planes() {
  const int64_t row = folio::row_bytes(shape_.dtype, shape_.head_size);
  const bool is_head_major = shape_.order == StorageOrder::head_major;
  PagedKVView& key = planes_.key;
  key.slot_stride_bytes = 2 * row * (is_head_major ? 1 : shape_.kv_heads);
  key.head_stride_bytes = 2 * row * (is_head_major ? shape_.page_size : 1);
  key.page_stride_bytes = 2 * row * shape_.kv_heads * shape_.page_size;
  planes_.value = key;
  planes_.value.data = static_cast<std::byte*>(key.data) + row;
}

}  // namespace folio::bench
