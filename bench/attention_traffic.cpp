// SPDX-License-Identifier: Apache-2.0
/// bench/attention_traffic.cpp: what a step of an attention workload reads and computes: bytes,
/// operations, and the runs of memory whose reading is the roof.
#include "attention_workload.h"
#include "folio/attention/visible_keys.h"

namespace folio::bench {

double Workload::bytes() const {
  if (shape_.selected > 0)
    return static_cast<double>(page_bytes_) / shape_.page_size * shape_.sequences *
           shape_.new_tokens * shape_.selected;
  return static_cast<double>(page_bytes_) * static_cast<double>(pages_of_batch());
}

double Workload::flops() const {
  double pairs = 0.0;
  for (int32_t b = 0; b < shape_.sequences; ++b) {
    const int32_t context = context_of(b);
    if (shape_.selected > 0) pairs += static_cast<double>(shape_.selected) * shape_.new_tokens;
    for (int32_t t = 0; shape_.selected == 0 && t < shape_.new_tokens; ++t) {
      const Visible v = visible_keys(shape_.mask, context - shape_.new_tokens + t, 0, context);
      pairs += static_cast<double>(v.sinks.size() + v.keys.size());
    }
  }
  return 2.0 * pairs * shape_.q_heads * (shape_.head_size + v_head_size_);
}

/// A token is a run: all its heads where they lie side by side, else each.
ReadRuns Workload::listed_runs() const {
  const bool is_head_major = shape_.order == StorageOrder::head_major;
  const int64_t heads_in_run = is_head_major ? 1 : shape_.kv_heads;
  ReadRuns runs;
  runs.bytes = folio::row_bytes(shape_.dtype, shape_.head_size) * heads_in_run;
  for (const int32_t slot : lists_) {
    for (int64_t head = 0; head < shape_.kv_heads; head += heads_in_run) {
      for (const PagedKVView* plane : {&planes_.key, &planes_.value}) {
        if (plane->data == nullptr) continue;
        runs.at.push_back(static_cast<const std::byte*>(plane->data) +
                          slot / shape_.page_size * plane->page_stride_bytes +
                          slot % shape_.page_size * plane->slot_stride_bytes +
                          head * plane->head_stride_bytes);
      }
    }
  }
  return runs;
}

ReadRuns Workload::runs() const {
  if (shape_.selected > 0) return listed_runs();
  const int64_t row_bytes = folio::row_bytes(shape_.dtype, shape_.head_size);
  ReadRuns runs;
  runs.bytes = shape_.page_size * row_bytes * shape_.kv_heads * (shape_.is_paired ? 2 : 1);
  if (shape_.scales == ScaleForm::behind_row) runs.bytes = planes_.key.page_stride_bytes;
  for (int64_t row = 0; row < batches_ * shape_.sequences; ++row) {
    for (int64_t p = shared_pages(row); p < table_stride_; ++p) {
      const uint32_t id = pages_[static_cast<size_t>(row * table_stride_ + p)];
      if (id == ~0u) break;
      for (const PagedKVView* plane : {&planes_.key, &planes_.value}) {
        if (plane->data == nullptr) continue;
        if (shape_.is_paired && plane == &planes_.value) continue;  // part of K's run
        runs.at.push_back(static_cast<const std::byte*>(plane->data) +
                          int64_t{id} * plane->page_stride_bytes);
      }
    }
  }
  return runs;
}

}  // namespace folio::bench
