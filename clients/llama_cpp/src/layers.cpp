// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/layers.cpp: the sentence.
#include "layers.h"

#include <charconv>
#include <vector>

namespace ggml_folio {
namespace {

/// 0-3, 5: layers in ascending order.
std::string ranges_of(const std::vector<int>& layers) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    for (end = begin + 1; end < layers.size() && layers[end] == layers[end - 1] + 1;) ++end;
    if (begin > 0) text += ", ";
    text += std::to_string(layers[begin]);
    if (end == begin + 1) continue;
    text += '-';
    text += std::to_string(layers[end - 1]);
  }
  return text;
}

}  // namespace

std::string sentence_of(const LayerMap& layers, int threads) {
  std::map<std::string, std::vector<int>> groups;
  for (const auto& [layer, refusal] : layers) groups[refusal].push_back(layer);
  const std::vector<int> served = groups[""];
  std::string text = "folio serves " + std::to_string(served.size()) + " of " +
                     std::to_string(layers.size()) + " attention layers";
  if (!served.empty()) text += ": " + ranges_of(served);
  for (const auto& [refusal, others] : groups)
    if (!refusal.empty()) text += "; llama.cpp serves " + ranges_of(others) + ": " + refusal;
  if (threads > 0) text += "; " + std::to_string(threads) + " threads of ggml";
  return text;
}

int layer_in(std::string_view name, int otherwise) {
  const size_t digits = name.find_first_of("0123456789");
  if (digits == std::string_view::npos || name.starts_with("node_") || name.starts_with("leaf_"))
    return otherwise;
  int layer = otherwise;
  (void)std::from_chars(name.data() + digits, name.data() + name.size(), layer);
  return layer;
}

void Layers::see(int layer, std::string_view refusal) {
  const auto [place, is_new] = present_.try_emplace(layer, refusal);
  if (!is_new && place->second.empty()) place->second = refusal;
}

std::string Layers::end_graph(int threads) {
  bool is_repeated = false;  // a layer was there before
  for (const auto& [layer, refusal] : present_) {
    const auto [place, is_new] = layers_.try_emplace(layer, refusal);
    is_repeated = is_repeated || !is_new;
    has_news_ = has_news_ || is_new || place->second != refusal;
    place->second = refusal;
  }
  present_.clear();
  const bool tells = has_news_ && (is_first() || is_repeated);
  if (!tells) return {};
  has_told_ = true;
  has_news_ = false;
  return sentence_of(layers_, threads);
}

}  // namespace ggml_folio
