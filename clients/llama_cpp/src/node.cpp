// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/node.cpp: from ggml's tensors to folio's views of the same memory.
#include "node.h"

#include <cstring>

#include "settings.h"

namespace ggml_folio {
namespace {

using namespace folio;

int64_t stride(const ggml_tensor* tensor, int dimension) {
  return static_cast<int64_t>(tensor->nb[dimension]);
}

/// Whether the tensor's streams are a whole number of its rows apart.
bool has_whole_rows(const ggml_tensor* tensor) {
  return stride(tensor, 1) > 0 && stride(tensor, 3) % stride(tensor, 1) == 0;
}

PagedKVView plane_of(const ggml_tensor* tensor, int32_t page_size) {
  PagedKVView plane;
  plane.dtype = dtype_of(tensor->type);
  plane.num_heads = static_cast<int32_t>(tensor->ne[2]);
  plane.head_size = static_cast<int32_t>(tensor->ne[0]);
  plane.page_size = page_size;
  plane.page_stride_bytes = plane.slot_stride_bytes = stride(tensor, 1);
  plane.head_stride_bytes = stride(tensor, 2);
  return plane;
}

PagedKVView plane_at(const ggml_tensor* tensor, int32_t page_size, int64_t stream, int64_t rows) {
  PagedKVView plane = plane_of(tensor, page_size);
  plane.data = static_cast<char*>(tensor->data) + stream * stride(tensor, 3);
  plane.num_pages = rows;
  return plane;
}

/// [tokens, heads, size] of a tensor whose queries and heads are these dimensions.
AnyTensor<3> rows_of(const ggml_tensor* tensor, int queries, int heads, Streams streams) {
  AnyTensor<3> rows;
  rows.data = static_cast<char*>(tensor->data) + streams.begin * stride(tensor, 3);
  rows.dtype = DType::f32;
  rows.extent[0] = tensor->ne[queries] * streams.count();
  rows.extent[1] = tensor->ne[heads];
  rows.extent[2] = tensor->ne[0];
  rows.stride_bytes[0] = stride(tensor, queries);
  rows.stride_bytes[1] = stride(tensor, heads);
  rows.stride_bytes[2] = static_cast<int64_t>(sizeof(float));
  return rows;
}

/// Whether products may be rounded to bf16. ggml itself rounds q to bf16 or to 8 bits where the
/// cache is of bf16 or of blocks; to f16 or not at all where it is of those.
bool takes_bf16(DType dtype) {
  return dtype != DType::f32 && (dtype != DType::f16 || settings().f16_as_bf16);
}

}  // namespace

Node::Node(const ggml_tensor* node)
    : out(node),
      q(node->src[0]),
      k(node->src[1]),
      v(node->src[2]),
      mask(node->src[3]),
      sinks(node->src[4]) {
  float numbers[3];
  std::memcpy(numbers, node->op_params, sizeof(numbers));
  scale = numbers[0];
  max_bias = numbers[1];
  softcap = numbers[2];
  key_size = q->ne[0];
  queries = q->ne[1];
  heads = q->ne[2];
  streams = q->ne[3];
  keys = k->ne[1];
  kv_heads = k->ne[2];
  value_size = v->ne[0];
}

bool Node::is_value_in_key() const {
  return k->data != nullptr && k->data == v->data && k->type == v->type && value_size <= key_size &&
         k->nb[1] == v->nb[1] && k->nb[2] == v->nb[2] && k->nb[3] == v->nb[3];
}

bool Node::is_one_matrix() const {
  return streams == 1 ||
         (stride(q, 3) == queries * stride(q, 1) && stride(out, 3) == queries * stride(out, 2) &&
          has_whole_rows(k) && has_whole_rows(v) &&
          stride(k, 3) / stride(k, 1) == stride(v, 3) / stride(v, 1));
}

int64_t Node::rows_between_streams() const {
  return streams == 1 ? 0 : stride(k, 3) / stride(k, 1);
}

DType dtype_of(ggml_type type) {
  for (int i = 1; i < detail::num_dtypes; ++i)
    if (detail::row_of(static_cast<DType>(i)).ggml == type) return static_cast<DType>(i);
  return DType::invalid;
}

AttentionProblem problem_of(const Node& node) {
  AttentionProblem problem;
  problem.key = plane_of(node.k, unbounded_page_size);
  problem.v_head_size = static_cast<int32_t>(node.value_size);
  problem.value_in_key = node.is_value_in_key();
  if (!problem.value_in_key) problem.value = plane_of(node.v, unbounded_page_size);
  problem.q_heads = static_cast<int32_t>(node.heads);
  problem.q_dtype = problem.out_dtype = DType::f32;
  problem.mask = Mask::full();
  problem.scale = node.scale;
  problem.softcap = node.softcap;
  problem.sink_logits = node.sinks != nullptr;
  problem.intervals = true;
  problem.bf16_operands = takes_bf16(dtype_of(node.k->type)) && takes_bf16(dtype_of(node.v->type));
  return problem;
}

AttentionArgs args_of(const Node& node, Streams streams, int32_t page_size) {
  const int64_t between = streams.count() > 1 ? node.rows_between_streams() : 0;
  const int64_t rows = (streams.count() - 1) * between + node.keys;
  AttentionArgs args;
  args.q = rows_of(node.q, 1, 2, streams);
  args.out = rows_of(node.out, 2, 1, streams);
  args.key = plane_at(node.k, page_size, streams.begin, rows);
  if (!node.is_value_in_key()) args.value = plane_at(node.v, page_size, streams.begin, rows);
  if (node.sinks != nullptr) args.sink_logits = node.sinks->data;
  return args;
}

}  // namespace ggml_folio
