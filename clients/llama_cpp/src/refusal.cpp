// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/refusal.cpp: what folio's border would say, asked beforehand.
#include "refusal.h"

#include <cstdint>
#include <cstdio>
#include <limits>

#include "folio/attention/plan.h"
#include "settings.h"

namespace ggml_folio {
namespace {

using namespace folio;

bool has_contiguous_rows(const ggml_tensor* tensor, DType dtype) {
  return static_cast<int64_t>(tensor->nb[0]) == row_bytes(dtype, block_elements(dtype));
}

bool fits_extents(const ggml_tensor* tensor) {
  for (const int64_t extent : tensor->ne)
    if (extent < 0 || extent > std::numeric_limits<int32_t>::max()) return false;
  return true;
}

/// Operands and numbers of a later ggml: what they ask for would be left out. Known are q, K, V,
/// the mask and sinks; scale, ALiBi, softcap, the precision asked for, and n_kv_max, a hint of how
/// many keys a query sees at the most.
const char* refuse_unknown(const ggml_tensor* node) {
  for (int i = 5; i < GGML_MAX_SRC; ++i)
    if (node->src[i] != nullptr) return "it has an operand that the device does not know";
  for (size_t i = 5; i < GGML_MAX_OP_PARAMS / sizeof(int32_t); ++i)
    if (node->op_params[i] != 0) return "it has a parameter that the device does not know";
  return nullptr;
}

const char* refuse_types(const Node& node) {
  if (node.q->type != GGML_TYPE_F32 || node.out->type != GGML_TYPE_F32)
    return "q and the output are not both f32";
  if (dtype_of(node.k->type) == DType::invalid) return "K has a type that folio does not read";
  if (dtype_of(node.v->type) == DType::invalid) return "V has a type that folio does not read";
  if (node.mask != nullptr && node.mask->type != GGML_TYPE_F16) return "the mask is not f16";
  if (node.sinks != nullptr && node.sinks->type != GGML_TYPE_F32) return "the sinks are not f32";
  return nullptr;
}

const char* refuse_shapes(const Node& node) {
  for (const ggml_tensor* tensor : {node.out, node.q, node.k, node.v})
    if (!fits_extents(tensor)) return "an extent is not within [0, 2^31)";
  if (node.queries * node.streams > std::numeric_limits<int32_t>::max())
    return "there are 2^31 queries or more";
  if (node.k->ne[0] != node.key_size || node.v->ne[1] != node.keys) return "K and V do not fit q";
  if (node.kv_heads == 0 || node.v->ne[2] != node.kv_heads || node.heads % node.kv_heads != 0)
    return "K and V have other heads, or their number does not divide q's";
  if (node.k->ne[3] != node.streams || node.v->ne[3] != node.streams)
    return "K and V have other streams than q";
  if (node.mask == nullptr) return nullptr;
  if (node.mask->ne[0] < node.keys || node.mask->ne[1] < node.queries)
    return "the mask has fewer keys or queries than K and q";
  if (node.mask->ne[2] != 1 && node.mask->ne[2] != node.heads)
    return "the mask has neither one head nor q's";
  if (node.mask->ne[3] != 1 && node.mask->ne[3] != node.streams)
    return "the mask has neither one stream nor q's";
  return nullptr;
}

const char* refuse_strides(const Node& node) {
  if (!has_contiguous_rows(node.q, DType::f32) || !has_contiguous_rows(node.out, DType::f32))
    return "the elements of a row of q or of the output are not contiguous";
  if (!has_contiguous_rows(node.k, dtype_of(node.k->type))) return "K is transposed";
  if (!has_contiguous_rows(node.v, dtype_of(node.v->type))) return "V is transposed";
  if (node.mask != nullptr && !has_contiguous_rows(node.mask, DType::f16))
    return "the mask is transposed";
  if (node.sinks != nullptr && !has_contiguous_rows(node.sinks, DType::f32))
    return "the sinks are not contiguous";
  return nullptr;
}

/// The reason of the first form of mask that no kernel serves. Without a mask there is only one.
const char* refuse_masks(const AttentionProblem& problem, bool has_mask, bool has_slopes) {
  if (const char* reason = refuse(problem)) return reason;
  if (!has_mask) return nullptr;
  AttentionProblem cells = problem;
  cells.key.page_size = 1;
  if (!cells.value_in_key) cells.value.page_size = 1;
  cells.alibi = cells.alibi_positions = has_slopes;
  if (const char* reason = refuse(cells)) return reason;
  AttentionProblem bias = problem;
  bias.bias = true;
  bias.bias_dtype = has_slopes ? DType::f32 : DType::f16;
  return refuse(bias);
}

void say_refusal(const Node& node, const char* reason) {
  char line[400];
  std::snprintf(line, sizeof(line),
                "refused: %s (K of ggml type %d, V of %d, head sizes %lld and %lld, %lld / %lld "
                "heads, %lld queries, %lld keys, %lld streams)",
                reason, node.k->type, node.v->type, static_cast<long long>(node.key_size),
                static_cast<long long>(node.value_size), static_cast<long long>(node.heads),
                static_cast<long long>(node.kv_heads), static_cast<long long>(node.queries),
                static_cast<long long>(node.keys), static_cast<long long>(node.streams));
  say(line);
}

/// What depends on more than the problem.
const char* refuse_tensors(const Node& node) {
  if (const char* reason = refuse_unknown(node.out)) return reason;
  if (const char* reason = refuse_types(node)) return reason;
  if (const char* reason = refuse_shapes(node)) return reason;
  if (const char* reason = refuse_strides(node)) return reason;
  if (node.scale == 0.0f) return "the scale is 0, which folio takes for 1 / sqrt(head size)";
  return nullptr;
}

}  // namespace

const char* refuse_node(const ggml_tensor* tensor) {
  if (tensor->src[0] == nullptr || tensor->src[1] == nullptr || tensor->src[2] == nullptr)
    return "the node lacks q, K or V";
  const Node node(tensor);
  if (const char* reason = refuse_tensors(node)) return reason;
  return refuse_masks(problem_of(node), node.mask != nullptr, node.max_bias > 0);
}

const char* Refusals::refuse(const ggml_tensor* tensor) {
  if (tensor->src[0] == nullptr || tensor->src[1] == nullptr || tensor->src[2] == nullptr)
    return "the node lacks q, K or V";
  const Node node(tensor);
  const char* reason = refuse_tensors(node);
  if (reason != nullptr) {
    if (settings().trace) say_refusal(node, reason);
    return reason;
  }
  const AttentionProblem problem = problem_of(node);
  const bool has_mask = node.mask != nullptr;
  const bool has_slopes = node.max_bias > 0;
  for (const Kind& kind : kinds_)
    if (kind.has_mask == has_mask && kind.has_slopes == has_slopes && kind.problem == problem)
      return kind.reason;
  reason = refuse_masks(problem, has_mask, has_slopes);
  if (reason != nullptr && settings().trace) say_refusal(node, reason);
  kinds_.push_back({problem, has_mask, has_slopes, reason});
  return reason;
}

}  // namespace ggml_folio
