// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/layers.h: the one line of the log that says which layers folio serves.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ggml.h"

namespace ggml_folio {

/// Layer -> the reason why llama.cpp serves it, empty where folio does.
using LayerMap = std::map<int, std::string>;

/// "folio serves 3 of 5 attention layers: 0-1, 3; llama.cpp serves 2, 4: the reason; 2 threads of
/// ggml": as folio's line in vLLM (python/folio_kv/vllm/report.py). 0 threads: unknown.
[[nodiscard]] std::string sentence_of(const LayerMap& layers, int threads);

/// The first number in a tensor's name ("cache_k_l12 (view)", "kq_soft_max-12"), or `otherwise`
/// where there is none, or where ggml made the name ("node_7").
[[nodiscard]] int layer_in(std::string_view name, int otherwise);

/// The attention layers of a context, told of once: behind its first graph with attention. Where
/// the first step was several graphs, a second line follows behind that step, of all layers. One
/// thread at a time.
class Layers {
 public:
  /// A node of attention of the present graph; `refusal`: why it is llama.cpp's, empty: folio's. A
  /// layer with several nodes (self and cross attention) is folio's if all are.
  void see(int layer, std::string_view refusal);
  /// Whether nothing was told yet.
  [[nodiscard]] bool is_first() const { return !has_told_; }
  /// The graph ends. The line to be told now, mostly empty.
  [[nodiscard]] std::string end_graph(int threads);

 private:
  LayerMap layers_, present_;  ///< of all graphs, of the present one
  bool has_news_ = false;
  bool has_told_ = false;
};

}  // namespace ggml_folio
