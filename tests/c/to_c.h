// SPDX-License-Identifier: Apache-2.0
/// tests/c/to_c.h: folio's structs as those of the C interface, so that tables of the C++ tests can
/// be run through C.
///
/// Each object holds what its C struct points to and must stay where it is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/mask_matrix.h"
#include "folio/attention/merge.h"
#include "folio/c/folio.h"
#include "folio/cache/copy.h"

namespace folio::test {

/// A C struct with its size, all else zero.
template <class T>
T c_struct() {
  T t = {};
  t.struct_size = sizeof(T);
  return t;
}

/// C has one struct for tensors that are read and those that are written.
inline folio_tensor to_c(const ConstTensor<3>& from) {
  auto to = c_struct<folio_tensor>();
  to.dtype = static_cast<int32_t>(from.dtype);
  to.data = const_cast<void*>(from.data);
  for (int i = 0; i < 3; ++i) {
    to.extent[i] = from.extent[i];
    to.stride_bytes[i] = from.stride_bytes[i];
  }
  return to;
}

inline folio_matrix to_c(const ConstTensor<2>& from) {
  auto to = c_struct<folio_matrix>();
  to.dtype = static_cast<int32_t>(from.dtype);
  to.data = const_cast<void*>(from.data);
  for (int i = 0; i < 2; ++i) {
    to.extent[i] = from.extent[i];
    to.stride_bytes[i] = from.stride_bytes[i];
  }
  return to;
}

struct CView {
  explicit CView(const PagedKVView& from) {
    view.dtype = static_cast<int32_t>(from.dtype);
    view.data = from.data;
    view.num_heads = from.num_heads;
    view.head_size = from.head_size;
    view.page_size = from.page_size;
    view.num_pages = from.num_pages;
    view.page_stride_bytes = from.page_stride_bytes;
    view.slot_stride_bytes = from.slot_stride_bytes;
    view.head_stride_bytes = from.head_stride_bytes;
    scales.dtype = static_cast<int32_t>(from.scales.dtype);
    scales.data = from.scales.data;
    scales.granularity = from.scales.granularity;
    scales.page_stride_bytes = from.scales.page_stride_bytes;
    scales.slot_stride_bytes = from.scales.slot_stride_bytes;
    scales.head_stride_bytes = from.scales.head_stride_bytes;
    scales.granule_stride_bytes = from.scales.granule_stride_bytes;
    scales.tensor_scale = from.scales.tensor_scale;
    scales.zeros = static_cast<int32_t>(from.scales.zeros);
    scales.zero_offset_bytes = from.scales.zero_offset_bytes;
    view.hadamard_block = from.hadamard.block;
    view.hadamard_sign_seed = from.hadamard.sign_seed;
    view.has_channel_scales = from.has_channel_scales ? 1 : 0;
    view.channel_scales = from.channel_scales;
    if (from.scales != ScaleView()) view.scales = &scales;
  }
  CView(const CView&) = delete;
  CView& operator=(const CView&) = delete;

  folio_kv_view view = c_struct<folio_kv_view>();
  folio_scale_view scales = c_struct<folio_scale_view>();
};

inline folio_batch to_c(const Batch& from) {
  auto to = c_struct<folio_batch>();
  to.size = from.size;
  to.query_offsets = from.query_offsets;
  to.context_lengths = from.context_lengths;
  to.table_entries = from.table.entries;
  to.table_row_stride = from.table.row_stride;
  to.table_row_starts = from.table.row_starts;
  to.query_positions = from.query_positions;
  to.key_positions = from.key_positions;
  to.visible_begin = from.visible_begin;
  to.visible_end = from.visible_end;
  to.tree = from.tree;
  to.tree_words = from.tree_words;
  to.selected = from.selected;
  to.selected_stride = from.selected_stride;
  to.alibi_positions = from.alibi_positions;
  to.alibi_positions_stride = from.alibi_positions_stride;
  return to;
}

inline folio_rope to_c(const Rope& from) {
  auto to = c_struct<folio_rope>();
  to.dims = from.dims;
  to.cos_sin = from.cos_sin;
  to.rows = from.rows;
  to.interleaved = from.interleaved ? 1 : 0;
  to.first_dim = from.first_dim;
  to.positions = from.positions;
  return to;
}

inline folio_limits to_c(const AttentionLimits& from) {
  return {sizeof(folio_limits), from.batch,
          from.tokens,          from.context,
          from.parallelism,     from.shared_levels == 0 ? -1 : from.shared_levels};
}

inline folio_mask to_c(const Mask& from) {
  return {sizeof(folio_mask), from.left, from.right, from.chunk, from.sink_tokens};
}

inline folio_mask_matrix to_c(const MaskMatrix& from) {
  auto to = c_struct<folio_mask_matrix>();
  to.dtype = static_cast<int32_t>(from.values.dtype);
  to.data = from.values.data;
  for (int i = 0; i < 4; ++i) {
    to.extent[i] = from.values.extent[i];
    to.stride_bytes[i] = from.values.stride_bytes[i];
  }
  return to;
}

inline folio_mask_bits to_c(const MaskBits& from) {
  return {sizeof(folio_mask_bits),
          0,
          from.bits,
          from.streams,
          from.queries,
          from.keys,
          from.stream_stride_bytes,
          from.query_stride_bytes};
}

inline folio_mask_options to_c(const MaskOptions& from) {
  return {sizeof(folio_mask_options), from.q_heads, from.first_rows, from.slopes};
}

struct CProblem {
  explicit CProblem(const AttentionProblem& from) : key(from.key), value(from.value) {
    problem.q_heads = from.q_heads;
    problem.key = &key.view;
    problem.value = &value.view;
    problem.v_head_size = from.v_head_size;
    problem.q_dtype = static_cast<int32_t>(from.q_dtype);
    problem.out_dtype = static_cast<int32_t>(from.out_dtype);
    problem.mask_left = from.mask.left;
    problem.mask_right = from.mask.right;
    problem.mask_chunk = from.mask.chunk;
    problem.mask_sink_tokens = from.mask.sink_tokens;
    problem.options = (from.value_in_key ? FOLIO_VALUE_IN_KEY : 0) |
                      (from.sink_logits ? FOLIO_SINK_LOGITS : 0) | (from.alibi ? FOLIO_ALIBI : 0) |
                      (from.bias ? FOLIO_BIAS : 0) | (from.intervals ? FOLIO_INTERVALS : 0) |
                      (from.tree ? FOLIO_TREE : 0) | (from.selection ? FOLIO_SELECTION : 0) |
                      (from.sink_per_query ? FOLIO_SINK_PER_QUERY : 0) |
                      (from.bias_per_sequence ? FOLIO_BIAS_PER_SEQUENCE : 0) |
                      (from.alibi_positions ? FOLIO_ALIBI_POSITIONS : 0) |
                      (from.bf16_operands ? FOLIO_BF16_OPERANDS : 0) |
                      (from.int8_operands ? FOLIO_INT8_OPERANDS : 0) |
                      (from.q_is_turned ? FOLIO_Q_IS_TURNED : 0) |
                      (from.selection_per_head ? FOLIO_SELECTION_PER_HEAD : 0);
    problem.sink_dtype = static_cast<int32_t>(from.sink_dtype);
    problem.bias_dtype = static_cast<int32_t>(from.bias_dtype);
    problem.scale = from.scale;
    problem.softcap = from.softcap;
    problem.reproducible = static_cast<int32_t>(from.reproducible);
  }
  CView key, value;
  folio_problem problem = c_struct<folio_problem>();
};

struct CArgs {
  explicit CArgs(const AttentionArgs& from)
      : key(from.key),
        value(from.value),
        q(to_c(from.q)),
        out(to_c(from.out)),
        bias(to_c(from.bias)) {
    args.q = &q;
    args.out = &out;
    args.key = &key.view;
    args.value = &value.view;
    args.lse = from.lse;
    args.sink_logits = from.sink_logits;
    args.alibi_slopes = from.alibi_slopes;
    args.bias = &bias;
    args.sink_stride = from.sink_stride;
    args.bias_sequence_stride_bytes = from.bias_sequence_stride_bytes;
  }
  CView key, value;
  folio_tensor q, out, bias;
  folio_args args = c_struct<folio_args>();
};

struct CPlanes {
  explicit CPlanes(std::span<const KVPlanes> from) {
    for (const KVPlanes& p : from) {
      views.push_back(std::make_unique<CView>(p.key));
      views.push_back(std::make_unique<CView>(p.value));
      const bool has_value = p.value.data != nullptr;
      planes.push_back({&views[views.size() - 2]->view, has_value ? &views.back()->view : nullptr});
    }
  }
  std::vector<std::unique_ptr<CView>> views;
  std::vector<folio_kv_planes> planes;
};

/// A code and its text as a Status.
inline Status to_status(folio_code code, const folio_message& message) {
  return code == FOLIO_OK ? Status() : Status(static_cast<Errc>(code), message.text);
}

/// The C executor that does what folio's `from` does. `from` must outlive it.
inline folio_executor to_c(const Executor& from) {
  auto to = c_struct<folio_executor>();
  to.context = const_cast<Executor*>(&from);
  if (from.concurrency != nullptr) {
    to.concurrency = [](void* context) {
      const auto& own = *static_cast<const Executor*>(context);
      return own.concurrency(own.context);
    };
  }
  if (from.parallel_for != nullptr) {
    to.parallel_for = [](void* context, int64_t n, void (*task)(void*, int64_t), void* arg) {
      struct Call {
        void (*task)(void*, int64_t);
        void* arg;
      } call{task, arg};
      const auto& own = *static_cast<const Executor*>(context);
      own.parallel_for(
          own.context, n,
          [](void* at, int64_t i) noexcept {
            const Call& c = *static_cast<const Call*>(at);
            c.task(c.arg, i);
          },
          &call);
    };
  }
  return to;
}

}  // namespace folio::test
