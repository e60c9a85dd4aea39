// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/node.h: the operands of GGML_OP_FLASH_ATTN_EXT, as folio names them.
#pragma once

#include <cstdint>

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "ggml.h"

namespace ggml_folio {

/// Streams [begin, end) of a node: caches that lie in one allocation, each with queries of its own.
struct Streams {
  int64_t begin = 0;
  int64_t end = 0;
  [[nodiscard]] int64_t count() const { return end - begin; }
  bool operator==(const Streams&) const = default;
};

/// A node's tensors and numbers. ggml's extents are innermost first:
///
///     q [key_size, queries, heads, streams]      out [value_size, heads, queries, streams], f32
///     k [key_size, keys, kv_heads, streams]      v [value_size, keys, kv_heads, streams]
///     mask [>= keys, >= queries, 1 or heads, 1 or streams], f16; sinks [heads], f32
struct Node {
  Node() = default;
  explicit Node(const ggml_tensor* node);

  const ggml_tensor* out = nullptr;
  const ggml_tensor* q = nullptr;
  const ggml_tensor* k = nullptr;
  const ggml_tensor* v = nullptr;
  const ggml_tensor* mask = nullptr;   ///< or null
  const ggml_tensor* sinks = nullptr;  ///< or null
  float scale = 0;
  float max_bias = 0;  ///< of ALiBi, 0: none
  float softcap = 0;   ///< 0: none
  int64_t queries = 0, heads = 0, kv_heads = 0, streams = 0, keys = 0, key_size = 0, value_size = 0;

  /// V is the first columns of K's rows, in the same memory.
  [[nodiscard]] bool is_value_in_key() const;
  /// All streams are one matrix of queries over one plane.
  [[nodiscard]] bool is_one_matrix() const;
  /// Rows of the plane from a stream to the next; of nodes that are one matrix.
  [[nodiscard]] int64_t rows_between_streams() const;
};

/// folio's name of the type, DType::invalid where it has none.
[[nodiscard]] folio::DType dtype_of(ggml_type type);

/// What selects: strides and dtypes, no pointers, no mask. Value inside key where the node has it.
[[nodiscard]] folio::AttentionProblem problem_of(const Node& node);

/// The call's tensors for some streams, with planes of this page size (1 or unbounded).
[[nodiscard]] folio::AttentionArgs args_of(const Node& node, Streams streams, int32_t page_size);

}  // namespace ggml_folio
