// SPDX-License-Identifier: Apache-2.0
/// run/watch.cpp: counting nodes, and rounding what they write to a cache.
#include "watch.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace folio::llama_run {
namespace {

/// 'k' or 'v' if the node's memory is that of a cache, otherwise 0.
char cache_of(const ggml_tensor* tensor) {
  while (tensor->view_src != nullptr) {
    tensor = tensor->view_src;
  }
  const bool is_cache = std::strncmp(tensor->name, "cache_k", 7) == 0 ||
                        std::strncmp(tensor->name, "cache_v", 7) == 0;
  return is_cache ? tensor->name[6] : '\0';
}

/// New rows, or all keys turned by a shift of positions.
bool writes_cache(const ggml_tensor* node) {
  return (node->op == GGML_OP_SET_ROWS || node->op == GGML_OP_ROPE) && cache_of(node) != '\0';
}

/// Multiplies each `size` values by the Hadamard matrix in Sylvester's order, its own inverse.
void turn(int size, std::vector<float>& values) {
  const auto length = static_cast<size_t>(size);
  for (size_t begin = 0; length != 0 && begin + length <= values.size(); begin += length) {
    float* part = &values[begin];
    for (size_t half = 1; half < length; half *= 2) {
      for (size_t i = 0; i < length; ++i) {
        if ((i & half) == 0) {
          const float a = part[i], b = part[i + half];
          part[i] = a + b;
          part[i + half] = a - b;
        }
      }
    }
    for (size_t i = 0; i < length; ++i) {
      part[i] /= std::sqrt(static_cast<float>(size));
    }
  }
}

void round_values(const Rounding& rounding, std::vector<float>& values) {
  const ggml_type_traits* traits = ggml_get_type_traits(rounding.type);
  const auto count = static_cast<int64_t>(values.size());
  if (count % traits->blck_size != 0 || (rounding.turn != 0 && count % rounding.turn != 0)) {
    throw std::runtime_error("rounding: rows are no whole blocks");
  }
  if (rounding.type == GGML_TYPE_F32) {
    return;
  }
  turn(rounding.turn, values);
  std::vector<char> rounded(ggml_row_size(rounding.type, count));
  traits->from_float_ref(values.data(), rounded.data(), count);
  traits->to_float(rounded.data(), values.data(), count);
  turn(rounding.turn, values);
}

float* row_of(const ggml_tensor* rows, int64_t index) {
  return reinterpret_cast<float*>(static_cast<char*>(rows->data) +
                                  index * static_cast<int64_t>(rows->nb[1]));
}

/// The rows that SET_ROWS wrote: gathered in the order of its source, so that blocks are the
/// cache's own even where each value went to a row of its own (plain attention's transposed V).
void round_rows(const Rounding& rounding, const ggml_tensor* node) {
  const ggml_tensor* source = node->src[0];
  const ggml_tensor* indices = node->src[1];
  if (node->type != GGML_TYPE_F32 || indices->type != GGML_TYPE_I64 || source->ne[2] != 1 ||
      source->ne[3] != 1) {
    throw std::runtime_error("rounding: expected rows of f32 by indices of i64");
  }
  const int64_t length = source->ne[0], count = source->ne[1];
  const auto* places = static_cast<const int64_t*>(indices->data);
  std::vector<float> values(static_cast<size_t>(length * count));
  for (int64_t row = 0; row < count; ++row) {
    std::memcpy(&values[static_cast<size_t>(row * length)], row_of(node, places[row]),
                static_cast<size_t>(length) * sizeof(float));
  }
  round_values(rounding, values);
  for (int64_t row = 0; row < count; ++row) {
    std::memcpy(row_of(node, places[row]), &values[static_cast<size_t>(row * length)],
                static_cast<size_t>(length) * sizeof(float));
  }
}

/// All keys of a cache, head by head: [size, heads, cells, streams].
void round_all(const Rounding& rounding, const ggml_tensor* node) {
  if (node->type != GGML_TYPE_F32) {
    throw std::runtime_error("rounding: expected keys of f32");
  }
  std::vector<float> values(static_cast<size_t>(node->ne[0]));
  for (int64_t i = 0; i < ggml_nrows(node); ++i) {
    const int64_t head = i % node->ne[1], cell = i / node->ne[1] % node->ne[2];
    const int64_t stream = i / (node->ne[1] * node->ne[2]);
    char* place = static_cast<char*>(node->data) + head * static_cast<int64_t>(node->nb[1]) +
                  cell * static_cast<int64_t>(node->nb[2]) +
                  stream * static_cast<int64_t>(node->nb[3]);
    std::memcpy(values.data(), place, values.size() * sizeof(float));
    round_values(rounding, values);
    std::memcpy(place, values.data(), values.size() * sizeof(float));
  }
}

}  // namespace

bool on_node(ggml_tensor* node, bool ask, void* user) {
  Watch& watch = *static_cast<Watch*>(user);
  if (ask) {
    ++watch.counts.nodes;
    watch.counts.flash += node->op == GGML_OP_FLASH_ATTN_EXT ? 1 : 0;
    watch.counts.plain += node->op == GGML_OP_SOFT_MAX && node->src[1] != nullptr ? 1 : 0;
    return watch.rounds && writes_cache(node);
  }
  const Rounding& rounding = cache_of(node) == 'k' ? watch.keys : watch.values;
  if (node->op == GGML_OP_SET_ROWS) {
    round_rows(rounding, node);
  } else {
    round_all(rounding, node);
  }
  ++watch.counts.rounded;
  return true;
}

}  // namespace folio::llama_run
